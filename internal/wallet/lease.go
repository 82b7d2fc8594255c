package wallet

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/budget"
)

const (
	// renewEvery is how often a wallet that is used speaks to the authority: three
	// times within a lease.
	renewEvery = budget.LeaseFor / 3
	// tightEvery is how often it does while money is short.
	tightEvery = time.Second
	// restAfter spaces requests that nobody waits for.
	restAfter = time.Second
	// A loan has room for what is spent in spareFor, and for spareAsks asks of the
	// largest size at least: more would be lost with the machine, less would make
	// asks wait for the authority.
	spareFor  = 3 * time.Second
	spareAsks = 8
	// callLimit bounds one request.
	callLimit = 10 * time.Second
	// retryFirst and retryMost are the waits after requests that failed.
	retryFirst = 200 * time.Millisecond
	retryMost  = 5 * time.Second
)

func bootBytes(boot string) []byte {
	sum := sha256.Sum256([]byte(boot))
	return sum[:16]
}

// want asks for a request to the authority. It is called with the lock held.
func (w *wallet) want() {
	w.wanted = true
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run speaks to the authority until the wallet is closed.
func (w *wallet) run(ctx context.Context) {
	defer close(w.stopped)
	timer := time.NewTimer(renewEvery)
	defer timer.Stop()
	failures := 0
	for {
		timer.Reset(w.nextCall())
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-timer.C:
		}
		if !w.calls() {
			continue
		}
		var rest time.Duration
		if err := w.speak(ctx); err != nil {
			if ctx.Err() != nil {
				return
			}
			w.log.Warn("the authority of a budget was not reached", "dataset", w.dataset, "error", err)
			rest = min(retryFirst<<min(failures, 10), retryMost)
			failures++
		} else {
			failures = 0
			rest = w.rest()
		}
		if !pause(ctx, rest) {
			return
		}
	}
}

// rest is how long to wait after a request though the next is wanted already.
func (w *wallet) rest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 || w.users == 0 {
		return 0
	}
	return restAfter
}

func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// nextCall is how long to wait for the next request if nobody asks for one.
func (w *wallet) nextCall() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tight || len(w.queue) > 0 {
		return tightEvery
	}
	return renewEvery
}

// calls tells whether there is anything to tell the authority or to ask of it.
func (w *wallet) calls() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken == nil && (w.wanted || w.users > 0 || !w.clean)
}

// speak tells the authority how the wallet stands and takes what it lends.
func (w *wallet) speak(ctx context.Context) error {
	request, err := w.ask()
	if err != nil {
		return err
	}
	sent := time.Now()
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	reply, err := w.authority.Lease(ctx, w.dataset, request)
	if err == nil && reply.Period == 0 && w.used() {
		err = w.authority.Open(ctx, w.dataset, w.opening())
		if err == nil {
			reply = budget.Reply{}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told != nil {
		defer close(w.told)
		w.told = nil
	}
	if err != nil {
		w.trouble = "its authority does not answer: " + err.Error()
		w.want()
		return err
	}
	w.trouble = ""
	if err := w.hear(sent, &request, &reply); err != nil {
		w.fail(err)
		return err
	}
	return nil
}

func (w *wallet) used() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.users > 0
}

func (w *wallet) opening() budget.Open {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}

// ask makes the next request. What it does not keep is given back from this
// moment on.
func (w *wallet) ask() (budget.Request, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = false
	seq, err := w.file.number()
	if err != nil {
		w.fail(err)
		return budget.Request{}, err
	}
	r := budget.Request{Worker: w.worker, Period: w.file.period, Seq: seq, Lost: w.file.lost}
	now := time.Now()
	for _, g := range w.sorted() {
		g.measure(now.Sub(w.asked))
		r.Pockets = append(r.Pockets, w.pocket(g))
	}
	w.asked = now
	return r, nil
}

func (w *wallet) sorted() []*group {
	all := make([]*group, 0, len(w.groups))
	for _, g := range w.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *group) int {
		if a.pocket < b.pocket {
			return -1
		}
		return 1
	})
	return all
}

