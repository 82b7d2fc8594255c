package workflows

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// A scale is how a test world measures.
type scale struct {
	mu    sync.Mutex
	parts map[int]wire.MeasureInput
	early []int // parts that were measured while a teacher was still asked
	keys  map[string]bool
	fail  error
}

func (s *scale) register(w *world, asks int) func(*testsuite.TestWorkflowEnvironment) {
	s.parts, s.keys = map[int]wire.MeasureInput{}, map[string]bool{}
	return func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterActivityWithOptions(func(_ context.Context, in wire.MeasureInput) (*wire.MeasureOutput, error) {
			w.mu.Lock()
			done := 0
			for _, batches := range w.asked {
				done += len(batches)
			}
			w.mu.Unlock()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.parts[in.Part] = in
			if done < asks {
				s.early = append(s.early, in.Part)
			}
			return &wire.MeasureOutput{SHA256: fmt.Sprintf("%064d", in.Part)}, s.fail
		}, activity.RegisterOptions{Name: wire.ActivityMeasure})
		env.RegisterActivityWithOptions(func(_ context.Context, in wire.MergeMeasuresInput) (*wire.MergeMeasuresOutput, error) {
			for part, digest := range in.Parts {
				if digest != fmt.Sprintf("%064d", part) {
					return nil, fmt.Errorf("part %d is %s", part, digest)
				}
			}
			return &wire.MergeMeasuresOutput{Key: fmt.Sprintf("stats-%d", len(in.Parts))}, nil
		}, activity.RegisterOptions{Name: wire.ActivityMergeMeasure})
		env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, args converter.EncodedValues) {
			var in wire.RefineInput
			if info.ActivityType.Name != wire.ActivityRefine || args.Get(&in) != nil {
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.keys[in.StatsKey] = true
		})
	}
}

// TestAnswersAreMeasuredBeforeAnyIsJudged holds that every shard is measured
// once, when all teachers are through, and that every refinement is told where
// the measures are.
func TestAnswersAreMeasuredBeforeAnyIsJudged(t *testing.T) {
	for shards, parts := range map[int]int{1: 1, 3: 3, 130: wire.MostMeasures} {
		w := newWorld(shards, "a", "b")
		w.plan.Measure = true
		var s scale
		_, out, err := runBuild(t, w, s.register(w, 2*8*shards))
		require.NoError(t, err)
		require.Equal(t, int64(1), out.Version)
		require.Empty(t, s.early)
		require.Len(t, s.parts, parts)
		next := 0
		for part := range parts {
			require.Equal(t, next, s.parts[part].First)
			require.Positive(t, s.parts[part].Shards)
			next += s.parts[part].Shards
		}
		require.Equal(t, shards, next)
		require.Len(t, w.refined, shards)
		require.Equal(t, map[string]bool{fmt.Sprintf("stats-%d", parts): true}, s.keys)
	}
}

func TestABuildEndsWhereMeasuringFails(t *testing.T) {
	w := newWorld(2, "a")
	w.plan.Measure = true
	s := scale{fail: temporal.NewNonRetryableApplicationError("the store is full", wire.ErrInvalidRecipe, nil)}
	_, _, err := runBuild(t, w, s.register(w, 16))
	var app *temporal.ApplicationError
	require.True(t, errors.As(err, &app))
	require.Contains(t, err.Error(), "measure the answers of shards")
	require.Contains(t, err.Error(), "the store is full")
	require.Empty(t, w.refined)
	require.Equal(t, "failed", w.ended)
}

// TestPayloadsOfMeasuring holds that what a build hands to the activity that
// adds up its measures is a small payload, however large the build is.
func TestPayloadsOfMeasuring(t *testing.T) {
	require.Less(t, wire.MostMeasures*(64+3)+1024, wire.MaxPayload)
}
