package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// giveBackLimit bounds how long a stopping worker of a cluster waits for the
// authority of its budgets: what it does not give back it finds again.
const giveBackLimit = 2 * time.Second

// A budgetFlag is --budget.
type budgetFlag struct{ micros int64 }

// String implements pflag.Value.
func (f *budgetFlag) String() string {
	if f.micros == 0 {
		return ""
	}
	return strings.TrimPrefix(budget.Dollars(f.micros), "$")
}

// Type implements pflag.Value: the word that the help shows.
func (f *budgetFlag) Type() string { return "USD" }

// Set implements pflag.Value.
func (f *budgetFlag) Set(text string) error {
	usd, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64)
	if err != nil || !(usd <= budget.MaxUSD) {
		return fmt.Errorf("want US dollars, such as 250 or 0.50")
	}
	if f.micros = budget.Micros(usd); f.micros <= 0 {
		return fmt.Errorf("want more than 0; stillhouse plan says what a build would cost and asks nothing")
	}
	return nil
}

// check makes sure that the budget can be kept. That of the recipe has been
// checked with the recipe.
func (f *budgetFlag) check(r *recipe.Recipe) error {
	if f.micros == 0 {
		return nil
	}
	return activities.CheckBudget(r)
}

// limits tells whether a build of the recipe has a budget.
func (f *budgetFlag) limits(r *recipe.Recipe) bool {
	_, limited := activities.Limits(r, f.micros)
	return limited
}

// rebudget gives a build that runs already the budget of this command.
func (s *session) rebudget(ctx context.Context, r *run, micros int64) error {
	if micros == 0 || micros == r.BudgetMicros {
		return nil
	}
	if err := s.update(ctx, r, wire.UpdateBudget, wire.BudgetRequest{Micros: micros}); err != nil {
		return fmt.Errorf("it runs under another budget, which could not be changed: %w", err)
	}
	r.BudgetMicros = micros
	s.app.say("its budget is %s now", budget.Dollars(micros))
	return nil
}

// addBudget asks how a build's budget stands. Without an answer nothing is
// shown.
func (s *session) addBudget(ctx context.Context, p *wire.Progress) {
	status, err := (&activities.BudgetAuthority{Client: s.temporal}).Status(ctx, p.Dataset)
	if err == nil && status.Open {
		p.Budget = &status
	}
}

// closeWallets ends the wallets. On a server of the user's they first give back
// what they have on loan; embedded services end with their one worker, which
// finds its loans again.
func (w *workers) closeWallets(ctx context.Context) {
	if w.session.remote {
		ctx, cancel := context.WithTimeout(ctx, giveBackLimit)
		defer cancel()
		if err := w.wallets.GiveBack(ctx); err != nil {
			w.log.Info("a budget's loan was kept; the next start of this worker goes on with it", "error", err)
		}
	}
	if err := w.wallets.Close(); err != nil {
		w.log.Warn("a wallet was not closed; what it has on loan may count as spent", "error", err)
	}
}

// budgetLine is how a budget stands, in a line of progress.
func budgetLine(s *budget.Status) string {
	if s == nil || len(s.Lines) == 0 {
		return ""
	}
	var parts []string
	for i := range s.Lines {
		l := &s.Lines[i]
		if i > 0 && l.Left() > s.Lines[0].Left() {
			continue // the build's own limit comes first
		}
		name := "budget"
		switch l.Kind {
		case budget.LineMonth:
			name = "month"
		case budget.LineTeacher:
			name = "budget of " + printable(l.Teacher)
		}
		parts = append(parts, fmt.Sprintf("%s %s: %s spent, %s reserved, %s left", name,
			budget.Dollars(l.Limit), budget.Dollars(l.Spent), budget.Dollars(l.Held), budget.Dollars(l.Left())))
	}
	return strings.Join(parts, "; ")
}

// stoppedAs says why a teacher asks no more.
func stoppedAs(f *wire.TeacherFailed) string {
	if f.Class == wire.StoppedBudget {
		return "stopped at the budget"
	}
	return "given up: " + printable(f.Class)
}

