package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets/diff"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// catchUp is how late a run may start after an outage. The server's own default,
// a year, would spend money on every run that was missed.
const catchUp = time.Hour

// overlaps are what may happen to a run that is due while the one before still
// runs. Runs side by side are not among them: they would be one build.
var overlaps = map[string]enumspb.ScheduleOverlapPolicy{
	"skip":         enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
	"buffer-one":   enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE,
	"buffer-all":   enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL,
	"cancel-other": enumspb.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER,
}

// scheduleFlags say when a schedule runs.
type scheduleFlags struct {
	cron, every, zone, overlap string
	jitter, catchUp            time.Duration
}

func (f *scheduleFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.cron, "cron", "", "cron expression, such as '0 3 * * *'")
	fl.StringVar(&f.every, "every", "", "interval, such as 6h")
	fl.StringVar(&f.zone, "time-zone", "UTC", "time zone of --cron, such as Europe/Berlin")
	fl.DurationVar(&f.jitter, "jitter", 0, "start each run up to this much later, at random")
	fl.StringVar(&f.overlap, "overlap", "skip", "a run that is due while one runs: skip, buffer-one, buffer-all or cancel-other")
	fl.DurationVar(&f.catchUp, "catch-up", catchUp, "how late a run may start after an outage; later ones are left out")
}

// times is when it runs; nil where no flag says so.
func (f *scheduleFlags) times() (*client.ScheduleSpec, error) {
	spec := client.ScheduleSpec{TimeZoneName: f.zone, Jitter: f.jitter}
	if _, err := time.LoadLocation(f.zone); err != nil {
		return nil, usage("--time-zone %s: no such zone; write a name such as UTC or Europe/Berlin", f.zone)
	}
	switch {
	case f.cron != "" && f.every != "":
		return nil, usage("give either --cron or --every")
	case f.cron == "" && f.every == "":
		return nil, nil
	case f.cron != "":
		spec.CronExpressions = []string{f.cron}
	default:
		d, err := time.ParseDuration(f.every)
		if err != nil || d < time.Minute {
			return nil, usage("--every %s: want an interval of at least a minute, such as 6h", f.every)
		}
		spec.Intervals = []client.ScheduleIntervalSpec{{Every: d}}
	}
	return &spec, nil
}

// overlapPolicy checks what else the flags say.
func (f *scheduleFlags) overlapPolicy() (enumspb.ScheduleOverlapPolicy, error) {
	policy, ok := overlaps[f.overlap]
	switch {
	case !ok:
		return 0, usage("--overlap %s: want skip, buffer-one, buffer-all or cancel-other", f.overlap)
	case f.jitter < 0:
		return 0, usage("--jitter %s is negative", f.jitter)
	case f.catchUp < 10*time.Second:
		return 0, usage("--catch-up %s: want at least 10s", f.catchUp)
	}
	return policy, nil
}

// overlapName is the flag's word for a policy.
func overlapName(p enumspb.ScheduleOverlapPolicy) string {
	for name, policy := range overlaps {
		if policy == p {
			return name
		}
	}
	return "skip"
}

// scheduled is what a schedule starts.
func scheduled(name string, r *recipe.Recipe, sub *activities.Submission) *client.ScheduleWorkflowAction {
	return &client.ScheduleWorkflowAction{
		ID: "scheduled/" + r.Name + "/" + name, Workflow: wire.WorkflowScheduled, TaskQueue: wire.QueuePipeline,
		Args: []any{wire.ScheduledInput{
			Dataset: r.Name, RecipeDigest: sub.RecipeDigest, SourcesDigest: sub.SourcesDigest,
			Relist: activities.GrowsElsewhere(r), Notify: len(r.Notify), HandOff: r.Handoff != nil,
		}},
	}
}

