package activities

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// defaultDrain is how long a stopping worker waits for answers in flight.
const defaultDrain = 10 * time.Second

// AskShard asks a teacher for one batch of tasks: it looks up what is answered
// already, asks for the rest, and returns once everything that came is in the
// answer store's index. A row's failure is a record; only a failure of the
// store or of the worker is an error.
func (a *Activities) AskShard(ctx context.Context, in wire.AskInput) (*wire.AskOutput, error) {
	w := &askWork{a: a, in: in, health: a.healthOf(in.BuildID, in.Teacher)}
	defer heartbeat(ctx, beatEvery, w.detail)()
	out, err := w.run(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && temporal.IsCanceledError(context.Cause(ctx)) {
		// What the batch has brought is told even so: a pause shows it.
		return nil, temporal.NewCanceledError(w.counts)
	}
	return out, final(err)
}

// askWork is one AskShard at work.
type askWork struct {
	a       *Activities
	in      wire.AskInput
	teacher *teacher
	client  *teachers.Client
	health  *health
	rt      *runtime
	purse   teachers.Purse // nil: nothing limits what is spent

	mu     sync.Mutex
	total  int
	counts wire.AskCounts
}

func (w *askWork) detail() any {
	w.mu.Lock()
	defer w.mu.Unlock()
	beat := wire.AskHeartbeat{Counts: w.counts, Total: w.total}
	if w.client != nil {
		beat.Waiting = w.client.State().Why
	}
	if w.purse != nil {
		if why := w.a.Wallets.Why(w.in.Dataset, w.in.Teacher); why != "" {
			beat.Waiting = why
		}
	}
	if trouble := w.health.trouble(); trouble != "" {
		beat.Waiting = trouble
	}
	return beat
}

func (w *askWork) run(ctx context.Context) (*wire.AskOutput, error) {
	rt, plan, err := w.a.planned(ctx, w.in.BuildRef, w.in.PlanKey)
	if err != nil {
		return nil, err
	}
	w.rt = rt
	t := rt.teachers[w.in.Teacher]
	if t == nil {
		return nil, invalidRecipe("teacher %s is not in the recipe", w.in.Teacher)
	}
	b, err := rt.batch(plan, w.in.Teacher, w.in.Batch)
	if err != nil {
		return nil, err
	}
	if b.probe {
		return w.askProbe(ctx, t, b)
	}
	tasks, err := w.a.tasks(ctx, plan, b.shard)
	if err != nil {
		return nil, err
	}
	if rule := samplingOf(rt.recipe); rule.adaptive() {
		if err := w.askSampled(ctx, t, rule, tasks[b.start:b.end]); err != nil {
			return nil, err
		}
		return w.output(b), nil
	}
	var asks []asked
	for i := b.start; i < b.end; i++ {
		more, err := t.asks(&tasks[i], plan.Samples)
		if err != nil {
			return nil, err
		}
		asks = append(asks, more...)
	}
	w.mu.Lock()
	w.total = len(asks)
	w.counts.Asks = int64(len(asks))
	w.mu.Unlock()
	if t.config == nil {
		err = w.recorded(ctx, asks)
	} else {
		err = w.ask(ctx, t, asks)
	}
	if err != nil {
		return nil, err
	}
	return w.output(b), nil
}

func (w *askWork) output(b batch) *wire.AskOutput {
	return &wire.AskOutput{Counts: w.counts, Through: b.through, Stopped: w.health.stop()}
}

// recorded counts a recorded teacher's answers. What its files do not hold,
// nobody can be asked for.
func (w *askWork) recorded(ctx context.Context, asks []asked) error {
	missing, err := w.lookup(ctx, asks)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Failed += int64(len(missing))
	return nil
}

// ask looks up what is answered and asks for the rest. Asks that another batch
// has in hand are looked at again when it is done with them.
func (w *askWork) ask(ctx context.Context, t *teacher, asks []asked) error {
	for len(asks) > 0 && w.health.stop() == nil {
		var mine, theirs []asked
		for _, one := range asks {
			claimed, other := w.a.claims.take(one.ask.ID)
			if one.claim = claimed; claimed != nil {
				mine = append(mine, one)
			} else {
				one.claim = other
				theirs = append(theirs, one)
			}
		}
		err := w.askClaimed(ctx, t, mine)
		for i := range mine {
			w.a.claims.release(mine[i].claim)
		}
		if err != nil {
			return err
		}
		for i := range theirs {
			select {
			case <-theirs[i].claim.ended:
			case <-ctx.Done():
				return ctx.Err()
			case <-w.a.Stopping:
				return errStopping
			}
		}
		asks = theirs
	}
	return nil
}

func (w *askWork) askClaimed(ctx context.Context, t *teacher, asks []asked) error {
	missing, err := w.lookup(ctx, asks)
	if err != nil {
		return err
	}
	return w.askAll(ctx, t, missing)
}

// lookup counts what is answered already and gives back what is not.
func (w *askWork) lookup(ctx context.Context, asks []asked) ([]asked, error) {
	keys := make([]answers.Ask, len(asks))
	for i := range asks {
		keys[i] = asks[i].ask
	}
	known, err := w.a.answered(ctx, keys)
	if err == nil {
		err = w.a.answeredBefore(ctx, w.rt.teachers[w.in.Teacher], asks, known)
	}
	if err != nil {
		return nil, err
	}
	var missing []asked
	for i := range asks {
		if !known[i] {
			missing = append(missing, asks[i])
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Reused += int64(len(asks) - len(missing))
	return missing, nil
}

// askAll sends the missing asks and keeps what comes. It returns an error only
// where the batch has to run again: what has arrived by then is kept.
func (w *askWork) askAll(ctx context.Context, t *teacher, missing []asked) error {
	if len(missing) == 0 {
		return nil
	}
	return w.fly(ctx, t, func(f *flight) {
		for i := range missing {
			missing[i].enter(f.turns)
		}
		// The client holds the permits; a batch's asks all wait for theirs at once.
		for i := range missing {
			f.ask(func() error { return w.askOne(f.open, f.ctx, &missing[i]) })
		}
	})
}

// A flight is the asks of one batch that are under way.
type flight struct {
	ctx   context.Context // of what is under way
	open  context.Context // ends when no new ask may be sent
	turns *turns          // of the teacher's client
	wg    sync.WaitGroup
	once  sync.Once
	err   error // the first
	stop  context.CancelFunc
}

// ask runs one ask. Its error ends the admission of others.
func (f *flight) ask(one func() error) {
	f.wg.Go(func() {
		if err := one(); err != nil {
			f.once.Do(func() { f.err = err })
			f.stop()
		}
	})
}

// fly lets begin ask, waits until all of it has come and is in the answer
// store's index. Its error means that the batch has to run again.
func (w *askWork) fly(ctx context.Context, t *teacher, begin func(*flight)) error {
	client, err := w.a.client(t)
	if err != nil {
		return err
	}
	purse, done, err := w.a.purse(w.in.BuildRef, w.rt, t.spec.ID)
	if err != nil {
		return err
	}
	defer done()
	w.mu.Lock()
	w.teacher, w.client, w.purse = t, client, purse
	w.mu.Unlock()

	// admit ends when no new ask may be sent; the flight ends some seconds later,
	// so that paid answers under way still arrive and are kept.
	admit, stopAdmitting := context.WithCancel(ctx)
	defer stopAdmitting()
	under, stopFlight := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFlight()
	defer w.a.onStop(stopAdmitting, stopFlight)()
	// A teacher that is given up is sent nothing more, but what it was sent may
	// still arrive for as long as it takes: it is paid for.
	open, shut := context.WithCancel(admit)
	defer w.health.watch(shut)()
	unlease := w.a.lease(t)
	defer unlease()
	defer context.AfterFunc(open, unlease)()

	f := &flight{ctx: under, open: open, turns: w.a.turnsOf(client, t), stop: stopAdmitting}
	begin(f)
	f.wg.Wait()
	if err := w.a.Answers.Flush(flush(ctx)); err != nil {
		return fmt.Errorf("keep answers: %w", err)
	}
	switch {
	case f.err != nil:
		return f.err
	case w.health.stop() != nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case admit.Err() != nil:
		return errStopping
	}
	return nil
}

// flush gives the last write of a cancelled batch time to finish.
func flush(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// onStop watches for the worker's stop: it ends the admission at once and the
// flight after the drain. An activity that is cancelled, by a pause or by its
// user, admits nothing more and waits for its flight however long it takes. The
// returned function ends the watch.
func (a *Activities) onStop(stopAdmitting, stopFlight context.CancelFunc) (end func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-done:
			return
		case <-a.Stopping:
			stopAdmitting()
		}
		drain := a.Drain
		if drain == 0 {
			drain = defaultDrain
		}
		timer := time.NewTimer(drain)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			stopFlight()
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// askOne asks once, makes what came durable and counts it. Its error is the
// store's.
func (w *askWork) askOne(admit, flight context.Context, ask *asked) error {
	defer w.a.claims.release(ask.claim)
	answered := false
	defer func() { ask.turn.leave(answered) }()
	if ask.turn.wait(admit) != nil {
		return nil
	}
	if w.health.begin(admit, w.teacher.atFirst()) != nil {
		return nil
	}
	defer w.health.end()
	flight = teachers.WithTrace(flight, &teachers.Trace{Sent: ask.turn.sent, FirstText: ask.turn.firstText})
	started := time.Now()
	ask.told = 0
	ask.request.Purse = w.purse
	err := w.client.AskKeeping(flight, admit, ask.request, teachers.Keeper{
		Answer: func(reply *teachers.Reply) error { return w.keep(flight, ask, reply) },
		Lost:   func(e *teachers.Error) error { return w.lose(flight, ask, e) },
	})
	var failure *teachers.Error
	switch {
	case err == nil:
		answered = true
		return nil
	case !errors.As(err, &failure):
		return fmt.Errorf("ask teacher %s: %w", w.teacher.spec.ID, err)
	case failure.Class == teachers.ClassCancelled && admit.Err() == nil && flight.Err() == nil:
		// Nobody ended it: this worker cannot account for what it would spend.
		return errors.Join(fmt.Errorf("ask teacher %s: %w", w.teacher.spec.ID, failure), w.dropped(flight, ask, failure))
	case failure.Class == teachers.ClassCancelled:
		return w.dropped(flight, ask, failure)
	case failure.Class == teachers.ClassBudget:
		w.health.overBudget(failure)
		return w.dropped(flight, ask, failure)
	}
	return w.keepFailure(flight, ask, failure, started)
}

// keep makes an answer durable, then reads it for the counts.
func (w *askWork) keep(ctx context.Context, ask *asked, reply *teachers.Reply) error {
	finish := ""
	answer, perr := reply.Parse()
	if perr == nil {
		finish = answer.Finish
	}
	rec := &answers.Record{
		Ask: ask.ask, Teacher: w.teacher.spec.ID, Model: w.teacher.spec.Model,
		Complete: perr == nil, Finish: finish, Format: reply.Format, Raw: reply.Raw,
		Status: reply.Status, Headers: reply.Headers, Started: reply.Started,
		TTFT: reply.TTFT, Latency: reply.Latency, Attempts: int32(teachers.Requests(reply.Attempts)),
	}
	if perr != nil {
		rec.ErrorClass, rec.ErrorText = teachers.ClassMalformed, bounded(perr.Error())
	}
	var err error
	if rec.Ledger, err = ask.answerLedger(reply); err != nil {
		return err
	}
	if err := w.a.Answers.Append(context.WithoutCancel(ctx), rec); err != nil {
		return fmt.Errorf("keep an answer of teacher %s: %w", w.teacher.spec.ID, err)
	}
	ask.got = rec
	w.mu.Lock()
	defer w.mu.Unlock()
	if perr != nil {
		w.counts.Failed++
		return nil
	}
	w.health.succeeded()
	usage := usageOf(answer, reply.Headers, &ask.task.Prompt)
	w.counts.New++
	w.counts.PromptTokens += usage.PromptTokens
	w.counts.CachedTokens += usage.CachedTokens
	w.counts.CompletionTokens += usage.CompletionTokens
	if w.teacher.price == nil {
		w.counts.Unpriced++
	} else {
		w.counts.CostMicros += w.teacher.price.CostOf(teachers.Bill{Usage: usage, Share: reply.Share})
	}
	return nil
}

// keepFailure records an ask that failed for good.
func (w *askWork) keepFailure(ctx context.Context, ask *asked, failure *teachers.Error, started time.Time) error {
	began := started
	if len(failure.Attempts) > 0 {
		began = failure.Attempts[0].Started
	}
	w.health.failed(failure, began, time.Now())
	w.mu.Lock()
	w.counts.Failed++
	w.mu.Unlock()

	w.charge(ask, failure)
	rec, err := w.failureRecord(ask, failure)
	if err != nil {
		return err
	}
	if err := w.a.Answers.Append(context.WithoutCancel(ctx), rec); err != nil {
		return fmt.Errorf("keep a failure of teacher %s: %w", w.teacher.spec.ID, err)
	}
	ask.got = rec
	return nil
}
