package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

const (
	// refineWindow is how many shards are refined at once. While teachers are
	// still asked it is one every refineEvery: that shows what is accepted, and
	// leaves the processor to asking.
	refineWindow = 8
	refineEvery  = time.Second
	// continueEvery bounds the shards that one run refines, so that a history
	// stays at a few thousand events even where the server suggests nothing.
	continueEvery = 600
	// pauseWhileStarting is the change by which a stream learns of a pause that
	// came while it was being started.
	pauseWhileStarting = "pause-while-starting"
)

var (
	datasetAttribute = temporal.NewSearchAttributeKeyKeyword(wire.AttributeDataset)
	teacherAttribute = temporal.NewSearchAttributeKeyKeyword(wire.AttributeTeacher)
	phaseAttribute   = temporal.NewSearchAttributeKeyKeyword(wire.AttributePhase)
)

// Build makes one version of a dataset. Running it again over the same store
// asks only for what is missing.
func Build(ctx workflow.Context, in wire.BuildInput) (*wire.BuildOutput, error) {
	b := &build{in: in, phase: wire.PhasePlan}
	if err := b.setup(ctx); err != nil {
		return nil, err
	}
	out, err := b.run(ctx)
	b.handOff(ctx, out, err)
	b.notify(ctx, out, err)
	return out, err
}

// build is the state of one run of the Build workflow.
type build struct {
	in      wire.BuildInput
	phase   string
	started time.Time
	plan    wire.PlanOutput
	paused  bool
	// filtering says how far the filters of prompts are.
	filtering string
	why       string

	order   []string // teachers, in the plan's order
	streams map[string]*wire.StreamReport

	refined  wire.RefineCounts
	next     int       // first shard not yet begun
	begun    time.Time // when a refinement was begun last
	finished int       // shards refined in this run
	inFlight int
	failure  error // of a refinement
	judges   judging
	imports  map[string]workflow.Future // of recorded fallbacks, by teacher
	stats    string                     // key of the measures of all answers
}

