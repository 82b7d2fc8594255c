package workflows

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// A bench has the judges of a world.
type bench struct {
	mu     sync.Mutex
	rounds []wire.JudgeInput
	judge  func(ctx context.Context, in wire.JudgeInput) (*wire.JudgeOutput, error)
}

// judgesOf adds judges to a world's plan.
func judgesOf(w *world, ids ...string) *bench {
	b := &bench{judge: func(context.Context, wire.JudgeInput) (*wire.JudgeOutput, error) {
		return &wire.JudgeOutput{Counts: wire.AskCounts{Asks: 100, New: 90, Reused: 10, CostMicros: 7}}, nil
	}}
	for _, id := range ids {
		w.plan.Judges = append(w.plan.Judges, wire.JudgePlan{Queue: "teacher." + id + ".01234567"})
	}
	return b
}

func (b *bench) register(env *testsuite.TestWorkflowEnvironment) {
	env.RegisterActivityWithOptions(func(ctx context.Context, in wire.JudgeInput) (*wire.JudgeOutput, error) {
		b.mu.Lock()
		b.rounds = append(b.rounds, in)
		b.mu.Unlock()
		return b.judge(ctx, in)
	}, activity.RegisterOptions{Name: wire.ActivityJudge})
}

func (b *bench) asked(teacher string) []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	var shards []int
	for _, in := range b.rounds {
		if in.Teacher == teacher {
			shards = append(shards, in.Shard)
		}
	}
	slices.Sort(shards)
	return shards
}

func TestEveryShardIsJudgedBeforeItIsRefined(t *testing.T) {
	w := newWorld(3, "a", "j")
	w.plan.Teachers[1].Batches, w.plan.Teachers[1].Asks = 0, 0 // it only judges
	b := judgesOf(w, "j", "rm", "j")
	w.plan.Teachers = append(w.plan.Teachers, wire.TeacherPlan{ID: "rm", Queue: "teacher.rm.01234567"})
	order := map[int][]int{}
	was := b.judge
	b.judge = func(ctx context.Context, in wire.JudgeInput) (*wire.JudgeOutput, error) {
		w.mu.Lock()
		require.NotContains(t, w.refined, in.Shard)
		w.mu.Unlock()
		b.mu.Lock()
		order[in.Shard] = append(order[in.Shard], in.Round)
		b.mu.Unlock()
		return was(ctx, in)
	}
	_, _, err := runBuild(t, w, b.register)
	require.NoError(t, err)
	require.Equal(t, []int{0, 0, 1, 1, 2, 2}, b.asked("j"))
	for shard := range 3 {
		require.Equal(t, []int{0, 1, 2}, order[shard])
	}
	slices.Sort(w.refined)
	require.Equal(t, sequence(3), w.refined)
	require.Len(t, w.sealed.Streams, 3)
	require.Equal(t, wire.StreamSummary{Teacher: "j", New: 6 * 90, Reused: 6 * 10, Spent: 6 * 7}, w.sealed.Streams[1])
	require.Equal(t, wire.StreamSummary{Teacher: "rm", New: 3 * 90, Reused: 3 * 10, Spent: 3 * 7}, w.sealed.Streams[2])
}

func TestAJudgeThatCannotBeUsedIsAskedNoFurther(t *testing.T) {
	w := newWorld(20, "a", "j")
	w.plan.Teachers[1].Batches = 0
	b := judgesOf(w, "j")
	b.judge = func(context.Context, wire.JudgeInput) (*wire.JudgeOutput, error) {
		return &wire.JudgeOutput{Stopped: &wire.TeacherFailed{Class: "auth", Text: "401"}}, nil
	}
	_, _, err := runBuild(t, w, b.register)
	require.NoError(t, err)
	require.Less(t, len(b.asked("j")), 20)
	require.Len(t, w.refined, 20, "what it could not judge is refined all the same")
	require.Equal(t, "auth", w.sealed.Streams[1].Stopped.Class)
	require.Nil(t, w.sealed.Streams[0].Stopped)
}

func TestAPermanentFailureOfAJudgeEndsTheBuild(t *testing.T) {
	w := newWorld(2, "a", "j")
	w.plan.Teachers[1].Batches = 0
	b := judgesOf(w, "j")
	b.judge = func(context.Context, wire.JudgeInput) (*wire.JudgeOutput, error) {
		return nil, temporal.NewNonRetryableApplicationError("no cap", wire.ErrInvalidRecipe, nil)
	}
	_, _, err := runBuild(t, w, b.register)
	require.ErrorContains(t, err, "no cap")
	require.Equal(t, "failed", w.ended)
	require.Nil(t, w.sealed)
}

