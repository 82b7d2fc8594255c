//go:build integration

package badinput

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// A badEndpoint is a teacher that brings no answer, whatever it is asked.
type badEndpoint struct {
	name   string
	url    func(t *testing.T) string
	more   string // of the teacher, beside id, model and base_url
	prompt int    // how many prompts; default 300
	want   want
}

// always answers everything in one way.
func always(reply teacherstest.Reply) func(t *testing.T) string {
	return func(t *testing.T) string {
		return teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return reply }).URL
	}
}

// page answers everything with a body of its own.
func page(status int, contentType, body string) func(t *testing.T) string {
	return handled(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
}

func handled(h http.HandlerFunc) func(t *testing.T) string {
	return func(t *testing.T) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL + "/v1"
	}
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String() + "/v1"
}

// echo repeats the key that it was given, as some endpoints do.
func echo(status int) func(t *testing.T) string {
	return handled(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s.","type":"invalid_request_error","code":"invalid_api_key"}}`, key)
	})
}

func badEndpoints() []badEndpoint {
	const keyed = ", api_key_env: TEACHER_KEY"
	given := func(soon time.Duration, say ...string) want {
		return want{exitTeacher, append([]string{"teacher t was given up: ask http"}, say...), soon}
	}
	return []badEndpoint{
		{"nobody listens", closedPort, "", 0, given(0, "network: dial tcp 127.0.0.1:", "connection refused", "check that the endpoint is up")},
		{"a wrong key", echo(401), keyed, 0, given(0, "/v1/chat/completions: auth (HTTP 401)", "check the key that api_key_env")},
		{"no access", echo(403), keyed, 0, given(0, "auth (HTTP 403)")},
		{"a wrong model", always(teacherstest.Reply{Status: 404, Message: "The model `m` does not exist", Code: "model_not_found"}), "", 0, given(0, "not_found (HTTP 404): The model `m` does not exist", "check base_url and model")},
		{"a wrong path", page(404, "text/html", "<html>404 page not found</html>"), "", 0, given(0, "not_found (HTTP 404)", "check base_url")},
		{"no money", always(teacherstest.Reply{Status: 402, Message: "Payment required"}), "", 0, given(0, "quota (HTTP 402)", "add credit")},
		{"no quota", always(teacherstest.Reply{Status: 429, Message: "You exceeded your current quota", Code: "insufficient_quota"}), "", 0, given(0, "quota (HTTP 429)", "add credit")},
		{"a gateway without a backend", page(502, "text/html", "<html><head><title>502 Bad Gateway</title></head></html>"), "", 0, given(0, "server (HTTP 502)", "502 Bad Gateway", "look at the endpoint's own log")},
		{"a server that fails", always(teacherstest.Reply{Status: 500, Message: "CUDA out of memory"}), "", 0, given(0, "server (HTTP 500): CUDA out of memory")},
		{"an empty answer for ever", always(teacherstest.Reply{Fault: teacherstest.Empty}), "", 0, given(0, "empty (HTTP 200)", "check model and params")},
		{"a web page", page(200, "text/html", "<html><body>Welcome</body></html>"), "", 0, given(0, "malformed (HTTP 200)", "Welcome", "check that base_url speaks this api")},
		{"another protocol", page(200, "application/json", `{"models":["a"]}`), "", 0, given(0, "(HTTP 200)")},
		{"a stream without an end", always(teacherstest.Reply{Content: "half", Fault: teacherstest.NoFinish}), "", 0, given(0, "truncated (HTTP 200)", "nothing on the way cuts")},
		{"a connection that is reset", always(teacherstest.Reply{Fault: teacherstest.Reset}), "", 0, given(0, "network:", "check that the endpoint is up")},
		{"silence", always(teacherstest.Reply{Fault: teacherstest.Stall}), ", limits: {first_byte: 1s, idle: 1s, total: 2s}", 0, given(0, "timeout", "raise the limit that passed under limits")},
		{"another host", handled(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example/v1/chat/completions?key="+canary, http.StatusTemporaryRedirect)
		}), keyed, 0, given(0, "it redirects to https://elsewhere.example/v1/chat/completions", "set base_url to the right one")},
		{"parameters that it does not take", always(teacherstest.Reply{Status: 400, Message: "Unsupported parameter: 'top_k'"}), ", params: {top_k: 5}", 0, given(0, "bad_request (HTTP 400): Unsupported parameter: 'top_k'", "compare the teacher's params")},
		{"TLS where there is none", func(t *testing.T) string { return strings.Replace(closedTLS(t), "http:", "https:", 1) }, keyed, 0, given(0, "network:", "HTTP response to HTTPS client")},
		{"a certificate that nobody signed", selfSigned, keyed, 0, given(0, "network:", "certificate")},
		{"few prompts, all of which fail", always(teacherstest.Reply{Status: 500, Message: "CUDA out of memory"}), "", 3, want{exitGate, []string{"nothing was published", "no answer was accepted"}, 0}},
		{"prompts that are too long", always(teacherstest.Reply{Status: 400, Message: "This model's maximum context length is 10 tokens"}), "", 100, want{exitGate, []string{"nothing was published", "no answer was accepted"}, 0}},
		{"answers that are too long", always(teacherstest.Reply{Content: strings.Repeat("long ", 2000)}), ", limits: {max_bytes: 1024}", 100, want{exitGate, []string{"nothing was published", "no answer was accepted"}, 0}},
	}
}

// closedTLS is a plain HTTP server.
func closedTLS(t *testing.T) string {
	return page(200, "text/plain", "plain")(t)
}

func selfSigned(t *testing.T) string {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// run builds a recipe with the endpoint as its only teacher.
func (b *badEndpoint) run(t *testing.T, h *house, name string) {
	n := b.prompt
	if n == 0 {
		n = 300
	}
	dir := lay(t, map[string]string{
		"p.jsonl": rows(n),
		"r.yaml": fmt.Sprintf(`name: %s
prompts:
  - path: p.jsonl
    fields: {prompt: q, gold: a}
teachers:
  - {id: t, model: m, base_url: %q%s}
`, name, b.url(t), b.more),
	})
	b.want.check(t, h.do(t, dir, "build", "r.yaml", "--json"))
}
