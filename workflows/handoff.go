package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// HandOff renders a bundle for an external trainer, starts it once, follows it
// and records its end. The attempt is chosen here, never by an activity, so
// that a retried step finds the launch that it made.
func HandOff(ctx workflow.Context, in wire.HandOffInput) (*wire.HandOffOutput, error) {
	if in.Attempt == 0 {
		in.Attempt = 1
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           wire.QueuePipeline,
		StartToCloseTimeout: trainTimeout,
		HeartbeatTimeout:    heartbeatTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
			NonRetryableErrorTypes: permanent,
		},
		WaitForCancellation: true,
	})
	var prepared wire.HandOffPrepared
	if err := workflow.ExecuteActivity(ctx, wire.ActivityPrepare, in).Get(ctx, &prepared); err != nil {
		return nil, err
	}
	if err := workflow.ExecuteActivity(ctx, wire.ActivityLaunch, in, prepared).Get(ctx, nil); err != nil {
		return nil, err
	}
	var out wire.HandOffOutput
	err := workflow.ExecuteActivity(ctx, wire.ActivityFollow, in, prepared).Get(ctx, &out)
	return &out, err
}

// trainTimeout bounds one training run.
const trainTimeout = 30 * 24 * time.Hour
