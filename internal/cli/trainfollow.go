package cli

import (
	"context"
	"fmt"
	"strings"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/training/launch"
)

// followHandOff waits for the training that a build has started, and prints how
// it ended.
func (s *session) followHandOff(ctx context.Context, out *wire.BuildOutput) error {
	switch {
	case out.HandOffError != "":
		s.app.warn("the version was not handed to its trainer: %s", printable(out.HandOffError))
		return &codedError{code: exitFailed}
	case out.HandOff == "":
		return nil
	}
	s.app.say("%s@%d is handed to its trainer; the training runs on if this command is interrupted, and stillhouse show %s@%d says how it is", out.Dataset, out.Version, out.Dataset, out.Version)
	return s.endOfHandOff(ctx, s.temporal.GetWorkflow(ctx, out.HandOff, ""))
}

// endOfHandOff waits for a hand-off, and prints how its training ended.
func (s *session) endOfHandOff(ctx context.Context, handle client.WorkflowRun) error {
	a := s.app
	var out wire.HandOffOutput
	if err := handle.Get(ctx, &out); err != nil {
		if temporal.IsCanceledError(err) {
			a.say("the hand-off was cancelled, and its training with it")
			return &codedError{code: exitFailed}
		}
		return err
	}
	if a.json {
		if err := a.printJSON(out); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.out, "launch    %s\nstate     %s\nrecord    %s\n", oneLine(out.LaunchID), oneLine(out.State), oneLine(out.Record))
		if out.Text != "" {
			fmt.Fprintf(a.out, "reason    %s\n", printable(out.Text))
		}
		if s.endpoints != nil {
			fmt.Fprintf(a.out, "folder    %s\n", s.home.Path("launches", out.LaunchID))
		}
	}
	if out.State != string(launch.Succeeded) {
		return &codedError{code: exitFailed}
	}
	return nil
}

// cancelTrainings ends the trainings of a version that run, and waits until how
// they ended is recorded.
func (a *app) cancelTrainings(ctx context.Context, ref string) error {
	s, err := a.open(ctx, true)
	if err != nil {
		return err
	}
	defer s.close()
	v, _, err := s.catalog.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	ids, err := s.handOffs(ctx, wire.HandOffPrefix(v.Ref()))
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.temporal.CancelWorkflow(ctx, id, ""); err != nil {
			return fmt.Errorf("cancel %s: %w", id, err)
		}
	}
	for _, id := range ids {
		if err := s.temporal.GetWorkflow(ctx, id, "").Get(ctx, nil); err != nil && !temporal.IsCanceledError(err) {
			return err
		}
	}
	a.say("%d trainings of %s cancelled; stillhouse show %s says how they ended", len(ids), v.Ref(), v.Ref())
	return a.printJSON(map[string]any{"ref": v.Ref(), "cancelled": len(ids)})
}

// handOffs lists the hand-offs that run, by the beginning of their id.
func (s *session) handOffs(ctx context.Context, prefix string) ([]string, error) {
	var ids []string
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: s.namespace(), Query: "WorkflowType = '" + wire.WorkflowHandOff + "' AND ExecutionStatus = 'Running'", PageSize: 100,
	}
	for {
		page, err := s.temporal.ListWorkflow(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("list the hand-offs: %w", err)
		}
		for _, e := range page.Executions {
			if id := e.GetExecution().GetWorkflowId(); strings.HasPrefix(id, prefix) {
				ids = append(ids, id)
			}
		}
		if request.NextPageToken = page.NextPageToken; len(request.NextPageToken) == 0 {
			return ids, nil
		}
	}
}
