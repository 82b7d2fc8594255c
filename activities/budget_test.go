package activities

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/wallet"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// A desk is the authority of one dataset's budget, in this process.
type desk struct {
	mu   sync.Mutex
	book budget.Book
}

func (d *desk) Open(_ context.Context, _ string, o budget.Open) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.book.Open(time.Now(), o)
	return nil
}

func (d *desk) Lease(_ context.Context, _ string, r budget.Request) (budget.Reply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.book.Lease(time.Now(), r), nil
}

func (d *desk) Status(context.Context, string) (budget.Status, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.book.Status(), nil
}

// withBudgets lets the world's worker keep budgets.
func (w *world) withBudgets() *desk {
	w.t.Helper()
	d := &desk{}
	w.a.Wallets = &wallet.Wallets{Dir: w.t.TempDir(), Worker: "w", Authority: d}
	w.t.Cleanup(func() {
		if err := w.a.Wallets.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return d
}

func (w *world) givesBack() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.a.Wallets.GiveBack(ctx); err != nil {
		w.t.Fatal(err)
	}
}

func TestAskStopsAtTheBudget(t *testing.T) {
	t.Parallel() // it waits more than it works
	var mu sync.Mutex
	billed := int64(0)
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		mu.Lock()
		defer mu.Unlock()
		billed += 1000*(int64(len(r.Prompt)+3)/4+4) + 2000
		return teacherstest.Reply{Content: "42"}
	})
	w := newWorld(t)
	d := w.withBudgets()
	w.file("p.jsonl", sums(200))
	// A dollar for each thousand tokens in, two for each thousand out: an ask
	// costs 8,000 micro-dollars and can cost some 200,000.
	const teacher = ", params: {max_tokens: 10}, price: {input: 1000, output: 2000}"
	r := w.start(askRecipe("a", server.URL, teacher) + "ask: {budget: {usd: 1.5}}\n")
	if !r.plan.Budget {
		t.Error("the plan does not know of the budget")
	}
	got := r.ask()
	stopped := got.reports["t"].Stopped
	if stopped == nil || stopped.Class != wire.StoppedBudget {
		t.Fatalf("stopped %+v after %+v", stopped, got.counts["t"])
	}
	if billed > 1_500_000 || billed < 1_200_000 {
		t.Errorf("billed %d of 1,500,000", billed)
	}
	w.givesBack()
	got.reports["t"].New, got.reports["t"].Spent = got.counts["t"].New, got.counts["t"].CostMicros
	r.refine()
	out, result := r.seal()
	b := result.Budget
	if b == nil || b.LimitUSD != 1.5 || b.SpentUSD != dollarsOf(billed) || b.MissingAsks != 200-got.counts["t"].New || b.MissingUSD < 0.007*float64(b.MissingAsks) || cmp.Diff(b.Stopped, []string{"t"}) != "" {
		t.Errorf("%+v", b)
	}
	if out.Version != 0 && result.Accepted == 0 || !strings.Contains(result.Stopped["t"], "budget") {
		t.Errorf("version %d, %d accepted, %v", out.Version, result.Accepted, result.Stopped)
	}

	// The same budget again asks nothing; a larger one asks the rest.
	sent := server.Stats().Completed
	w.start(askRecipe("a", server.URL, teacher) + "ask: {budget: {usd: 1.5}}\n").ask()
	if n := server.Stats().Completed; n != sent {
		t.Errorf("%d more asks under a budget that is spent", n-sent)
	}
	again := w.submit(askRecipe("a", server.URL, teacher) + "ask: {budget: {usd: 1.5}}\n")
	again.BudgetMicros = 9_000_000
	rest := &run{w: w, ref: again, started: time.Now(), reports: map[string]*wire.StreamSummary{}, counts: map[string]wire.AskCounts{}}
	rest.plan = must[wire.PlanOutput](w, wire.ActivityPlan, again)
	if c := rest.ask().counts["t"]; c.New != 200-int64(sent) || c.Reused != int64(sent) || server.Stats().PaidTwice != 0 {
		t.Errorf("%+v", c)
	}
	w.givesBack()
	if l := d.book.Lines()[0]; l.Limit != 9_000_000 || l.Spent != billed || l.Held != 0 {
		t.Errorf("the book says %+v, billed %d", l, billed)
	}
}

