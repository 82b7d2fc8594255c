package workflows

import (
	"context"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// goingOn has the tasks of every shard of a world go on to some teachers, one
// after the other, and notes who was asked about what.
func goingOn(w *world, recorded bool, ids ...string) (asked *[]wire.FallbackInput, imports *int, arrange func(*testsuite.TestWorkflowEnvironment)) {
	for _, id := range ids {
		w.plan.Fallbacks = append(w.plan.Fallbacks, wire.FallbackPlan{Queue: "teacher." + id + ".01234567", Recorded: recorded})
		w.plan.Teachers = append(w.plan.Teachers, wire.TeacherPlan{ID: id, Queue: "teacher." + id + ".01234567", Recorded: recorded})
	}
	asked, imports = new([]wire.FallbackInput), new(int)
	return asked, imports, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterActivityWithOptions(func(_ context.Context, in wire.FallbackInput) (*wire.JudgeOutput, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			*asked = append(*asked, in)
			return &wire.JudgeOutput{Counts: wire.AskCounts{Asks: 5, New: 4, Reused: 1, CostMicros: 3}}, nil
		}, activity.RegisterOptions{Name: wire.ActivityFallback})
		env.OnActivity(wire.ActivityImport, mock.Anything, mock.Anything).Return(func(context.Context, wire.ImportInput) (*wire.ImportOutput, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			*imports++
			return &wire.ImportOutput{}, nil
		})
		env.OnActivity(wire.ActivityRefine, mock.Anything, mock.Anything).Return(func(_ context.Context, in wire.RefineInput) (*wire.RefineCounts, error) {
			if in.Fallbacks < len(ids) {
				return &wire.RefineCounts{Next: ids[in.Fallbacks : in.Fallbacks+1]}, nil
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refined = append(w.refined, in.Shard)
			return &wire.RefineCounts{Tasks: 512, Accepted: 100}, nil
		})
	}
}

func TestAShardIsRefinedAgainOnceItsFallbacksAreAsked(t *testing.T) {
	w := newWorld(2, "a")
	asked, imports, arrange := goingOn(w, false, "b", "c")
	env, _, err := runBuild(t, w, arrange)
	require.NoError(t, err)
	require.Len(t, *asked, 4)
	rounds := map[int][]string{}
	for _, in := range *asked {
		require.Equal(t, len(rounds[in.Shard]), in.Round)
		rounds[in.Shard] = append(rounds[in.Shard], in.Teacher)
	}
	for shard := range 2 {
		require.Equal(t, []string{"b", "c"}, rounds[shard])
	}
	require.ElementsMatch(t, []int{0, 1}, w.refined)
	require.Zero(t, *imports)
	require.Equal(t, wire.StreamSummary{Teacher: "b", New: 8, Reused: 2, Spent: 6}, w.sealed.Streams[1])

	var p wire.Progress
	value, err := env.QueryWorkflow(wire.QueryProgress)
	require.NoError(t, err)
	require.NoError(t, value.Get(&p))
	require.Equal(t, int64(2*512), p.Refined.Tasks, "a shard is counted once")
	require.Equal(t, int64(10), p.Teachers[1].Counts.Asks)
}

func TestARecordedFallbackIsImportedOnce(t *testing.T) {
	w := newWorld(6, "a")
	asked, imports, arrange := goingOn(w, true, "b")
	_, _, err := runBuild(t, w, arrange)
	require.NoError(t, err)
	require.Len(t, *asked, 6)
	require.Equal(t, 1, *imports)
}

func TestAFallbackThatCannotBeUsedIsAskedNoFurther(t *testing.T) {
	w := newWorld(20, "a")
	_, _, arrange := goingOn(w, false, "b")
	var calls int
	_, _, err := runBuild(t, w, func(env *testsuite.TestWorkflowEnvironment) {
		arrange(env)
		env.OnActivity(wire.ActivityFallback, mock.Anything, mock.Anything).Return(func(context.Context, wire.FallbackInput) (*wire.JudgeOutput, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			calls++
			return &wire.JudgeOutput{Stopped: &wire.TeacherFailed{Class: "auth", Text: "401"}}, nil
		})
	})
	require.NoError(t, err)
	require.Less(t, calls, 20)
	require.Len(t, w.refined, 20, "its shards are refined all the same")
	require.Equal(t, "auth", w.sealed.Streams[1].Stopped.Class)
}
