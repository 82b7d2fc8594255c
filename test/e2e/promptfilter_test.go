//go:build integration

package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
)

const filteredPrompts = 3000

// filteredRows are prompts of which every tenth says what the one before says,
// every tenth nearly so, and every tenth holds an item of the evaluation set,
// which comes back too.
func filteredRows() (prompts, items string, clean int) {
	r := rand.New(rand.NewPCG(4, 2))
	words := strings.Fields("copper still mash yeast barley water steam vapour cask oak winter harvest river stone market ledger clerk barrel grain smoke peat valley spirit cut heart tail proof angel share cooper malt")
	sentence := func(n int) string {
		out := make([]string, n)
		for i := range out {
			out[i] = words[r.IntN(len(words))]
		}
		return strings.Join(out, " ")
	}
	var lines, evals strings.Builder
	last := ""
	for i := range filteredPrompts {
		q := "Tell me of " + sentence(30)
		switch i % 10 {
		case 3:
			q = strings.ToUpper(last) + "!"
		case 6:
			q = last + " again"
		case 9:
			item := sentence(25)
			fmt.Fprintf(&evals, `{"question":%q}`+"\n", item)
			q = "Answer with care: " + item
		default:
			clean++
		}
		last = q
		fmt.Fprintf(&lines, `{"prompt":%q}`+"\n", q)
	}
	return lines.String(), evals.String(), clean
}

// TestPromptFiltersSurviveKills kills the process in every phase of the filters
// of prompts: the build ends, publishes what an undisturbed one publishes, and
// asks nothing that a filter left out.
func TestPromptFiltersSurviveKills(t *testing.T) {
	s := startSim(t, "-models", "m")
	dir := t.TempDir()
	prompts, items, clean := filteredRows()
	write(t, filepath.Join(dir, "prompts.jsonl"), prompts)
	write(t, filepath.Join(dir, "exam.jsonl"), items)
	recipe := write(t, filepath.Join(dir, "recipe.yaml"), fmt.Sprintf(`name: filtered
prompts: [{path: prompts.jsonl, fields: {prompt: prompt}}]
teachers: [{base_url: '%s', model: m, limits: {concurrency: 64}}]
prompt_filter: [duplicate, near_duplicate, {contamination: {against: [exam.jsonl], action: drop}}]
output: {splits: {train: 0.8, test: 0.2}, seed: 3}
`, s.url()))
	calm := newHouse(t)
	calm.build(recipe)
	if n := s.total().UniqueCompleted; n != clean {
		t.Fatalf("%d prompts were asked, want the %d that no filter leaves out", n, clean)
	}
	status := map[string]int{}
	for _, p := range rows[datasets.PromptRow](calm, "filtered@1", datasets.TablePrompts) {
		status[p.Status]++
	}
	if want := map[string]int{"clean": clean, "duplicate": filteredPrompts / 5, "contaminated": filteredPrompts / 10}; !maps.Equal(status, want) {
		t.Errorf("statuses %v, want %v", status, want)
	}
	s.reset()

	h := newHouse(t)
	work := filepath.Join(h.dir, "store", "stillhouse", "datasets", "filtered", "work", "*")
	for _, stage := range []string{"filter-prompts", "filter-hits", "filter-same", "filter-signs", "filter-pairs", "filter-found", "tasks"} {
		p := h.start("build", recipe, "--json", "--yes")
		if !killAt(t, p, moment{stage: stage, reached: func(p *process) bool { return newer(filepath.Join(work, stage, "*"), p.started) }}) {
			t.Fatalf("the build ended with %d before it came to %q:\n%s", p.code, stage, tail(p.stderr(), 2000))
		}
		if err := syscall.Kill(p.cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-p.ended
		t.Logf("killed in %s", stage)
	}
	if r := h.build(recipe); r.Version != 1 {
		t.Errorf("version %d after the kills, want 1", r.Version)
	}
	if want, got := digests(calm.manifest("filtered@1")), digests(h.manifest("filtered@1")); len(want) < 3 || !maps.Equal(want, got) {
		t.Errorf("the killed build published\n%v\nand the undisturbed one\n%v", got, want)
	}
	if n := s.total().UniqueCompleted; n != clean {
		t.Errorf("%d prompts were asked, want %d", n, clean)
	}
	h.run(0, "verify", "filtered")
}
