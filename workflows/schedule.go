package workflows

import (
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// ScheduledBuild is what a schedule starts: it runs the pinned recipe as a
// Build of its own, under the id that the same command by hand would use, so
// that the two never run side by side. Where it reads other stores, what lies there
// is listed anew first, so that prompts may grow.
func ScheduledBuild(ctx workflow.Context, in wire.ScheduledInput) (*wire.BuildOutput, error) {
	info := workflow.GetInfo(ctx)
	if in.Relist {
		err := workflow.ExecuteActivity(pipelineOptions(ctx), wire.ActivityRepin, wire.RepinInput{
			Dataset: in.Dataset, RecipeDigest: in.RecipeDigest, SourcesDigest: in.SourcesDigest,
		}).Get(ctx, &in.SourcesDigest)
		if err != nil {
			return nil, err
		}
	}
	ref := wire.BuildRef{
		Dataset: in.Dataset, RecipeDigest: in.RecipeDigest, SourcesDigest: in.SourcesDigest,
		BuildID: wire.BuildID(workflow.Now(ctx), info.WorkflowExecution.RunID), Scheduled: true, Notify: in.Notify, HandOff: in.HandOff,
	}
	var out wire.BuildOutput
	err := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            wire.BuildWorkflowID(in.Dataset, in.RecipeDigest, in.SourcesDigest),
		TaskQueue:             wire.QueuePipeline,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		TypedSearchAttributes: temporal.NewSearchAttributes(datasetAttribute.ValueSet(in.Dataset)),
	}), wire.WorkflowBuild, wire.BuildInput{BuildRef: ref}).Get(ctx, &out)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return nil, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("a build of %s from this recipe is running already; this run of the schedule is skipped", in.Dataset), wire.ErrConflict, err)
	}
	if err != nil {
		return nil, err
	}
	return &out, nil
}
