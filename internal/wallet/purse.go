package wallet

import (
	"context"
	"slices"
	"time"
)

// A Purse pays for the requests of one dataset to one teacher.
type Purse struct {
	w       *wallet
	teacher string
	entry   int    // in the file
	group   *group // guarded by the wallet's lock
}

// TryReserve reserves at once, or not at all.
func (p *Purse) TryReserve(micros int64) bool {
	if micros <= 0 {
		return true // what costs nothing needs no money
	}
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	one := waiter{purse: p, amount: micros}
	if len(w.queue) > 0 || !w.fits(&one, time.Now()) {
		return false
	}
	if err := w.take(&one); err != nil {
		w.fail(err)
		return false
	}
	return true
}

// Reserve waits until the amount fits. It fails with an [*OverError] once
// nothing is under way and the amount still does not fit, with the context's
// error, or with that of the disk.
func (p *Purse) Reserve(ctx context.Context, micros int64) error {
	return p.wait(ctx, &waiter{purse: p, amount: micros, done: make(chan error, 1)})
}

// Spend waits as Reserve does, and counts the amount as spent at once: no crash
// of this process loses what it pays for.
func (p *Purse) Spend(ctx context.Context, micros int64) error {
	return p.wait(ctx, &waiter{purse: p, amount: micros, spent: true, done: make(chan error, 1)})
}

func (p *Purse) wait(ctx context.Context, one *waiter) error {
	if one.amount <= 0 {
		return ctx.Err()
	}
	w := p.w
	w.mu.Lock()
	if w.broken != nil {
		defer w.mu.Unlock()
		return w.broken
	}
	if len(w.queue) == 0 && w.fits(one, time.Now()) {
		defer w.mu.Unlock()
		if err := w.take(one); err != nil {
			w.fail(err)
			return w.broken
		}
		return nil
	}
	w.queue = append(w.queue, one)
	w.serve()
	w.mu.Unlock()
	select {
	case err := <-one.done:
		return err
	case <-ctx.Done():
	}
	w.mu.Lock()
	if i := slices.Index(w.queue, one); i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
		w.mu.Unlock()
		return ctx.Err()
	}
	w.mu.Unlock()
	if err := <-one.done; err != nil {
		return err
	}
	p.Settle(one.amount, 0)
	return ctx.Err()
}

// Account is the account that the purse pays from, as far as this wallet knows:
// another number for each, 0 where it has not heard of any.
func (p *Purse) Account() int64 {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return p.w.file.period
}

// Settle ends a reservation with what was spent of it.
func (p *Purse) Settle(reserved, cost int64) {
	if reserved == 0 && cost == 0 {
		return
	}
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.change(p, cost-reserved, -reserved); err != nil {
		// The file holds more than was spent: nothing is overdrawn.
		w.fail(err)
		return
	}
	if len(w.queue) > 0 {
		w.serve()
	}
}

// fits tells whether an amount may be taken now.
func (w *wallet) fits(one *waiter, now time.Time) bool {
	return w.broken == nil && w.affords(one, now) && w.carries(one)
}

// affords tells whether there is the money.
func (w *wallet) affords(one *waiter, now time.Time) bool {
	g := one.purse.group
	return g.charged+one.amount <= g.limit && now.Before(w.leaseEnd)
}

// carries tells whether so much more may be under way at once.
func (w *wallet) carries(one *waiter) bool {
	return one.spent || w.held == 0 || w.held+one.amount <= w.heldMost
}

// take takes what fits.
func (w *wallet) take(one *waiter) error {
	held := one.amount
	if one.spent {
		held = 0
	}
	if err := w.change(one.purse, one.amount, held); err != nil {
		return err
	}
	g := one.purse.group
	if !one.spent {
		g.flow += one.amount
		g.largest = max(g.largest, one.amount)
	}
	if g.unused() < g.spare()/4 {
		w.want()
	}
	return nil
}

// change writes the counts of a teacher, and those that are made of them.
func (w *wallet) change(p *Purse, charged, held int64) error {
	before := w.file.entries[p.entry]
	if err := w.file.add(p.entry, charged, held); err != nil {
		return err
	}
	after := w.file.entries[p.entry]
	g := p.group
	g.charged += after.charged - before.charged
	g.held += after.held - before.held
	w.held += after.held - before.held
	w.clean = false
	return nil
}

// serve reserves for those who wait, oldest first, and asks the authority where
// that does not help. What waits only for others to come back holds up all
// behind it, so that a large ask gets its turn.
func (w *wallet) serve() {
	now := time.Now()
	rest := w.queue[:0]
	held := false
	for i, one := range w.queue {
		if !w.fits(one, now) {
			held = w.affords(one, now)
			rest = append(rest, one)
			if held {
				rest = append(rest, w.queue[i+1:]...)
				break
			}
			continue
		}
		if err := w.take(one); err != nil {
			w.queue = append(rest, w.queue[i:]...)
			w.fail(err)
			return
		}
		one.done <- nil
	}
	clear(w.queue[len(rest):])
	w.queue = rest
	// What was denied is asked for again every second, and at once when nothing
	// is under way here any more: then it is over, or others have come back.
	if len(rest) > 0 && (w.held == 0 || !held && rest[0].purse.group.denied == nil) {
		w.want()
	}
}