func (b *build) setup(ctx workflow.Context) error {
	b.started = workflow.Now(ctx)
	b.streams = map[string]*wire.StreamReport{}
	if c := b.in.Carry; c != nil {
		b.started, b.plan, b.refined, b.next, b.paused = c.Started, c.Plan, c.Refined, c.Next, c.Paused
		b.stats = c.Stats
		for _, s := range c.Streams {
			b.streams[s.Teacher] = &s
			b.order = append(b.order, s.Teacher)
		}
		b.judges.reports = c.Judges
	}
	if err := workflow.SetQueryHandler(ctx, wire.QueryProgress, b.progress); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandler(ctx, wire.UpdatePause, func(ctx workflow.Context, r wire.PauseRequest) error {
		return b.pause(ctx, true, r.Reason)
	}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandler(ctx, wire.UpdateResume, func(ctx workflow.Context) error {
		return b.pause(ctx, false, "")
	}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, wire.UpdateBudget, b.setBudget,
		workflow.UpdateHandlerOptions{Validator: b.checkBudget}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandler(ctx, wire.UpdateCancelBatches, func(ctx workflow.Context) error {
		return b.control(ctx, "", wire.Control{Paused: b.paused, CancelBatches: true})
	}); err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, wire.UpdateConcurrency, b.setConcurrency,
		workflow.UpdateHandlerOptions{Validator: b.checkConcurrency})
}

func (b *build) run(ctx workflow.Context) (*wire.BuildOutput, error) {
	if b.in.Carry == nil {
		b.enter(ctx, wire.PhasePlan)
		if err := b.makePlan(ctx); err != nil {
			return nil, b.end(ctx, err)
		}
		if err := b.startStreams(ctx); err != nil {
			return nil, b.end(ctx, err)
		}
	}
	b.beginJudging(ctx)
	b.enter(ctx, wire.PhaseAsk)
	if err := b.askAndRefine(ctx); err != nil {
		return nil, b.end(ctx, err)
	}
	if err := b.scoreStudentFit(ctx); err != nil {
		return nil, b.end(ctx, err)
	}
	b.enter(ctx, wire.PhaseSeal)
	out, err := b.seal(ctx)
	if err != nil {
		return nil, b.end(ctx, err)
	}
	b.closeBudget(ctx, b.complete())
	b.enter(ctx, wire.PhaseDone)
	return out, nil
}

func (b *build) enter(ctx workflow.Context, phase string) {
	b.phase = phase
	if err := workflow.UpsertTypedSearchAttributes(ctx,
		datasetAttribute.ValueSet(b.in.Dataset), phaseAttribute.ValueSet(phase)); err != nil {
		workflow.GetLogger(ctx).Warn("search attributes were not set", "error", err)
	}
}

func (b *build) makePlan(ctx workflow.Context) error {
	if err := workflow.ExecuteActivity(pipelineOptions(ctx), wire.ActivityPlan, b.in.BuildRef).Get(ctx, &b.plan); err != nil {
		return err
	}
	if err := b.filterPrompts(ctx); err != nil {
		return err
	}
	return b.announceJudges(ctx)
}

// startStreams starts a stream for each teacher that has something to do.
func (b *build) startStreams(ctx workflow.Context) error {
	for _, t := range b.plan.Teachers {
		report := &wire.StreamReport{Teacher: t.ID}
		b.streams[t.ID] = report
		b.order = append(b.order, t.ID)
		if t.Batches == 0 {
			report.Done, report.Through = true, b.plan.Shards
			continue
		}
		paused := b.paused
		child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID:            wire.StreamWorkflowID(b.in.Dataset, b.in.BuildID, t.ID),
			TaskQueue:             wire.QueuePipeline,
			ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			Memo:                  map[string]any{wire.MemoQueue: t.Queue},
			TypedSearchAttributes: temporal.NewSearchAttributes(
				datasetAttribute.ValueSet(b.in.Dataset), teacherAttribute.ValueSet(t.ID)),
		}), wire.WorkflowTeacherStream, wire.StreamInput{
			BuildRef: b.in.BuildRef,
			Parent:   workflow.GetInfo(ctx).WorkflowExecution.ID,
			PlanKey:  b.plan.Key,
			Shards:   b.plan.Shards,
			Teacher:  t,
			Report:   *report,
			Paused:   paused,
		})
		if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
			return fmt.Errorf("start the stream of teacher %s: %w", t.ID, err)
		}
		if b.paused != paused && workflow.GetVersion(ctx, pauseWhileStarting, workflow.DefaultVersion, 1) == 1 {
			// Until it had started it took no signal.
			if err := b.control(ctx, t.ID, wire.Control{Paused: b.paused}); err != nil {
				return err
			}
		}
	}
	return nil
}

// askAndRefine waits for the streams and refines each shard as soon as every
// teacher is through with it.
func (b *build) askAndRefine(ctx workflow.Context) error {
	reports := workflow.GetSignalChannel(ctx, wire.SignalStream)
	for b.failure == nil && (b.next < b.plan.Shards || b.inFlight > 0 || !b.allDone()) {
		b.drain(reports)
		if err := b.streamFailure(); err != nil {
			return err
		}
		if b.unmeasured() && b.allDone() {
			if err := b.measure(ctx); err != nil {
				return err
			}
		}
		if b.mustContinue(ctx) {
			if b.inFlight == 0 && workflow.AllHandlersFinished(ctx) {
				b.drain(reports)
				return b.continueAsNew(ctx)
			}
		} else {
			b.refineReady(ctx)
		}
		if err := b.wait(ctx, reports); err != nil {
			return err
		}
	}
	return b.failure
}

// wait returns when a report came, a refinement ended or the build was cancelled.
func (b *build) wait(ctx workflow.Context, reports workflow.ReceiveChannel) error {
	if b.next >= b.plan.Shards && b.inFlight == 0 && b.allDone() {
		return nil
	}
	before := b.finished
	return workflow.Await(ctx, func() bool {
		return reports.Len() > 0 || b.finished != before || b.failure != nil
	})
}

func (b *build) drain(reports workflow.ReceiveChannel) {
	for {
		var r wire.StreamReport
		if !reports.ReceiveAsync(&r) {
			return
		}
		if _, known := b.streams[r.Teacher]; known {
			b.streams[r.Teacher] = &r
		}
	}
}

