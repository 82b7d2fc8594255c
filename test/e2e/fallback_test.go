//go:build integration

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// TestFallbacksSurviveKills asks a second model what a first one got wrong, as
// GSM8K's labels say, and kills the process while that one is asked: the counts
// are those of the labels, and no answer is paid for twice.
func TestFallbacksSurviveKills(t *testing.T) {
	path := testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl")
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	solutions := map[string]string{} // of the second model, by question
	var goOn, solved, right int64
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var row struct {
			Question string `json:"question"`
			Small    struct {
				Correct  bool   `json:"is_correct"`
				Solution string `json:"solution"`
			} `json:"6b_finetuning"`
			Large struct {
				Correct  bool   `json:"is_correct"`
				Solution string `json:"solution"`
			} `json:"175b_verification"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		solutions[row.Question] = row.Large.Solution
		switch {
		case row.Small.Correct:
			right++
		case strings.Contains(row.Small.Solution, "A: "): // else it stops early: unknown, which stays
			goOn++
			if row.Large.Correct {
				solved++
			}
		}
	}
	recipe := func(url string) string {
		return write(t, filepath.Join(t.TempDir(), "recipe.yaml"), fmt.Sprintf(`name: fallback
prompts: [{path: %q, domain: math, fields: {prompt: question, gold: answer}, gold_pattern: '####\s*(.+)$'}]
teachers:
  - {id: small, api: recorded, path: %q, fields: {prompt: question, content: 6b_finetuning.solution}}
  - {id: large, base_url: %q, model: large-175b, identity: large, limits: {concurrency: 8}}
ask: {route: {rules: [{when: domain == "math", teachers: [small], fallback: [large]}]}}
check: [{verifier: math}]
`, testdata.Path(t, "data/gsm8k/test.jsonl"), path, url))
	}
	check := func(name string, r *result) {
		t.Helper()
		if r.Asks != r.Tasks+goOn || r.Accepted != right+solved || r.Teachers["large"].Asks != goOn || r.Teachers["large"].Accepted != solved {
			t.Errorf("%s: %+v, want %d asks of the second model and %d solved", name, r, goOn, solved)
		}
	}
	calm := newHouse(t)
	calmServer := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: solutions[r.Prompt]}
	})
	check("undisturbed", calm.build(recipe(calmServer.URL)))
	if n := int64(calmServer.Stats().Requests); n != goOn {
		t.Errorf("%d requests, want %d", n, goOn)
	}

	var room atomic.Int64 // this server answers so many, and keeps further ones waiting
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		if room.Add(-1) < 0 {
			<-r.Done
			return teacherstest.Reply{Fault: teacherstest.Reset}
		}
		return teacherstest.Reply{Content: solutions[r.Prompt]}
	})
	h := newHouse(t)
	text := recipe(server.URL)
	for kill := range 2 {
		before := server.Stats().Completed
		room.Store(300)
		p := h.start("build", text, "--json", "--yes")
		eventually(t, commandLimit, "300 more answers", func() bool { return !p.running() || server.Stats().Completed >= before+300 && room.Load() < 0 })
		if !p.running() {
			t.Fatalf("kill %d: the build ended with %d", kill, p.code)
		}
		<-time.After(settled)
		p.kill()
	}
	room.Store(1 << 40)
	check("killed", h.build(text))
	if s := server.Stats(); s.PaidTwice != 0 || int64(s.Completed) != goOn {
		t.Errorf("%d answers for %d asks, %d paid twice", s.Completed, goOn, s.PaidTwice)
	}
	if a, b := digests(calm.manifest("fallback@1")), digests(h.manifest("fallback@1")); len(a) < 2 || !maps.Equal(a, b) {
		t.Errorf("the killed build published\n%v\nand the undisturbed one\n%v", b, a)
	}
	h.run(0, "verify", "fallback")
	requests := server.Stats().Requests
	if r := h.build(text); !r.Unchanged || server.Stats().Requests != requests {
		t.Errorf("once more: unchanged %v, %d requests", r.Unchanged, server.Stats().Requests-requests)
	}
}
