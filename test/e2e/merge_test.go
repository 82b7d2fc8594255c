//go:build integration

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// alpacaModels are the recorded models of AlpacaEval; each answered the same
// 805 instructions.
var alpacaModels = []string{
	"Meta-Llama-3-70B-Instruct", "Qwen-14B-Chat", "alpaca-7b", "claude-2.1", "claude-3-opus-20240229", "gpt-3.5-turbo-1106",
	"gpt-4o-2024-05-13", "gpt4_1106_preview", "vicuna-13b",
}

// alpacaRecipe is the union over all nine, with more at its end.
func alpacaRecipe(t testing.TB, name, more string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nprompts: [{path: %q, domain: chat, fields: {prompt: instruction}}]\nteachers:\n", name, testdata.Path(t, "data/alpacaeval/"+alpacaModels[0]+".jsonl"))
	for _, id := range alpacaModels {
		fmt.Fprintf(&b, "  - {id: %s, api: recorded, path: %q, fields: {prompt: instruction, content: output}}\n", id, testdata.Path(t, "data/alpacaeval/"+id+".jsonl"))
	}
	return write(t, filepath.Join(t.TempDir(), name+".yaml"), b.String()+more)
}

// TestUnionOfNineTeachers merges 7,245 recorded answers: every one of them is a
// row with its teacher, in less than 20 seconds from the build's start to its
// end. Starting the services is not counted.
func TestUnionOfNineTeachers(t *testing.T) {
	h := newHouse(t)
	p := h.run(0, "build", alpacaRecipe(t, "alpaca", "filter: []\nmerge: {policy: union, answer_duplicates: keep}\n"), "--json")
	var r result
	if err := json.Unmarshal([]byte(p.stdout()), &r); err != nil {
		t.Fatal(err)
	}
	by := map[string]int{}
	for _, row := range rows[datasets.Row](h, "alpaca", datasets.TableTrain) {
		by[row.Teacher]++
	}
	for _, id := range alpacaModels {
		if by[id] != 805 {
			t.Errorf("%s has %d rows, want 805", id, by[id])
		}
	}
	if r.Rows["train"] != 7245 {
		t.Errorf("%v rows, want 7,245", r.Rows)
	}
	t.Logf("%d rows of %d teachers in %.1f s (%.1f s of them the build)", r.Rows["train"], len(by), p.lasted.Seconds(), r.DurationS)
	if r.DurationS > 20 {
		t.Errorf("the union took %.1f s, and less than 20 s are promised", r.DurationS)
	}

	// Shares and caps on top of it ask nobody again and hold exactly.
	r2 := h.build(alpacaRecipe(t, "alpaca", "filter: []\nmix: {by: teacher, alpha: 0, total: 900, caps: {prompt: 0.005}}\noutput: {seed: 3}\n"))
	mixed, prompts := map[string]int{}, map[string]int{}
	for _, row := range rows[datasets.Row](h, "alpaca", datasets.TableTrain) {
		mixed[row.Teacher]++
		prompts[row.PromptID]++
	}
	for _, id := range alpacaModels {
		if mixed[id] != 100 {
			t.Errorf("%s has %d rows of the mixture, want 100", id, mixed[id])
		}
	}
	for id, n := range prompts {
		if n > 4 { // 0.005 of 900
			t.Errorf("prompt %s has %d rows, at most 4 are allowed", id, n)
		}
	}
	if r2.AnswersNew != 0 {
		t.Errorf("%d answers were asked for again", r2.AnswersNew)
	}
}

