//go:build integration

package e2e

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// ledgerRecipe is a build of n prompts by two models whose prices make every
// token a whole number of micro-dollars.
func ledgerRecipe(t testing.TB, dir, url, name string, n int) string {
	t.Helper()
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"prompt":"Question %d of %s: what does a still do?"}`+"\n", i, name)
	}
	write(t, filepath.Join(dir, "prompts.jsonl"), lines.String())
	const price = "{input: 2, cached_input: 1, output: 4, as_of: 2026-11-01, source: the test}"
	return write(t, filepath.Join(dir, name+".yaml"), fmt.Sprintf(`name: %s
prompts: [{path: prompts.jsonl, fields: {prompt: prompt}}]
teachers:
  - {id: a, base_url: '%s', model: a, price: %s, limits: {concurrency: 32}}
  - {id: b, base_url: '%s', model: b, price: %s, limits: {concurrency: 32}}
ask: {route: all}
merge: {policy: union}
`, name, url, price, url, price))
}

// micros is what the endpoint would bill for a model's whole answers. Its own
// count of cached tokens has those of answers that it cut off in it too, so
// theirs is taken from the table.
func (s simStats) micros(cached int64) int64 {
	return int64(2*s.PromptTokens+4*s.CompletionTokens) - cached
}

// An account is a model's, by the dataset's own attempts table.
type account struct {
	requests, answers, spares, charged int
	micros, lost, cached               int64
}

func accountsOf(h *house, ref string) map[string]account {
	h.t.Helper()
	out := map[string]account{}
	seen := map[string]bool{}
	for _, row := range rows[datasets.Attempt](h, ref, datasets.TableAttempts) {
		if seen[row.AttemptID] {
			h.t.Errorf("attempt %s is told of twice", row.AttemptID)
		}
		seen[row.AttemptID] = true
		a := out[row.Teacher]
		a.requests += int(row.Times)
		switch row.Outcome {
		case datasets.OutcomeAnswer:
			a.answers++
			a.micros += *row.CostMicros
			a.cached += *row.CachedTokens
		case datasets.OutcomeSpare:
			a.spares++
			a.lost += *row.CostMicros
		default:
			a.lost += *row.CostMicros
			if row.Billable {
				a.charged++
				if row.UsageSource == nil || *row.CostMicros == 0 {
					h.t.Errorf("a request that may be charged has no estimate: %+v", row)
				}
			}
		}
		out[row.Teacher] = a
	}
	return out
}

// TestLedgerAgreesWithTheEndpoint builds against an endpoint that fails in every
// way, and holds the attempts table against the endpoint's own accounts: every
// request is a row, and the cost of the answers is what it would bill, to the
// micro-dollar. Reading it all again afterwards, when the endpoint is gone, asks
// nobody and changes nothing.
func TestLedgerAgreesWithTheEndpoint(t *testing.T) {
	const n = 300
	s := startSim(t, "-models", "a,b", "-chunk", "200", "-synthetic-tokens", "60", "-fault-attempts", "1", "-seed", "11", "-faults",
		`{"http429":0.05,"http500":0.06,"http503":0.03,"http529":0.03,"html502":0.03,"reset":0.05,"midreset":0.08,"miderror":0.06,"badjson":0.04,"empty":0.04,"error200":0.04,"length":0.05,"wrongmodel":0.05}`)
	h := newHouse(t)
	recipe := ledgerRecipe(t, t.TempDir(), s.url(), "ledger", n)
	p := h.run(0, "build", recipe, "--json", "--yes")
	var result struct {
		Attempts      int64   `json:"attempts"`
		CostUSD       float64 `json:"cost_usd"`
		FailedCostUSD float64 `json:"failed_cost_usd"`
	}
	decodeJSON(t, p.stdout(), &result)

	stats, accounts := s.stats(), accountsOf(h, "ledger")
	requests, micros, lost := 0, int64(0), int64(0)
	for _, model := range []string{"a", "b"} {
		st, a := stats[model], accounts[model]
		if a.requests != st.Requests {
			t.Errorf("%s: %d requests are told of, and the endpoint counted %d", model, a.requests, st.Requests)
		}
		if a.answers != n || a.spares != 0 {
			t.Errorf("%s: %d answers and %d spare ones, want %d", model, a.answers, a.spares, n)
		}
		if want := st.micros(a.cached); a.micros != want {
			t.Errorf("%s: its answers cost %d micro-dollars, and the endpoint bills %d", model, a.micros, want)
		}
		// The endpoint reports half of every prompt as cached.
		if half := int64(st.PromptTokens) / 2; a.cached > half || a.cached < half-n {
			t.Errorf("%s: %d cached tokens of %d", model, a.cached, st.PromptTokens)
		}
		if a.charged == 0 || a.lost == 0 {
			t.Errorf("%s: answers were cut off, and nothing is charged for them: %+v", model, a)
		}
		t.Logf("%s: %d requests, %d of them may be charged without an answer for %d micro-dollars; answers cost %d; faults %v", model, a.requests, a.charged, a.lost, a.micros, st.Faults)
		requests, micros, lost = requests+a.requests, micros+a.micros, lost+a.lost
	}
	if result.Attempts != int64(requests) || math.Round(result.CostUSD*1e6) != float64(micros+lost) || math.Round(result.FailedCostUSD*1e6) != float64(lost) {
		t.Errorf("result %+v; %d requests for %d and %d micro-dollars", result, requests, micros, lost)
	}
	drifted := 0
	for _, c := range h.candidates("ledger") {
		if c.PriceID == nil || c.PriceAsOf == nil || *c.PriceAsOf != "2026-11-01" || c.Parser == nil {
			t.Fatalf("a cost without its price's date: %+v", c)
		}
		for _, f := range c.Flags {
			if f == "model_drift" {
				drifted++
			}
		}
	}
	if want := stats["a"].Faults["wrongmodel"] + stats["b"].Faults["wrongmodel"]; drifted != want || want == 0 {
		t.Errorf("%d answers are flagged as another model's, want %d", drifted, want)
	}
	if out := h.run(0, "show", "ledger").stdout(); !strings.Contains(out, "model_drift") || !strings.Contains(out, "brought no answer") {
		t.Errorf("show tells nothing of it:\n%s", out)
	}
	if out := h.run(0, "head", "ledger", "--table", "attempts", "--where", `outcome == "answered" && billable`, "-n", "1").stdout(); !strings.Contains(out, "estimated") {
		t.Errorf("head shows\n%s", out)
	}

	// Again, with the endpoint gone.
	s.p.kill()
	var again struct {
		Answers, Changed, Version int64
		Unchanged                 bool
	}
	decodeJSON(t, h.run(0, "reparse", "ledger", "--json").stdout(), &again)
	if !again.Unchanged || again.Changed != 0 || again.Version != 1 || again.Answers < 2*n {
		t.Errorf("reading again: %+v", again)
	}
}

// TestLedgerSurvivesKills kills the process in the middle of asking: no row is
// missing of an answer, or of a part of one, that had been here for a moment.
func TestLedgerSurvivesKills(t *testing.T) {
	t.Parallel() // it waits more than it works
	const n, kills = 400, 4
	s := startSim(t, "-models", "a,b", "-ttft", "20ms", "-chunk", "200", "-synthetic-tokens", "60", "-fault-attempts", "1", "-faults", `{"midreset":0.2}`)
	w := newWitness(t, s)
	h := newHouse(t)
	recipe := ledgerRecipe(t, t.TempDir(), w.url(), "killed", n)
	var lives []life
	for i := range kills {
		p := h.start("build", recipe, "--json", "--yes")
		from, _ := w.counts()
		eventually(t, commandLimit, "some requests more", func() bool {
			now, _ := w.counts()
			return now >= from+100 || !p.running()
		})
		if !p.running() {
			t.Fatalf("kill %d came too late", i+1)
		}
		at := time.Now()
		if err := syscall.Kill(p.cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-p.ended
		lives = append(lives, life{p.started, at})
	}
	h.build(recipe)
	stats, accounts := s.stats(), accountsOf(h, "killed")
	billed, whole, cut, told := 0, 0, 0, 0
	for _, model := range []string{"a", "b"} {
		a, st := accounts[model], stats[model]
		if a.answers != n {
			t.Errorf("%s: %d answers, want %d", model, a.answers, n)
		}
		billed, whole = billed+st.Completed, whole+a.answers+a.spares
		cut, told = cut+st.Faults["midreset"], told+a.charged
	}
	// At a kill, an answer may be in flight, or be here and not yet synced.
	late := 0
	for _, l := range lives {
		late += w.late(l, settled)
	}
	const flying = kills * 2 * 32
	if whole > billed || billed-whole > late+flying {
		t.Errorf("%d answers were billed and %d are told of; %d came just before a kill", billed, whole, late)
	}
	if told > cut || cut-told > flying {
		t.Errorf("%d answers were cut off and %d are told of", cut, told)
	}
	t.Logf("%d kills; %d answers were billed, %d are told of, %d came within %v of a kill; %d were cut off, %d of them are told of", kills, billed, whole, late, settled, cut, told)
}

// late counts the answers that were handed to a process less than some time
// before it was killed.
func (w *witness) late(l life, margin time.Duration) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, all := range w.asks {
		for _, r := range all {
			if l.sent(r) && r.done.After(l.kill.Add(-margin)) {
				n++
			}
		}
	}
	return n
}
