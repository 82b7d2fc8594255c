package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

const (
	// batchRounds is how often one build asks for the same answer in vain. What
	// is left then is asked by the next run.
	batchRounds = 4
	// busyRounds bounds the rounds that an endpoint refuses because its queue is
	// full, at a minute or more each.
	busyRounds = 1000
	// pollGrowth and pollMost let the time between two looks grow while nothing
	// ends, up to so many times the first.
	pollGrowth = 1.5
	pollMost   = 10
	// collectAtOnce bounds the batches that are collected together.
	collectAtOnce = 4
	// budgetWait is how long a submission waits that the budget has no room for
	// while others have still to settle.
	budgetWait = time.Minute
	// cancelLimit bounds the call that cancels batches at their endpoint.
	cancelLimit = 45 * time.Second
)

// classBudget is the stop of a teacher whose next ask the budget has no room for.
const classBudget = "budget"

// A batchStream asks one teacher through its batch API: it makes batches of all
// that is missing, submits them, looks at them by timers, collects those that
// have ended and makes others of what is left. No activity waits for a batch:
// between two looks the stream is a timer, which any worker may take up after
// any restart.
type batchStream struct {
	*stream
	carry     wire.BatchCarry
	notBefore map[string]time.Time // submissions that have to wait
	why       string               // they do
	told      string               // what the Build was told that is waited for
}

func (b *batchStream) run(ctx workflow.Context) error {
	b.notBefore = map[string]time.Time{}
	if b.in.Carry != nil {
		b.carry = *b.in.Carry
	}
	b.batches, b.halt = workflow.WithCancel(ctx) // a pause ends nothing here
	workflow.Go(ctx, b.listen)
	err := b.rounds(ctx)
	if workflow.IsContinueAsNewError(err) {
		return err
	}
	if err != nil && temporal.IsCanceledError(err) && b.cancelBatches {
		b.cancelAtEndpoint(ctx)
	}
	if err == nil {
		err = b.count(ctx)
	}
	b.report.Waiting = ""
	return b.finish(ctx, err)
}

// rounds goes on until everything is answered, or asked in vain often enough.
func (b *batchStream) rounds(ctx workflow.Context) error {
	for b.stopped == nil {
		if len(b.carry.Submit)+len(b.carry.Open) == 0 {
			more, err := b.prepare(ctx)
			if err != nil || !more {
				return err
			}
		}
		if err := b.submit(ctx); err != nil {
			return err
		}
		if err := b.look(ctx); err != nil {
			return err
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			b.in.Carry = &b.carry
			return b.continueAsNew(ctx)
		}
	}
	return nil
}

func (b *batchStream) options(ctx workflow.Context) workflow.Context {
	return askOptions(ctx, b.in.Teacher.Queue)
}

// prepare makes batches of what is missing; false where there is nothing left to
// be done.
func (b *batchStream) prepare(ctx workflow.Context) (more bool, err error) {
	if err := workflow.Await(ctx, func() bool { return !b.paused }); err != nil {
		return false, err
	}
	if b.carry.Round >= batchRounds && !b.carry.More {
		return false, nil
	}
	var out wire.BatchPrepareOutput
	err = workflow.ExecuteActivity(b.options(ctx), wire.ActivityBatchPrepare, wire.BatchPrepareInput{
		BuildRef: b.in.BuildRef, PlanKey: b.in.PlanKey, Teacher: b.in.Teacher.ID, Most: b.carry.Most,
		Retry: b.carry.Round > 0 && !b.carry.More,
	}).Get(ctx, &out)
	if err != nil {
		return false, err
	}
	if !b.carry.Asked {
		b.carry.Asked = true
		b.report.Counts.Asks, b.report.Counts.Reused = out.Asks, out.Answered
		b.tell(ctx)
	}
	b.carry.Submit, b.carry.Open, b.carry.More, b.carry.Looks = out.Submit, out.Open, out.More, 0
	if !out.More {
		b.carry.Round++
	}
	return len(out.Submit)+len(out.Open) > 0, nil
}