// pocket tells how a group stands. One whose asks wait for more than it has
// keeps nothing: parts that help nobody would hold each other up.
func (w *wallet) pocket(g *group) budget.Pocket {
	p := budget.Pocket{Pocket: g.pocket, Spent: g.charged - g.held, Held: g.held}
	least, sum := int64(0), int64(0)
	for _, one := range w.queue {
		if one.purse.group != g {
			continue
		}
		if sum == 0 || one.amount < least {
			least = one.amount
		}
		sum += one.amount
	}
	spare := int64(0)
	if w.users > 0 && !w.tight {
		spare = g.spare()
	}
	p.Want = sum + spare
	switch {
	case sum > 0 && least > g.unused():
		p.Need = max(least, 1)
	case sum > 0:
		p.Need = least
		p.Keep = min(g.unused(), max(p.Want, least))
	default:
		p.Keep = min(g.unused(), spare)
	}
	p.Keep = max(p.Keep, 0)
	g.limit = g.charged + p.Keep
	return p
}

// spare is what a group should have beyond what it needs now.
func (g *group) spare() int64 { return max(g.pace, spareAsks*g.largest) }

// measure takes the pace of what is reserved, as an amount in spareFor.
func (g *group) measure(since time.Duration) {
	since = max(since, 100*time.Millisecond)
	g.pace = int64(float64(g.flow) * float64(spareFor) / float64(since))
	g.flow = 0
}

// hear takes in the authority's answer.
func (w *wallet) hear(sent time.Time, r *budget.Request, reply *budget.Reply) error {
	switch {
	case reply.Period == 0:
		// No account is open. One that we have just opened is asked again: it knows
		// whether what we have spent belongs to it.
		w.clean = w.users == 0 && w.held == 0
		if w.users > 0 {
			w.want()
		}
		return nil
	case reply.Crowded:
		w.trouble = "so many workers share it that its book is full; start fewer workers, or give fewer teachers budgets of their own"
		return nil
	case reply.Seq > 0:
		return w.restored(reply.Seq)
	case reply.Begin:
		if err := w.beginAt(reply.Period); err != nil {
			return err
		}
		w.want()
		return nil
	case reply.Period != w.file.period:
		if err := w.file.enter(reply.Period); err != nil {
			return err
		}
	}
	w.leaseEnd = sent.Add(budget.LeaseFor)
	w.heldMost, w.tight = reply.HeldMost, reply.Tight
	for i := range reply.Loans {
		w.borrow(r, &reply.Loans[i])
	}
	w.clean = w.onLoan() == 0
	w.serve()
	return nil
}

// borrow takes one group's loan.
func (w *wallet) borrow(r *budget.Request, l *budget.Loan) {
	g := w.groups[l.Pocket]
	i := slices.IndexFunc(r.Pockets, func(p budget.Pocket) bool { return p.Pocket == l.Pocket })
	if g == nil || i < 0 {
		return // it was regrouped meanwhile
	}
	g.limit = max(l.Granted, g.charged)
	g.denied = l.Denied
	if !l.Over || l.Denied == nil {
		return
	}
	need := r.Pockets[i].Need
	w.queue = slices.DeleteFunc(w.queue, func(one *waiter) bool {
		over := one.purse.group == g && one.amount >= need
		if over {
			one.done <- &OverError{Line: *l.Denied, Need: one.amount}
		}
		return over
	})
}

// onLoan is what the wallet has reserved or could reserve.
func (w *wallet) onLoan() int64 {
	sum := int64(0)
	for _, g := range w.groups {
		sum += g.held + g.unused()
	}
	return sum
}

// restored begins anew where the wallet is a copy of an earlier state: what it
// had on loan is spent, as far as anybody knows.
func (w *wallet) restored(seq int64) error {
	if err := w.file.jump(seq); err != nil {
		return err
	}
	w.want()
	return w.beginAt(0)
}

// beginAt begins another account at what is under way.
func (w *wallet) beginAt(period int64) error {
	if err := w.file.begin(period); err != nil {
		return err
	}
	w.leaseEnd, w.heldMost, w.tight = time.Time{}, 0, false
	return w.regroup()
}

// settled waits until nothing is on loan and the authority knows it.
func (w *wallet) settled(ctx context.Context) error {
	for {
		w.mu.Lock()
		if w.clean || w.broken != nil {
			w.mu.Unlock()
			return nil
		}
		if w.users == 0 {
			w.want()
		}
		if w.told == nil {
			w.told = make(chan struct{})
		}
		told := w.told
		w.mu.Unlock()
		select {
		case <-told:
		case <-ctx.Done():
			return fmt.Errorf("give back what the budget of %s lent: %w", w.dataset, ctx.Err())
		}
	}
}
