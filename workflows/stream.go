package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

const (
	// maxWindow is the most batches of one teacher in flight. The server takes
	// 2,000 pending activities; its own advice is 500 operations at once.
	maxWindow = 200
	// reportEvery spaces a stream's reports, so that a Build's history grows
	// with time and shards and not with batches.
	reportEvery = time.Second
	// fastBatch and growTo let the window of a fast endpoint grow, a batch for
	// each batch that was over so soon: there the time goes into keeping answers
	// and beginning the next batch, not into waiting for the endpoint.
	fastBatch = 3 * time.Second
	growTo    = 24
	// streamEvery bounds the batches of one run, at three events a batch.
	streamEvery = 1200
)

// TeacherStream asks one teacher everything that a plan routes to it, with its
// own window of batches, so that a slow or blocked teacher holds up nobody.
func TeacherStream(ctx workflow.Context, in wire.StreamInput) error {
	s := &stream{in: in, report: in.Report, next: in.Next, window: in.Teacher.Window, paused: in.Paused, stopped: in.Stopped}
	s.cancelBatches = in.CancelBatches
	if in.Concurrency > 0 {
		s.window = in.Concurrency
	}
	s.low, s.lastThrough = in.Next, in.Report.Through
	return s.run(ctx)
}

// stream is the state of one run of the TeacherStream workflow.
type stream struct {
	in       wire.StreamInput
	report   wire.StreamReport
	window   int
	paused   bool
	stopped  *wire.TeacherFailed
	failure  error
	reported time.Time
	unsent   bool // the report has changed since it was sent last
	sending  bool

	next     int                    // first batch not begun
	again    []int                  // batches that a pause interrupted
	partial  map[int]wire.AskCounts // what they have brought so far
	low      int                    // every batch below is done
	done     map[int]int            // batch → Through, for batches done above low
	inFlight int
	ended    int // batches ended in this run

	batches workflow.Context // of the batches in flight
	halt    workflow.CancelFunc

	lastThrough int

	cancelBatches bool // of a batch stream: at the endpoint, once it is cancelled
}

func (s *stream) run(ctx workflow.Context) error {
	if s.in.Teacher.Batch != nil {
		return (&batchStream{stream: s}).run(ctx)
	}
	s.done, s.partial = map[int]int{}, map[int]wire.AskCounts{}
	s.reported = workflow.Now(ctx)
	workflow.Go(ctx, s.listen)
	if err := s.importRecorded(ctx); err != nil {
		return s.finish(ctx, err)
	}
	s.batches, s.halt = workflow.WithCancel(ctx)
	for s.failure == nil {
		if s.stopped == nil && !s.paused {
			s.fill(s.batches, s.ended < streamEvery && !workflow.GetInfo(ctx).GetContinueAsNewSuggested())
		}
		if s.inFlight == 0 {
			if s.next >= s.in.Teacher.Batches && len(s.again) == 0 || s.stopped != nil {
				return s.finish(ctx, nil)
			}
			if !s.paused {
				return s.continueAsNew(ctx)
			}
		}
		before, wasPaused, window := s.ended, s.paused, s.window
		if err := workflow.Await(ctx, func() bool {
			return s.ended != before || s.paused != wasPaused || s.window != window || s.failure != nil
		}); err != nil {
			// Cancelled: the batches in flight keep what has arrived, then we end.
			return s.finish(ctx, s.awaitCancelled(ctx, err))
		}
		if s.report.Through != s.lastThrough && workflow.Now(ctx).Sub(s.reported) >= reportEvery {
			s.tell(ctx)
		}
	}
	return s.finish(ctx, s.failure)
}

// listen takes pauses and changes of the window for as long as the stream runs.
func (s *stream) listen(ctx workflow.Context) {
	control := workflow.GetSignalChannel(ctx, wire.SignalControl)
	for {
		var c wire.Control
		if !control.Receive(ctx, &c) || ctx.Err() != nil {
			return
		}
		if c.Paused && !s.paused {
			// The batches in flight send nothing more, keep what is under way
			// and are asked again, for the rest, when the stream goes on.
			s.halt()
			s.batches, s.halt = workflow.WithCancel(ctx)
		}
		if c.BudgetMicros > 0 {
			s.spend(ctx, c.BudgetMicros)
		}
		s.paused = c.Paused
		s.cancelBatches = s.cancelBatches || c.CancelBatches
		if c.Concurrency > 0 {
			s.in.Concurrency = min(c.Concurrency, maxWindow)
			s.window = s.in.Concurrency
		}
	}
}

// importRecorded brings a recorded teacher's answers into the answer store,
// where asking finds them like any other.
func (s *stream) importRecorded(ctx workflow.Context) error {
	if !s.in.Teacher.Recorded || s.in.Imported != nil {
		return nil
	}
	var out wire.ImportOutput
	err := workflow.ExecuteActivity(pipelineOptions(ctx), wire.ActivityImport, wire.ImportInput{
		BuildRef: s.in.BuildRef, Teacher: s.in.Teacher.ID,
	}).Get(ctx, &out)
	s.in.Imported = &out
	return err
}

// fill begins batches until the window is full: those that were interrupted
// first, and with fresh the ones after.
func (s *stream) fill(ctx workflow.Context, fresh bool) {
	for s.inFlight < s.window {
		var batch int
		switch {
		case len(s.again) > 0:
			batch, s.again = s.again[0], s.again[1:]
		case fresh && s.next < s.in.Teacher.Batches:
			batch = s.next
			s.next++
		default:
			return
		}
		s.inFlight++
		workflow.Go(ctx, func(ctx workflow.Context) { s.ask(ctx, batch) })
	}
}