// submit submits what is prepared, as far as the endpoint takes it.
func (b *batchStream) submit(ctx workflow.Context) error {
	for _, key := range slices.Clone(b.carry.Submit) {
		if b.paused || workflow.Now(ctx).Before(b.notBefore[key]) {
			continue
		}
		var out wire.BatchSubmitOutput
		err := workflow.ExecuteActivity(b.options(ctx), wire.ActivityBatchSubmit, b.batch(key)).Get(ctx, &out)
		if err != nil {
			return err
		}
		switch {
		case out.Submitted:
			b.carry.Submit = without(b.carry.Submit, key)
			b.carry.Open = append(b.carry.Open, key)
			b.carry.Looks = 0
			b.why = ""
		case out.Gone:
			b.carry.Submit = without(b.carry.Submit, key)
			b.carry.More = true // what was in it goes into others
			if out.Most > 0 {
				b.carry.Most = out.Most
			}
		case out.Stopped != nil && out.Stopped.Class == classBudget && len(b.carry.Open) > 0:
			// Those that run will have cost less than they could have.
			b.why = out.Stopped.Text
			b.notBefore[key] = workflow.Now(ctx).Add(budgetWait)
		case out.Stopped != nil:
			b.stopped = out.Stopped
			return nil
		default:
			b.why = out.Why
			b.notBefore[key] = workflow.Now(ctx).Add(time.Duration(max(out.WaitMS, 1)) * time.Millisecond)
		}
	}
	return nil
}

func (b *batchStream) batch(key string) wire.BatchInput {
	return wire.BatchInput{BuildRef: b.in.BuildRef, Teacher: b.in.Teacher.ID, Batch: key}
}

func without(keys []string, key string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k == key })
}

// look waits for a while, looks at the open batches and collects those that have
// ended.
func (b *batchStream) look(ctx workflow.Context) error {
	if b.stopped != nil || len(b.carry.Submit)+len(b.carry.Open) == 0 {
		return nil
	}
	if err := b.wait(ctx); err != nil {
		return err
	}
	if len(b.carry.Open) == 0 {
		return nil
	}
	var out wire.BatchPollOutput
	err := workflow.ExecuteActivity(b.options(ctx), wire.ActivityBatchPoll, wire.BatchPollInput{
		BuildRef: b.in.BuildRef, Teacher: b.in.Teacher.ID, Batches: b.carry.Open,
	}).Get(ctx, &out)
	if err != nil {
		return err
	}
	if b.carry.Looks++; len(out.Ended) > 0 {
		b.carry.Looks = 0
	}
	b.waits(ctx, &out)
	if err := b.collect(ctx, out.Ended); err != nil {
		return err
	}
	if out.Stopped != nil && b.stopped == nil {
		b.stopped = out.Stopped
	}
	return nil
}

// wait waits until the next look, or until a submission may be tried again.
// During a pause batches that are paid for are looked at as ever.
func (b *batchStream) wait(ctx workflow.Context) error {
	interval := time.Duration(max(b.in.Teacher.Batch.PollMS, 1)) * time.Millisecond
	most := pollMost * interval
	for range b.carry.Looks {
		if interval = min(time.Duration(float64(interval)*pollGrowth), most); interval == most {
			break
		}
	}
	if len(b.carry.Open) == 0 && b.paused {
		return workflow.Await(ctx, func() bool { return !b.paused })
	}
	if !b.paused {
		now := workflow.Now(ctx)
		for _, key := range b.carry.Submit {
			if at, waits := b.notBefore[key]; waits {
				interval = min(interval, max(at.Sub(now), 0))
			} else {
				return nil // it has not been tried yet
			}
		}
	}
	wasPaused := b.paused
	_, err := workflow.AwaitWithTimeout(ctx, interval, func() bool { return b.paused != wasPaused })
	return err
}

// waits tells the Build what is waited for, where that has changed.
func (b *batchStream) waits(ctx workflow.Context, out *wire.BatchPollOutput) {
	text := ""
	if n := len(b.carry.Open) - len(out.Ended); n > 0 {
		text = fmt.Sprintf("%d batches run: %d of %d answers are done", n, out.Done, out.Rows)
		if n == 1 {
			text = fmt.Sprintf("a batch runs: %d of %d answers are done", out.Done, out.Rows)
		}
		if out.Words != "" {
			text += " (" + out.Words + ")"
		}
	} else if b.why != "" {
		text = b.why
	}
	if len(text) > 160 {
		text = text[:160]
	}
	b.report.Waiting = text
	if text != b.told && workflow.Now(ctx).Sub(b.reported) >= reportEvery {
		b.told = text
		b.tell(ctx)
	}
}