// A pause interrupts a judge, whose round is begun again when the build goes on,
// and counted once.
func TestAPauseInterruptsJudges(t *testing.T) {
	w := newWorld(1, "a", "j")
	w.plan.Teachers[1].Batches = 0
	b := judgesOf(w, "j")
	calls := 0
	_, _, err := runBuild(t, w, func(env *testsuite.TestWorkflowEnvironment) {
		b.register(env)
		update := func(name string, args ...any) {
			env.UpdateWorkflow(name, "", &testsuite.TestUpdateCallback{
				OnAccept: func() {}, OnReject: func(err error) { t.Errorf("%s: %v", name, err) }, OnComplete: func(any, error) {},
			}, args...)
		}
		b.judge = func(ctx context.Context, in wire.JudgeInput) (*wire.JudgeOutput, error) {
			b.mu.Lock()
			calls++
			first := calls == 1
			b.mu.Unlock()
			if !first {
				return &wire.JudgeOutput{Counts: wire.AskCounts{Asks: 50, New: 20, Reused: 30, CostMicros: 20}}, nil
			}
			paused := make(chan struct{})
			env.RegisterDelayedCallback(func() {
				update(wire.UpdatePause, wire.PauseRequest{})
				env.RegisterDelayedCallback(func() { update(wire.UpdateResume) }, time.Hour)
				close(paused)
			}, 0)
			<-paused // this environment interrupts the workflow's side alone, and without details
			return nil, temporal.NewCanceledError(wire.AskCounts{Asks: 40, New: 30, CostMicros: 30})
		}
	})
	require.NoError(t, err)
	require.Equal(t, []int{0, 0}, b.asked("j"))
	require.Equal(t, wire.StreamSummary{Teacher: "j", New: 20, Reused: 30, Spent: 20}, w.sealed.Streams[1])
	require.Equal(t, []int{0}, w.refined)
}

// A budget that a running build is given holds for its judges too: a round that
// knows of none is begun again under it, and so is one that waits for a pause to
// end.
func TestBudgetOfARunningBuildHoldsForItsJudges(t *testing.T) {
	for _, paused := range []bool{false, true} {
		w := newWorld(1, "a", "j")
		w.plan.Teachers[1].Batches = 0
		b := judgesOf(w, "j")
		_, _, err := runBuild(t, w, func(env *testsuite.TestWorkflowEnvironment) {
			b.register(env)
			env.RegisterActivityWithOptions(func(context.Context, wire.BuildRef) error { return nil }, activity.RegisterOptions{Name: wire.ActivityBudget})
			env.OnSignalExternalWorkflow(mock.Anything, wire.BudgetWorkflowID("d"), "", wire.SignalBudgetClose, mock.Anything).Return(nil)
			update := func(name string, args ...any) {
				env.UpdateWorkflow(name, "", &testsuite.TestUpdateCallback{
					OnAccept: func() {}, OnReject: func(err error) { t.Errorf("%s: %v", name, err) }, OnComplete: func(any, error) {},
				}, args...)
			}
			b.judge = func(_ context.Context, in wire.JudgeInput) (*wire.JudgeOutput, error) {
				if in.BudgetMicros > 0 {
					return &wire.JudgeOutput{}, nil
				}
				changed := make(chan struct{})
				env.RegisterDelayedCallback(func() {
					if paused {
						update(wire.UpdatePause, wire.PauseRequest{})
					}
					update(wire.UpdateBudget, wire.BudgetRequest{Micros: 5_000_000})
					if paused {
						env.RegisterDelayedCallback(func() { update(wire.UpdateResume) }, time.Hour)
					}
					close(changed)
				}, 0)
				<-changed
				return nil, temporal.NewCanceledError(wire.AskCounts{})
			}
		})
		require.NoError(t, err)
		var under []int64
		for _, in := range b.rounds {
			under = append(under, in.BudgetMicros)
		}
		// The stand-in may be back before the update has arrived, and is then asked
		// once more as before.
		require.GreaterOrEqual(t, len(under), 2, "paused: %v", paused)
		for i, micros := range under {
			require.Equal(t, i == len(under)-1, micros == 5_000_000, "paused: %v: rounds under %v", paused, under)
		}
	}
}

// What an interrupted round bought stays bought, whatever it is interrupted by
// and how often.
func TestInterruptedRoundsAreCountedOnce(t *testing.T) {
	before := onceMore(wire.AskCounts{}, wire.AskCounts{Asks: 40, New: 30, Reused: 5, CostMicros: 30, Unpriced: 1})
	before = onceMore(before, wire.AskCounts{Asks: 45, New: 5, Reused: 35, CostMicros: 5})
	require.Equal(t, wire.AskCounts{Asks: 50, New: 45, Reused: 5, CostMicros: 45, Unpriced: 1},
		onceMore(before, wire.AskCounts{Asks: 50, New: 10, Reused: 40, CostMicros: 10}))
}

func TestCancelEndsJudges(t *testing.T) {
	w := newWorld(2, "a", "j")
	w.plan.Teachers[1].Batches = 0
	b := judgesOf(w, "j")
	_, _, err := runBuild(t, w, func(env *testsuite.TestWorkflowEnvironment) {
		b.register(env)
		b.judge = func(ctx context.Context, in wire.JudgeInput) (*wire.JudgeOutput, error) {
			env.CancelWorkflow()
			return nil, temporal.NewCanceledError(wire.AskCounts{})
		}
	})
	require.Error(t, err)
	require.Equal(t, "cancelled", w.ended)
	require.Nil(t, w.sealed)
}
