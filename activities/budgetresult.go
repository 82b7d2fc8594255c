package activities

import (
	"context"
	"fmt"

	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// A BudgetResult is how a build's budget stood when its tables were written.
type BudgetResult struct {
	LimitUSD float64 `json:"limit_usd"`
	SpentUSD float64 `json:"spent_usd" jsonschema:"description=of the budget: by this build and the earlier runs that it goes on from"`
	LostUSD  float64 `json:"lost_usd" jsonschema:"description=of what is spent: what was under way when a worker died and may have been charged"`
	LeftUSD  float64 `json:"left_usd"`
	// Month and Teachers are the other limits.
	Month    *BudgetLine  `json:"month,omitempty" jsonschema:"description=the budget of the calendar month"`
	Teachers []BudgetLine `json:"teachers,omitempty" jsonschema:"description=budgets of single teachers"`
	// Stopped are the teachers whose next ask a budget had no room for, and what
	// is missing of their answers.
	Stopped     []string `json:"stopped,omitempty" jsonschema:"description=teachers that stopped at a budget"`
	MissingAsks int64    `json:"missing_asks,omitempty" jsonschema:"description=asks of these teachers that were not answered"`
	MissingUSD  float64  `json:"missing_usd,omitempty" jsonschema:"description=about what they cost, at the mean cost of this build's answers"`
}

// A BudgetLine is one limit.
type BudgetLine struct {
	Teacher  string  `json:"teacher,omitempty"`
	LimitUSD float64 `json:"limit_usd"`
	SpentUSD float64 `json:"spent_usd"`
	LeftUSD  float64 `json:"left_usd"`
}

// budget reports how the build's budget stands; nil where it has none.
func (s *seal) budget(ctx context.Context) *BudgetResult {
	limits, limited := Limits(s.rt.recipe, s.in.BudgetMicros)
	if !limited {
		return nil
	}
	r := &BudgetResult{LimitUSD: dollarsOf(limits.Build), Stopped: s.overBudget()}
	s.budgetLines(ctx, r)
	for _, st := range s.in.Streams {
		if st.Stopped == nil || st.Stopped.Class != classBudget {
			continue
		}
		// Of a refresh and of a probe only the stream knows, and only the answers
		// tell how many samples they call for.
		missing := max(s.plan.asks(st.Teacher)-st.New-st.Reused, s.missing[st.Teacher])
		r.MissingAsks += missing
		if st.New > 0 {
			r.MissingUSD += dollarsOf(st.Spent/st.New) * float64(missing)
		}
		s.result.Stopped[st.Teacher] = fmt.Sprintf("%s: %d of its asks are missing; the budget has no room for the next", classBudget, missing)
	}
	return r
}

// overBudget are the teachers that stopped at a budget.
func (s *seal) overBudget() []string {
	var ids []string
	for _, st := range s.in.Streams {
		if st.Stopped != nil && st.Stopped.Class == classBudget {
			ids = append(ids, st.Teacher)
		}
	}
	return ids
}

// budgetLines asks the authority how the limits stand. Without its word the
// result says what the build itself knows.
func (s *seal) budgetLines(ctx context.Context, r *BudgetResult) {
	r.SpentUSD = s.result.CostUSD
	r.LeftUSD = max(r.LimitUSD-r.SpentUSD, 0)
	if s.a.Wallets == nil {
		return
	}
	book, ok := s.a.Wallets.Authority.(interface {
		Status(ctx context.Context, dataset string) (budget.Status, error)
	})
	if !ok {
		return
	}
	status, err := book.Status(ctx, s.in.Dataset)
	if err != nil {
		s.a.Log.Warn("how the budget stands is not known", "dataset", s.in.Dataset, "error", err)
		return
	}
	r.LostUSD = dollarsOf(status.Lost)
	for i := range status.Lines {
		l := &status.Lines[i]
		line := BudgetLine{Teacher: l.Teacher, LimitUSD: dollarsOf(l.Limit), SpentUSD: dollarsOf(l.Spent + l.Held), LeftUSD: dollarsOf(l.Left())}
		switch l.Kind {
		case budget.LineMonth:
			r.Month = &line
		case budget.LineTeacher:
			r.Teachers = append(r.Teachers, line)
		default:
			r.LimitUSD, r.SpentUSD, r.LeftUSD = line.LimitUSD, line.SpentUSD, line.LeftUSD
		}
	}
}

func dollarsOf(micros int64) float64 { return float64(micros) / microsPerUSD }

// Status tells how a dataset's budget stands.
func (b *BudgetAuthority) Status(ctx context.Context, dataset string) (budget.Status, error) {
	var status budget.Status
	value, err := b.Client.QueryWorkflow(ctx, wire.BudgetWorkflowID(dataset), "", wire.QueryBudget)
	if err == nil {
		err = value.Get(&status)
	}
	if err != nil {
		return budget.Status{}, fmt.Errorf("ask how the budget of %s stands: %w", dataset, err)
	}
	return status, nil
}
