package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/activities"
)

func init() { register(scheduleCommand) }

const schedulePrefix = "schedule/"

var scheduleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func scheduleCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Build a recipe on a schedule",
		Long:  "Scheduled builds run on Temporal Schedules, while stillhouse serve runs or on a\nTemporal server of your own. The recipe and its local files are pinned when the\nschedule is created or updated; what lies in other stores (s3://) is listed anew\nbefore each run, so that prompts may grow and only new ones are asked. A run that\nchanges nothing publishes nothing.",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var f scheduleFlags
	create := &cobra.Command{
		Use:   "create NAME RECIPE",
		Short: "Create a schedule",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.createSchedule(cmd.Context(), args[0], args[1], f)
		},
	}
	f.add(create)
	var note string
	pause := &cobra.Command{
		Use: "pause NAME", Short: "Pause a schedule", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onSchedule(cmd.Context(), args[0], "paused", func(ctx context.Context, h client.ScheduleHandle) error {
				return h.Pause(ctx, client.SchedulePauseOptions{Note: note})
			})
		},
	}
	pause.Flags().StringVar(&note, "reason", "", "why")
	cmd.AddCommand(create, pause, scheduleUpdateCommand(a), scheduleShowCommand(a), scheduleBackfillCommand(a),
		&cobra.Command{
			Use: "list", Short: "List schedules", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.listSchedules(cmd.Context()) },
		},
		&cobra.Command{
			Use: "trigger NAME", Short: "Run a schedule's build now", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.onSchedule(cmd.Context(), args[0], "triggered", func(ctx context.Context, h client.ScheduleHandle) error {
					return h.Trigger(ctx, client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP})
				})
			},
		},
		&cobra.Command{
			Use: "resume NAME", Short: "Resume a schedule", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.onSchedule(cmd.Context(), args[0], "resumed", func(ctx context.Context, h client.ScheduleHandle) error {
					return h.Unpause(ctx, client.ScheduleUnpauseOptions{})
				})
			},
		},
		&cobra.Command{
			Use: "delete NAME", Short: "Delete a schedule; a build that runs goes on", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.onSchedule(cmd.Context(), args[0], "deleted", func(ctx context.Context, h client.ScheduleHandle) error {
					return h.Delete(ctx)
				})
			},
		})
	return cmd
}

func (a *app) createSchedule(ctx context.Context, name, path string, f scheduleFlags) error {
	if !scheduleName.MatchString(name) {
		return usage("schedule name %q: letters, digits, '.', '_' and '-', at most 63", name)
	}
	spec, err := f.times()
	if err != nil {
		return err
	}
	if spec == nil {
		return usage("give either --cron or --every")
	}
	overlap, err := f.overlapPolicy()
	if err != nil {
		return err
	}
	r, err := a.loadRecipe(path)
	if err != nil {
		return err
	}
	if !a.remoteTemporal() {
		if err := a.needServe(ctx, "schedule create"); err != nil {
			return err
		}
	}
	s, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.needAttributes(ctx); err != nil {
		return err
	}
	sub, err := activities.Submit(ctx, s.bucket, r, a.finder(r.Dir))
	if err != nil {
		return err
	}
	_, err = s.temporal.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: schedulePrefix + name, Spec: *spec, Overlap: overlap, CatchupWindow: f.catchUp,
		Action: scheduled(name, r, sub),
		Memo:   map[string]any{"recipe": r.File, "dataset": r.Name},
	})
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return usage("a schedule %s is there already; change it with: stillhouse schedule update %s %s; or choose another name", name, name, r.File)
	}
	if err != nil {
		return fmt.Errorf("create schedule %s: %w", name, err)
	}
	a.say("schedule %s builds %s; list it with: stillhouse schedule list", name, r.Name)
	return a.printJSON(map[string]string{"schedule": name, "dataset": r.Name})
}

// onSchedule does something to a schedule and says so.
func (a *app) onSchedule(ctx context.Context, name, done string, do func(context.Context, client.ScheduleHandle) error) error {
	s, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	defer s.close()
	if err := do(ctx, s.temporal.ScheduleClient().GetHandle(ctx, schedulePrefix+name)); err != nil {
		if gone(err) {
			return usage("no schedule %s; stillhouse schedule list shows those that there are", name)
		}
		return err
	}
	a.say("schedule %s %s", name, done)
	return a.printJSON(map[string]string{"schedule": name, "state": done})
}

// A scheduleInfo is one row of schedule list.
type scheduleInfo struct {
	Name    string    `json:"name"`
	Paused  bool      `json:"paused"`
	Note    string    `json:"note,omitempty"`
	LastRun time.Time `json:"last_run,omitzero"`
	NextRun time.Time `json:"next_run,omitzero"`
}

func (a *app) listSchedules(ctx context.Context) error {
	s, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	defer s.close()
	list, err := s.temporal.ScheduleClient().List(ctx, client.ScheduleListOptions{})
	if err != nil {
		return err
	}
	infos := []scheduleInfo{}
	for list.HasNext() {
		e, err := list.Next()
		if err != nil {
			return err
		}
		if len(e.ID) <= len(schedulePrefix) || e.ID[:len(schedulePrefix)] != schedulePrefix {
			continue
		}
		info := scheduleInfo{Name: e.ID[len(schedulePrefix):], Paused: e.Paused, Note: e.Note}
		if n := len(e.RecentActions); n > 0 {
			info.LastRun = e.RecentActions[n-1].ActualTime
		}
		if len(e.NextActionTimes) > 0 && !e.Paused {
			info.NextRun = e.NextActionTimes[0]
		}
		infos = append(infos, info)
	}
	if a.json {
		return a.printJSON(infos)
	}
	tw := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "schedule\tstate\tlast run\tnext run\tnote")
	for _, i := range infos {
		state := "active"
		if i.Paused {
			state = "paused"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", oneLine(i.Name), state, moment(i.LastRun), moment(i.NextRun), oneLine(i.Note))
	}
	return tw.Flush()
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}
