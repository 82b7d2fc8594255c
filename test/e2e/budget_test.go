//go:build integration

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// Dollars per million tokens, and tokens of an answer and of its cap.
	budgetInput, budgetOutput = 2.0, 10.0
	budgetAnswer, budgetCap   = 48, 60
	budgetKillEvery           = 3 * time.Second
)

// spent is what the endpoint's own token counts cost, in dollars: whole answers
// are billed, also those that nobody was there to take.
func (s *sim) spent() float64 {
	s.t.Helper()
	resp, err := http.Get("http://" + s.addr + "/admin/stats")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var all map[string]struct {
		Prompt     float64 `json:"prompt_tokens"`
		Completion float64 `json:"completion_tokens"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		s.t.Fatal(err)
	}
	usd := 0.0
	for _, m := range all {
		usd += (m.Prompt*budgetInput + m.Completion*budgetOutput) / 1e6
	}
	return usd
}

// budgetRecipe writes a recipe of prompts and teachers with what it says under
// ask.
func budgetRecipe(t testing.TB, s *sim, name, ask string, prompts, atOnce int, models ...string) string {
	t.Helper()
	dir := t.TempDir()
	var lines, teachers strings.Builder
	for i := range prompts {
		fmt.Fprintf(&lines, `{"prompt":"Question %d of %s: what does a still do?"}`+"\n", i, name)
	}
	write(t, filepath.Join(dir, "prompts.jsonl"), lines.String())
	for _, model := range models {
		fmt.Fprintf(&teachers, "  - {base_url: '%s', model: %s, limits: {concurrency: %d}, params: {max_tokens: %d}, price: {input: %g, output: %g}}\n",
			s.url(), model, atOnce, budgetCap, budgetInput, budgetOutput)
	}
	return write(t, filepath.Join(dir, "recipe.yaml"), fmt.Sprintf(`name: %s
prompts: [{path: prompts.jsonl, fields: {prompt: prompt}}]
teachers:
%sask: {%s}
`, name, teachers.String(), ask))
}

// startBudgetSim starts an endpoint whose answers take some time, so that kills
// find some on their way.
func startBudgetSim(t testing.TB, more ...string) *sim {
	return startSim(t, append([]string{"-models", "one,two", "-synthetic-tokens", fmt.Sprint(budgetAnswer), "-ttft", "30ms", "-chunk", "400"}, more...)...)
}

// TestBudgetSurvivesKills kills a build of a dollar every three seconds until it
// ends by itself. By the endpoint's own counts it has spent no more than a
// dollar and most of it; a larger budget buys the rest and nothing else.
func TestBudgetSurvivesKills(t *testing.T) {
	t.Parallel() // it waits more than it works
	s := startBudgetSim(t)
	recipe := budgetRecipe(t, s, "killed-budget", "budget: {usd: 1.00}", 3000, 4, "one")
	h := newHouse(t)
	kills := 0
	var p *process
	for {
		before := s.total().Requests
		p = h.start("build", recipe, "--json", "--yes")
		if killedAfter(t, p, budgetKillEvery, func() bool { return s.total().Requests > before }) {
			kills++
			continue
		}
		break
	}
	if p.code != 4 {
		t.Fatalf("after %d kills the build ended with %d, want 4\n%s", kills, p.code, tail(p.stderr(), 3000))
	}
	usd := s.spent()
	t.Logf("%d kills; spent $%.4f of $1.00 in %d answers; %s", kills, usd, s.total().Completed, strings.TrimSpace(tail(p.stderr(), 400)))
	if usd > 1.00 {
		t.Errorf("spent $%.4f of a budget of $1.00", usd)
	}
	if usd < 0.80 {
		t.Errorf("spent only $%.4f of a budget of $1.00", usd)
	}
	if kills < 3 {
		t.Errorf("%d kills: the build was too fast for this test", kills)
	}
	if !strings.Contains(p.stderr(), "stopped at the budget") || !strings.Contains(p.stderr(), "--budget") {
		t.Errorf("it does not say what is missing and what to do:\n%s", tail(p.stderr(), 2000))
	}

	// The same command finds its money spent, and asks nobody.
	asked := s.total().Requests
	h.run(4, "build", recipe, "--json", "--yes")
	if n := s.total().Requests; n > asked {
		t.Errorf("the same command with the same budget sent %d more requests", n-asked)
	}
	// A larger one buys the rest, and only that.
	answered := s.total().UniqueCompleted
	whole := h.run(0, "build", recipe, "--json", "--yes", "--budget", "20")
	if sum := s.total(); sum.UniqueCompleted != 3000 || sum.Requests-asked > 3000-answered+4*kills {
		t.Errorf("%d answers of 3000, with %d more requests for %d that were missing", sum.UniqueCompleted, sum.Requests-asked, 3000-answered)
	}
	if r := whole.result(); r.Accepted != 3000 {
		t.Errorf("%d accepted of 3000", r.Accepted)
	}
}

// killedAfter kills a process after some time, at the earliest when it has done
// what worked waits for; false where it ended by itself.
func killedAfter(t testing.TB, p *process, d time.Duration, worked func() bool) bool {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(commandLimit)
	defer limit.Stop()
	for time.Since(p.started) < d || !worked() {
		select {
		case <-p.ended:
			return false
		case <-limit.C:
			t.Fatalf("%s neither ended nor worked within %v", p.name, commandLimit)
		case <-tick.C:
		}
	}
	if err := syscall.Kill(p.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		return false
	}
	<-p.ended
	return true
}

// TestBudgetUsedUp leaves less than one ask's most of a budget that nothing
// disturbs, however many asks would like to be under way.
func TestBudgetUsedUp(t *testing.T) {
	t.Parallel() // it waits more than it works
	s := startBudgetSim(t)
	recipe := budgetRecipe(t, s, "used-up", "budget: {usd: 9}", 2000, 32, "one", "two")
	h := newHouse(t)
	p := h.run(4, "build", recipe, "--json", "--yes", "--budget", "0.40")
	usd := s.spent()
	// The largest ask can cost its bytes and its cap.
	const most = (400*budgetInput + budgetCap*budgetOutput) / 1e6
	if usd > 0.40 || usd < 0.40-2*most {
		t.Errorf("spent $%.6f of $0.40", usd)
	}
	var r struct {
		Budget struct {
			Limit   float64  `json:"limit_usd"`
			Spent   float64  `json:"spent_usd"`
			Left    float64  `json:"left_usd"`
			Stopped []string `json:"stopped"`
			Missing int64    `json:"missing_asks"`
		} `json:"budget"`
		New  int64 `json:"answers_new"`
		Asks int64 `json:"asks"`
	}
	if err := json.Unmarshal([]byte(p.stdout()), &r); err != nil {
		t.Fatal(err)
	}
	if b := r.Budget; b.Limit != 0.4 || b.Spent > 0.4 || b.Spent < usd-1e-9 || len(b.Stopped) != 2 || b.Missing != r.Asks-r.New {
		t.Errorf("the result says %+v, %d of %d asks, and $%.6f were spent", b, r.New, r.Asks, usd)
	}
}

// TestBudgetRaisedWhileItWaits pauses a build, kills it, and gives it another
// budget when it is started again.
func TestBudgetRaisedWhileItWaits(t *testing.T) {
	t.Parallel() // it waits more than it works
	s := startBudgetSim(t)
	recipe := budgetRecipe(t, s, "paused-budget", "budget: {usd: 0.10}", 1000, 4, "one")
	h := newHouse(t)
	p := h.start("build", recipe, "--yes")
	eventually(t, time.Minute, "some answers", func() bool { return s.total().Completed > 40 })
	h.run(0, "pause", "--reason", "budget")
	eventually(t, time.Minute, "nothing is under way", func() bool {
		before := s.total()
		return before.Requests == before.Completed
	})
	p.kill()
	p = h.start("build", recipe, "--yes", "--json", "--budget", "0.30")
	p.said("its budget is $0.30 now")
	h.run(0, "resume")
	if code := p.wait(commandLimit); code != 4 {
		t.Fatalf("ended with %d, want 4\n%s", code, tail(p.stderr(), 3000))
	}
	if usd := s.spent(); usd > 0.30 || usd < 0.27 {
		t.Errorf("spent $%.4f of $0.30", usd)
	}
}

// TestBudgetOfAMonth lets two builds of a dataset, from two recipes and at the
// same time, spend one month's budget.
func TestBudgetOfAMonth(t *testing.T) {
	t.Parallel() // it waits more than it works
	s := startBudgetSim(t)
	h := newHouse(t)
	server := h.start("serve")
	eventually(t, time.Minute, "the services are up", func() bool {
		return h.start("status").wait(commandLimit) != 2 || strings.Contains(server.stderr(), "Temporal")
	})
	first := budgetRecipe(t, s, "monthly", "budget: {usd: 5, month: 0.30}", 1000, 4, "one")
	second := budgetRecipe(t, s, "monthly", "budget: {usd: 5, month: 0.30}", 1000, 4, "two")
	a := h.start("build", first, "--yes", "--json")
	b := h.start("build", second, "--yes", "--json")
	for _, p := range []*process{a, b} {
		if code := p.wait(commandLimit); code != 4 {
			t.Errorf("%s ended with %d, want 4\n%s", p.name, code, tail(p.stderr(), 3000))
		}
	}
	if usd := s.spent(); usd > 0.30 || usd < 0.27 {
		t.Errorf("spent $%.4f of $0.30", usd)
	}
}

// TestBudgetRefused names the place and the next step where a budget could not
// be kept.
func TestBudgetRefused(t *testing.T) {
	h := newHouse(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "p.jsonl"), `{"prompt":"?"}`+"\n")
	recipe := func(teacher, ask string) string {
		return write(t, filepath.Join(dir, "r.yaml"), "name: refused\nprompts: [{path: p.jsonl}]\nteachers:\n  - "+teacher+"\n"+ask)
	}
	for _, tc := range []struct {
		name, teacher, ask, flag string
		want                     []string
	}{
		{"unpriced", "{base_url: 'https://api.example.com/v1', model: m, params: {max_tokens: 9}}", "ask: {budget: {usd: 1}}\n", "", []string{"r.yaml:4", "has no price", "add price"}},
		{"unpriced, by flag", "{base_url: 'https://api.example.com/v1', model: m, params: {max_tokens: 9}}", "", "1", []string{"r.yaml:4", "has no price"}},
		{"no cap", "{base_url: 'http://127.0.0.1:9/v1', model: m, price: {input: 1, output: 1}}", "ask: {budget: {usd: 1}}\n", "", []string{"r.yaml:4", "token cap", "max_completion_tokens"}},
		{"no cap, by flag", "{base_url: 'http://127.0.0.1:9/v1', model: m, price: {input: 1, output: 1}}", "", "2.50", []string{"token cap"}},
		{"unknown teacher", "{base_url: 'http://127.0.0.1:9/v1', model: m, params: {max_tokens: 9}, price: {input: 1, output: 1}}", "ask: {budget: {usd: 1, teachers: {n: 1}}}\n", "", []string{"ask.budget.teachers.n", "no teacher has this id", `did you mean "m"`}},
		{"nothing", "{base_url: 'http://127.0.0.1:9/v1', model: m, params: {max_tokens: 9}, price: {input: 1, output: 1}}", "", "0", []string{"--budget", "more than 0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := []string{"build", recipe(tc.teacher, tc.ask), "--yes"}
			if tc.flag != "" {
				args = append(args, "--budget", tc.flag)
			}
			p := h.on(t).run(2, args...)
			for _, want := range tc.want {
				if !strings.Contains(p.stderr(), want) {
					t.Errorf("it does not say %q:\n%s", want, p.stderr())
				}
			}
		})
	}
}