// refineReady begins refinements of shards that every teacher is through with.
func (b *build) refineReady(ctx workflow.Context) {
	if b.unmeasured() {
		return
	}
	ready := b.plan.Shards
	for _, id := range b.order {
		ready = min(ready, b.streams[id].Through)
	}
	window := refineWindow
	if !b.allDone() && len(b.plan.Judges) == 0 && len(b.plan.Fallbacks) == 0 {
		if window = 1; workflow.Now(ctx).Sub(b.begun) < refineEvery {
			return
		}
	}
	for b.next < ready && b.inFlight < window {
		b.begun = workflow.Now(ctx)
		shard := b.next
		b.next++
		b.inFlight++
		workflow.Go(ctx, func(ctx workflow.Context) {
			counts, err := b.refine(ctx, shard)
			b.inFlight--
			b.finished++
			if err != nil && b.failure == nil {
				b.failure = fmt.Errorf("refine shard %d: %w", shard, err)
			}
			b.refined.Add(counts)
		})
	}
}

// refineOptions send shards to workers with a sandbox where answers are run.
func (b *build) refineOptions(ctx workflow.Context) workflow.Context {
	ctx = pipelineOptions(ctx)
	if b.plan.Sandbox {
		ctx = workflow.WithTaskQueue(ctx, wire.QueueSandbox)
	}
	return ctx
}

func (b *build) allDone() bool {
	for _, id := range b.order {
		if !b.streams[id].Done {
			return false
		}
	}
	return true
}

func (b *build) streamFailure() error {
	for _, id := range b.order {
		r := b.streams[id]
		if r.Failure == "" {
			continue
		}
		text := "teacher " + id + ": " + strings.TrimPrefix(r.Failure, "teacher "+id+": ")
		return temporal.NewApplicationError(text, cmp.Or(r.FailureType, "StreamFailed"))
	}
	return nil
}

func (b *build) mustContinue(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() || b.finished >= continueEvery
}

func (b *build) continueAsNew(ctx workflow.Context) error {
	carry := &wire.BuildCarry{
		Plan: b.plan, Refined: b.refined, Next: b.next, Paused: b.paused, Started: b.started, Stats: b.stats, Judges: b.carriedJudges(),
	}
	// The streams run already: of their plans only what progress shows is kept.
	carry.Plan.Teachers = nil
	for _, t := range b.plan.Teachers {
		carry.Plan.Teachers = append(carry.Plan.Teachers, wire.TeacherPlan{ID: t.ID, Asks: t.Asks})
	}
	for _, id := range b.order {
		r := *b.streams[id]
		r.Stopped, r.Waiting = classOnly(r.Stopped), ""
		if r.Done || r.Stopped != nil {
			r.Counts = withoutTokens(r.Counts)
		}
		carry.Streams = append(carry.Streams, r)
	}
	return workflow.NewContinueAsNewError(ctx, wire.WorkflowBuild, wire.BuildInput{BuildRef: b.in.BuildRef, Carry: carry})
}

func (b *build) seal(ctx workflow.Context) (*wire.BuildOutput, error) {
	in := wire.SealInput{BuildRef: b.in.BuildRef, PlanKey: b.plan.Key, Started: b.started, Streams: b.summaries()}
	var out wire.BuildOutput
	err := workflow.ExecuteActivity(pipelineOptions(ctx), wire.ActivitySeal, in).Get(ctx, &out)
	return &out, err
}

// classOnly drops the words of a failure, which the teacher's candidates hold
// too: all teachers' words together would not fit a payload.
func classOnly(f *wire.TeacherFailed) *wire.TeacherFailed {
	if f == nil {
		return nil
	}
	return &wire.TeacherFailed{Class: f.Class}
}