func (s *stream) ask(ctx workflow.Context, batch int) {
	var out wire.AskOutput
	began := workflow.Now(ctx)
	err := workflow.ExecuteActivity(askOptions(ctx, s.in.Teacher.Queue), wire.ActivityAskShard, wire.AskInput{
		BuildRef: s.in.BuildRef, PlanKey: s.in.PlanKey, Teacher: s.in.Teacher.ID, Batch: batch,
	}).Get(ctx, &out)
	s.inFlight--
	s.ended++
	if cutShort(ctx.Err() != nil, err) {
		s.interrupted(ctx, batch, err)
		return
	}
	if err != nil {
		if s.failure == nil {
			s.failure = err
		}
		return
	}
	if s.in.Concurrency == 0 && s.window < growTo && workflow.Now(ctx).Sub(began) < fastBatch {
		s.window++
	}
	s.count(batch, out.Counts)
	if out.Stopped != nil && s.stopped == nil {
		s.stopped = out.Stopped
	}
	s.done[batch] = out.Through
	for {
		through, ok := s.done[s.low]
		if !ok {
			return
		}
		delete(s.done, s.low)
		s.low++
		s.report.Through = through
	}
}

// cutShort tells whether a batch's error means that it was interrupted. A worker
// that dies while it is leaves it to time out, and the server tries no batch
// again that was to be cancelled.
func cutShort(halted bool, err error) bool {
	return temporal.IsCanceledError(err) || halted && temporal.IsTimeoutError(err)
}

// interrupted takes note of a batch that a pause cut short: it is asked again,
// for the rest, and what it has brought and cost so far is counted.
func (s *stream) interrupted(ctx workflow.Context, batch int, err error) {
	s.again = append(s.again, batch)
	var canceled *temporal.CanceledError
	var counts wire.AskCounts
	if !errors.As(err, &canceled) || !canceled.HasDetails() || canceled.Details(&counts) != nil || counts.Asks == 0 {
		return
	}
	s.partial[batch] = s.count(batch, counts)
	s.tell(ctx)
}

// count adds a batch's counts to the report. Where the batch was interrupted
// before, they stand for its earlier ones: what it bought then it finds now.
func (s *stream) count(batch int, c wire.AskCounts) wire.AskCounts {
	if before, ok := s.partial[batch]; ok {
		delete(s.partial, batch)
		s.report.Counts.Sub(before)
		c.New += before.New
		c.Reused -= before.New
		c.PromptTokens += before.PromptTokens
		c.CachedTokens += before.CachedTokens
		c.CompletionTokens += before.CompletionTokens
		c.CostMicros += before.CostMicros
		c.Unpriced += before.Unpriced
	}
	s.report.Counts.Add(c)
	return c
}

// awaitCancelled waits for cancelled batches to end and gives err back.
func (s *stream) awaitCancelled(ctx workflow.Context, err error) error {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	_ = workflow.Await(ctx, func() bool { return s.inFlight == 0 })
	return err
}

func (s *stream) continueAsNew(ctx workflow.Context) error {
	s.tell(ctx)
	if err := s.told(ctx); err != nil {
		return s.finish(ctx, err)
	}
	if err := s.heard(ctx); err != nil {
		return s.finish(ctx, err)
	}
	in := s.in
	in.Next, in.Report, in.Paused, in.Stopped, in.Teacher.Window = s.next, s.report, s.paused, s.stopped, s.window
	in.CancelBatches = s.cancelBatches
	return workflow.NewContinueAsNewError(ctx, wire.WorkflowTeacherStream, in)
}

// heard lets the listener take all that has come: the next run knows nothing of
// it otherwise. What is begun now has its turn after the listener.
func (s *stream) heard(ctx workflow.Context) error {
	turn := false
	workflow.Go(ctx, func(workflow.Context) { turn = true })
	return workflow.Await(ctx, func() bool { return turn })
}

// finish tells the Build how the stream ended, also when it was cancelled.
func (s *stream) finish(ctx workflow.Context, err error) error {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	s.report.Done, s.report.Stopped = true, s.stopped
	if err == nil {
		s.report.Through = s.in.Shards
	} else if !temporal.IsCanceledError(err) {
		s.report.Failure, s.report.FailureType = errorText(err), errorType(err)
	}
	s.tell(ctx)
	_ = s.told(ctx) // a disconnected context is never cancelled
	return err
}

// tell sends the report to the Build in the background: a signal that is slow
// to be delivered holds up no batch. Reports that come up meanwhile go out as
// one.
func (s *stream) tell(ctx workflow.Context) {
	s.reported, s.lastThrough, s.unsent = workflow.Now(ctx), s.report.Through, true
	if s.sending {
		return
	}
	s.sending = true
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer cancel()
		for s.unsent {
			s.unsent = false
			// A Build that has ended takes no report, and needs none.
			if err := workflow.SignalExternalWorkflow(ctx, s.in.Parent, "", wire.SignalStream, s.report).Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Info("the build took no report", "build", s.in.Parent, "error", err)
			}
		}
		s.sending = false
	})
}

// told waits until the last report is delivered.
func (s *stream) told(ctx workflow.Context) error {
	return workflow.Await(ctx, func() bool { return !s.sending })
}
