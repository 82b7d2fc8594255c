//go:build integration

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// TestKnownTruthOverMessages asks the four recorded models over the messages
// protocol, from an endpoint that fails in six ways: the same verdicts as from
// their files, and every answer paid for once.
func TestKnownTruthOverMessages(t *testing.T) {
	s := startSim(t, "-gsm8k", testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl"),
		"-faults", `{"http429":0.03,"http500":0.03,"http529":0.03,"reset":0.03,"badjson":0.03,"error200":0.03}`)
	var teachers strings.Builder
	for _, teacher := range gsmTeachers {
		fmt.Fprintf(&teachers, "  - {id: %s, api: anthropic, base_url: '%s', model: %s, limits: {concurrency: 32}}\n", teacher.id, s.url(), teacher.id)
	}
	h := newHouse(t)
	recipe := gsmRecipe(t, "gsm8k-messages", teachers.String())
	plan := h.run(0, "plan", recipe)
	if note := "no token cap, which an endpoint of profile anthropic-generic needs; 8192 are asked for"; !strings.Contains(plan.stdout(), note) {
		t.Errorf("the plan does not say %q:\n%s", note, plan.stdout())
	}
	r := h.build(recipe)
	checkGSM(t, h, r)
	for _, teacher := range gsmTeachers {
		if st := s.stats()[teacher.id]; st.Completed != gsmProblems || st.UniqueCompleted != gsmProblems {
			t.Errorf("%s: %d answers completed, %d of them distinct; want each of %d once", teacher.id, st.Completed, st.UniqueCompleted, gsmProblems)
		}
	}
	sum := s.total()
	if sum.PaidTwice != 0 || sum.EarlyRetries != 0 || sum.NotInRecording != 0 {
		t.Errorf("paid twice %d, early retries %d, not in the recording %d; want none", sum.PaidTwice, sum.EarlyRetries, sum.NotInRecording)
	}
	for _, fault := range []string{"http429", "http500", "http529", "reset", "badjson", "error200"} {
		if sum.Faults[fault] == 0 {
			t.Errorf("the endpoint gave no fault %s: the test proves nothing of it", fault)
		}
	}
	for _, c := range h.candidates(fmt.Sprintf("%s@%d", r.Dataset, r.Version)) {
		if c.FinishReason == nil || *c.FinishReason != "end_turn" || c.PromptTokens == nil || c.CachedTokens == nil || *c.CachedTokens != *c.PromptTokens/2 {
			t.Fatalf("%s: finish reason %v and usage %v of %v: want the endpoint's own words, and half of the prompt cached", c.TaskID, c.FinishReason, c.CachedTokens, c.PromptTokens)
		}
	}
	t.Logf("%d requests for %d answers, faults %v", sum.Requests, sum.Completed, sum.Faults)
}
