package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

func scheduleShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a schedule: its times, its last runs and what they made and cost", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.showSchedule(cmd.Context(), args[0]) },
	}
}

// A scheduleDetail is what schedule show prints.
type scheduleDetail struct {
	Name          string        `json:"name"`
	Dataset       string        `json:"dataset"`
	RecipeDigest  string        `json:"recipe_digest"`
	SourcesDigest string        `json:"sources_digest"`
	Relisted      bool          `json:"relisted"` // other stores are listed anew before each run
	Times         string        `json:"times"`    // in words
	Jitter        string        `json:"jitter"`
	Overlap       string        `json:"overlap"`
	CatchUp       string        `json:"catch_up"`
	Paused        bool          `json:"paused"`
	Note          string        `json:"note,omitempty"`
	Created       time.Time     `json:"created"`
	Updated       time.Time     `json:"updated,omitzero"`
	Runs          int           `json:"runs"`    // started so far
	Missed        int           `json:"missed"`  // too late after an outage
	Skipped       int           `json:"skipped"` // one still ran
	Recent        []scheduleRun `json:"recent"`  // newest first, at most 10
	Next          []time.Time   `json:"next"`
}

// A scheduleRun is one run of a schedule.
type scheduleRun struct {
	Due       time.Time `json:"due"`
	Started   time.Time `json:"started"`
	State     string    `json:"state"` // running, published, unchanged, gate, budget, teacher, failed, cancelled, unknown
	Version   int64     `json:"version,omitempty"`
	BuildID   string    `json:"build_id,omitempty"`
	CostUSD   *float64  `json:"cost_usd,omitempty"` // null: not known
	DurationS float64   `json:"duration_s,omitempty"`
	Why       string    `json:"why,omitempty"`
}

func (a *app) showSchedule(ctx context.Context, name string) error {
	s, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	defer s.close()
	d, err := s.temporal.ScheduleClient().GetHandle(ctx, schedulePrefix+name).Describe(ctx)
	if gone(err) {
		return usage("no schedule %s; stillhouse schedule list shows those that there are", name)
	}
	if err != nil {
		return err
	}
	in, err := a.scheduledInput(&d.Schedule)
	if err != nil {
		return fmt.Errorf("schedule %s: %w", name, err)
	}
	out := scheduleDetail{
		Name: name, Dataset: in.Dataset, RecipeDigest: in.RecipeDigest, SourcesDigest: in.SourcesDigest, Relisted: in.Relist,
		Times: timesOf(d.Schedule.Spec), Jitter: d.Schedule.Spec.Jitter.String(), Overlap: "skip", CatchUp: catchUp.String(),
		Created: d.Info.CreatedAt, Updated: d.Info.LastUpdateAt,
		Runs: d.Info.NumActions, Missed: d.Info.NumActionsMissedCatchupWindow, Skipped: d.Info.NumActionsSkippedOverlap,
		Recent: []scheduleRun{}, Next: d.Info.NextActionTimes,
	}
	if p := d.Schedule.Policy; p != nil {
		out.Overlap, out.CatchUp = overlapName(p.Overlap), p.CatchupWindow.String()
	}
	if st := d.Schedule.State; st != nil {
		out.Paused, out.Note = st.Paused, st.Note
	}
	if out.Paused || out.Next == nil {
		out.Next = []time.Time{}
	}
	c := catalog.Open(s.bucket)
	for i := len(d.Info.RecentActions) - 1; i >= 0; i-- {
		out.Recent = append(out.Recent, s.runOf(ctx, c, in.Dataset, &d.Info.RecentActions[i]))
	}
	if a.json {
		return a.printJSON(out)
	}
	return a.printSchedule(&out)
}

