package activities

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

// A fakeSandbox runs code by looking at it.
type fakeSandbox struct {
	err       error // why there is none here
	elsewhere bool

	mu  sync.Mutex
	ran []verify.Program
}

func (s *fakeSandbox) Here(context.Context) (verify.Runner, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s, nil
}

func (s *fakeSandbox) Elsewhere() bool { return s.elsewhere }

func (s *fakeSandbox) Run(_ context.Context, p *verify.Program) (verify.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran = append(s.ran, *p)
	if strings.Contains(p.Source, "right") {
		return verify.Outcome{Kind: verify.Passed, Reason: "all tests passed"}, nil
	}
	return verify.Outcome{Kind: verify.Failed, Reason: "wrong"}, nil
}

const codeRecipe = `name: d
prompts: [{path: p.jsonl, fields: {prompt: q, tests: t}}]
teachers: [{id: r, api: recorded, model: m, path: a.jsonl, fields: {prompt: q, content: a}}]
check: [{verifier: code, language: python, timeout: 3s}]
`

// TestCodeNeedsASandboxBeforeAnythingIsAsked: planning refuses what nobody could
// judge, and leaves it to others where there may be some.
func TestCodeNeedsASandboxBeforeAnythingIsAsked(t *testing.T) {
	none := errors.New("no sandbox works here; install bubblewrap")
	for _, tc := range []struct {
		name    string
		sandbox Sandbox
		want    string // part of the error; "" for a plan that needs one
	}{
		{"none was given", nil, "this process has no sandbox"},
		{"none works", &fakeSandbox{err: none}, "install bubblewrap"},
		{"others may have one", &fakeSandbox{err: none, elsewhere: true}, ""},
		{"here", &fakeSandbox{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.a.Sandbox = tc.sandbox
			w.file("p.jsonl", `{"q": "one", "t": "assert f()"}`+"\n")
			w.file("a.jsonl", `{"q": "one", "a": "right"}`+"\n")
			plan, err := w.a.plan(t.Context(), w.submit(codeRecipe), nil, func(string) {})
			switch {
			case tc.want == "" && (err != nil || !plan.Sandbox):
				t.Errorf("plan %+v, %v", plan, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestOtherRecipesNeedNoSandbox: nothing changes for them.
func TestOtherRecipesNeedNoSandbox(t *testing.T) {
	w := newWorld(t)
	w.file("p.jsonl", `{"q": "one", "t": "x"}`+"\n")
	w.file("a.jsonl", `{"q": "one", "a": "right"}`+"\n")
	plan, err := w.a.plan(t.Context(), w.submit(strings.Replace(codeRecipe, "code, language: python, timeout: 3s", "regex", 1)), nil, func(string) {})
	if err != nil || plan.Sandbox {
		t.Errorf("plan %+v, %v", plan, err)
	}
}

// TestAnswersAreRunWithTheRecipesLimits: the runner gets what the recipe and the
// row say, and its outcomes become verdicts.
func TestAnswersAreRunWithTheRecipesLimits(t *testing.T) {
	w := newWorld(t)
	box := &fakeSandbox{}
	w.a.Sandbox = box
	w.file("p.jsonl", `{"q": "one", "t": "assert f()"}`+"\n"+`{"q": "two", "t": "assert g()"}`+"\n")
	w.file("a.jsonl", `{"q": "one", "a": "right"}`+"\n"+`{"q": "two", "a": "not so"}`+"\n")
	_, r := w.build(codeRecipe)
	if r.Candidates != 2 || r.Accepted != 1 || r.Rejected["verdict:fail"] != 1 {
		t.Errorf("%+v", r)
	}
	if len(box.ran) < 2 {
		t.Fatalf("ran %+v", box.ran)
	}
	for _, p := range box.ran {
		if p.Limits.Timeout != 3*time.Second || p.Language != "python" || !strings.HasPrefix(p.Tests.Code, "assert ") {
			t.Errorf("ran %+v", p)
		}
	}
}

// TestARefiningWorkerThatLostItsSandbox gives no verdict: another worker does.
func TestARefiningWorkerThatLostItsSandbox(t *testing.T) {
	w := newWorld(t)
	box := &fakeSandbox{}
	w.a.Sandbox = box
	w.file("p.jsonl", `{"q": "one", "t": "assert f()"}`+"\n")
	w.file("a.jsonl", `{"q": "one", "a": "right"}`+"\n")
	b := w.start(codeRecipe).ask()
	box.err = errors.New("bwrap is gone")
	if _, err := w.a.refineShard(t.Context(), b.refineInput(0)); err == nil || !strings.Contains(err.Error(), "bwrap is gone") {
		t.Errorf("error %v", err)
	}
	box.err = nil
	if counts, err := w.a.refineShard(t.Context(), b.refineInput(0)); err != nil || counts.Accepted != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
}
