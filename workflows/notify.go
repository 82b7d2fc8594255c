package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

const (
	// notifyLimit bounds how long a build's end waits for those who are told.
	notifyLimit   = 2 * time.Minute
	notifyTimeout = 30 * time.Second
	// mostStopped bounds the teachers that a notice names: a payload is small.
	mostStopped = 50
)

// notify tells whom the recipe names how the build ended. It never changes how
// that was: who cannot be told is in the log.
func (b *build) notify(ctx workflow.Context, out *wire.BuildOutput, err error) {
	if b.in.Notify == 0 || b.in.Preview > 0 || workflow.IsContinueAsNewError(err) || temporal.IsCanceledError(err) {
		return
	}
	in := wire.NotifyInput{BuildRef: b.in.BuildRef, Event: wire.EventSuccess}
	switch {
	case err != nil:
		if in.Event, in.Failure = wire.EventFailure, errorType(err); in.Failure == "" {
			in.Failure = "Error"
		}
	case len(out.Gates) > 0:
		in.Event = wire.EventGate
	case len(out.OverBudget) > 0:
		in.Event = wire.EventBudget
	case len(out.Stopped) > 0:
		in.Event = wire.EventTeacher
	}
	if out != nil {
		in.Version, in.Unchanged, in.Gates = out.Version, out.Unchanged, len(out.Gates)
		in.Stopped = out.Stopped[:min(len(out.Stopped), mostStopped)]
	}
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              wire.QueuePipeline,
		StartToCloseTimeout:    notifyTimeout,
		ScheduleToCloseTimeout: notifyLimit,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 3, MaximumInterval: 30 * time.Second,
			NonRetryableErrorTypes: permanent,
		},
	})
	told := make([]workflow.Future, b.in.Notify)
	for i := range told {
		in.Index = i
		told[i] = workflow.ExecuteActivity(ctx, wire.ActivityNotify, in)
	}
	for i, f := range told {
		if err := f.Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("somebody was not told how the build ended", "notify", i, "event", in.Event, "error", err)
		}
	}
}
