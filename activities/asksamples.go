package activities

import (
	"context"
	"fmt"
	"sync"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/answers"
)

// askSampled asks for tasks whose number of samples depends on their answers: a
// task's next samples are asked as soon as those before them are in, whatever
// the batch's other tasks wait for. What to ask is decided over the answers that
// the store holds; one that failed counts as tried until the batch ends.
func (w *askWork) askSampled(ctx context.Context, t *teacher, rule sampling, tasks []datasets.Task) error {
	b := &sampledBatch{w: w, t: t, rule: rule, seen: map[string]bool{}, failed: map[string]bool{}}
	var list []*sampler
	for i := range tasks {
		list = append(list, &sampler{task: &tasks[i]})
	}
	for {
		if err := b.read(ctx, list); err != nil {
			return err
		}
		var open []*sampler
		for _, s := range list {
			if _, all := rule.wanted(s.outcome); !all {
				open = append(open, s)
			}
		}
		if t.config == nil {
			// Nobody can be asked for what a recorded teacher's files do not hold.
			w.addFailed(b.missing(open))
			return nil
		}
		if len(open) == 0 || w.health.stop() != nil {
			return nil
		}
		if err := w.fly(ctx, t, func(f *flight) { b.begin(f, open) }); err != nil {
			return err
		}
		// Once more, over what the store has made of it.
		for i, s := range open {
			open[i] = &sampler{task: s.task}
		}
		list = open
	}
}

// addFailed counts asks that nothing came of.
func (w *askWork) addFailed(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Failed += int64(n)
}

// A sampledBatch is the samples of one batch's tasks.
type sampledBatch struct {
	w    *askWork
	t    *teacher
	rule sampling

	mu     sync.Mutex
	seen   map[string]bool // asks that are counted
	failed map[string]bool // asks that were tried here in vain
}

// count counts an ask once.
func (b *sampledBatch) count(id string, reused bool) {
	b.mu.Lock()
	again := b.seen[id]
	b.seen[id] = true
	b.mu.Unlock()
	if again {
		return
	}
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.w.counts.Asks++
	b.w.total++
	if reused {
		b.w.counts.Reused++
	}
}

// read walks through what the store holds.
func (b *sampledBatch) read(ctx context.Context, list []*sampler) error {
	walk := walker{t: b.t, rule: b.rule, step: lookupAnswers, look: b.w.a.latest, asking: true}
	walk.found = func(s *sampler, i int, h *answers.History) (outcome, error) {
		return b.outcome(ctx, &s.asks[i], h.Record)
	}
	return walk.walk(ctx, list)
}

// latest looks up the answers alone.
func (a *Activities) latest(ctx context.Context, asks []answers.Ask) ([]answers.History, error) {
	records, err := a.Answers.Lookup(ctx, asks)
	out := make([]answers.History, len(records))
	for i := range records {
		out[i].Record = records[i]
	}
	return out, err
}

// outcome is what the store's record says of an ask; a failure is asked again,
// unless this batch has tried already.
func (b *sampledBatch) outcome(ctx context.Context, ask *asked, rec *answers.Record) (outcome, error) {
	if !served(&answers.History{Record: rec}) {
		b.count(ask.ask.ID, false)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.failed[ask.ask.ID] {
			return lost, nil
		}
		return untried, nil
	}
	b.count(ask.ask.ID, true)
	return b.w.rt.outcomeOfRecord(ctx, b.t, ask, rec)
}

// outcomeOfRecord is what a record says of its sample.
func (rt *runtime) outcomeOfRecord(ctx context.Context, t *teacher, ask *asked, rec *answers.Record) (outcome, error) {
	return rt.outcomeOf(ctx, ask.task, candidate(t, ask.task, ask, rec), true)
}

// missing counts the samples that are wanted and not there.
func (b *sampledBatch) missing(open []*sampler) int {
	n := 0
	for _, s := range open {
		for i := range min(len(s.of), b.rule.Least) {
			if s.of[i] == untried {
				n++
			}
		}
	}
	return n
}

