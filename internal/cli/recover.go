package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// retryLost lets a lost activity run again at once: its kill says nothing of
// the next try, and a backoff that doubles with every kill would only make
// whoever starts the build again wait.
const retryLost = time.Millisecond

// releaseLost hands what a killed process was working on to this one. The
// home's lock says that no other worker of the embedded server lives, so every
// activity that the server believes to be running is lost: without this it
// would learn so only when a heartbeat stays away for a minute.
func releaseLost(ctx context.Context, c client.Client, namespace string) error {
	var token []byte
	for {
		page, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query: "ExecutionStatus = 'Running'", PageSize: 200, NextPageToken: token,
		})
		if err != nil {
			return err
		}
		for _, e := range page.Executions {
			if err := releaseWorkflow(ctx, c, namespace, e.Execution); err != nil {
				return fmt.Errorf("workflow %s: %w", e.Execution.WorkflowId, err)
			}
		}
		if token = page.NextPageToken; len(token) == 0 {
			return nil
		}
	}
}

func releaseWorkflow(ctx context.Context, c client.Client, namespace string, execution *commonpb.WorkflowExecution) error {
	svc := c.WorkflowService()
	_, err := svc.ResetStickyTaskQueue(ctx, &workflowservice.ResetStickyTaskQueueRequest{Namespace: namespace, Execution: execution})
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	description, err := c.DescribeWorkflowExecution(ctx, execution.WorkflowId, execution.RunId)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	lost := temporal.GetDefaultFailureConverter().ErrorToFailure(temporal.NewApplicationErrorWithOptions(
		"the worker was killed; the activity runs again", "WorkerLost", temporal.ApplicationErrorOptions{NextRetryDelay: retryLost}))
	for _, p := range description.PendingActivities {
		if p.State != enumspb.PENDING_ACTIVITY_STATE_STARTED {
			continue
		}
		_, err := svc.RespondActivityTaskFailedById(ctx, &workflowservice.RespondActivityTaskFailedByIdRequest{
			Namespace: namespace, WorkflowId: execution.WorkflowId, RunId: execution.RunId,
			ActivityId: p.ActivityId, Failure: lost, Identity: "stillhouse",
		})
		if err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// gone tells that what was listed a moment ago has ended since.
func gone(err error) bool {
	var notFound *serviceerror.NotFound
	return errors.As(err, &notFound)
}