// stoppedCode is the exit code of a build in which so many teachers stopped, and
// so many of them at a budget.
func stoppedCode(stopped, atBudget int) int {
	var codes []int
	if atBudget > 0 {
		codes = append(codes, exitBudget)
	}
	if stopped > atBudget {
		codes = append(codes, exitTeacher)
	}
	return worstOf(codes...)
}

// budgetNote says how the budget stood in the end.
func budgetNote(b *activities.BudgetResult) string {
	text := fmt.Sprintf("budget %s: %s spent, %s left", dollars(b.LimitUSD), dollars(b.SpentUSD), dollars(b.LeftUSD))
	if b.LostUSD > 0 {
		text += fmt.Sprintf("; %s of it was under way when a worker died and counts as spent", dollars(b.LostUSD))
	}
	if m := b.Month; m != nil {
		text += fmt.Sprintf("; this month %s of %s", dollars(m.SpentUSD), dollars(m.LimitUSD))
	}
	return text
}

// overBudget says what is missing where a budget ended a build, and what more
// money would buy.
func overBudget(r *activities.BuildResult) string {
	b := r.Budget
	text := fmt.Sprintf("stopped at the budget: %s asks are missing of teacher %s", grouped(b.MissingAsks), strings.Join(b.Stopped, ", "))
	if b.MissingUSD > 0 {
		text += fmt.Sprintf("; about $%.2f more would buy them", max(b.MissingUSD, 0.01))
	}
	return text + "; run it again with a larger --budget (it counts what is spent already): only what is missing is asked"
}

func dollars(usd float64) string { return budget.Dollars(int64(usd*1e6 + 0.5)) }

// planBudget is what plan says of a budget.
type planBudget struct {
	LimitUSD   float64 `json:"limit_usd"`
	MonthUSD   float64 `json:"month_usd,omitempty"`
	MostUSD    float64 `json:"most_usd"`        // worst case of what is missing, as it is reserved
	LargestUSD float64 `json:"largest_ask_usd"` // worst case of the most expensive ask
	Fits       bool    `json:"fits"`            // the worst case fits: the build cannot stop at the budget

	compares bool // what would run is a comparison, which publishes nothing
}

// addBudget compares the plan with the recipe's budget.
func (p *planReport) addBudget(r *recipe.Recipe, c *activities.Counter) {
	limits, limited := activities.Limits(r, 0)
	if !limited {
		return
	}
	var most, largest int64
	fits := true
	for i := range r.Teachers {
		t := c.Teachers[r.Teachers[i].ID]
		most += t.MostMicros
		largest = max(largest, t.LargestMicros)
		if limit, own := limits.Teacher(r.Teachers[i].ID); own && t.MostMicros > limit {
			fits = false
		}
	}
	b := &planBudget{LimitUSD: float64(limits.Build) / 1e6, MostUSD: float64(most) / 1e6, LargestUSD: float64(largest) / 1e6}
	b.Fits = fits && most <= limits.Build
	if limits.Month != nil {
		b.MonthUSD = float64(*limits.Month) / 1e6
		b.Fits = b.Fits && most <= *limits.Month
	}
	p.Budget = b
}

// print says whether the budget will do.
func (b *planBudget) print(w io.Writer, expected float64) {
	fmt.Fprintf(w, "Budget %s", dollars(b.LimitUSD))
	if b.MonthUSD > 0 {
		fmt.Fprintf(w, ", %s a month", dollars(b.MonthUSD))
	}
	what, then := "build", "publish"
	if b.compares {
		what, then = "comparison", "compare"
	}
	switch {
	case b.Fits:
		fmt.Fprintf(w, ": holds even the worst case of %s.\n", dollars(b.MostUSD))
	case expected <= b.LimitUSD:
		fmt.Fprintf(w, ": holds the expected %s, not the worst case of %s; a %s that reaches it will stop there and %s what it has.\n", dollars(expected), dollars(b.MostUSD), what, then)
	default:
		fmt.Fprintf(w, ": less than the expected %s; the %s will stop there and %s what it has. Worst case: %s.\n", dollars(expected), what, then, dollars(b.MostUSD))
	}
	if b.LargestUSD > b.LimitUSD/20 && b.LargestUSD > 0 {
		fmt.Fprintf(w, "Note: one ask can cost %s, and that much is reserved while it is under way: few fit at once. A lower token cap under params makes room.\n", dollars(b.LargestUSD))
	}
}
