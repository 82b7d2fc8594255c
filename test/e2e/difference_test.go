//go:build integration

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// prompts writes n made-up prompts of each domain into one file.
func prompts(t testing.TB, path string, domains map[string]int) string {
	t.Helper()
	var b strings.Builder
	for _, domain := range []string{"math", "code"} {
		for i := range domains[domain] {
			fmt.Fprintf(&b, `{"prompt":"%s question %d: say what a still does.","domain":%q}`+"\n", domain, i, domain)
		}
	}
	return write(t, path, b.String())
}

// A made recipe is written anew for each change: the same file, as a user edits it.
type made struct {
	dir      string
	name     string
	teachers string
	rest     string
}

func (m made) write(t testing.TB) string {
	t.Helper()
	return write(t, filepath.Join(m.dir, "recipe.yaml"), fmt.Sprintf(`name: %s
prompts:
  - path: prompts.jsonl
    fields: {prompt: prompt, domain: domain}
teachers:
%smerge: {policy: union}
output: {splits: {train: 0.9, test: 0.1}, seed: 7}
%s`, m.name, m.teachers, m.rest))
}

// teacher is one line of a recipe's teachers.
func teacher(s *sim, model, more string) string {
	return fmt.Sprintf("  - {id: %s, base_url: '%s', model: %s%s}\n", model, s.url(), model, more)
}

// asked builds and checks how many requests the build cost, in all and by model.
func asked(t *testing.T, h *house, s *sim, recipe string, want map[string]int) *result {
	t.Helper()
	s.reset()
	r := h.build(recipe)
	stats := s.stats()
	n := 0
	for model, w := range want {
		n += w
		if got := stats[model]; got.Requests != w || got.Completed != w {
			t.Errorf("%s: %d requests and %d answers, want %d", model, got.Requests, got.Completed, w)
		}
	}
	if sum := s.total(); sum.Requests != n || sum.PaidTwice != 0 {
		t.Errorf("%d requests, %d paid twice; want %d and none", sum.Requests, sum.PaidTwice, n)
	}
	if r.AnswersNew != int64(n) {
		t.Errorf("answers_new is %d, and the endpoint gave %d", r.AnswersNew, n)
	}
	return r
}

// TestOnlyTheDifference edits a recipe as users do: each build pays for what
// the edit added and for nothing else.
func TestOnlyTheDifference(t *testing.T) {
	s := startSim(t, "-models", "a,b,c", "-chunk", "400")
	h := newHouse(t)
	m := made{dir: t.TempDir(), name: "difference"}
	source := filepath.Join(m.dir, "prompts.jsonl")
	prompts(t, source, map[string]int{"math": 40, "code": 30})
	maths := teacher(s, "a", ", serves: [{domain: math}]")
	all := teacher(s, "b", "")
	m.teachers = maths + all

	first := asked(t, h, s, m.write(t), map[string]int{"a": 40, "b": 70})
	if first.Version != 1 || first.Unchanged || first.Rows["train"]+first.Rows["test"] != 110 {
		t.Errorf("first build: version %d, unchanged %v, rows %v", first.Version, first.Unchanged, first.Rows)
	}

	again := asked(t, h, s, m.write(t), nil)
	if !again.Unchanged || again.Version != 1 || again.BuildID == first.BuildID || again.AnswersReused != 110 || h.versions("difference") != 1 {
		t.Errorf("the same recipe again: %+v, %d versions; want version 1 unchanged by a build of its own", again, h.versions("difference"))
	}

	prompts(t, source, map[string]int{"math": 41, "code": 30})
	if r := asked(t, h, s, m.write(t), map[string]int{"a": 1, "b": 1}); r.Version != 2 || r.AnswersReused != 110 {
		t.Errorf("one prompt more: %+v; want version 2", r)
	}

	m.teachers = maths + all + teacher(s, "c", ", serves: [{domain: code}]")
	if r := asked(t, h, s, m.write(t), map[string]int{"c": 30}); r.Version != 3 {
		t.Errorf("a teacher more: %+v; want version 3", r)
	}

	m.teachers = maths + all + teacher(s, "c", ", serves: [{domain: code}], epoch: 1")
	if r := asked(t, h, s, m.write(t), map[string]int{"c": 30}); r.Version != 4 || r.AnswersReused != 112 {
		t.Errorf("a larger epoch: %+v; want version 4 with that teacher's answers new", r)
	}

	m.rest = "ask: {samples: 2}\n"
	if r := asked(t, h, s, m.write(t), map[string]int{"a": 41, "b": 71, "c": 30}); r.AnswersReused != 142 || r.Candidates != 284 {
		t.Errorf("a sample more: %+v; want one ask more for each task", r)
	}

	m.rest += "gates: {min_rows: 1000}\n"
	if r := h.run(3, "build", m.write(t), "--json", "--yes").result(); r.Version != 0 || r.AnswersNew != 0 || r.AnswersReused != 284 {
		t.Errorf("a gate that fails: %+v; want nothing asked and nothing published", r)
	}
	if n := h.versions("difference"); n != 5 {
		t.Errorf("%d versions, want 5", n)
	}
	t.Logf("first %d asks; again 0 and unchanged; a prompt more 2; a teacher more 30; an epoch more 30; a sample more 142; a gate more 0", first.AnswersNew)
}

