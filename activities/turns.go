package activities

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

const (
	// cacheLife is how long a beginning that nobody sent again is taken to be in
	// the endpoint's context cache. The shortest that vendors state is 5 minutes.
	cacheLife = 4 * time.Minute
	// leadPatience bounds how long tasks wait for the first of their group, from
	// when it was sent: endpoints read about a million tokens in that time.
	leadPatience = time.Minute
	// leadFailures is how many firsts of a group may fail before the rest go.
	leadFailures = 2
	// knownPrefixes bounds the beginnings that are remembered; past it the
	// oldest are forgotten, which costs a wait each.
	knownPrefixes = 1 << 17
)

// turns let the asks of one teacher go out in their order, as fast as the
// client takes them, and so that its endpoint's context cache pays: of the asks
// that begin alike the first goes alone, and those behind it wait until its
// first text came, which is when the cache holds the beginning. Meanwhile the
// asks behind them go, so that no permit stays unused, and as soon as their
// first is through, those that waited are next. Turns order asks; they decide
// nothing else.
type turns struct {
	mu      sync.Mutex
	entered uint64
	ready   turnHeap
	ahead   int // asks that may be with the client and not sent yet
	unsent  int
	known   map[uint64]*prefix
	sweepAt int
	open    []*prefix // in the cache, with asks that wait for their turn
	urgent  time.Time // no prefix of these has to be sent again before
}

// A prefix is a beginning that was sent before.
type prefix struct {
	leader   *turn     // whose first text is waited for; nil: it is in the cache
	at       time.Time // when it was sent last
	failures int       // of its leaders
	behind   turnHeap  // those that waited for it
	opened   bool
}

// A turn is one ask's place.
type turn struct {
	turns   *turns
	place   uint64
	chain   chain
	led     int // links from here on are led by it; len(chain): none
	started chan struct{}
	waiting []waiter
	sentAt  time.Time
	patient *time.Timer
	state   turnState
	leading bool
}

// A waiter waits for the first text of another turn, for a beginning's sake.
type waiter struct {
	turn   *turn
	begins *prefix
}

type turnState byte

const (
	turnQueued turnState = iota
	turnAdmitted
	turnSent
	turnLeft
)

// newTurns makes the order for a client with so many requests at once. A few
// asks are with the client beyond those, so that a permit is taken as soon as
// it is free.
func newTurns(concurrency int) *turns {
	return &turns{ahead: max(4, concurrency/8), known: map[uint64]*prefix{}, sweepAt: knownPrefixes}
}

// enter takes a place behind all others. Every turn is to be left.
func (q *turns) enter(c chain) *turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.entered++
	return q.enterAt(q.entered, c)
}

// enterBeside takes a place beside another's: for a further ask of its task.
func (q *turns) enterBeside(t *turn) *turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.enterAt(t.place, t.chain)
}

func (q *turns) enterAt(place uint64, c chain) *turn {
	t := &turn{turns: q, place: place, chain: c, led: len(c), started: make(chan struct{})}
	heap.Push(&q.ready, t)
	return t
}

