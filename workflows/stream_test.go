package workflows

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// handedOn is the input of the next run of a stream that is to continue at once
// and is told of controls while its last report is on the way.
func handedOn(t *testing.T, in wire.StreamInput, controls ...wire.Control) (next wire.StreamInput) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(30 * time.Second)
	newBatchWorld().register(env)
	env.SetContinueAsNewSuggested(true)
	told := make(chan struct{})
	env.OnSignalExternalWorkflow(mock.Anything, "parent", "", wire.SignalStream, mock.Anything).Return(
		func(_, _, _, _ string, _ any) error { <-told; return nil })
	env.RegisterDelayedCallback(func() {
		for _, c := range controls {
			env.SignalWorkflow(wire.SignalControl, c)
		}
		close(told)
	}, 0)
	env.ExecuteWorkflow(TeacherStream, in)
	var again *workflow.ContinueAsNewError
	require.True(t, errors.As(env.GetWorkflowError(), &again), "%v", env.GetWorkflowError())
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &next))
	return next
}

// What a stream is told while it hands itself on holds for its next run: a pause
// that it forgot would go on to cost money.
func TestAStreamHandsOnWhatItIsTold(t *testing.T) {
	in := wire.StreamInput{
		BuildRef: testRef, Parent: "parent", Shards: 2, Report: wire.StreamReport{Teacher: "a"},
		Teacher: wire.TeacherPlan{ID: "a", Queue: "q", Batches: 16, Window: 4},
	}
	next := handedOn(t, in, wire.Control{BudgetMicros: 7}, wire.Control{Paused: true, Concurrency: 3}, wire.Control{Paused: true, CancelBatches: true})
	require.True(t, next.Paused)
	require.Equal(t, int64(7), next.BudgetMicros)
	require.Equal(t, 3, next.Concurrency)
	require.True(t, next.CancelBatches)
	require.Equal(t, in.Teacher.Batches, next.Teacher.Batches)

	in.Paused, in.CancelBatches = false, true
	next = handedOn(t, in)
	require.False(t, next.Paused)
	require.True(t, next.CancelBatches, "of an earlier run")
}

// A pause that comes while a stream is being started reaches it: until it has
// started, the server refuses it signals.
func TestAPauseReachesAStreamThatIsBeingStarted(t *testing.T) {
	w := newWorld(1, "a")
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(30 * time.Second)
	w.register(env)
	told := []wire.Control{}
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in wire.StreamInput) error {
		controls := workflow.GetSignalChannel(ctx, wire.SignalControl)
		for {
			var c wire.Control
			if more, _ := controls.ReceiveWithTimeout(ctx, time.Minute, &c); !more {
				break
			}
			told = append(told, c)
		}
		in.Report.Done, in.Report.Through = true, in.Shards
		return workflow.SignalExternalWorkflow(ctx, in.Parent, "", wire.SignalStream, in.Report).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: wire.WorkflowTeacherStream})
	env.SetOnChildWorkflowStartedListener(func(*workflow.Info, workflow.Context, converter.EncodedValues) {
		env.UpdateWorkflow(wire.UpdatePause, "", &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { t.Error(err) }, OnComplete: func(any, error) {},
		}, wire.PauseRequest{})
	})
	env.ExecuteWorkflow(Build, wire.BuildInput{BuildRef: testRef})
	require.NoError(t, env.GetWorkflowError())
	// The first is the one that a server would refuse.
	require.Equal(t, []wire.Control{{Paused: true}, {Paused: true}}, told)
}
