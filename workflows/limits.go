package workflows

import (
	"fmt"
	"math"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

const (
	// limitsEvery bounds the leases of one run, at five events each.
	limitsEvery = 500
	// limitsIdle is how often an authority looks whether anybody needs it.
	limitsIdle = 90 * time.Second
)

// EndpointLimits is the one authority over the limits of a model at an endpoint:
// workers lease slices of its concurrency, requests and tokens a minute, and the
// sum of what they may use never passes what is declared, whatever gets lost
// between them. Where builds declare different limits the lowest hold while they
// run. It ends by itself when nobody holds a lease.
func EndpointLimits(ctx workflow.Context, in wire.LimitsInput) error {
	a := &authority{in: in}
	if a.in.Seq == 0 {
		a.in.Seq = workflow.Now(ctx).UnixMilli() // above all of an authority before
	}
	if err := workflow.SetQueryHandler(ctx, wire.QueryLeases, func() (wire.LimitsState, error) {
		return wire.LimitsState{Model: a.in.Model, Declared: a.declared(), Learned: a.in.Learned, Lessees: a.in.Lessees}, nil
	}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, wire.UpdateLease,
		func(ctx workflow.Context, r wire.LeaseRequest) (wire.LeaseGrant, error) {
			a.served++
			return a.lease(workflow.Now(ctx), r), nil
		}, workflow.UpdateHandlerOptions{Validator: a.check}); err != nil {
		return err
	}
	for {
		full := func() bool {
			return a.served >= limitsEvery || workflow.GetInfo(ctx).GetContinueAsNewSuggested()
		}
		if _, err := workflow.AwaitWithTimeout(ctx, limitsIdle, func() bool { return full() || a.over() }); err != nil {
			return err
		}
		a.expire(workflow.Now(ctx))
		switch {
		case !workflow.AllHandlersFinished(ctx):
		case len(a.in.Lessees) == 0 && len(a.in.Past) == 0:
			return nil
		case full():
			return workflow.NewContinueAsNewError(ctx, wire.WorkflowLimits, a.carry())
		}
	}
}

// authority is the state of an EndpointLimits: plain arithmetic over what it is
// told and when.
type authority struct {
	in     wire.LimitsInput
	served int
}

// carry is what the continuation needs: what workers hold. What they want they
// will say again.
func (a *authority) carry() wire.LimitsInput {
	for i := range a.in.Lessees {
		l := &a.in.Lessees[i]
		l.Holds, l.RPM, l.TPM, l.Learned, l.Base, l.Minute = nil, 0, 0, wire.Declared{}, wire.Declared{}, wire.Declared{}
	}
	return a.in
}

// over tells that the last worker has given its lease back and nothing is to be
// remembered.
func (a *authority) over() bool {
	return a.served > 0 && len(a.in.Lessees) == 0 && len(a.in.Past) == 0
}

// check refuses what is no request of a worker.
func (a *authority) check(r wire.LeaseRequest) error {
	numbers := []float64{r.RPM, r.TPM, r.Declared.RPM, r.Declared.TPM, float64(r.Declared.Concurrency), float64(r.InFlight),
		r.Minute.RPM, r.Minute.TPM, float64(r.Learned.Concurrency), r.Learned.RPM, r.Learned.TPM, float64(r.Base.Concurrency), r.Base.RPM, r.Base.TPM}
	if h := r.Holds; h != nil {
		numbers = append(numbers, float64(max(h.Concurrency, 0)), max(h.RPM, 0), max(h.TPM, 0))
	}
	for _, n := range numbers {
		if !(n >= 0 && n <= math.MaxInt32*100) {
			return fmt.Errorf("lease: a number is %v; want none below 0", n)
		}
	}
	if r.Worker == "" || len(r.Worker) > wire.MaxLesseeName {
		return fmt.Errorf("lease: worker %q: want a name of 1 to %d characters", r.Worker, wire.MaxLesseeName)
	}
	if a.find(r.Worker) < 0 && len(a.in.Lessees) >= wire.MaxLessees {
		return fmt.Errorf("lease: %d workers share this endpoint already; serve it with fewer: worker --teachers names what one serves", wire.MaxLessees)
	}
	return nil
}

func (a *authority) find(worker string) int {
	for i := range a.in.Lessees {
		if a.in.Lessees[i].Worker == worker {
			return i
		}
	}
	return -1
}

// lease answers one request.
func (a *authority) lease(now time.Time, r wire.LeaseRequest) wire.LeaseGrant {
	a.expire(now)
	i := a.find(r.Worker)
	if i >= 0 {
		l := &a.in.Lessees[i]
		if r.Process < l.Process || r.Process == l.Process && r.Number <= l.Number {
			return wire.LeaseGrant{Stale: true, Renew: wire.LeaseRenewSoon}
		}
		a.take(now, l, r)
	} else if !r.Release {
		i = len(a.in.Lessees)
		var l wire.Lessee
		a.take(now, &l, r)
		a.in.Lessees = append(a.in.Lessees, l)
	}
	if r.Release {
		a.release(now, i)
		return wire.LeaseGrant{Renew: wire.LeaseRenew}
	}
	return a.grant(now, i)
}
