package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

func TestBudgetFlag(t *testing.T) {
	for text, want := range map[string]int64{"250": 250_000_000, "0.50": 500_000, "$1": 1_000_000, "1e-6": 1} {
		var f budgetFlag
		if err := f.Set(text); err != nil || f.micros != want {
			t.Errorf("--budget %s: %d, %v", text, f.micros, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "much", "NaN", "Inf", "1e12", "0.0000001", "1,50"} {
		if err := new(budgetFlag).Set(text); err == nil || !strings.HasPrefix(err.Error(), "want ") {
			t.Errorf("--budget %q: %v", text, err)
		}
	}
	if f := (budgetFlag{micros: 1_500_000}); f.String() != "1.50" || new(budgetFlag).String() != "" {
		t.Errorf("it shows as %q", f.String())
	}
}

func TestTheCodeOfABuildThatStoppedAtItsBudget(t *testing.T) {
	over := &activities.BudgetResult{Stopped: []string{"a"}}
	for _, tc := range []struct {
		name string
		r    activities.BuildResult
		want int
	}{
		{"budget", activities.BuildResult{Accepted: 1, Stopped: map[string]string{"a": "budget"}, Budget: over}, exitBudget},
		{"budget and a key", activities.BuildResult{Accepted: 1, Stopped: map[string]string{"a": "budget", "b": "auth"}, Budget: over}, exitBudget},
		{"a key under a budget", activities.BuildResult{Accepted: 1, Stopped: map[string]string{"b": "auth"}, Budget: &activities.BudgetResult{}}, exitTeacher},
		{"a gate first", activities.BuildResult{Accepted: 1, Gates: []string{"min_rows"}, Stopped: map[string]string{"a": "budget"}, Budget: over}, exitGate},
		{"nothing was accepted", activities.BuildResult{Gates: []string{"no answer"}, Stopped: map[string]string{"a": "budget"}, Budget: over}, exitBudget},
		{"within it", activities.BuildResult{Accepted: 1, Budget: &activities.BudgetResult{}}, exitDone},
	} {
		if got := exitCode(outcome(&tc.r)); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestABuildSaysWhatMoreMoneyBuys(t *testing.T) {
	r := &activities.BuildResult{
		Dataset: "d", Accepted: 5, AnswersNew: 10, Asks: 40, Rows: map[string]int64{"train": 5},
		Stopped: map[string]string{"a": "budget: 20 of its asks are missing", "b": "auth: no key"},
		Budget: &activities.BudgetResult{
			LimitUSD: 1, SpentUSD: 0.9987, LostUSD: 0.02, LeftUSD: 0.0013, Stopped: []string{"a"}, MissingAsks: 20, MissingUSD: 0.4,
			Month: &activities.BudgetLine{LimitUSD: 30, SpentUSD: 12.5},
		},
	}
	var b bytes.Buffer
	summarize(&b, r, "")
	for _, want := range []string{
		"budget $1.00: $0.9987 spent, $0.0013 left; $0.02 of it was under way when a worker died and counts as spent; this month $12.50 of $30.00",
		"stopped at the budget: 20 asks are missing of teacher a; about $0.40 more would buy them; run it again with a larger --budget",
		"teacher b was given up: auth: no key",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "teacher a was given up") {
		t.Errorf("a budget is told as a teacher's fault:\n%s", b.String())
	}
}

func TestProgressShowsTheBudget(t *testing.T) {
	v := &progressView{now: time.Now}
	p := &wire.Progress{
		Phase: wire.PhaseAsk, Started: time.Now(), Limited: true,
		Teachers: []wire.TeacherStatus{
			{ID: "a", Total: 10, Waiting: "waits: budget: $0.10 left of $1.00, $0.05 under way"},
			{ID: "b", Total: 10, Done: true, Stopped: &wire.TeacherFailed{Class: wire.StoppedBudget}},
		},
		Budget: &budget.Status{Open: true, Lines: []budget.Line{
			{Kind: budget.LineBuild, Limit: 1_000_000, Spent: 850_000, Held: 50_000},
			{Kind: budget.LineMonth, Limit: 9_000_000, Spent: 8_990_000},
			{Kind: budget.LineTeacher, Teacher: "a", Limit: 5_000_000},
		}},
	}
	v.remember(time.Now(), p)
	text := strings.Join(v.lines(p), "\n")
	for _, want := range []string{
		"budget $1.00: $0.85 spent, $0.05 reserved, $0.10 left; month $9.00: $8.99 spent",
		"waits: budget: $0.10 left of $1.00", "stopped at the budget",
	} {
		if !strings.Contains(text, want) || !strings.Contains(v.plain(p), want) {
			t.Errorf("progress does not say %q:\n%s\n%s", want, text, v.plain(p))
		}
	}
	if strings.Contains(text, "budget of a") {
		t.Errorf("a limit that is far away is shown:\n%s", text)
	}
}

func TestPlanSetsTheWorstCaseAgainstTheBudget(t *testing.T) {
	r, err := recipe.Parse("r.yaml", []byte(`name: a
prompts: [{path: p.jsonl}]
teachers:
  - {id: a, model: m, base_url: 'http://127.0.0.1:9/v1', params: {max_tokens: 5}, price: {input: 1, output: 1}}
  - {id: b, model: m, base_url: 'http://127.0.0.1:9/v1', params: {max_tokens: 5}, price: {input: 1, output: 1}}
ask: {budget: {usd: 2, teachers: {b: 1}, month: 10}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		a, b     int64
		expected float64
		fits     bool
		want     string
	}{
		{500_000, 900_000, 0.5, true, "Budget $2.00, $10.00 a month: holds even the worst case of $1.40."},
		{500_000, 1_100_000, 0.5, false, "holds the expected $0.50, not the worst case of $1.60"},
		{1_500_000, 900_000, 0.5, false, "holds the expected $0.50, not the worst case of $2.40"},
		{9_000_000, 900_000, 3, false, "less than the expected $3.00; the build will stop there and publish what it has. Worst case: $9.90."},
	} {
		p := &planReport{}
		p.addBudget(r, &activities.Counter{Teachers: map[string]activities.TeacherCount{
			"a": {MostMicros: tc.a, LargestMicros: 150_000}, "b": {MostMicros: tc.b, LargestMicros: 10},
		}})
		var out bytes.Buffer
		p.Budget.print(&out, tc.expected)
		if p.Budget.Fits != tc.fits || !strings.Contains(out.String(), tc.want) || !strings.Contains(out.String(), "one ask can cost $0.15") {
			t.Errorf("%+v says\n%s\nwant %q", p.Budget, out.String(), tc.want)
		}
		out.Reset()
		p.Budget.compares = true
		if p.Budget.print(&out, tc.expected); strings.Contains(out.String(), "publish") {
			t.Errorf("a comparison publishes nothing: %s", out.String())
		}
	}
	p := &planReport{}
	r.Ask.Budget = nil
	if p.addBudget(r, &activities.Counter{}); p.Budget != nil {
		t.Errorf("a recipe without a budget has %+v", p.Budget)
	}
}
