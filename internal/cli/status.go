package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/home"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

func init() { register(statusCommand, watchCommand, pauseCommand, resumeCommand, cancelCommand) }

func statusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status [BUILD]",
		Short: "Say how a build stands; the newest by default",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.status(cmd.Context(), first(args))
		},
	}
}

func watchCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "watch [BUILD]",
		Short: "Follow a running build to its end",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, r, err := a.running(cmd.Context(), first(args))
			if err != nil {
				return err
			}
			defer s.close()
			return s.finish(cmd.Context(), r)
		},
	}
}

func pauseCommand(a *app) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "pause [BUILD]",
		Short: "Pause a build: batches in flight end, no new one begins",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.control(cmd.Context(), first(args), func(ctx context.Context, s *session, r *run) error {
				if err := s.update(ctx, r, wire.UpdatePause, wire.PauseRequest{Reason: reason}); err != nil {
					return err
				}
				a.say("build %s of %s is pausing: batches in flight end, and no new one begins. Go on with: stillhouse resume %s", r.buildID, r.Dataset, r.buildID)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; shown to whoever watches")
	return cmd
}

func resumeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "resume [BUILD]",
		Short: "Let a paused build go on",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.control(cmd.Context(), first(args), func(ctx context.Context, s *session, r *run) error {
				if err := s.update(ctx, r, wire.UpdateResume); err != nil {
					return err
				}
				a.say("build %s of %s goes on", r.buildID, r.Dataset)
				return nil
			})
		},
	}
}

