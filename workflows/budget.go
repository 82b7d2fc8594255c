package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// budgetEvery bounds the requests of one run, at five events each.
const budgetEvery = 500

// Budget is the one authority over what the builds of a dataset may spend. It
// keeps a book of what is spent and what is on loan to whom (package budget);
// workers borrow from it, and what is on loan counts as spent until they say
// otherwise. It does not end: the book of a month outlives its builds.
func Budget(ctx workflow.Context, in wire.BudgetInput) error {
	k := &bookkeeper{book: in.Book}
	if err := k.setup(ctx); err != nil {
		return err
	}
	return k.run(ctx, in.Dataset)
}

// bookkeeper is the state of one run of the Budget workflow.
type bookkeeper struct {
	book   budget.Book
	served int
}

func (k *bookkeeper) setup(ctx workflow.Context) error {
	if err := workflow.SetQueryHandler(ctx, wire.QueryBudget, func() (budget.Status, error) {
		return k.book.Status(), nil
	}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandler(ctx, wire.UpdateBudgetOpen, func(ctx workflow.Context, o budget.Open) error {
		k.served++
		k.book.Open(workflow.Now(ctx), o)
		return nil
	}); err != nil {
		return err
	}
	return workflow.SetUpdateHandler(ctx, wire.UpdateBudgetLease, func(ctx workflow.Context, r budget.Request) (budget.Reply, error) {
		k.served++
		return k.book.Lease(workflow.Now(ctx), r), nil
	})
}

func (k *bookkeeper) run(ctx workflow.Context, dataset string) error {
	closes := workflow.GetSignalChannel(ctx, wire.SignalBudgetClose)
	for {
		full := func() bool { return k.full(ctx) && workflow.AllHandlersFinished(ctx) }
		if err := workflow.Await(ctx, func() bool { return closes.Len() > 0 || full() }); err != nil {
			return err
		}
		var c budget.Close
		for closes.ReceiveAsync(&c) {
			k.served++
			k.book.Close(workflow.Now(ctx), c)
			c = budget.Close{}
		}
		if full() {
			return workflow.NewContinueAsNewError(ctx, wire.WorkflowBudget, wire.BudgetInput{Dataset: dataset, Book: k.book})
		}
	}
}

func (k *bookkeeper) full(ctx workflow.Context) bool {
	return k.served >= budgetEvery || workflow.GetInfo(ctx).GetContinueAsNewSuggested()
}

// closeBudget tells the authority that the build has ended. A build without a
// budget has none.
func (b *build) closeBudget(ctx workflow.Context, complete bool) {
	if !b.plan.Budget {
		return
	}
	err := workflow.SignalExternalWorkflow(ctx, wire.BudgetWorkflowID(b.in.Dataset), "", wire.SignalBudgetClose, budget.Close{
		Job: workflow.GetInfo(ctx).WorkflowExecution.ID, Build: b.in.BuildID, Complete: complete,
	}).Get(ctx, nil)
	if err != nil {
		workflow.GetLogger(ctx).Warn("the budget was not told that the build has ended", "build", b.in.BuildID, "error", err)
	}
}

// complete tells whether the build ended within its budget, so that the budget's
// account ends with it. After one that stopped there the next run goes on with
// the account, and so does the build that follows a preview.
func (b *build) complete() bool {
	for _, id := range b.order {
		if f := b.streams[id].Stopped; f != nil && f.Class == wire.StoppedBudget {
			return false
		}
	}
	for i := range b.judges.reports {
		if f := b.judges.reports[i].Stopped; f != nil && f.Class == wire.StoppedBudget {
			return false
		}
	}
	return b.in.Preview == 0
}

func (b *build) checkBudget(r wire.BudgetRequest) error {
	if r.Micros <= 0 {
		return fmt.Errorf("a budget of %s: want more than 0", budget.Dollars(r.Micros))
	}
	if b.phase != wire.PhasePlan {
		return b.checkAsking()
	}
	return nil
}

func (b *build) checkAsking() error {
	if b.phase != wire.PhaseAsk {
		return fmt.Errorf("the build asks no teacher any more (phase %s): set the budget when you run it again", b.phase)
	}
	return nil
}

// setBudget changes what the running build may spend. The authority knows it
// before any stream does. A plan that is being made opens the old one, so it is
// waited for.
func (b *build) setBudget(ctx workflow.Context, r wire.BudgetRequest) error {
	if err := workflow.Await(ctx, func() bool { return b.phase != wire.PhasePlan }); err != nil {
		return err
	}
	if err := b.checkAsking(); err != nil {
		return err
	}
	ref := b.in.BuildRef
	ref.BudgetMicros = r.Micros
	if err := workflow.ExecuteActivity(pipelineOptions(ctx), wire.ActivityBudget, ref).Get(ctx, nil); err != nil {
		return err
	}
	unlimited := b.in.BudgetMicros == 0
	b.in.BudgetMicros, b.plan.Budget = r.Micros, true
	if unlimited && !b.paused {
		// Rounds that know of no limit are begun again under it, as a stream's
		// batches are.
		b.interruptJudging()
	}
	return b.control(ctx, "", wire.Control{Paused: b.paused, BudgetMicros: r.Micros})
}

// spend changes the limit of a stream's batches. Those in flight that know of
// none send nothing more, keep what is under way, and are begun again under it.
func (s *stream) spend(ctx workflow.Context, micros int64) {
	if s.in.BudgetMicros == 0 && !s.paused && s.halt != nil {
		s.halt()
		s.batches, s.halt = workflow.WithCancel(ctx)
	}
	s.in.BudgetMicros = micros
}
