//go:build integration

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStormOfOneTeacher builds with three teachers: one refuses nine of ten
// requests at first, for about a minute in all, one takes half a minute for every
// answer, one is well. Every row arrives, and the third is through long before
// the others.
func TestStormOfOneTeacher(t *testing.T) {
	const tasks = 40
	storm := startSim(t, "-models", "a", "-chunk", "400", "-faults", `{"http429":0.9}`, "-fault-attempts", "2")
	slow := startSim(t, "-models", "b", "-chunk", "400", "-ttft", "31s") // of 31 minutes, a second each
	well := startSim(t, "-models", "c", "-chunk", "400", "-ttft", "100ms")
	dir := t.TempDir()
	var lines strings.Builder
	for i := range tasks {
		fmt.Fprintf(&lines, "{\"prompt\":\"question %d\"}\n", i)
	}
	write(t, filepath.Join(dir, "prompts.jsonl"), lines.String())
	recipe := write(t, filepath.Join(dir, "recipe.yaml"), fmt.Sprintf(`
name: storm
prompts: [{path: prompts.jsonl}]
ask: {route: all}
teachers:
  - {id: storm, base_url: %q, model: a, limits: {concurrency: 16}}
  - {id: slow, base_url: %q, model: b, limits: {concurrency: 64}}
  - {id: well, base_url: %q, model: c, limits: {concurrency: 16}}
`, storm.url(), slow.url(), well.url()))
	h := newHouse(t)
	p := h.start("build", recipe, "--json", "--yes")
	eventually(t, commandLimit, "the third teacher has begun", func() bool { return well.total().Requests > 0 })
	began := time.Now()
	eventually(t, commandLimit, "the third teacher is through", func() bool { return well.total().Completed == tasks })
	took := time.Since(began)
	if st := slow.total(); st.Completed > 0 {
		t.Errorf("the third teacher took %s, and %d answers of half a minute had come by then", took, st.Completed)
	}
	if code := p.wait(commandLimit); code != 0 {
		t.Fatalf("exit code %d: %s", code, tail(p.stderr(), 3000))
	}
	r := p.result()
	if r.AnswersNew != 3*tasks || r.Rows["train"]+r.Rows["test"] != 3*tasks || len(r.Rejected) > 0 {
		t.Errorf("%d answers, rows %v, rejected %v; want all of %d", r.AnswersNew, r.Rows, r.Rejected, 3*tasks)
	}
	for name, s := range map[string]*sim{"storm": storm, "slow": slow, "well": well} {
		st := s.total()
		if st.UniqueCompleted != tasks || st.PaidTwice != 0 || st.EarlyRetries != 0 {
			t.Errorf("%s: %+v, want %d answers, none paid twice, no early retry", name, st, tasks)
		}
		t.Logf("%s: %d requests, %d refused, %d answers", name, st.Requests, st.Faults["http429"]+st.RateLimited, st.Completed)
	}
	if n := storm.total().Faults["http429"]; n < tasks {
		t.Errorf("%d requests were refused: that is no storm", n)
	}
	t.Logf("the third teacher took %s, all %.1f s", took.Round(time.Millisecond), r.DurationS)
}
