package workflows

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// Everybody whom the recipe names is told how a build ended, once it has; who
// cannot be told changes nothing of it.
func TestWhoIsToldHowABuildEnded(t *testing.T) {
	for name, c := range map[string]struct {
		seal  func(wire.SealInput) (*wire.BuildOutput, error)
		event string
	}{
		"published": {func(in wire.SealInput) (*wire.BuildOutput, error) {
			return &wire.BuildOutput{Dataset: in.Dataset, BuildID: in.BuildID, Version: 3}, nil
		}, "success"},
		"a gate": {func(in wire.SealInput) (*wire.BuildOutput, error) {
			return &wire.BuildOutput{Gates: []string{"min_rows", "x"}, Stopped: []string{"t"}}, nil
		}, "gate"},
		"the budget": {func(in wire.SealInput) (*wire.BuildOutput, error) {
			return &wire.BuildOutput{Version: 1, Stopped: []string{"t"}, OverBudget: []string{"t"}}, nil
		}, "budget"},
		"a teacher": {func(in wire.SealInput) (*wire.BuildOutput, error) {
			return &wire.BuildOutput{Version: 1, Stopped: []string{"t"}}, nil
		}, "teacher"},
		"a failure": {func(in wire.SealInput) (*wire.BuildOutput, error) {
			return nil, temporal.NewNonRetryableApplicationError("words of an endpoint", wire.ErrBadSource, nil)
		}, "failure"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, "t")
			var mu sync.Mutex
			var told []wire.NotifyInput
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			w.register(env)
			env.RegisterWorkflow(TeacherStream)
			env.RegisterActivityWithOptions(func(_ context.Context, in wire.NotifyInput) error {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, in)
				if in.Index == 1 {
					return errors.New("nobody listens")
				}
				return nil
			}, activity.RegisterOptions{Name: wire.ActivityNotify})
			env.OnActivity(wire.ActivitySeal, mock.Anything, mock.Anything).Return(func(_ context.Context, in wire.SealInput) (*wire.BuildOutput, error) { return c.seal(in) })
			ref := testRef
			ref.Notify = 2
			env.ExecuteWorkflow(Build, wire.BuildInput{BuildRef: ref})
			require.True(t, env.IsWorkflowCompleted())
			if err := env.GetWorkflowError(); (err != nil) != (c.event == "failure") {
				t.Fatal(err)
			}
			byIndex := map[int]int{}
			for _, in := range told {
				if in.Event != c.event {
					t.Errorf("told %q, want %q", in.Event, c.event)
				}
				if byIndex[in.Index]++; in.Index == 1 && byIndex[1] > 20 {
					t.Fatal("tries have no end")
				}
				if c.event == "failure" && in.Failure != wire.ErrBadSource {
					t.Errorf("failure %q", in.Failure)
				}
			}
			if byIndex[0] != 1 || byIndex[1] < 2 {
				t.Errorf("told %v, want the first once and the second again", byIndex)
			}
		})
	}
}
