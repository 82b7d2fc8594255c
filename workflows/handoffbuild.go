package workflows

import (
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// handOff hands a version that was just published to the trainer of the recipe,
// by a workflow of its own that outlives the build. A build that published
// nothing, because a gate failed or because nothing changed, hands nothing over.
// Whether it could be started never changes how the build ended.
func (b *build) handOff(ctx workflow.Context, out *wire.BuildOutput, err error) {
	if !b.in.HandOff || err != nil || out == nil || b.in.Preview > 0 || out.Version == 0 || out.Unchanged || len(out.Gates) > 0 {
		return
	}
	id, err := b.startHandOff(ctx, out.Version)
	if err != nil {
		workflow.GetLogger(ctx).Warn("the version was not handed to a trainer", "version", out.Version, "error", err)
		out.HandOffError = err.Error()
		if most := 500; len(out.HandOffError) > most {
			out.HandOffError = out.HandOffError[:most]
		}
		return
	}
	out.HandOff = id
}

func (b *build) startHandOff(ctx workflow.Context, version int64) (string, error) {
	var in wire.HandOffStart
	err := workflow.ExecuteActivity(pipelineOptions(ctx), wire.ActivityRecipeHO, wire.HandOffRequest{BuildRef: b.in.BuildRef, Version: version}).Get(ctx, &in)
	if err != nil {
		return "", err
	}
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            in.ID,
		TaskQueue:             wire.QueuePipeline,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	}), wire.WorkflowHandOff, in.HandOffInput)
	err = child.GetChildWorkflowExecution().Get(ctx, nil)
	if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return "", fmt.Errorf("start the hand-off: %w", err)
	}
	return in.ID, nil
}
