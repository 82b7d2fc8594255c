package activities

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// A hook remembers what it was sent.
type hook struct {
	*httptest.Server
	requests []*http.Request
	bodies   []string
	status   int
}

func newHook(t *testing.T) *hook {
	h := &hook{status: http.StatusNoContent}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.requests, h.bodies = append(h.requests, r), append(h.bodies, string(body))
		if h.status == http.StatusFound {
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		}
		w.WriteHeader(h.status)
	}))
	t.Cleanup(h.Close)
	return h
}

func notifying(server, entries string) string {
	return "name: told\nprompts: [{path: p.jsonl}]\nteachers: [{id: t, model: m, base_url: '" + server + "'}]\nnotify:\n" + entries
}

// A message says how the build ended in names and numbers, is signed, and holds
// nothing of what was asked and answered.
func TestNotify(t *testing.T) {
	w, h := newWorld(t), newHook(t)
	const key, secret = "hook-canary-0123456789", "answer-canary"
	w.a.Lookup = func(name string) (string, bool) { return key, name == "HOOK_KEY" }
	server := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return teacherstest.Reply{Content: secret} })
	w.file("p.jsonl", `{"prompt": "prompt-canary"}`+"\n")
	r := w.start(notifying(server.URL, "  - {webhook: '"+h.URL+"/in?token=url-canary', key_env: HOOK_KEY, on: [success, gate]}\n")).ask()
	r.refine()
	out, result := r.seal()

	in := wire.NotifyInput{BuildRef: r.ref, Event: "success", Version: out.Version}
	must[any](w, wire.ActivityNotify, in)
	if len(h.bodies) != 1 {
		t.Fatalf("%d messages, want 1", len(h.bodies))
	}
	var got Notice
	if err := json.Unmarshal([]byte(h.bodies[0]), &got); err != nil {
		t.Fatal(err)
	}
	if got.APIVersion != "stillhouse/v1" || got.Dataset != "told" || got.BuildID != r.ref.BuildID || got.Version != 1 || got.Event != "success" ||
		got.Rows["train"] != 1 || got.Accepted != 1 || got.Manifest != result.Manifest || got.Manifest == "" || got.Report == "" {
		t.Errorf("%+v", got)
	}
	for _, canary := range []string{secret, "prompt-canary", key, "url-canary"} {
		if strings.Contains(h.bodies[0], canary) {
			t.Errorf("the message holds %q: %s", canary, h.bodies[0])
		}
	}
	head := h.requests[0].Header
	signed, _, _ := strings.Cut(strings.TrimPrefix(head.Get(SignatureHeader), "t="), ",")
	at, err := time.ParseDuration(signed + "s")
	if err != nil || head.Get(SignatureHeader) != sign(key, time.Unix(int64(at.Seconds()), 0), []byte(h.bodies[0])) {
		t.Errorf("signature %q of %s", head.Get(SignatureHeader), h.bodies[0])
	}
	// Told again, it is the same delivery; another event is another, and one that
	// nobody asked for is none.
	must[any](w, wire.ActivityNotify, in)
	in.Event = "gate"
	must[any](w, wire.ActivityNotify, in)
	in.Event = "failure"
	must[any](w, wire.ActivityNotify, in)
	if len(h.requests) != 3 {
		t.Fatalf("%d messages, want 3", len(h.requests))
	}
	first, again, other := head.Get(DeliveryHeader), h.requests[1].Header.Get(DeliveryHeader), h.requests[2].Header.Get(DeliveryHeader)
	if first == "" || first != again || first == other {
		t.Errorf("deliveries %q, %q, %q", first, again, other)
	}
}

// The words of recipes are those of workflows.
func TestEventsOfRecipes(t *testing.T) {
	for _, event := range []string{wire.EventSuccess, wire.EventGate, wire.EventBudget, wire.EventTeacher, wire.EventFailure} {
		parsed(t, notifying("https://teacher.example", "  - {webhook: 'https://a.example', on: ["+event+"]}\n"))
	}
}

