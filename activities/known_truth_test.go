package activities

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// gsmTeachers are the recorded models with how many of their answers are right.
var gsmTeachers = []struct {
	id    string
	right int64
}{
	{"175b_verification", 742}, {"6b_verification", 515}, {"175b_finetuning", 458}, {"6b_finetuning", 286},
}

// gsmRecipe is a build of the GSM8K problems with the first n recorded models.
func gsmRecipe(t *testing.T, n int) string {
	t.Helper()
	path := testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl")
	var b strings.Builder
	fmt.Fprintf(&b, `name: gsm
prompts:
  - path: %s
    domain: math
    fields: {prompt: question, gold: answer}
    gold_pattern: '####\s*(.+)$'
teachers:
`, testdata.Path(t, "data/gsm8k/test.jsonl"))
	for _, m := range gsmTeachers[:n] {
		fmt.Fprintf(&b, "  - {id: %s, api: recorded, path: %s, fields: {prompt: question, content: %s.solution}}\n", m.id, path, m.id)
	}
	b.WriteString("check: [{verifier: math}]\noutput: {splits: {train: 0.9, test: 0.1}, seed: 7}\n")
	return b.String()
}

func TestKnownTruth(t *testing.T) {
	testdata.Heavy(t)
	w := newWorld(t)

	// Two teachers first: a further one asks only its own.
	w.build(gsmRecipe(t, 2))
	r := w.start(gsmRecipe(t, 4)).ask()
	for _, teacher := range gsmTeachers {
		c := r.counts[teacher.id]
		if c.Asks != 1319 || c.Reused != 1319 || c.Failed != 0 {
			t.Errorf("%s: %+v", teacher.id, c)
		}
	}
	r.refine()
	out, result := r.seal()
	if out.Version != 2 || result.Candidates != 4*1319 || result.Asks != 4*1319 || result.AnswersReused != 4*1319 {
		t.Errorf("%+v", result)
	}
	passes, solvers := map[string]int64{}, map[string]int{}
	for _, c := range rows[datasets.Candidate](w, "gsm", datasets.TableCandidates) {
		if c.Verdict != nil && *c.Verdict == datasets.Pass {
			passes[c.Teacher]++
			solvers[c.TaskID]++
		}
		if !c.Accepted && len(c.RejectReasons) == 0 {
			t.Fatalf("%s is neither accepted nor rejected", c.SampleID)
		}
	}
	all := 0
	for _, n := range solvers {
		if n == 4 {
			all++
		}
	}
	for _, teacher := range gsmTeachers {
		if passes[teacher.id] != teacher.right || result.Teachers[teacher.id].Accepted != teacher.right {
			t.Errorf("%s: %d pass, %d accepted, want %d", teacher.id, passes[teacher.id], result.Teachers[teacher.id].Accepted, teacher.right)
		}
	}
	if n := result.Rows["train"] + result.Rows["test"]; n != 887 || len(solvers) != 887 || all != 156 {
		t.Errorf("%d rows, %d solved, %d by all; want 887, 887, 156", n, len(solvers), all)
	}
	if n := len(rows[datasets.PromptRow](w, "gsm", datasets.TablePrompts)); n != 1319 {
		t.Errorf("%d prompts", n)
	}
}