// TestOnlyWhatFailed leaves some asks failed after all their tries; the next
// build asks those and no other.
func TestOnlyWhatFailed(t *testing.T) {
	h := newHouse(t)
	m := made{dir: t.TempDir(), name: "failures"}
	prompts(t, filepath.Join(m.dir, "prompts.jsonl"), map[string]int{"math": 60})
	// Three of four tries fail, so that one ask in four fails five times.
	s := startSim(t, "-models", "a", "-chunk", "400", "-fault-attempts", "20", "-faults", `{"http500":0.4,"midreset":0.2,"badjson":0.15}`)
	m.teachers = teacher(s, "a", ", limits: {concurrency: 60}")
	recipe := m.write(t)
	first := h.build(recipe)
	answered := first.Teachers["a"].Answers
	failed := 60 - answered
	if st := s.total(); int64(st.Completed) != answered || st.PaidTwice != 0 {
		t.Errorf("%d answers completed, %d paid twice; the result says %d answers", st.Completed, st.PaidTwice, answered)
	}
	if failed < 3 || answered < 3 {
		t.Fatalf("%d of 60 asks failed: the faults are too many or too few for this test", failed)
	}
	reasons := 0
	for _, c := range h.candidates("failures@1") {
		if c.Error != nil {
			reasons++
			if c.Accepted || len(c.RejectReasons) != 1 || c.RejectReasons[0] != "error:"+*c.Error || c.Attempts < 5 {
				t.Errorf("a failed ask: error %s, %d attempts, reasons %v", *c.Error, c.Attempts, c.RejectReasons)
			}
		}
	}
	if int64(reasons) != failed {
		t.Errorf("%d candidates say that they failed, want %d", reasons, failed)
	}

	s = s.again("-models", "a", "-chunk", "400")
	second := h.build(recipe)
	st := s.total()
	if int64(st.Requests) != failed || int64(st.Completed) != failed {
		t.Errorf("the second build sent %d requests, want the %d that failed", st.Requests, failed)
	}
	if second.Version != 2 || second.AnswersNew != failed || second.AnswersReused != answered {
		t.Errorf("second build: %+v; want version 2 with %d new answers", second, failed)
	}
	third := asked(t, h, s, recipe, nil)
	if !third.Unchanged || third.Version != 2 {
		t.Errorf("third build: %+v; want version 2 unchanged", third)
	}
	t.Logf("%d of 60 asks failed after 5 tries; the next build sent %d requests, the one after it %d", failed, st.Requests, third.AnswersNew)
}

// TestOnlyWhatWasCut raises a token cap: answers that ended by themselves
// serve the larger cap, those that were cut are asked again.
func TestOnlyWhatWasCut(t *testing.T) {
	const model, problems = "175b_verification", 200
	s := startSim(t, "-gsm8k", testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl"), "-chunk", "400")
	h := newHouse(t)
	dir := t.TempDir()
	recipe := func(limit int) string {
		return write(t, filepath.Join(dir, "recipe.yaml"), fmt.Sprintf(`name: cut
prompts:
  - path: %s
    domain: math
    fields: {prompt: question, gold: answer}
    gold_pattern: '####\s*(.+)$'
    limit: %d
teachers:
  - {base_url: '%s', model: %s, params: {max_tokens: %d}}
check: [{verifier: math}]
`, testdata.Path(t, "data/gsm8k/test.jsonl"), problems, s.url(), model, limit))
	}
	cutIn := func() (cut int) {
		for _, c := range h.candidates("cut") {
			if c.FinishReason != nil && *c.FinishReason == "length" {
				cut++
			}
		}
		return cut
	}
	first := asked(t, h, s, recipe(60), map[string]int{model: problems})
	cut := cutIn()
	if cut < 10 || cut > problems-10 {
		t.Fatalf("%d of %d answers were cut: the cap does not fit this test", cut, problems)
	}
	if first.Rejected["truncated"] != int64(cut) {
		t.Errorf("rejected %v, want %d answers that were cut", first.Rejected, cut)
	}
	larger := asked(t, h, s, recipe(2000), map[string]int{model: cut})
	if larger.Version != 2 || larger.AnswersReused != int64(problems-cut) {
		t.Errorf("a larger cap: %+v; want the %d answers that ended by themselves reused", larger, problems-cut)
	}
	if n := cutIn(); n != 0 {
		t.Errorf("%d answers are still cut", n)
	}
	again := asked(t, h, s, recipe(2000), nil)
	if !again.Unchanged {
		t.Errorf("the same cap again: %+v; want unchanged", again)
	}
	t.Logf("cap 60: %d asks, %d cut; cap 2,000: %d asks", problems, cut, larger.AnswersNew)
}
