package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wallet"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// classBudget is the stop of a teacher whose next ask the budget has no room
// for.
const classBudget = teachers.ClassBudget

// Limits are what a build of the recipe may spend, and whether anything limits
// it: override, in micro-dollars, stands for ask.budget.usd where it is not 0.
func Limits(r *recipe.Recipe, override int64) (limits budget.Limits, limited bool) {
	b := r.Ask.Budget
	if b == nil && override == 0 {
		return budget.Limits{}, false
	}
	if b != nil {
		limits.Build = budget.Micros(b.USD)
		for id, usd := range b.Teachers {
			limits.Teachers = append(limits.Teachers, budget.TeacherLimit{Teacher: id, Micros: budget.Micros(usd)})
		}
		if b.Month != nil {
			month := budget.Micros(*b.Month)
			limits.Month = &month
		}
	}
	if override != 0 {
		limits.Build = override
	}
	limits.Sort()
	return limits, true
}

// CheckBudget makes sure that a budget can be kept: every teacher that may cost
// money has a price and a token cap, since without them nobody knows what an ask
// can cost. The error is a *[recipe.Error] at the place.
func CheckBudget(r *recipe.Recipe) error {
	rt, err := newRuntime(r, &Sources{})
	if err != nil {
		return err
	}
	for i := range r.Teachers {
		spec, at := &r.Teachers[i], fmt.Sprintf("teachers[%d]", i)
		t := rt.teachers[spec.ID]
		switch {
		case spec.API == recipe.APIRecorded:
			continue
		case t.price == nil && spec.OnLoopback():
			continue
		case t.price == nil:
			return r.ErrorAt(at+".price", fmt.Sprintf("teacher %q has no price, so its part of the budget cannot be kept", spec.ID),
				"add price: {input: …, output: …} in US dollars per million tokens (0 where it costs nothing), or build without a budget")
		}
		for _, effort := range effortsOf(r, spec) {
			if err := t.capped(effort); err != nil {
				return r.ErrorAt(at+".params", err.Error(), "")
			}
		}
	}
	return nil
}

// capped makes sure that what is asked at an effort has a token cap.
func (t *teacher) capped(effort string) error {
	b, err := t.builder(effort)
	if err != nil {
		return err
	}
	text := "?"
	r, err := b.Request(&chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: &text}}}, 0)
	if err != nil {
		return invalidRecipe("teacher %s at effort %s: %v", t.spec.ID, effort, err)
	}
	if t.price != nil && r.Cap <= 0 {
		return invalidRecipe("teacher %s has no token cap at effort %s, so what an ask can cost has no bound and the budget cannot be kept; add max_completion_tokens (or max_tokens, where the endpoint calls it so) to its params, or build without a budget",
			t.spec.ID, effort)
	}
	return nil
}

// checkCaps holds a plan to what CheckBudget holds a recipe to: a column may
// hold efforts that the recipe does not name.
func (rt *runtime) checkCaps(plan *Plan) error {
	for _, c := range plan.Cells {
		for _, id := range slices.Concat(c.Teachers, c.Fallback) {
			if t := rt.teachers[id]; t.config != nil && t.price != nil {
				if err := t.capped(c.Effort); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// opening is how a build is announced to its budget's authority.
func opening(ref wire.BuildRef, limits budget.Limits) budget.Open {
	job := wire.BuildWorkflowID(ref.Dataset, ref.RecipeDigest, ref.SourcesDigest)
	if ref.Preview > 0 {
		job = wire.PreviewWorkflowID(ref.Dataset, ref.BuildID)
	}
	return budget.Open{Job: job, Build: ref.BuildID, Limits: limits, Anew: ref.Scheduled}
}

// errNoWallet is a worker that was put together without one.
var errNoWallet = errors.New("this worker cannot keep budgets")

// openBudget announces the build to the authority of its budget, and tells
// whether it has one.
func (a *Activities) openBudget(ctx context.Context, ref wire.BuildRef, rt *runtime, plan *Plan) (bool, error) {
	limits, limited := Limits(rt.recipe, ref.BudgetMicros)
	if !limited {
		return false, nil
	}
	if err := rt.checkCaps(plan); err != nil {
		return false, err
	}
	if a.Wallets == nil {
		return false, errNoWallet
	}
	return true, a.Wallets.Authority.Open(ctx, ref.Dataset, opening(ref, limits))
}

// OpenBudget tells the authority of a budget that was changed while its build
// runs.
func (a *Activities) OpenBudget(ctx context.Context, ref wire.BuildRef) error {
	rt, err := a.runtime(ctx, ref)
	if err != nil {
		return final(err)
	}
	if err := CheckBudget(rt.recipe); err != nil {
		return final(err)
	}
	limits, limited := Limits(rt.recipe, ref.BudgetMicros)
	if !limited {
		return nil
	}
	if a.Wallets == nil {
		return errNoWallet
	}
	return a.Wallets.Authority.Open(ctx, ref.Dataset, opening(ref, limits))
}

// purse is what a build pays one of its teachers from, for as long as done is
// not called: nil where nothing limits what it spends. Asks, batches, judges and
// scorers of a build all pay from it.
func (a *Activities) purse(ref wire.BuildRef, rt *runtime, teacherID string) (purse teachers.Purse, done func(), err error) {
	limits, limited := Limits(rt.recipe, ref.BudgetMicros)
	if !limited {
		return nil, func() {}, nil
	}
	if a.Wallets == nil {
		return nil, nil, errNoWallet
	}
	use, err := a.Wallets.Use(ref.Dataset, opening(ref, limits))
	if err != nil {
		return nil, nil, err
	}
	p, err := use.Purse(teacherID)
	if err != nil {
		use.Done()
		return nil, nil, err
	}
	return p, use.Done, nil
}

// overBudget gives a teacher up whose next ask the budget has no room for. What
// is under way still arrives.
func (h *health) overBudget(e *teachers.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped == nil {
		h.stopped = &wire.TeacherFailed{Class: classBudget, Text: bounded(e.Error())}
		close(h.gone)
	}
}

// BudgetAuthority reaches the authorities of budgets, which are workflows.
type BudgetAuthority struct{ Client client.Client }

var _ wallet.Authority = (*BudgetAuthority)(nil)

// Open implements [wallet.Authority].
func (b *BudgetAuthority) Open(ctx context.Context, dataset string, o budget.Open) error {
	return b.update(ctx, dataset, wire.UpdateBudgetOpen, o, nil)
}

// Lease implements [wallet.Authority].
func (b *BudgetAuthority) Lease(ctx context.Context, dataset string, r budget.Request) (budget.Reply, error) {
	var reply budget.Reply
	err := b.update(ctx, dataset, wire.UpdateBudgetLease, r, &reply)
	return reply, err
}

// update calls the authority, and starts it where it does not run.
func (b *BudgetAuthority) update(ctx context.Context, dataset, name string, in, out any) error {
	id := wire.BudgetWorkflowID(dataset)
	start := b.Client.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: id, TaskQueue: wire.QueuePipeline,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, wire.WorkflowBudget, wire.BudgetInput{Dataset: dataset})
	handle, err := b.Client.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{
			WorkflowID: id, UpdateName: name, Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	})
	if err == nil {
		err = handle.Get(ctx, out)
	}
	if err != nil {
		return fmt.Errorf("%s the budget of %s: %w", name, dataset, err)
	}
	return nil
}