// begin asks for every task what it wants next, in the order of the tasks, and
// goes on from there. Places in the order of asking are taken for the asks that
// this batch has in hand alone.
func (b *sampledBatch) begin(f *flight, open []*sampler) {
	for _, s := range open {
		for i := range s.of {
			if s.of[i] == untried && b.take(&s.asks[i]) == nil {
				b.enter(f, s, &s.asks[i])
			}
		}
	}
	for _, s := range open {
		f.ask(func() error { return b.task(f, s) })
	}
}

// take claims an ask, or gives the claim that somebody else has.
func (b *sampledBatch) take(one *asked) (other *claim) {
	one.claim, other = b.w.a.claims.take(one.ask.ID)
	return other
}

// enter gives an ask its place: that of its task's first.
func (b *sampledBatch) enter(f *flight, s *sampler, one *asked) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.first == nil {
		one.enter(f.turns)
		s.first = one.turn
		return
	}
	one.turn = f.turns.enterBeside(s.first)
}

// task asks sample after sample until the task has all that it wants.
func (b *sampledBatch) task(f *flight, s *sampler) error {
	for {
		n, all := b.rule.wanted(s.outcome)
		if all {
			return nil
		}
		if err := s.grow(b.t, n); err != nil {
			return err
		}
		var wg sync.WaitGroup
		errs := make([]error, n)
		asked := 0
		for i := range n {
			if s.of[i] == untried {
				asked++
				wg.Go(func() { errs[i] = b.sample(f, s, i) })
			}
		}
		wg.Wait()
		for i := range n {
			if errs[i] != nil {
				return errs[i]
			}
			if s.of[i] == untried {
				return nil // asking has ended
			}
		}
	}
}

// sample obtains one sample. It stays untried where asking ends first.
func (b *sampledBatch) sample(f *flight, s *sampler, i int) error {
	one := &s.asks[i]
	if one.claim == nil {
		known, err := b.claim(f, s, i)
		if known || err != nil || one.claim == nil {
			return err
		}
	}
	b.count(one.ask.ID, false)
	if err := b.w.askOne(f.open, f.ctx, one); err != nil {
		return err
	}
	switch rec := one.got; {
	case rec == nil: // nothing was asked
	case !rec.Complete:
		b.mu.Lock()
		b.failed[one.ask.ID] = true
		b.mu.Unlock()
		s.of[i] = lost
	default:
		var err error
		if s.of[i], err = b.w.rt.outcomeOfRecord(f.ctx, b.t, one, rec); err != nil {
			return err
		}
	}
	one.request, one.got = nil, nil
	return nil
}

// claim takes an ask in hand that was not looked at before, or that somebody
// else had: it is answered by now, or this batch's to ask.
func (b *sampledBatch) claim(f *flight, s *sampler, i int) (known bool, err error) {
	one := &s.asks[i]
	for {
		other := b.take(one)
		if other == nil {
			break
		}
		select {
		case <-other.ended:
		case <-f.open.Done():
			return false, nil
		}
	}
	defer func() {
		if known || err != nil {
			b.w.a.claims.release(one.claim)
		} else {
			b.enter(f, s, one)
		}
	}()
	records, err := b.w.a.Answers.Lookup(f.ctx, []answers.Ask{one.ask})
	if err != nil {
		return false, fmt.Errorf("look up an answer of teacher %s: %w", b.t.spec.ID, err)
	}
	found := []answers.History{{Record: records[0]}}
	if !b.t.anew.Asked {
		older := walker{t: b.t, look: b.w.a.latest}
		if err := older.older(f.ctx, []*asked{one}, found); err != nil {
			return false, err
		}
	}
	if served(&found[0]) {
		s.of[i], err = b.outcome(f.ctx, one, found[0].Record)
		return err == nil, err
	}
	return false, nil
}
