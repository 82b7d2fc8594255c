package workflows

import (
	"context"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// What a build has published goes to the recipe's trainer; what it has not
// published goes nowhere, and a trainer that can't be started fails no build.
func TestABuildHandsOverWhatItPublished(t *testing.T) {
	published := wire.BuildOutput{Dataset: "d", Version: 3}
	for name, c := range map[string]struct {
		off     bool
		preview int
		sealed  wire.BuildOutput
		recipe  error
		started bool
		text    string
	}{
		"published":              {sealed: published, started: true},
		"no hand-off":            {off: true, sealed: published},
		"a preview":              {preview: 5, sealed: published},
		"unchanged":              {sealed: wire.BuildOutput{Version: 3, Unchanged: true}},
		"a gate failed":          {sealed: wire.BuildOutput{Gates: []string{"min_rows"}}},
		"a teacher was unusable": {sealed: wire.BuildOutput{Version: 3, Stopped: []string{"t"}}, started: true},
		"it can't be rendered":   {sealed: published, recipe: temporal.NewNonRetryableApplicationError("no such trainer", wire.ErrInvalidRecipe, nil), text: "no such trainer"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, "t")
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			w.register(env)
			env.RegisterWorkflow(TeacherStream)
			var started []wire.HandOffInput
			env.RegisterWorkflowWithOptions(func(_ workflow.Context, in wire.HandOffInput) (*wire.HandOffOutput, error) {
				started = append(started, in)
				return &wire.HandOffOutput{}, nil
			}, workflow.RegisterOptions{Name: wire.WorkflowHandOff})
			asked := wire.HandOffInput{Ref: "d@3", Trainer: "trl", Launcher: "command"}
			env.RegisterActivityWithOptions(func(_ context.Context, in wire.HandOffRequest) (*wire.HandOffStart, error) {
				if in.Version != 3 || in.RecipeDigest != testRef.RecipeDigest {
					t.Errorf("asked for %+v", in)
				}
				return &wire.HandOffStart{HandOffInput: asked, ID: "handoff/d@3/0123"}, c.recipe
			}, activity.RegisterOptions{Name: wire.ActivityRecipeHO})
			env.OnActivity(wire.ActivitySeal, mock.Anything, mock.Anything).Return(&c.sealed, nil)
			ref := testRef
			ref.HandOff, ref.Preview = !c.off, c.preview
			env.ExecuteWorkflow(Build, wire.BuildInput{BuildRef: ref})
			require.True(t, env.IsWorkflowCompleted())
			var out wire.BuildOutput
			require.NoError(t, env.GetWorkflowResult(&out))
			require.Equal(t, c.started, len(started) == 1)
			require.Contains(t, out.HandOffError, c.text)
			require.Equal(t, c.text == "", out.HandOffError == "")
			if c.started {
				require.Equal(t, "handoff/d@3/0123", out.HandOff)
				require.Equal(t, asked, started[0])
			}
		})
	}
}
