//go:build integration

package e2e

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// What the labels of the recorded GSM8K answers say.
const (
	gsmProblems   = 1319
	gsmAnswers    = 4 * gsmProblems
	gsmSolved     = 887 // by at least one of the four
	gsmSolvedAll  = 156 // by all four
	gsmOddAnswers = 13  // 11 without a final "A:" line, 2 whose final is no number
)

// gsmTeachers are the recorded models with how many of their answers are right.
var gsmTeachers = []struct {
	id    string
	right int
}{
	{"175b_verification", 742}, {"6b_verification", 515}, {"175b_finetuning", 458}, {"6b_finetuning", 286},
}

// gsmRow is one problem of example_model_solutions.jsonl.
type gsmRow struct {
	Question string
	Labels   map[string]gsmLabel // by teacher
}

type gsmLabel struct {
	IsCorrect bool   `json:"is_correct"`
	Solution  string `json:"solution"`
}

// odd tells the answers without a final line, and those whose final is no
// number: "10+John's age".
func (l gsmLabel) odd() bool {
	_, final, found := strings.Cut(l.Solution, "\nA: ")
	if !found {
		return true
	}
	_, number := new(big.Rat).SetString(strings.ReplaceAll(strings.TrimSpace(final), ",", ""))
	return !number
}

// gsmLabels reads the labels, by question.
func gsmLabels(t testing.TB) map[string]gsmRow {
	t.Helper()
	text, err := os.ReadFile(testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]gsmRow{}
	for line := range strings.Lines(string(text)) {
		var raw map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &raw); err != nil {
			t.Fatal(err)
		}
		row := gsmRow{Labels: map[string]gsmLabel{}}
		if err := json.Unmarshal(raw["question"], &row.Question); err != nil {
			t.Fatal(err)
		}
		for _, teacher := range gsmTeachers {
			var l gsmLabel
			if err := json.Unmarshal(raw[teacher.id], &l); err != nil {
				t.Fatal(err)
			}
			row.Labels[teacher.id] = l
		}
		out[row.Question] = row
	}
	if len(out) != gsmProblems {
		t.Fatalf("the data holds %d problems, not %d", len(out), gsmProblems)
	}
	return out
}

// gsmRecipe is the recipe over all problems; teachers is its list.
func gsmRecipe(t testing.TB, name, teachers string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), name+".yaml"), fmt.Sprintf(`name: %s
prompts:
  - path: %s
    domain: math
    fields: {prompt: question, gold: answer}
    gold_pattern: '####\s*(.+)$'
teachers:
%scheck: [{verifier: math}]
merge: {policy: best_of}
`, name, testdata.Path(t, "data/gsm8k/test.jsonl"), teachers))
}

// checkGSM holds a published version to the known truth.
func checkGSM(t *testing.T, h *house, r *result) {
	t.Helper()
	labels := gsmLabels(t)
	ref := fmt.Sprintf("%s@%d", r.Dataset, r.Version)
	all := h.candidates(ref)
	if len(all) != gsmAnswers || r.Candidates != gsmAnswers {
		t.Errorf("candidates: %d rows and %d in the result, want %d", len(all), r.Candidates, gsmAnswers)
	}
	passes, accepted := map[string]int{}, map[string]int64{}
	passesOf := map[string]int{} // by task
	wrong, odd := 0, 0
	for i := range all {
		c := &all[i]
		if c.Error != nil {
			t.Fatalf("answer of %s to %s failed: %s %s", c.Teacher, c.TaskID, *c.Error, *c.ErrorText)
		}
		label := labels[*c.Messages[0].Content].Labels[c.Teacher]
		if got := c.Content(); got != label.Solution {
			t.Fatalf("answer of %s to %s: %q, want %q", c.Teacher, c.TaskID, got, label.Solution)
		}
		pass := c.Verdict != nil && *c.Verdict == datasets.Pass
		if pass != label.IsCorrect {
			wrong++
			t.Errorf("%s: pass is %v and the label says %v: %q", c.Teacher, pass, label.IsCorrect, tail(label.Solution, 80))
		}
		if pass {
			passes[c.Teacher]++
			passesOf[c.TaskID]++
		}
		if c.Accepted {
			accepted[c.Teacher]++
		}
		if label.odd() {
			odd++
			if pass {
				t.Errorf("%s: an answer without a final number passes: %q", c.Teacher, tail(label.Solution, 80))
			}
		}
	}
	for _, teacher := range gsmTeachers {
		if passes[teacher.id] != teacher.right || accepted[teacher.id] != int64(teacher.right) || r.Teachers[teacher.id].Accepted != int64(teacher.right) {
			t.Errorf("%s: %d pass, %d accepted, %d in the result; want %d", teacher.id, passes[teacher.id], accepted[teacher.id], r.Teachers[teacher.id].Accepted, teacher.right)
		}
	}
	solvedAll := 0
	for _, n := range passesOf {
		if n == len(gsmTeachers) {
			solvedAll++
		}
	}
	train := rows[datasets.Row](h, ref, datasets.TableTrain)
	if len(passesOf) != gsmSolved || len(train) != gsmSolved || r.Rows["train"] != gsmSolved {
		t.Errorf("solved: %d tasks, %d rows, %d in the result; want %d", len(passesOf), len(train), r.Rows["train"], gsmSolved)
	}
	if solvedAll != gsmSolvedAll {
		t.Errorf("%d tasks are solved by all, want %d", solvedAll, gsmSolvedAll)
	}
	if odd != gsmOddAnswers {
		t.Errorf("%d answers have no final number, want %d: the test reads the data wrongly", odd, gsmOddAnswers)
	}
	for i := range train {
		m := train[i].Messages
		label := labels[*m[0].Content].Labels[train[i].Teacher]
		if !label.IsCorrect || *m[len(m)-1].Content != label.Solution {
			t.Errorf("row %s is no right answer of %s", train[i].TaskID, train[i].Teacher)
		}
	}
	if n := len(rows[datasets.PromptRow](h, ref, datasets.TablePrompts)); n != gsmProblems {
		t.Errorf("prompts: %d rows, want %d", n, gsmProblems)
	}
	t.Logf("%d candidates; pass %v; %d rows, %d solved by all; %d verdicts against the label; %d odd answers, none passes; %.1f s",
		len(all), passes, len(train), solvedAll, wrong, odd, r.DurationS)
}