func scheduleUpdateCommand(a *app) *cobra.Command {
	var f scheduleFlags
	var dry bool
	cmd := &cobra.Command{
		Use:   "update NAME [RECIPE]",
		Short: "Give a schedule another recipe or other times, and show what changes",
		Long: `Update pins a recipe and its local files anew for a schedule, or changes when it
runs, and shows what differs first. A run that is under way goes on as it was
started. With --dry-run it only shows.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := ""
			if len(args) == 2 {
				path = args[1]
			}
			return a.updateSchedule(cmd.Context(), args[0], path, f, cmd.Flags().Changed, dry)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what would change, and change nothing")
	return cmd
}

// A scheduleUpdate is what schedule update --json prints.
type scheduleUpdate struct {
	Schedule string        `json:"schedule"`
	Recipe   []diff.Change `json:"recipe"`  // by key
	Sources  bool          `json:"sources"` // files that it reads have changed
	Times    []string      `json:"times"`   // in words
	Applied  bool          `json:"applied"`
}

func (a *app) updateSchedule(ctx context.Context, name, path string, f scheduleFlags, changed func(string) bool, dry bool) error {
	spec, err := f.times()
	if err != nil {
		return err
	}
	overlap, err := f.overlapPolicy()
	if err != nil {
		return err
	}
	var r *recipe.Recipe
	if path != "" {
		if r, err = a.loadRecipe(path); err != nil {
			return err
		}
	}
	timing := slices.ContainsFunc([]string{"cron", "every", "time-zone", "jitter", "overlap", "catch-up"}, changed)
	if r == nil && !timing {
		return usage("nothing to change: name a recipe, or give --cron, --every, --time-zone, --jitter, --overlap or --catch-up")
	}
	s, err := a.open(ctx, false)
	if err != nil {
		return err
	}
	defer s.close()
	handle := s.temporal.ScheduleClient().GetHandle(ctx, schedulePrefix+name)
	d, err := handle.Describe(ctx)
	if gone(err) {
		return usage("no schedule %s; stillhouse schedule list shows those that there are", name)
	}
	if err != nil {
		return err
	}
	old, err := a.scheduledInput(&d.Schedule)
	if err != nil {
		return fmt.Errorf("schedule %s: %w", name, err)
	}
	out := scheduleUpdate{Schedule: name, Recipe: []diff.Change{}, Times: []string{}}
	var action *client.ScheduleWorkflowAction
	if r != nil {
		if r.Name != old.Dataset {
			return usage("schedule %s builds %s, and the recipe %s; create a schedule of its own for it", name, old.Dataset, r.Name)
		}
		if err := s.needAttributes(ctx); err != nil {
			return err
		}
		sub, err := activities.Submit(ctx, s.bucket, r, a.finder(r.Dir))
		if err != nil {
			return err
		}
		before, _, err := objstore.ReadAll(ctx, s.bucket, activities.RecipeKey(old.RecipeDigest), maxPinnedRecipe)
		if err != nil && !errors.Is(err, objstore.ErrNotFound) {
			return err
		}
		if out.Recipe, err = diff.Recipes(before, r.Raw); err != nil {
			return err
		}
		out.Sources = sub.SourcesDigest != old.SourcesDigest
		action = scheduled(name, r, sub)
	}
	next := d.Schedule
	if timing {
		out.Times = retime(&next, spec, f, overlap, changed)
	}
	if action != nil {
		next.Action = action
	}
	if !dry && (len(out.Recipe) > 0 || out.Sources || len(out.Times) > 0 || action != nil && !same(action, old)) {
		err := handle.Update(ctx, client.ScheduleUpdateOptions{DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			next.State = in.Description.Schedule.State // somebody may have paused it meanwhile
			return &client.ScheduleUpdate{Schedule: &next}, nil
		}})
		if err != nil {
			return fmt.Errorf("update schedule %s: %w", name, err)
		}
		out.Applied = true
	}
	if a.json {
		return a.printJSON(out)
	}
	return a.printUpdate(&out, dry)
}

// maxPinnedRecipe bounds a recipe that is read back.
const maxPinnedRecipe = 1 << 20

func same(action *client.ScheduleWorkflowAction, old *wire.ScheduledInput) bool {
	in, ok := action.Args[0].(wire.ScheduledInput)
	return ok && in == *old
}

// scheduledInput is what a schedule starts its builds with.
func (a *app) scheduledInput(s *client.Schedule) (*wire.ScheduledInput, error) {
	action, ok := s.Action.(*client.ScheduleWorkflowAction)
	if !ok || len(action.Args) != 1 {
		return nil, errors.New("it was not made by stillhouse schedule create")
	}
	payload, ok := action.Args[0].(*commonpb.Payload)
	if !ok {
		return nil, errors.New("it was not made by stillhouse schedule create")
	}
	var in wire.ScheduledInput
	return &in, a.payloads().FromPayload(payload, &in)
}

// retime changes when a schedule runs, and says how in words.
func retime(s *client.Schedule, spec *client.ScheduleSpec, f scheduleFlags, overlap enumspb.ScheduleOverlapPolicy, changed func(string) bool) []string {
	out := []string{}
	note := func(what, before, after string) {
		if before != after {
			out = append(out, fmt.Sprintf("%s: %s -> %s", what, before, after))
		}
	}
	before := *s.Spec
	if spec != nil {
		next := *spec
		if !changed("jitter") {
			next.Jitter = before.Jitter
		}
		if !changed("time-zone") {
			next.TimeZoneName = before.TimeZoneName
		}
		s.Spec = &next
	} else {
		next := before
		if changed("jitter") {
			next.Jitter = f.jitter
		}
		if changed("time-zone") {
			next.TimeZoneName = f.zone
		}
		s.Spec = &next
	}
	policy := client.SchedulePolicies{}
	if s.Policy != nil {
		policy = *s.Policy
	}
	was := policy
	if changed("overlap") {
		policy.Overlap = overlap
	}
	if changed("catch-up") {
		policy.CatchupWindow = f.catchUp
	}
	s.Policy = &policy
	note("times", timesOf(&before), timesOf(s.Spec))
	note("jitter", before.Jitter.String(), s.Spec.Jitter.String())
	note("overlap", overlapName(was.Overlap), overlapName(policy.Overlap))
	note("catch-up", was.CatchupWindow.String(), policy.CatchupWindow.String())
	return out
}

func (a *app) printUpdate(u *scheduleUpdate, dry bool) error {
	for _, c := range u.Recipe {
		printChange(a.out, &c)
	}
	if u.Sources {
		fmt.Fprintln(a.out, "the files that the recipe reads have changed")
	}
	for _, t := range u.Times {
		fmt.Fprintln(a.out, printable(t))
	}
	switch {
	case u.Applied:
		a.say("schedule %s changed; the next run uses it", u.Schedule)
	case dry:
		a.say("schedule %s was not changed: --dry-run", u.Schedule)
	default:
		a.say("schedule %s is as it was: nothing differs", u.Schedule)
	}
	return nil
}

// timesOf says in words when a schedule runs. The server gives back a cron
// expression as a calendar, with the expression as its comment.
func timesOf(s *client.ScheduleSpec) string {
	var out []string
	for _, c := range s.CronExpressions {
		out = append(out, "cron "+c)
	}
	for _, c := range s.Calendars {
		if c.Comment != "" {
			out = append(out, "cron "+c.Comment)
		} else {
			out = append(out, calendarOf(&c))
		}
	}
	for _, i := range s.Intervals {
		out = append(out, "every "+i.Every.String())
	}
	if len(out) == 0 {
		return "never"
	}
	text := strings.Join(out, ", ")
	if s.TimeZoneName != "" && s.TimeZoneName != "UTC" {
		text += " " + s.TimeZoneName
	}
	return text
}

// calendarOf writes a calendar as a cron expression: minute, hour, day, month,
// day of the week.
func calendarOf(c *client.ScheduleCalendarSpec) string {
	part := func(ranges []client.ScheduleRange, all client.ScheduleRange) string {
		var out []string
		for _, r := range ranges {
			end, step := max(r.End, r.Start), max(r.Step, 1)
			text := fmt.Sprint(r.Start)
			switch {
			case r.Start == all.Start && end == all.End:
				text = "*"
			case end > r.Start:
				text += fmt.Sprintf("-%d", end)
			}
			if step > 1 {
				text += fmt.Sprintf("/%d", step)
			}
			out = append(out, text)
		}
		if len(out) == 0 {
			return "*"
		}
		return strings.Join(out, ",")
	}
	return "cron " + strings.Join([]string{
		part(c.Minute, client.ScheduleRange{Start: 0, End: 59}), part(c.Hour, client.ScheduleRange{Start: 0, End: 23}),
		part(c.DayOfMonth, client.ScheduleRange{Start: 1, End: 31}), part(c.Month, client.ScheduleRange{Start: 1, End: 12}),
		part(c.DayOfWeek, client.ScheduleRange{Start: 0, End: 6}),
	}, " ")
}