// A teacher whose own budget is spent stops; the others go on.
func TestATeachersBudgetStopsIt(t *testing.T) {
	t.Parallel() // it waits more than it works
	server := teacherstest.New(t, answers42)
	w := newWorld(t)
	w.withBudgets()
	w.file("p.jsonl", sums(60))
	const price = "params: {max_tokens: 10}, price: {input: 1000, output: 2000}"
	r := w.start("name: two\nprompts: [{path: p.jsonl, fields: {prompt: question}}]\nteachers:\n" +
		"  - {id: a, model: a, base_url: " + server.URL + ", " + price + "}\n  - {id: b, model: b, base_url: " + server.URL + ", " + price + "}\n" +
		"ask: {route: all, budget: {usd: 50, teachers: {a: 0.3}}}\n").ask()
	if s := r.reports["a"].Stopped; s == nil || s.Class != wire.StoppedBudget {
		t.Errorf("a: %+v", s)
	}
	if s := r.reports["b"].Stopped; s != nil || r.counts["b"].New != 60 {
		t.Errorf("b: %+v %+v", s, r.counts["b"])
	}
}

func TestABudgetThatCannotBeKeptIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name, teacher, efforts, want string
	}{
		{"kept", "base_url: https://api.example.com/v1, params: {max_tokens: 5}, price: {input: 1, output: 1}", "", ""},
		{"free on this machine", "base_url: http://127.0.0.1:9/v1", "", ""},
		{"unpriced", "base_url: https://api.example.com/v1, params: {max_tokens: 5}", "", `recipe.yaml:3:12: teachers[0].price: teacher "t" has no price`},
		{"no cap", "base_url: http://127.0.0.1:9/v1, price: {input: 1, output: 1}", "", "recipe.yaml:3:12: teachers[0].params: teacher t has no token cap at effort default"},
		{"no cap at an effort", "base_url: http://127.0.0.1:9/v1, price: {input: 1, output: 1}, params: {max_tokens: 5}, params_by: {effort: {max: {max_tokens: null}}}", ", efforts: [max]", "no token cap at effort max"},
	} {
		r := parsed(t, "name: a\nprompts: [{path: p.jsonl"+tc.efforts+"}]\nteachers: [{id: t, model: m, "+tc.teacher+"}]\n")
		err := CheckBudget(r)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// A column may hold an effort that the recipe does not name, and that drops the
// cap: it is refused when the build is planned, before anything is paid for.
func TestABudgetThatCannotBeKeptAtAnEffortOfAColumn(t *testing.T) {
	server := teacherstest.New(t, answers42)
	w := newWorld(t)
	w.withBudgets()
	w.file("p.jsonl", `{"question":"1+1=","effort":"low"}`+"\n")
	ref := w.submit("name: a\nprompts: [{path: p.jsonl, fields: {prompt: question, effort: effort}}]\n" +
		"teachers: [{id: t, model: m, base_url: " + server.URL + ", price: {input: 1, output: 1}}]\n")
	ref.BudgetMicros = 1000
	_, err := call[wire.PlanOutput](w, wire.ActivityPlan, ref)
	if err == nil || !strings.Contains(err.Error(), "no token cap at effort low") {
		t.Errorf("%v", err)
	}
}

func TestLimits(t *testing.T) {
	month := int64(2_000_000)
	r := parsed(t, "name: a\nprompts: [{path: p.jsonl}]\nteachers: [{id: b, model: m, base_url: http://127.0.0.1:9/v1}, {id: a, model: m, base_url: http://127.0.0.1:9/v1}]\n"+
		"ask: {budget: {usd: 0.29, teachers: {b: 0.1, a: 0.2}, month: 2}}\n")
	got, limited := Limits(r, 0)
	want := budget.Limits{Build: 290_000, Month: &month, Teachers: []budget.TeacherLimit{{Teacher: "a", Micros: 200_000}, {Teacher: "b", Micros: 100_000}}}
	if d := cmp.Diff(want, got); d != "" || !limited {
		t.Error(d)
	}
	if got, _ := Limits(r, 5); got.Build != 5 || got.Month == nil {
		t.Errorf("with --budget: %+v", got)
	}
	r.Ask.Budget = nil
	if _, limited := Limits(r, 0); limited {
		t.Error("nothing limits it, and it is limited")
	}
}
