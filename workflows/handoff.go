package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

const (
	// trainTimeout bounds one training run that is followed by an activity.
	trainTimeout = 30 * 24 * time.Hour
	// A launch on other machines is looked at this soon after it started, and
	// ever more seldom.
	firstLook, seldomLook = 5 * time.Second, time.Minute
	// mostLooks is how often a run of the workflow looks before the next run goes
	// on, so that no history grows long.
	mostLooks = 400
	// endLimit bounds how long a cancelled hand-off asks a launcher that does not
	// answer.
	endLimit = 2 * time.Hour
	// changeFollow marks what follows a launch by timers, to its end even when
	// the hand-off is cancelled.
	changeFollow = "hand-off: follow to the end"
)

// HandOff renders a bundle for an external trainer, starts it once, follows it
// and records its end. The attempt is chosen here, never by an activity, so
// that a retried step finds the launch that it made.
//
// A launch on the worker's machine is followed by one activity. One on other
// machines is looked at by short ones with timers between, so that no worker has
// to live as long as a training. Cancelling the hand-off cancels the launch, and
// how it ended is recorded all the same.
func HandOff(ctx workflow.Context, in wire.HandOffInput) (*wire.HandOffOutput, error) {
	if in.Attempt == 0 {
		in.Attempt = 1
	}
	ctx = handOffOptions(ctx)
	var prepared wire.HandOffPrepared
	if in.Carry != nil {
		prepared, in.Carry = *in.Carry, nil
		return lookOn(ctx, in, prepared)
	}
	if err := workflow.ExecuteActivity(ctx, wire.ActivityPrepare, in).Get(ctx, &prepared); err != nil {
		return nil, err
	}
	if in.Timeout > 0 {
		prepared.Until = workflow.Now(ctx).Add(time.Duration(in.Timeout) * time.Second)
	}
	var launched wire.HandOffLaunched
	err := workflow.ExecuteActivity(ctx, wire.ActivityLaunch, in, prepared).Get(ctx, &launched)
	if temporal.IsCanceledError(err) && workflow.GetVersion(ctx, changeFollow, workflow.DefaultVersion, 1) > workflow.DefaultVersion {
		// It may have started all the same.
		return ended(ctx, in, prepared, err)
	}
	if err != nil {
		return nil, err
	}
	prepared.Where = launched.Where
	if launched.Remote {
		return lookOn(ctx, in, prepared)
	}
	var out wire.HandOffOutput
	err = workflow.ExecuteActivity(ctx, wire.ActivityFollow, in, prepared).Get(ctx, &out)
	if temporal.IsCanceledError(err) && workflow.GetVersion(ctx, changeFollow, workflow.DefaultVersion, 1) > workflow.DefaultVersion {
		return ended(ctx, in, prepared, err)
	}
	return &out, err
}

func handOffOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           wire.QueuePipeline,
		StartToCloseTimeout: trainTimeout,
		HeartbeatTimeout:    heartbeatTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
			NonRetryableErrorTypes: permanent,
		},
		WaitForCancellation: true,
	})
}

// lookOn looks at a launch until it has ended.
func lookOn(ctx workflow.Context, in wire.HandOffInput, p wire.HandOffPrepared) (*wire.HandOffOutput, error) {
	pause := firstLook
	for range mostLooks {
		var out wire.HandOffOutput
		err := workflow.ExecuteActivity(ctx, wire.ActivityCheck, in, p).Get(ctx, &out)
		if err == nil && out.State != handOffRuns {
			return &out, nil
		}
		if err == nil {
			wait := pause
			if left := p.Until.Sub(workflow.Now(ctx)); !p.Until.IsZero() && left > 0 && left < wait {
				wait = left
			}
			err = workflow.Sleep(ctx, wait)
		}
		if temporal.IsCanceledError(err) && !p.Cancel {
			return ended(ctx, in, p, err)
		}
		if err != nil {
			return nil, err
		}
		pause = min(pause*3/2, seldomLook)
	}
	in.Carry = &p
	return nil, workflow.NewContinueAsNewError(ctx, wire.WorkflowHandOff, in)
}

// handOffRuns is the state of a launch that has not ended.
const handOffRuns = "running"

// ended ends a launch whose hand-off was cancelled, and waits until how it ended
// is recorded.
func ended(ctx workflow.Context, in wire.HandOffInput, p wire.HandOffPrepared, why error) (*wire.HandOffOutput, error) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	o := workflow.GetActivityOptions(ctx)
	o.ScheduleToCloseTimeout = endLimit
	ctx = workflow.WithActivityOptions(ctx, o)
	p.Cancel, p.CancelledAt = true, workflow.Now(ctx)
	out, err := lookOn(ctx, in, p)
	if err != nil {
		workflow.GetLogger(ctx).Warn("how the cancelled launch ended is not known", "launch", p.LaunchID, "error", err)
	}
	return out, why
}