// wait returns when it is the turn's time, or the context's error.
func (t *turn) wait(ctx context.Context) error {
	t.turns.mu.Lock()
	t.turns.admit()
	t.turns.mu.Unlock()
	select {
	case <-t.started:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sent says that the request is on its way: the next may be with the client.
func (t *turn) sent() {
	q := t.turns
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.state != turnAdmitted {
		return // a later request of the same ask
	}
	t.state, t.sentAt = turnSent, time.Now()
	q.unsent--
	if t.leading && len(t.waiting) > 0 {
		t.beginPatience()
	}
	q.admit()
}

// firstText says that the endpoint has read the prompt.
func (t *turn) firstText() {
	q := t.turns
	q.mu.Lock()
	defer q.mu.Unlock()
	t.through()
	q.admit()
}

// leave ends the turn, answered or not. It is called once.
func (t *turn) leave(answered bool) {
	q := t.turns
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.state == turnAdmitted {
		q.unsent--
	}
	t.state = turnLeft // whoever holds it still passes over it
	if answered {
		t.through()
	} else {
		t.failed()
	}
	q.admit()
}

// admit lets asks go as far as the client takes more, with the lock held.
func (q *turns) admit() {
	for q.unsent < q.ahead && len(q.ready) > 0 {
		t := q.nextUrgent()
		if t == nil {
			t = heap.Pop(&q.ready).(*turn)
		}
		if t.state != turnQueued {
			continue
		}
		if p := q.waitsFor(t); p != nil {
			p.leader.waiting = append(p.leader.waiting, waiter{t, p})
			if p.leader.state == turnSent {
				p.leader.beginPatience()
			}
			continue
		}
		q.lead(t)
		t.state = turnAdmitted
		q.unsent++
		close(t.started)
	}
}

// waitsFor is the beginning whose leader's first text a turn waits for: the
// longest that both have. It is nil where that is in the cache already, or where
// nobody has sent any.
func (q *turns) waitsFor(t *turn) *prefix {
	for i := len(t.chain) - 1; i >= 0; i-- {
		p := q.known[t.chain[i]]
		switch {
		case p == nil:
		case p.leader != nil:
			return p
		case time.Since(p.at) < cacheLife:
			return nil
		}
	}
	return nil
}

// nextUrgent is an ask that goes out of its turn because its beginning would
// leave the cache before it is its turn: where answers take long, several
// groups are open at once, and one ask of each now and then keeps all of them.
func (q *turns) nextUrgent() *turn {
	if len(q.open) == 0 {
		return nil
	}
	now := time.Now()
	if now.Before(q.urgent) {
		return nil
	}
	var oldest *prefix
	kept := q.open[:0]
	for _, p := range q.open {
		for len(p.behind) > 0 && p.behind[0].state != turnQueued {
			heap.Pop(&p.behind)
		}
		age := now.Sub(p.at)
		if p.opened = len(p.behind) > 0 && p.leader == nil && age < cacheLife; !p.opened {
			p.behind = nil
			continue
		}
		kept = append(kept, p)
		if oldest == nil || p.at.Before(oldest.at) {
			oldest = p
		}
	}
	clear(q.open[len(kept):])
	q.open = kept
	if oldest == nil {
		return nil
	}
	if q.urgent = oldest.at.Add(cacheLife / 2); now.Before(q.urgent) {
		return nil
	}
	return heap.Pop(&oldest.behind).(*turn)
}

// lead makes the turn the first of every beginning that the cache does not hold.
func (q *turns) lead(t *turn) {
	now := time.Now()
	t.led = len(t.chain)
	for i := len(t.chain) - 1; i >= 0; i-- {
		p := q.known[t.chain[i]]
		if p != nil && p.leader == nil && now.Sub(p.at) < cacheLife {
			for _, link := range t.chain[:i+1] {
				if p := q.known[link]; p != nil && p.leader == nil {
					p.at = now
				}
			}
			break
		}
		if p == nil {
			p = &prefix{}
			q.known[t.chain[i]] = p
		}
		p.leader, t.led = t, i
	}
	t.leading = t.led < len(t.chain)
	if len(q.known) > q.sweepAt {
		q.sweep(now)
	}
}

// through frees those who wait for the turn: the cache holds its beginnings, or
// is not waited for any longer.
func (t *turn) through() {
	now := time.Now()
	for _, link := range t.chain[t.led:] {
		if p := t.turns.known[link]; p != nil && p.leader == t {
			p.leader, p.at, p.failures = nil, now, 0
		}
	}
	t.release()
}

// failed gives the lead to the next of those who wait. Where that one fails
// too, the rest go: the fault is hardly the ask's.
func (t *turn) failed() {
	now := time.Now()
	for _, link := range t.chain[t.led:] {
		p := t.turns.known[link]
		if p == nil || p.leader != t {
			continue
		}
		p.leader, p.at = nil, time.Time{}
		if p.failures++; p.failures >= leadFailures {
			p.at, p.failures = now, 0
		}
	}
	t.release()
}

func (t *turn) release() {
	t.leading, t.led = false, len(t.chain)
	if t.patient != nil {
		t.patient.Stop()
		t.patient = nil
	}
	q := t.turns
	for _, w := range t.waiting {
		if w.turn.state != turnQueued {
			continue
		}
		heap.Push(&q.ready, w.turn)
		heap.Push(&w.begins.behind, w.turn)
		if !w.begins.opened {
			w.begins.opened = true
			q.open = append(q.open, w.begins)
			q.urgent = time.Time{}
		}
	}
	t.waiting = nil
}

// beginPatience bounds the wait for a turn that leads.
func (t *turn) beginPatience() {
	if t.patient != nil {
		return
	}
	t.patient = time.AfterFunc(leadPatience-time.Since(t.sentAt), func() {
		q := t.turns
		q.mu.Lock()
		defer q.mu.Unlock()
		if t.leading {
			t.through()
			q.admit()
		}
	})
}

// sweep forgets beginnings that the cache has lost, and where that is not
// enough all that nobody waits for.
func (q *turns) sweep(now time.Time) {
	for _, age := range []time.Duration{cacheLife, cacheLife / 4, 0} {
		for link, p := range q.known {
			if p.leader == nil && now.Sub(p.at) >= age {
				delete(q.known, link)
			}
		}
		if len(q.known) <= knownPrefixes/2 {
			break
		}
	}
	q.sweepAt = max(knownPrefixes, 2*len(q.known))
}

// turnHeap holds the turns that wait for nobody, in the order of their places.
type turnHeap []*turn

func (h turnHeap) Len() int           { return len(h) }
func (h turnHeap) Less(i, j int) bool { return h[i].place < h[j].place }
func (h turnHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *turnHeap) Push(x any)        { *h = append(*h, x.(*turn)) }
func (h *turnHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return t
}
