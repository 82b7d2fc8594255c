package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

const probeCanary = "sk-canary-0123456789abcdef"

// runProbe probes teachers, given as YAML list items, and gives what was
// printed.
func runProbe(t *testing.T, teachers string, args ...string) (code int, out, talk string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.yaml")
	text := "name: d\nprompts: [{path: p.jsonl}]\nteachers:\n" + teachers
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	a := &app{out: &stdout, err: &stderr, in: strings.NewReader(""), interrupted: make(chan struct{}),
		lookup: func(name string) (string, bool) { return probeCanary, name == "T_KEY" }}
	code = a.run(context.Background(), append([]string{"probe", path}, args...))
	return code, stdout.String(), stderr.String()
}

// refusing is an endpoint that answers everything with a status.
func refusing(t *testing.T, status int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

func TestProbeShowsATable(t *testing.T) {
	hostile := "m\x1b[2J\u202eevil\nnext"
	s := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: "42", Reasoning: "hm", ReasoningField: "reasoning", Model: hostile}
	})
	code, out, talk := runProbe(t, fmt.Sprintf("  - {id: one, base_url: %q, model: m, api_key_env: T_KEY, price: {input: 3, output: 15}}\n", s.URL))
	if code != exitDone {
		t.Fatalf("exit code %d: %s %s", code, out, talk)
	}
	for _, want := range []string{"teacher", "one", "ok", "reasoning", "last event", "It cost $0.0", "calls itself"} {
		if !strings.Contains(out, want) {
			t.Errorf("the table does not say %q:\n%s", want, out)
		}
	}
	if !strings.Contains(talk, "at most $0.0") || !strings.Contains(talk, "probed one: ok") {
		t.Errorf("the talk does not say what it could cost and how it went: %s", talk)
	}
	if strings.ContainsAny(out+talk, "\x1b\u202e") || strings.Contains(out+talk, "canary") {
		t.Errorf("an endpoint's words steer the terminal, or show the key:\n%q", out)
	}
}

func TestProbeAsJSON(t *testing.T) {
	s := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return teacherstest.Reply{Content: "42"} })
	code, out, _ := runProbe(t, fmt.Sprintf("  - {id: one, base_url: %q, model: m}\n  - {id: two, base_url: %q, model: m}\n", s.URL, s.URL), "two", "--json", "--quiet")
	var r activities.ProbeReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitDone || strings.Count(out, "\n") != 1 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	if r.Dataset != "d" || len(r.Teachers) != 1 || r.Teachers[0].Teacher != "two" || r.Teachers[0].State != "ok" {
		t.Errorf("%s", out)
	}
}

func TestExitCodesOfProbe(t *testing.T) {
	good := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return teacherstest.Reply{Content: "42"} }).URL
	item := func(id, url, more string) string {
		return fmt.Sprintf("  - {id: %s, base_url: %q, model: m%s}\n", id, url, more)
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	nobody := closed.URL + "/v1"
	closed.Close()
	for _, c := range []struct {
		name, teachers string
		args           []string
		code           int
		says           string
	}{
		{"all good", item("a", good, ""), nil, exitDone, "ok"},
		{"a wrong key", item("a", good, "") + item("b", refusing(t, 401, "no"), ""), nil, exitTeacher, "unusable: teacher b"},
		{"no money", item("a", refusing(t, 402, "pay"), ""), nil, exitTeacher, "quota"},
		{"a missing key", item("a", good, ", api_key_env: OTHER_KEY"), nil, exitTeacher, "OTHER_KEY"},
		{"nobody there", item("a", nobody, "") + item("b", refusing(t, 401, "no"), ""), nil, exitFailed, "unreachable"},
		{"no teacher of that name", item("kimi", good, ""), []string{"kimmi"}, exitUsage, `did you mean "kimi"?`},
		{"a recorded teacher", "  - {id: old, api: recorded, path: x.jsonl, fields: {content: a}}\n", nil, exitUsage, "nobody to probe"},
		{"a recorded teacher by name", "  - {id: old, api: recorded, path: x.jsonl, fields: {content: a}}\n", []string{"old"}, exitUsage, "nobody to probe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, talk := runProbe(t, c.teachers, c.args...)
			if code != c.code || !strings.Contains(out+talk, c.says) {
				t.Errorf("exit code %d, want %d and %q in:\n%s%s", code, c.code, c.says, out, talk)
			}
		})
	}
}

func TestProbeStopsAtCtrlC(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		cancel()
		<-r.Done
		return teacherstest.Reply{}
	})
	path := filepath.Join(t.TempDir(), "r.yaml")
	if err := os.WriteFile(path, []byte(fmt.Sprintf("name: d\nprompts: [{path: p.jsonl}]\nteachers: [{base_url: %q, model: m}]\n", s.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := &app{out: &out, err: &out, in: strings.NewReader(""), interrupted: make(chan struct{}), lookup: os.LookupEnv}
	if code := a.run(ctx, []string{"probe", path}); code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}
