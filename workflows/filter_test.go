package workflows

import (
	"context"
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

// A filtering is what a plan says is to be done before, and what was done of it.
type filtering struct {
	mu      sync.Mutex
	plan    wire.FilterPlan
	done    []string // phase and unit
	flying  int
	most    int
	fail    string // phase and unit that fails for good
	planned *wire.PlanFilteredInput
}

func (f *filtering) register(w *world, env *testsuite.TestWorkflowEnvironment) {
	full := w.plan
	w.plan = wire.PlanOutput{Prompts: 9, Filter: &f.plan}
	env.RegisterActivityWithOptions(func(_ context.Context, in wire.FilterInput) error {
		f.mu.Lock()
		f.flying++
		f.most = max(f.most, f.flying)
		unit := fmt.Sprintf("%s %d", in.Phase, in.Unit)
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.flying--
			f.done = append(f.done, unit)
		}()
		if in.Key != "read" || in.BuildID != testRef.BuildID {
			return temporal.NewNonRetryableApplicationError("of another build", "Wrong", nil)
		}
		if unit == f.fail {
			return temporal.NewNonRetryableApplicationError("the evaluation set is damaged", wire.ErrBadSource, nil)
		}
		return nil
	}, activity.RegisterOptions{Name: wire.ActivityFilterPrompts})
	env.RegisterActivityWithOptions(func(_ context.Context, in wire.PlanFilteredInput) (*wire.PlanOutput, error) {
		f.planned = &in
		return &full, nil
	}, activity.RegisterOptions{Name: wire.ActivityPlanFiltered})
}

func newFiltering() *filtering {
	return &filtering{plan: wire.FilterPlan{Key: "read", Phases: []wire.FilterPhase{{Name: "match", Units: 70}, {Name: "sign", Units: 3}, {Name: "settle", Units: 1}}}}
}

// Every unit is done once, no phase begins before the one before it is over, and
// the plan that follows is the build's.
func TestFiltersOfPromptsRunBeforeThePlan(t *testing.T) {
	w, f := newWorld(2, "a"), newFiltering()
	_, out, err := runBuild(t, w, func(env *testsuite.TestWorkflowEnvironment) { f.register(w, env) })
	require.NoError(t, err)
	require.Equal(t, int64(1), out.Version)
	require.Equal(t, &wire.PlanFilteredInput{BuildRef: testRef, Key: "read"}, f.planned)
	require.Len(t, f.done, 74)
	at := map[string][]int{}
	seen := map[string]bool{}
	for i, unit := range f.done {
		require.False(t, seen[unit], unit)
		seen[unit] = true
		var phase string
		var n int
		_, err := fmt.Sscanf(unit, "%s %d", &phase, &n)
		require.NoError(t, err)
		at[phase] = append(at[phase], i)
	}
	require.Equal(t, 69, at["match"][69])
	require.Equal(t, []int{70, 71, 72}, at["sign"])
	require.Equal(t, []int{73}, at["settle"])
	require.LessOrEqual(t, f.most, filterWindow)
	require.Equal(t, "plan", w.sealed.PlanKey)
	require.Len(t, w.asked["a"], 16)
}

// A fault of a file ends the build: nobody is asked.
func TestAFilterThatFailsEndsTheBuild(t *testing.T) {
	w, f := newWorld(2, "a"), newFiltering()
	f.fail = "match 40"
	_, _, err := runBuild(t, w, func(env *testsuite.TestWorkflowEnvironment) { f.register(w, env) })
	require.ErrorContains(t, err, "filter prompts: match, unit 40")
	require.ErrorContains(t, err, "the evaluation set is damaged")
	require.Equal(t, "failed", w.ended)
	require.Empty(t, w.asked)
	require.Nil(t, f.planned)
	require.NotContains(t, f.done, "sign 0")
}

// A build is stopped while its prompts are filtered.
func TestABuildIsCancelledWhileItsPromptsAreFiltered(t *testing.T) {
	w, f := newWorld(2, "a"), newFiltering()
	env, _, err := runBuild(t, w, func(env *testsuite.TestWorkflowEnvironment) {
		f.register(w, env)
		env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
			if info.ActivityType.Name == wire.ActivityFilterPrompts {
				env.CancelWorkflow()
			}
		})
	})
	require.Error(t, err)
	require.True(t, temporal.IsCanceledError(env.GetWorkflowError()), "%v", err)
	require.Equal(t, "cancelled", w.ended)
	require.Empty(t, w.asked)
	require.Nil(t, f.planned)
}
