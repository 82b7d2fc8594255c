package workflows

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// scores registers a student that scores.
func scores(score func(wire.FitInput) (*wire.JudgeOutput, error)) func(*testsuite.TestWorkflowEnvironment) {
	return func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterActivityWithOptions(func(_ context.Context, in wire.FitInput) (*wire.JudgeOutput, error) { return score(in) },
			activity.RegisterOptions{Name: wire.ActivityStudentFit})
	}
}

// studentOf adds a student to a world's plan.
func studentOf(w *world) {
	w.plan.Teachers[1].Batches, w.plan.Teachers[1].Asks = 0, 0
	w.plan.Fit = &wire.FitPlan{Queue: w.plan.Teachers[1].Queue}
}

// The student scores once, when every shard is refined, before the seal.
func TestTheStudentScoresBeforeTheSeal(t *testing.T) {
	w := newWorld(3, "a", "pupil")
	studentOf(w)
	times := 0
	_, _, err := runBuild(t, w, scores(func(in wire.FitInput) (*wire.JudgeOutput, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		times++
		require.Equal(t, "pupil", in.Teacher)
		require.Len(t, w.refined, 3)
		require.Nil(t, w.sealed)
		return &wire.JudgeOutput{Counts: wire.AskCounts{Asks: 9, New: 8, Reused: 1, CostMicros: 70}}, nil
	}))
	require.NoError(t, err)
	require.Equal(t, 1, times)
	require.Equal(t, wire.StreamSummary{Teacher: "pupil", New: 8, Reused: 1, Spent: 70}, w.sealed.Streams[1])
}

// What the student cannot do ends no build that is paid for.
func TestAStudentThatFailsEndsNoBuild(t *testing.T) {
	for name, score := range map[string]func(wire.FitInput) (*wire.JudgeOutput, error){
		"for good": func(wire.FitInput) (*wire.JudgeOutput, error) {
			return nil, temporal.NewNonRetryableApplicationError("no such thing", wire.ErrInvalidRecipe, nil)
		},
		"unusable": func(wire.FitInput) (*wire.JudgeOutput, error) {
			return &wire.JudgeOutput{Stopped: &wire.TeacherFailed{Class: "auth", Text: "401"}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2, "a", "pupil")
			studentOf(w)
			_, _, err := runBuild(t, w, scores(score))
			require.NoError(t, err)
			require.NotNil(t, w.sealed)
			if stopped := w.sealed.Streams[1].Stopped; name == "unusable" {
				require.Equal(t, "auth", stopped.Class)
			} else {
				require.Nil(t, stopped)
			}
		})
	}
}
