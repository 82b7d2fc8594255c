package workflows

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// TestCodeIsRefinedWhereThereIsASandbox: shards of a plan that runs code go to
// the sandboxes' queue and everything else stays where it was.
func TestCodeIsRefinedWhereThereIsASandbox(t *testing.T) {
	for sandboxed, want := range map[bool]string{false: wire.QueuePipeline, true: wire.QueueSandbox} {
		w := newWorld(2, "a")
		w.plan.Sandbox = sandboxed
		var mu sync.Mutex
		queues := map[string]string{}
		_, _, err := runBuild(t, w, func(env *testsuite.TestWorkflowEnvironment) {
			env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
				mu.Lock()
				defer mu.Unlock()
				queues[info.ActivityType.Name] = info.TaskQueue
			})
		})
		require.NoError(t, err)
		require.Equal(t, want, queues[wire.ActivityRefine])
		require.Equal(t, wire.QueuePipeline, queues[wire.ActivityPlan])
		require.Equal(t, wire.QueuePipeline, queues[wire.ActivitySeal])
	}
}
