package rest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

func TestASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Name"))
	})}}
	server.Start()
	t.Cleanup(server.Close)
	c, err := New(Config{URL: "unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.With("X-Name", "me").Do(t.Context(), http.MethodGet, "/x", nil); err != nil || string(got) != "GET /x me" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := c.Do(t.Context(), http.MethodGet, "/x", nil); err != nil || string(got) != "GET /x " {
		t.Errorf("the header of another client is sent: %q, %v", got, err)
	}
}

// A server that answers with another address gets no second request there.
func TestNoRedirects(t *testing.T) {
	t.Setenv("REST_TOKEN_OF_TEST", "secret")
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	c, err := New(Config{URL: server.URL, Token: "REST_TOKEN_OF_TEST"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), http.MethodPost, "/", "x"); err == nil || asked > 0 {
		t.Errorf("%v after %d requests elsewhere", err, asked)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, strings.Repeat("x", maxBody+1))
	}))
	t.Cleanup(server.Close)
	c, err := New(Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), http.MethodGet, "/", nil); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("%v", err)
	}
}

func TestExcerpt(t *testing.T) {
	for in, want := range map[string]string{
		"a\n\tb\x1b[31m  c": "a b[31m c",
		"see https://s3.example/k?X-Amz-Signature=abc&x=1, or http://h/?a": "see https://s3.example/k?* or http://h/?*",
		"": "",
	} {
		if got := Excerpt(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
	long := Excerpt("begin " + strings.Repeat("é", 1000) + " ValueError: the cause")
	if len(long) > maxExcerpt+10 || !strings.HasPrefix(long, "begin ") || !strings.HasSuffix(long, "ValueError: the cause") {
		t.Errorf("%q", long)
	}
}