func cancelCommand(a *app) *cobra.Command {
	var batches bool
	cmd := &cobra.Command{
		Use:   "cancel [BUILD]",
		Short: "End a build; answers in flight are waited for and kept",
		Long: `Cancel ends a build. Answers in flight are waited for and kept.

Batches that were submitted to a batch API are paid for: they run on, and the
next build that wants their answers collects them. With --batches they are
cancelled at the endpoint too; what they had finished by then is charged, kept
and collected by the next build.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.control(cmd.Context(), first(args), func(ctx context.Context, s *session, r *run) error {
				if batches {
					if err := s.update(ctx, r, wire.UpdateCancelBatches); err != nil {
						return err
					}
				}
				if err := s.temporal.CancelWorkflow(ctx, r.id, ""); err != nil {
					return err
				}
				a.say("build %s of %s is ending; every answer that has arrived is kept", r.buildID, r.Dataset)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&batches, "batches", false, "cancel its batches at their endpoints too")
	return cmd
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// control does something to a running build.
func (a *app) control(ctx context.Context, build string, do func(context.Context, *session, *run) error) error {
	s, r, err := a.running(ctx, build)
	if err != nil {
		return err
	}
	defer s.close()
	if err := do(ctx, s, r); err != nil {
		return err
	}
	return a.printJSON(map[string]string{"dataset": r.Dataset, "build_id": r.buildID})
}

func (s *session) update(ctx context.Context, r *run, name string, args ...any) error {
	handle, err := s.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: r.id, UpdateName: name, Args: args, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return fmt.Errorf("%s build %s: %w", name, r.buildID, err)
	}
	return handle.Get(ctx, nil)
}

// running opens a session on the services that run, and finds a build there.
func (a *app) running(ctx context.Context, build string) (*session, *run, error) {
	s, err := a.open(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.find(ctx, build)
	if err != nil {
		s.close()
		return nil, nil, err
	}
	return s, r, nil
}

// find finds a running build by its id, its dataset, or the newest.
func (s *session) find(ctx context.Context, build string) (*run, error) {
	page, err := s.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query:    fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", wire.WorkflowBuild),
		PageSize: 200,
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(page.Executions, func(x, y *executionInfo) int {
		return y.StartTime.AsTime().Compare(x.StartTime.AsTime())
	})
	for _, e := range page.Executions {
		in, err := s.inputOf(ctx, e.Execution.WorkflowId, e.Execution.RunId)
		if err != nil {
			return nil, err
		}
		if build == "" || build == in.BuildID || build == in.Dataset {
			return &run{
				BuildRef: in.BuildRef, id: e.Execution.WorkflowId, buildID: in.BuildID,
				handle: s.temporal.GetWorkflow(ctx, e.Execution.WorkflowId, ""),
			}, nil
		}
	}
	if build == "" {
		return nil, usage("no build is running; stillhouse status shows the newest one")
	}
	return nil, usage("no build %s is running; stillhouse status %s shows how it ended", build, build)
}

// status shows a build: from the services where it runs, else from its record.
func (a *app) status(ctx context.Context, build string) error {
	s, err := a.open(ctx, false)
	switch {
	case err == nil:
		defer s.close()
		if r, ferr := s.find(ctx, build); ferr == nil {
			p, err := s.progress(ctx, r.id)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(p)
			}
			v := newProgressView(a)
			v.remember(time.Now(), p)
			fmt.Fprintln(a.out, "build "+oneLine(p.BuildID))
			for _, l := range v.lines(p) {
				fmt.Fprintln(a.out, strings.TrimRight(l, " "))
			}
			return nil
		}
	case a.remoteTemporal() || !notRunning(err):
		return err
	}
	c, err := a.readCatalog(ctx)
	if err != nil {
		return err
	}
	intent, err := findIntent(ctx, c, build)
	if err != nil {
		return err
	}
	return a.printIntent(intent)
}

// notRunning tells that an error only says that nobody runs the services.
func notRunning(err error) bool {
	var use *usageError
	return errors.As(err, &use) || errors.Is(err, home.ErrNotRunning)
}

// findIntent finds a build's record by its id, its dataset, or the newest.
func findIntent(ctx context.Context, c *catalog.Catalog, build string) (*catalog.Intent, error) {
	var newest *catalog.Intent
	names, err := datasetsWithBuilds(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		builds, err := c.Builds(ctx, name)
		if err != nil {
			return nil, err
		}
		for i := range builds {
			b := &builds[i]
			if build != "" && build != b.BuildID && build != name {
				continue
			}
			if newest == nil || b.Started.After(newest.Started) {
				newest = b
			}
		}
	}
	if newest == nil && build == "" {
		return nil, usage("no build yet; start one with: stillhouse build RECIPE, or: stillhouse demo")
	}
	if newest == nil {
		return nil, usage("no build %s in this store; name a build's id or a dataset, or leave it out for the newest", build)
	}
	return newest, nil
}

// datasetsWithBuilds lists the datasets that a build was ever started for,
// published or not.
func datasetsWithBuilds(ctx context.Context, c *catalog.Catalog) ([]string, error) {
	infos, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range infos {
		names = append(names, i.Name)
	}
	return names, nil
}

func (a *app) printIntent(i *catalog.Intent) error {
	if a.json {
		return a.printJSON(i)
	}
	fmt.Fprintf(a.out, "build     %s of %s\nstarted   %s\nstate     %s\n", oneLine(i.BuildID), oneLine(i.Dataset), i.Started.Format(time.RFC3339), oneLine(i.State))
	switch {
	case i.Live():
		fmt.Fprintf(a.out, "          nothing works on it now; run the same build command to go on (last sign of life %s)\n", i.Heartbeat.Format(time.RFC3339))
	case i.Version > 0 && i.Unchanged:
		fmt.Fprintf(a.out, "version   %s@%d, unchanged\n", oneLine(i.Dataset), i.Version)
	case i.Version > 0:
		fmt.Fprintf(a.out, "version   %s@%d\n", oneLine(i.Dataset), i.Version)
	}
	if i.Reason != "" {
		fmt.Fprintf(a.out, "reason    %s\n", printable(i.Reason))
	}
	var r struct {
		Tasks      int64            `json:"tasks"`
		Candidates int64            `json:"candidates"`
		Accepted   int64            `json:"accepted"`
		Rows       map[string]int64 `json:"rows"`
		CostUSD    float64          `json:"cost_usd"`
		DurationS  float64          `json:"duration_s"`
	}
	if len(i.Result) > 0 && json.Unmarshal(i.Result, &r) == nil {
		fmt.Fprintf(a.out, "result    %s tasks, %s candidates, %s accepted, %s rows, %s, %.1f s\n", grouped(r.Tasks), grouped(r.Candidates),
			grouped(r.Accepted), grouped(r.Rows["train"]+r.Rows["test"]), money(int64(r.CostUSD*1e6)), r.DurationS)
	}
	return nil
}
