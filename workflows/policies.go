package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// Timeouts. An ask has no short deadline: an answer may take an hour and a
// pause a day. What tells a dead worker from a slow teacher is the heartbeat,
// which starts with the activity's first moment.
const (
	heartbeatTimeout = 45 * time.Second
	askTimeout       = 7 * 24 * time.Hour
	pipelineTimeout  = 24 * time.Hour
)

// permanent are the error types that a retry can't mend.
var permanent = []string{wire.ErrInvalidRecipe, wire.ErrBadSource, wire.ErrGate, wire.ErrPayload, wire.ErrConflict}

// patientRetry goes on until the activity's own timeout: a store or a worker
// that comes back continues the build where it was.
var patientRetry = &temporal.RetryPolicy{
	InitialInterval:        time.Second,
	BackoffCoefficient:     2,
	MaximumInterval:        time.Minute,
	NonRetryableErrorTypes: permanent,
}

// pipelineOptions are for planning, refining and sealing.
func pipelineOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           wire.QueuePipeline,
		StartToCloseTimeout: pipelineTimeout,
		HeartbeatTimeout:    heartbeatTimeout,
		RetryPolicy:         patientRetry,
		WaitForCancellation: true,
	})
}

// askOptions are for asking one teacher. Cancellation is waited for, so that
// answers in flight are kept before the stream ends.
func askOptions(ctx workflow.Context, queue string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           queue,
		StartToCloseTimeout: askTimeout,
		HeartbeatTimeout:    heartbeatTimeout,
		RetryPolicy:         patientRetry,
		WaitForCancellation: true,
	})
}