// TestVoteWithoutGold lets the four models of GSM8K vote, and holds what they
// agree on to the labels.
func TestVoteWithoutGold(t *testing.T) {
	var teachers strings.Builder
	for _, teacher := range gsmTeachers {
		fmt.Fprintf(&teachers, "  - {id: %s, api: recorded, model: %s, path: %s, fields: {prompt: question, content: %s.solution}}\n",
			teacher.id, teacher.id, testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl"), teacher.id)
	}
	h := newHouse(t)
	h.build(write(t, filepath.Join(t.TempDir(), "vote.yaml"), fmt.Sprintf(`name: vote
prompts: [{path: %s, domain: math, fields: {prompt: question}}]
teachers:
%scheck: [{verifier: math}]
merge: {policy: vote, accept: any}
`, testdata.Path(t, "data/gsm8k/test.jsonl"), teachers.String())))
	labels := gsmLabels(t)
	labelled, ties := 0, 0
	for _, p := range rows[datasets.PromptRow](h, "vote", datasets.TablePrompts) {
		switch {
		case p.Label != nil:
			labelled++
		case p.LabelVotes != nil && *p.LabelVotes == 4 && *p.LabelShare == 0.5:
			ties++
		}
		if p.Gold != nil {
			t.Fatalf("task %s has a gold answer: the test shows nothing", p.TaskID)
		}
	}
	right, tasks := map[string]bool{}, map[string]bool{}
	for _, row := range rows[datasets.Row](h, "vote", datasets.TableTrain) {
		tasks[row.TaskID] = true
		if labels[*row.Messages[0].Content].Labels[row.Teacher].IsCorrect {
			right[row.TaskID] = true
		}
	}
	if labelled != 791 || len(tasks) != 791 || len(right) != 565 || ties != 40 {
		t.Errorf("%d labelled, %d with rows, %d right, %d two against two; want 791, 791, 565, 40", labelled, len(tasks), len(right), ties)
	}
}

// TestAGateThatIsMissed publishes nothing, keeps everything, says by how much
// it missed, and ends with exit code 3.
func TestAGateThatIsMissed(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	for i := range 20 {
		fmt.Fprintf(&b, `{"question":"%d+%d=","gold":"%d","good":"A: %d","bad":"A: %d"}`+"\n", i, i, 2*i, 2*i, 2*i+i%2)
	}
	write(t, filepath.Join(dir, "p.jsonl"), b.String())
	recipe := func(more string) string {
		return write(t, filepath.Join(dir, "r.yaml"), `name: gated
prompts: [{path: p.jsonl, domain: math, fields: {prompt: question, gold: gold}}]
teachers:
  - {id: good, api: recorded, path: p.jsonl, fields: {prompt: question, content: good}}
  - {id: bad, api: recorded, path: p.jsonl, fields: {prompt: question, content: bad}}
check: [{verifier: math}]
merge: {policy: all_passing}
pairs: {}
`+more)
	}
	h := newHouse(t)
	p := h.run(3, "build", recipe("mix: {total: 25}\ngates: {min_rows: 26, min_pass_rate: {math: 0.9}, max_rejected: {verdict: 0.1}, min_pairs: 11}\n"))
	for _, want := range []string{
		"gated: nothing was published",
		"min_rows: 25 rows, and at least 26 are wanted: 1 too few",
		"min_pass_rate: 75.0 % of domain math pass (30 of 40), and at least 90.0 % are wanted: 15.0 % too few",
		"max_rejected: 10 of 40 answers have reason verdict (25.0 %), and at most 10.0 % are allowed: 15.0 % too many",
		"min_pairs: 10 preference pairs, and at least 11 are wanted: 1 too few",
	} {
		if !strings.Contains(p.stdout(), want) {
			t.Errorf("the output lacks %q:\n%s", want, p.stdout())
		}
	}
	if _, _, err := h.catalog().Latest(t.Context(), "gated"); !errors.Is(err, catalog.ErrUnknown) {
		t.Fatalf("something was published: %v", err)
	}

	// What was built is there: without the gates the next build is a version.
	r := h.build(recipe("mix: {total: 25}\n"))
	if r.Version != 1 || r.Rows["train"] != 25 || r.AnswersNew != 0 {
		t.Errorf("%+v", r)
	}
	if out := h.run(0, "head", "gated", "--table", "pairs", "-n", "1").stdout(); !strings.Contains(out, "of two teachers") || !strings.Contains(out, "rejected      A: ") {
		t.Errorf("head of pairs:\n%s", out)
	}
	if out := h.run(0, "show", "gated").stdout(); !strings.Contains(out, "10 preference pairs") || !strings.Contains(out, "merged by") || !strings.Contains(out, "25 of 30 chosen rows") {
		t.Errorf("show:\n%s", out)
	}
	lines := strings.Split(strings.TrimSpace(h.run(0, "export", "gated", "-", "--view", "preference").stdout()), "\n")
	if len(lines) != 10 || !strings.HasPrefix(lines[0], `{"prompt":[{"role":"user"`) {
		t.Errorf("%d lines of preferences, the first is %.80s", len(lines), lines[0])
	}
}