// TestKnownTruthRecorded runs the recorded answers of four models through the
// whole pipeline: every verdict is the label's.
func TestKnownTruthRecorded(t *testing.T) {
	var teachers strings.Builder
	for _, teacher := range gsmTeachers {
		fmt.Fprintf(&teachers, "  - {id: %s, api: recorded, model: %s, path: %s, fields: {prompt: question, content: %s.solution}}\n",
			teacher.id, teacher.id, testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl"), teacher.id)
	}
	h := newHouse(t)
	r := h.build(gsmRecipe(t, "gsm8k-recorded", teachers.String()))
	checkGSM(t, h, r)
	h.run(0, "verify", "gsm8k-recorded")
}

// TestKnownTruthOverHTTP asks the same four models over HTTP, from an endpoint
// that fails in seven ways: the same verdicts, and every answer paid for once.
func TestKnownTruthOverHTTP(t *testing.T) {
	s := startSim(t, "-gsm8k", testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl"),
		"-faults", `{"http429":0.03,"http500":0.03,"reset":0.03,"midreset":0.03,"miderror":0.03,"badjson":0.03,"empty":0.03}`)
	var teachers strings.Builder
	for _, teacher := range gsmTeachers {
		fmt.Fprintf(&teachers, "  - {id: %s, base_url: '%s', model: %s, limits: {concurrency: 32}}\n", teacher.id, s.url(), teacher.id)
	}
	h := newHouse(t)
	r := h.build(gsmRecipe(t, "gsm8k-http", teachers.String()))
	checkGSM(t, h, r)
	for _, teacher := range gsmTeachers {
		st := s.stats()[teacher.id]
		if st.Completed != gsmProblems || st.UniqueCompleted != gsmProblems {
			t.Errorf("%s: %d answers completed, %d of them distinct; want each of %d once", teacher.id, st.Completed, st.UniqueCompleted, gsmProblems)
		}
		if st.PeakConcurrency > 32 {
			t.Errorf("%s: %d requests at once, and the limit is 32", teacher.id, st.PeakConcurrency)
		}
	}
	sum := s.total()
	if sum.PaidTwice != 0 || sum.EarlyRetries != 0 || sum.NotInRecording != 0 {
		t.Errorf("paid twice %d, early retries %d, not in the recording %d; want none", sum.PaidTwice, sum.EarlyRetries, sum.NotInRecording)
	}
	for _, fault := range []string{"http429", "http500", "reset", "midreset", "miderror", "badjson", "empty"} {
		if sum.Faults[fault] == 0 {
			t.Errorf("the endpoint gave no fault %s: the test proves nothing of it", fault)
		}
	}
	t.Logf("%d requests for %d answers, faults %v, paid twice %d, early retries %d", sum.Requests, sum.Completed, sum.Faults, sum.PaidTwice, sum.EarlyRetries)
}
