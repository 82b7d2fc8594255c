//go:build integration

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

const (
	sampledProblems    = 400
	sampledMost        = 4
	sampledConcurrency = 16
	sampledTeacher     = "6b_verification"
)

// sampledTruth is how many samples each of the first problems has by its label:
// one where the recorded answer is right, the most where it is not, as every
// sample of a recorded model is the same.
func sampledTruth(t *testing.T) map[string]int {
	t.Helper()
	labels := gsmLabels(t)
	text, err := os.ReadFile(testdata.Path(t, "data/gsm8k/test.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var row struct{ Question string }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		if out[row.Question] = sampledMost; labels[row.Question].Labels[sampledTeacher].IsCorrect {
			out[row.Question] = 1
		}
		if len(out) == sampledProblems {
			return out
		}
	}
	t.Fatalf("the data holds %d problems, want %d", len(out), sampledProblems)
	return nil
}

// TestSamplesUntilOnePassesSurviveKills asks for more answers only where the
// first one is wrong, with the process killed again and again: in the end the
// samples are those that the answers ask for, none was paid for twice but what
// was in flight, and another run asks nothing.
func TestSamplesUntilOnePassesSurviveKills(t *testing.T) {
	t.Parallel() // it waits more than it works
	truth := sampledTruth(t)
	want := 0
	for _, n := range truth {
		want += n
	}
	s := startSim(t, "-gsm8k", testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl"), "-ttft", "15ms", "-chunk", "4096")
	recipe := write(t, filepath.Join(t.TempDir(), "sampled.yaml"), fmt.Sprintf(`name: sampled
prompts:
  - path: %s
    domain: math
    limit: %d
    fields: {prompt: question, gold: answer}
    gold_pattern: '####\s*(.+)$'
teachers: [{id: t, base_url: '%s', model: %s, limits: {concurrency: %d}}]
ask: {samples: {min: 1, max: %d, until_pass: 1}}
check: [{verifier: math}]
merge: {policy: all_passing}
`, testdata.Path(t, "data/gsm8k/test.jsonl"), sampledProblems, s.url(), sampledTeacher, sampledConcurrency, sampledMost))
	h := newHouse(t)

	var plan struct {
		Asks     int64 `json:"asks"`
		MoreAsks int64 `json:"more_asks"`
		Missing  int64 `json:"missing"`
	}
	decodeJSON(t, h.run(0, "plan", recipe, "--json").stdout(), &plan)
	if plan.Asks != sampledProblems || plan.MoreAsks != sampledProblems*(sampledMost-1) {
		t.Errorf("the plan says %d asks and up to %d more, want %d and %d", plan.Asks, plan.MoreAsks, sampledProblems, sampledProblems*(sampledMost-1))
	}

	kills := 0
	for _, at := range []int{want / 10, want / 4, want / 2, want * 3 / 4} {
		p := h.start("build", recipe, "--json", "--yes")
		reached := false
		eventually(t, 2*time.Minute, fmt.Sprintf("%d answers", at), func() bool {
			reached = s.total().Completed >= at
			return reached || !p.running()
		})
		if !p.running() {
			t.Fatalf("the build ended before it was killed:\n%s", tail(p.stderr(), 2000))
		}
		p.kill()
		kills++
	}
	r := h.build(recipe)
	st := s.total()
	if r.Candidates != int64(want) || r.Rows["train"] != int64(want-sampledMost*wrongOnes(truth)) {
		t.Errorf("%d candidates and %d rows, want %d and %d", r.Candidates, r.Rows["train"], want, want-sampledMost*wrongOnes(truth))
	}
	if st.UniqueCompleted != want || st.PaidTwice > kills*2*sampledConcurrency {
		t.Errorf("%d distinct answers, want %d; %d paid twice, at most %d were in flight", st.UniqueCompleted, want, st.PaidTwice, kills*2*sampledConcurrency)
	}
	got := map[string]int{}
	for _, c := range h.candidates("sampled@1") {
		if c.Error != nil {
			t.Fatalf("%s failed: %s", c.TaskID, *c.ErrorText)
		}
		got[*c.Messages[0].Content]++
	}
	for question, n := range truth {
		if got[question] != n {
			t.Errorf("%d samples of %q, want %d", got[question], tail(question, 60), n)
		}
	}
	again := h.build(recipe)
	if after := s.total().Requests; !again.Unchanged || again.AnswersNew != 0 || after != st.Requests {
		t.Errorf("a second run: unchanged %v, %d new, %d requests", again.Unchanged, again.AnswersNew, after-st.Requests)
	}
	decodeJSON(t, h.run(0, "plan", recipe, "--json").stdout(), &plan)
	if plan.Missing != 0 || plan.MoreAsks != 0 {
		t.Errorf("after the build the plan asks %d and up to %d more", plan.Missing, plan.MoreAsks)
	}
	t.Logf("%d asks for %d tasks (a plain 4 would be %d), %d kills, %d paid twice", want, sampledProblems, sampledProblems*sampledMost, kills, st.PaidTwice)
}

func wrongOnes(truth map[string]int) (n int) {
	for _, samples := range truth {
		if samples > 1 {
			n++
		}
	}
	return n
}

// TestATeacherThatChangedBehindItsNameIsSeen: a probe shows it, nothing of the
// dataset moves, and a refresh asks everything anew, once.
func TestATeacherThatChangedBehindItsNameIsSeen(t *testing.T) {
	t.Parallel() // it waits more than it works
	const prompts = 120
	args := []string{"-models", "m", "-chunk", "4096", "-synthetic-tokens", "60"}
	s := startSim(t, args...)
	var lines strings.Builder
	for i := range prompts {
		fmt.Fprintf(&lines, `{"prompt":"Question %d: what does a still do?"}`+"\n", i)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "prompts.jsonl"), lines.String())
	recipe := func(every string) string {
		return write(t, filepath.Join(dir, "recipe.yaml"), fmt.Sprintf(`name: watched
prompts: [{path: prompts.jsonl}]
teachers: [{id: t, base_url: '%s', model: m, price: {input: 1, output: 2}}]
drift: {probe: 40, every: %s}
`, s.url(), every))
	}
	h := newHouse(t)
	first := h.build(recipe("7d"))
	if first.AnswersNew != prompts {
		t.Fatalf("%+v", first)
	}

	// Nothing changed, and the probe says so.
	type drift struct {
		Probe, Asked, Answered int
		Changed                bool
		Why                    string
	}
	probe := func(args ...string) (d drift, unchanged bool) {
		var r struct {
			Unchanged bool
			CostUSD   float64 `json:"cost_usd"`
			Drift     map[string]drift
		}
		decodeJSON(t, h.run(0, append([]string{"build", recipe("1ns"), "--json", "--yes"}, args...)...).stdout(), &r)
		if r.CostUSD <= 0 {
			t.Errorf("a probe costs nothing: %+v", r)
		}
		return r.Drift["t"], r.Unchanged
	}
	if d, unchanged := probe(); d.Probe != 1 || d.Asked != 40 || d.Answered != 40 || d.Changed || !unchanged {
		t.Errorf("%+v, unchanged %v", d, unchanged)
	}
	if n := s.total().Completed; n != prompts+40 {
		t.Errorf("%d answers, want %d", n, prompts+40)
	}

	// The same name, another model behind it.
	s = s.again("-models", "m", "-chunk", "4096", "-synthetic-tokens", "90", "-seed", "2")
	d, unchanged := probe()
	if d.Probe != 2 || !d.Changed || !strings.Contains(d.Why, "tokens") || !unchanged {
		t.Errorf("%+v, unchanged %v", d, unchanged)
	}
	if shown := h.run(0, "show", "watched").stdout(); !strings.Contains(shown, "IT CHANGED") {
		t.Errorf("show says nothing of it:\n%s", shown)
	}

	// Asked anew, once.
	s.reset()
	h.run(2, "build", recipe("7d"), "--refresh", "nobody", "--yes")
	var anew result
	decodeJSON(t, h.run(0, "build", recipe("7d"), "--refresh", "t", "--json", "--yes").stdout(), &anew)
	if anew.Version != first.Version+1 || anew.AnswersNew != prompts || s.total().Completed != prompts {
		t.Errorf("%+v, %d answers", anew, s.total().Completed)
	}
	before := map[string]bool{}
	for _, row := range rows[datasets.Row](h, fmt.Sprintf("watched@%d", first.Version), datasets.TableTrain) {
		before[*row.Messages[len(row.Messages)-1].Content] = true
	}
	for _, row := range rows[datasets.Row](h, fmt.Sprintf("watched@%d", anew.Version), datasets.TableTrain) {
		if before[*row.Messages[len(row.Messages)-1].Content] {
			t.Fatalf("an answer of before is in the refreshed version: %s", row.TaskID)
		}
	}
	later := h.build(recipe("7d"))
	if !later.Unchanged || later.AnswersNew != 0 || s.total().Completed != prompts {
		t.Errorf("%+v, %d answers", later, s.total().Completed)
	}
}