// What will not be taken is not sent for ever, what may be is tried again, no
// redirect is followed, and no error shows the address, which may hold a token.
func TestNotifyRefused(t *testing.T) {
	w, h := newWorld(t), newHook(t)
	w.file("p.jsonl", `{"prompt": "x"}`+"\n")
	ref := w.submit(notifying("https://teacher.example", "  - {webhook: '"+h.URL+"/url-canary'}\n"))
	for status, final := range map[int]bool{500: false, 503: false, 429: false, 400: true, 404: true, 302: true} {
		h.status = status
		_, err := call[any](w, wire.ActivityNotify, wire.NotifyInput{BuildRef: ref, Event: "failure"})
		if err == nil || strings.Contains(err.Error(), wire.ErrInvalidRecipe) != final || strings.Contains(err.Error(), "url-canary") {
			t.Errorf("status %d: %v, want the last word: %v", status, err, final)
		}
	}
	h.Close()
	if _, err := call[any](w, wire.ActivityNotify, wire.NotifyInput{BuildRef: ref, Event: "failure"}); err == nil || strings.Contains(err.Error(), "url-canary") {
		t.Errorf("nobody listens: %v", err)
	}
	w.a.MayAsk = func(address, key string) error { return errors.New("this worker does not ask it") }
	if _, err := call[any](w, wire.ActivityNotify, wire.NotifyInput{BuildRef: ref, Event: "failure"}); err == nil || !strings.Contains(err.Error(), "does not ask it") {
		t.Errorf("whom the worker may not ask: %v", err)
	}
	ref = w.submit(notifying("https://teacher.example", "  - {webhook: 'https://169.254.169.254/latest'}\n"))
	w.a.MayAsk = nil
	if _, err := call[any](w, wire.ActivityNotify, wire.NotifyInput{BuildRef: ref, Event: "failure"}); err == nil || !strings.Contains(err.Error(), "cloud's own service") {
		t.Errorf("the cloud's own address: %v", err)
	}
}

// A command gets the message and no key, and runs only where the process lets it.
func TestNotifyByCommand(t *testing.T) {
	w := newWorld(t)
	t.Setenv("CANARY_KEY", "sk-canary-0123456789")
	got := filepath.Join(t.TempDir(), "got")
	w.file("p.jsonl", `{"prompt": "x"}`+"\n")
	ref := w.submit(notifying("https://teacher.example", "  - {command: [/bin/sh, -c, 'cat; env', '"+got+"']}\n  - {command: [/bin/sh, -c, '{ cat; env; } > "+got+"']}\n  - {command: [/bin/sh, -c, 'exit 3']}\n  - {command: [./page]}\n"))
	in := wire.NotifyInput{BuildRef: ref, Event: "failure", Index: 1, Failure: "StreamFailed"}
	if _, err := call[any](w, wire.ActivityNotify, in); err == nil || !strings.Contains(err.Error(), "runs no commands") {
		t.Errorf("a process that runs no commands: %v", err)
	}
	w.a.MayRun = func(argv []string) error { return nil }
	must[any](w, wire.ActivityNotify, in)
	text, err := os.ReadFile(got)
	if err != nil || !strings.Contains(string(text), `"failure":"StreamFailed"`) || strings.Contains(string(text), "canary") {
		t.Errorf("%s, %v", text, err)
	}
	in.Index = 2
	if _, err := call[any](w, wire.ActivityNotify, in); err == nil {
		t.Error("a command that failed is no error")
	}
	// The program that is shown and allowed is the one that runs.
	t.Chdir(t.TempDir())
	for dir, said := range map[string]string{".": "here", w.a.TempDir: "elsewhere"} {
		if err := os.WriteFile(filepath.Join(dir, "page"), []byte("#!/bin/sh\necho "+said+" > "+got+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	in.Index = 3
	must[any](w, wire.ActivityNotify, in)
	if text, err := os.ReadFile(got); err != nil || string(text) != "here\n" {
		t.Errorf("a relative path led to %q, %v", text, err)
	}
	if err := os.Remove(filepath.Join(w.a.TempDir, "page")); err != nil {
		t.Error(err)
	}
	in.Index = 9
	if _, err := call[any](w, wire.ActivityNotify, in); err == nil {
		t.Error("an entry that is not there is no error")
	}
}
