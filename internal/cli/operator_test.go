package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestReadinessSaysWhatIsMissing(t *testing.T) {
	var rounds int
	var fault error
	now := time.Unix(0, 0)
	o := &operator{now: func() time.Time { return now }, checks: []readyCheck{
		{"temporal", func(context.Context) error { rounds++; return nil }},
		{"store", func(context.Context) error { return fault }},
	}}
	server := httptest.NewServer(o.handler())
	defer server.Close()
	expect := func(path string, code int, body string) {
		t.Helper()
		res, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != code || string(text) != body {
			t.Errorf("%s: %d %q, want %d %q", path, res.StatusCode, text, code, body)
		}
	}
	expect("/healthz", http.StatusOK, "alive\n")
	expect("/readyz", http.StatusOK, "ready\n")
	fault = errors.New("does not answer\x1b[2J")
	expect("/readyz", http.StatusOK, "ready\n") // a moment ago it was
	now = now.Add(checkKeep)
	expect("/readyz", http.StatusServiceUnavailable, "store: does not answer\uFFFD[2J\n")
	expect("/healthz", http.StatusOK, "alive\n")
	if rounds != 2 {
		t.Errorf("three questions within a second and one after it made %d rounds of checks, want 2", rounds)
	}
	now, fault = now.Add(checkKeep), nil
	expect("/readyz", http.StatusOK, "ready\n")
	o.draining.Store(true)
	expect("/readyz", http.StatusServiceUnavailable, "draining: answers in flight are kept, nothing new begins\n")
	expect("/healthz", http.StatusOK, "alive\n")
	expect("/metrics", http.StatusNotFound, "404 page not found\n")
}

// A store that hangs makes the process unready; it does not make the probe hang.
func TestAHangingCheckEnds(t *testing.T) {
	o := &operator{now: time.Now, checks: []readyCheck{{"store", func(ctx context.Context) error {
		<-ctx.Done()
		return errors.New("does not answer")
	}}}}
	if faults := o.find(t.Context()); len(faults) != 1 || faults[0] != "store: does not answer" {
		t.Errorf("a hanging store: %q", faults)
	}
}

func TestListenIsLoopbackUnlessSaid(t *testing.T) {
	for flags, want := range map[operatorFlags]string{
		{}:                               "",
		{address: "127.0.0.1:0"}:         "",
		{address: "[::1]:80"}:            "",
		{address: "localhost:8080"}:      "",
		{address: "0.0.0.0:8080"}:        "--listen-public",
		{address: ":8080"}:               "--listen-public",
		{address: ":8080", public: true}: "",
		{address: "8080"}:                "want HOST:PORT",
		{address: "127.0.0.1:http"}:      "is no port",
		{address: "127.0.0.1:70000"}:     "is no port",
		{public: true}:                   "of no use",
	} {
		err := flags.check()
		switch {
		case want == "" && err != nil:
			t.Errorf("%+v: %v", flags, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != exitUsage):
			t.Errorf("%+v: %v, want a usage error with %q", flags, err, want)
		}
	}
}

// What answers is really there, and gone with the session.
func TestOperatorAnswersUntilTheSessionIsClosed(t *testing.T) {
	o, err := startOperator(operatorFlags{address: "127.0.0.1:0"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Get(o.url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Errorf("ready: %s", res.Status)
	}
	o.endWith(&session{app: &app{}})
	if err := <-o.ended(); !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("ended: %v", err)
	}
	if _, err := http.Get(o.url + "/readyz"); err == nil {
		t.Error("it answers after its end")
	}
	var none *operator
	none.endWith(nil)
	if none.where() != "" {
		t.Error("an address that is not there says it is")
	}
}