// end stops the streams and records how the build ended, then gives err back.
// A continue-as-new passes through untouched.
func (b *build) end(ctx workflow.Context, err error) error {
	if workflow.IsContinueAsNewError(err) {
		return err
	}
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	b.phase = wire.PhaseStopped
	for _, id := range b.order {
		if r := b.streams[id]; !r.Done {
			stream := wire.StreamWorkflowID(b.in.Dataset, b.in.BuildID, id)
			if cerr := workflow.RequestCancelExternalWorkflow(ctx, stream, "").Get(ctx, nil); cerr != nil {
				workflow.GetLogger(ctx).Warn("stream was not cancelled", "stream", stream, "error", cerr)
			}
		}
	}
	b.awaitStreams(ctx)
	b.closeBudget(ctx, false)
	state := "failed"
	if temporal.IsCanceledError(err) {
		state = "cancelled"
	}
	if aerr := workflow.ExecuteActivity(pipelineOptions(ctx), wire.ActivityAbandon, b.in.BuildRef, state, errorText(err)).Get(ctx, nil); aerr != nil {
		workflow.GetLogger(ctx).Warn("the build's end was not recorded", "error", aerr)
	}
	return err
}

// awaitStreams gives cancelled streams a minute to keep what is in flight.
func (b *build) awaitStreams(ctx workflow.Context) {
	reports := workflow.GetSignalChannel(ctx, wire.SignalStream)
	_, _ = workflow.AwaitWithTimeout(ctx, time.Minute, func() bool {
		b.drain(reports)
		return b.allDone()
	})
}

// errorType is the type of the application error in err, or "".
func errorType(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Type()
	}
	return ""
}

// errorText is what an error says, without the layers that carried it.
func errorText(err error) string {
	const most = 2000
	s := err.Error()
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		s = app.Message()
	}
	if len(s) > most {
		s = s[:most]
	}
	return s
}

func (b *build) pause(ctx workflow.Context, paused bool, why string) error {
	if paused && !b.paused {
		b.interruptJudging()
	}
	b.paused, b.why = paused, why
	return b.control(ctx, "", wire.Control{Paused: paused})
}

func (b *build) checkConcurrency(r wire.ConcurrencyRequest) error {
	if b.streams[r.Teacher] == nil {
		return fmt.Errorf("no teacher %q in this build", r.Teacher)
	}
	if r.Batches < 1 || r.Batches > maxWindow {
		return fmt.Errorf("batches in flight: want 1 to %d, have %d", maxWindow, r.Batches)
	}
	return nil
}

func (b *build) setConcurrency(ctx workflow.Context, r wire.ConcurrencyRequest) error {
	return b.control(ctx, r.Teacher, wire.Control{Paused: b.paused, Concurrency: r.Batches})
}

// control sends c to one stream, or to all where teacher is "".
func (b *build) control(ctx workflow.Context, teacher string, c wire.Control) error {
	for _, id := range b.order {
		if b.streams[id].Done || (teacher != "" && teacher != id) {
			continue
		}
		stream := wire.StreamWorkflowID(b.in.Dataset, b.in.BuildID, id)
		if err := workflow.SignalExternalWorkflow(ctx, stream, "", wire.SignalControl, c).Get(ctx, nil); err != nil {
			// A stream that has just ended takes no signal; its last report is on the way.
			workflow.GetLogger(ctx).Info("stream took no signal", "stream", stream, "error", err)
		}
	}
	return nil
}

func (b *build) progress() (wire.Progress, error) {
	p := wire.Progress{
		BuildRef: b.in.BuildRef, Phase: b.phase, Paused: b.paused, Why: b.why, Started: b.started,
		Tasks: b.plan.Tasks, Prompts: b.plan.Prompts, Duplicates: b.plan.Duplicates, Dropped: b.plan.Dropped, Filtering: b.filtering,
		Shards: b.plan.Shards, ShardsDone: b.next - b.inFlight, Refined: b.refined, Limited: b.plan.Budget, Sandbox: b.plan.Sandbox,
	}
	for _, t := range b.plan.Teachers {
		s := wire.TeacherStatus{ID: t.ID, Total: t.Asks, Stream: wire.StreamWorkflowID(b.in.Dataset, b.in.BuildID, t.ID)}
		if r := b.streams[t.ID]; r != nil {
			s.Counts, s.Done, s.Stopped, s.Waiting = r.Counts, r.Done, r.Stopped, r.Waiting
		}
		b.judged(&s)
		p.Teachers = append(p.Teachers, s)
	}
	return p, nil
}
