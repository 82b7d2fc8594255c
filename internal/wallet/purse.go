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
	return len(w.queue) == 0 && w.fits(p.group, micros, time.Now()) && w.take(p, micros) == nil
}

// Reserve waits until the amount fits. It fails with an [*OverError] once
// nothing is under way and the amount still does not fit, with the context's
// error, or with that of the disk.
func (p *Purse) Reserve(ctx context.Context, micros int64) error {
	if micros <= 0 {
		return ctx.Err()
	}
	w := p.w
	w.mu.Lock()
	if w.broken != nil {
		defer w.mu.Unlock()
		return w.broken
	}
	if len(w.queue) == 0 && w.fits(p.group, micros, time.Now()) {
		defer w.mu.Unlock()
		return w.take(p, micros)
	}
	one := &waiter{purse: p, amount: micros, done: make(chan error, 1)}
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
	p.Settle(micros, 0)
	return ctx.Err()
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

// fits tells whether an amount may be reserved now.
func (w *wallet) fits(g *group, micros int64, now time.Time) bool {
	return w.broken == nil && g.charged+micros <= g.limit && now.Before(w.leaseEnd) && w.carries(micros)
}

// carries tells whether so much more may be under way at once.
func (w *wallet) carries(micros int64) bool {
	return w.held == 0 || w.held+micros <= w.heldMost
}

// take reserves what fits.
func (w *wallet) take(p *Purse, micros int64) error {
	if err := w.change(p, micros, micros); err != nil {
		w.fail(err)
		return w.broken
	}
	g := p.group
	g.flow += micros
	g.largest = max(g.largest, micros)
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
		g := one.purse.group
		if held || !w.fits(g, one.amount, now) {
			if g.charged+one.amount <= g.limit && now.Before(w.leaseEnd) {
				held = true
			}
			rest = append(rest, one)
			if held {
				rest = append(rest, w.queue[i+1:]...)
				break
			}
			continue
		}
		if err := w.take(one.purse, one.amount); err != nil {
			one.done <- err
			return // all others have been told
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