// runOf asks Temporal how a run ended, and the catalog what it cost. What they no
// longer know is left open.
func (s *session) runOf(ctx context.Context, c *catalog.Catalog, dataset string, at *client.ScheduleActionResult) scheduleRun {
	r := scheduleRun{Due: at.ScheduleTime, Started: at.ActualTime, State: "unknown"}
	if at.StartWorkflowResult == nil {
		return r
	}
	id, run := at.StartWorkflowResult.WorkflowID, at.StartWorkflowResult.FirstExecutionRunID
	d, err := s.temporal.DescribeWorkflowExecution(ctx, id, run)
	if err != nil {
		r.Why = "Temporal no longer knows it"
		return r
	}
	info := d.GetWorkflowExecutionInfo()
	r.BuildID = wire.BuildID(info.GetStartTime().AsTime(), run)
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		r.State = "running"
		return r
	}
	var out wire.BuildOutput
	err = s.temporal.GetWorkflow(ctx, id, run).Get(ctx, &out)
	var app *temporal.ApplicationError
	switch {
	case err == nil:
		r.State, r.Version = stateOf(&out), out.Version
		r.BuildID = out.BuildID
	case temporal.IsCanceledError(err):
		r.State = "cancelled"
	case errors.As(err, &app):
		r.State, r.Why = "failed", app.Message()
	default:
		r.State = "failed"
	}
	entry, err := c.Build(ctx, dataset, r.BuildID)
	var result activities.BuildResult
	if err == nil && len(entry.Result) > 0 && json.Unmarshal(entry.Result, &result) == nil {
		r.CostUSD, r.DurationS = &result.CostUSD, result.DurationS
	}
	return r
}

func stateOf(out *wire.BuildOutput) string {
	switch {
	case len(out.Gates) > 0:
		return "gate"
	case len(out.OverBudget) > 0:
		return "budget"
	case len(out.Stopped) > 0:
		return "teacher"
	case out.Unchanged:
		return "unchanged"
	}
	return "published"
}

func (a *app) printSchedule(d *scheduleDetail) error {
	state := "active"
	if d.Paused {
		state = "paused"
		if d.Note != "" {
			state += ": " + oneLine(d.Note)
		}
	}
	fmt.Fprintf(a.out, "schedule  %s builds %s\nstate     %s\ntimes     %s, jitter %s, overlap %s, catch-up %s\nrecipe    %s\nruns      %d, skipped %d, missed %d\n",
		oneLine(d.Name), oneLine(d.Dataset), state, oneLine(d.Times), d.Jitter, d.Overlap, d.CatchUp, oneLine(d.RecipeDigest), d.Runs, d.Skipped, d.Missed)
	if d.Relisted {
		fmt.Fprintln(a.out, "sources   of other stores are listed anew before each run")
	}
	for i, t := range d.Next {
		if i == 3 {
			break
		}
		label := ""
		if i == 0 {
			label = "next"
		}
		fmt.Fprintf(a.out, "%-8s  %s\n", label, moment(t))
	}
	if len(d.Recent) == 0 {
		fmt.Fprintln(a.out, "\nit has not run yet; run it now with: stillhouse schedule trigger "+oneLine(d.Name))
		return nil
	}
	tw := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "\nstarted\tended as\tversion\tcost\ttook\twhy")
	for _, r := range d.Recent {
		version, cost, took := "-", "-", "-"
		if r.Version > 0 {
			version = fmt.Sprintf("%s@%d", d.Dataset, r.Version)
		}
		if r.CostUSD != nil {
			cost, took = fmt.Sprintf("$%.2f", *r.CostUSD), (time.Duration(r.DurationS * float64(time.Second))).Round(time.Second).String()
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", moment(r.Started), r.State, oneLine(version), cost, took, oneLine(r.Why))
	}
	return tw.Flush()
}

func scheduleBackfillCommand(a *app) *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "backfill NAME --from TIME --to TIME",
		Short: "Run a schedule for times that are past, one after the other",
		Long: `Backfill starts the runs that a schedule would have made between two times, one
after the other. Answers are kept, so that runs over the same prompts ask nobody
again and publish nothing new.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			start, err := pastTime("--from", from)
			if err != nil {
				return err
			}
			end, err := pastTime("--to", to)
			if err != nil {
				return err
			}
			if !start.Before(end) {
				return usage("--from %s is not before --to %s", from, to)
			}
			return a.onSchedule(cmd.Context(), args[0], "runs again for these times", func(ctx context.Context, h client.ScheduleHandle) error {
				return h.Backfill(ctx, client.ScheduleBackfillOptions{Backfill: []client.ScheduleBackfill{{
					Start: start, End: end, Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL,
				}}})
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "first time, such as 2026-11-01 or 2026-11-01T03:00:00Z")
	cmd.Flags().StringVar(&to, "to", "", "last time")
	return cmd
}

// pastTime reads a day (UTC) or a moment that is over.
func pastTime(flag, text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			if t.After(time.Now()) {
				return t, usage("%s %s is yet to come; the schedule itself runs then", flag, text)
			}
			return t, nil
		}
	}
	return time.Time{}, usage("%s %q: want a day such as 2026-11-01, or a moment such as 2026-11-01T03:00:00Z", flag, text)
}