// collect brings ended batches in, some at once.
func (b *batchStream) collect(ctx workflow.Context, ended []string) error {
	if len(ended) == 0 {
		return nil
	}
	slots := workflow.NewSemaphore(ctx, collectAtOnce)
	left := len(ended)
	var failure error
	var pause time.Duration
	for _, key := range ended {
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer func() { left-- }()
			if err := slots.Acquire(ctx, 1); err != nil {
				failure = err
				return
			}
			defer slots.Release(1)
			wait, err := b.collectOne(ctx, key)
			pause = max(pause, wait)
			if err != nil && failure == nil {
				failure = err
			}
		})
	}
	err := workflow.Await(ctx, func() bool { return left == 0 })
	if err != nil || failure != nil {
		disconnected, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		_ = workflow.Await(disconnected, func() bool { return left == 0 })
		if err == nil {
			err = failure
		}
		return err
	}
	b.tell(ctx)
	if pause == 0 || b.stopped != nil {
		return nil
	}
	// The endpoint's queue was full: that uses up no round.
	if b.carry.Busy++; b.carry.Busy < busyRounds {
		b.carry.Round = max(b.carry.Round-1, 0)
		b.carry.More = true
	}
	return workflow.Sleep(ctx, pause)
}

func (b *batchStream) collectOne(ctx workflow.Context, key string) (wait time.Duration, err error) {
	var out wire.BatchCollectOutput
	if err := workflow.ExecuteActivity(b.options(ctx), wire.ActivityBatchCollect, b.batch(key)).Get(ctx, &out); err != nil {
		return 0, err
	}
	if out.Stopped != nil && b.stopped == nil {
		b.stopped = out.Stopped
	}
	switch {
	case out.Foreign:
		b.carry.Open = without(b.carry.Open, key)
		b.carry.Submit = append(b.carry.Submit, key)
	case out.Ended != "":
		b.carry.Open = without(b.carry.Open, key)
		b.carry.Most *= 2 // it has settled for less than it could have cost
		if out.WaitMS > 0 {
			b.why = out.Why
		}
	}
	b.report.Counts.Add(out.Counts)
	return time.Duration(out.WaitMS) * time.Millisecond, nil
}

// count says at the end what is answered and what is not.
func (b *batchStream) count(ctx workflow.Context) error {
	var out wire.BatchPrepareOutput
	err := workflow.ExecuteActivity(b.options(ctx), wire.ActivityBatchPrepare, wire.BatchPrepareInput{
		BuildRef: b.in.BuildRef, PlanKey: b.in.PlanKey, Teacher: b.in.Teacher.ID, Close: true,
	}).Get(ctx, &out)
	if err != nil {
		return err
	}
	c := &b.report.Counts
	c.Asks, c.Failed = out.Asks, out.Asks-out.Answered
	c.Reused = max(c.Reused, out.Answered-c.New)
	return nil
}

// cancelAtEndpoint asks the endpoint to stop the batches that run, because the
// user wanted that when he cancelled the build. What they have finished is
// collected by the next run, and so is everything where the call fails.
func (b *batchStream) cancelAtEndpoint(ctx workflow.Context) {
	if len(b.carry.Open) == 0 {
		return
	}
	ctx, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: b.in.Teacher.Queue, ScheduleToCloseTimeout: cancelLimit, HeartbeatTimeout: heartbeatTimeout, RetryPolicy: patientRetry,
	})
	err := workflow.ExecuteActivity(ctx, wire.ActivityBatchCancel, wire.BatchPollInput{
		BuildRef: b.in.BuildRef, Teacher: b.in.Teacher.ID, Batches: b.carry.Open,
	}).Get(ctx, nil)
	if err != nil {
		workflow.GetLogger(ctx).Warn("batches were not cancelled at the endpoint", "teacher", b.in.Teacher.ID, "error", err)
	}
}
