package activities

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// TemporalAuthority leases from the EndpointLimits workflows of a Temporal
// server.
type TemporalAuthority struct {
	Client client.Client
}

// Lease implements [Authority].
func (t TemporalAuthority) Lease(ctx context.Context, id, model string, r wire.LeaseRequest) (*wire.LeaseGrant, error) {
	update := client.UpdateWorkflowOptions{
		UpdateID:     fmt.Sprintf("%s-%d-%d", r.Worker, r.Process, r.Number),
		WorkflowID:   id,
		UpdateName:   wire.UpdateLease,
		Args:         []any{r},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	}
	handle, err := t.update(ctx, update, model, r)
	if err != nil {
		return nil, fmt.Errorf("lease from %s: %w", id, err)
	}
	var g wire.LeaseGrant
	if err := handle.Get(ctx, &g); err != nil {
		return nil, fmt.Errorf("lease from %s: %w", id, err)
	}
	return &g, nil
}

// update sends the request to the authority that runs. Where none does it is
// started, unless there is only something to give back.
func (t TemporalAuthority) update(ctx context.Context, u client.UpdateWorkflowOptions, model string, r wire.LeaseRequest) (client.WorkflowUpdateHandle, error) {
	if r.Holds != nil || r.Release {
		handle, err := t.Client.UpdateWorkflow(ctx, u)
		var gone *serviceerror.NotFound
		if !errors.As(err, &gone) || r.Release {
			return handle, err
		}
	}
	return t.Client.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: t.Client.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
			ID: u.WorkflowID, TaskQueue: wire.QueuePipeline,
			WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		}, wire.WorkflowLimits, wire.LimitsInput{Model: model}),
		UpdateOptions: u,
	})
}
