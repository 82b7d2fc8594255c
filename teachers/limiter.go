package teachers

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// A Limiter decides when requests to one model of one endpoint are sent, for
// all the teachers of a worker that ask it: so many at once, so many requests
// and tokens a minute, and none before the time that the endpoint asked for.
// Where it is leased, it has a slice of those, and none without. Asks wait in
// the order in which they came. It is safe for concurrent use.
type Limiter struct {
	mu      sync.Mutex
	timer   *time.Timer
	timerAt time.Time
	gate    gate
	leased  func() // called when asks wait for a lease
}

// NewLimiter makes a limiter that has the endpoint for itself.
func NewLimiter() *Limiter {
	return &Limiter{gate: gate{members: map[*permits]struct{}{}, places: newConcurrency(0)}}
}

// Unlimited is a limit that there is none of, in a Slice.
const Unlimited = -1

// A Slice is the part of an endpoint's limits that one worker may use until a
// time. 0 of anything is nothing, Unlimited means that no limit is declared.
type Slice struct {
	Concurrency int     // requests in flight
	RPM         float64 // requests a minute
	TPM         float64 // tokens a minute
	Until       time.Time
	// Learned is the worker's part of what all workers together have learned of an
	// endpoint's limits; 0 of anything is nothing. It counts where the worker has
	// learned nothing since it said what it had.
	Said, Learned Declared
}

// Lease makes asks wait until the limiter has a slice. need is called when one
// waits for it; it must not block, nor call back.
func (l *Limiter) Lease(need func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leased = need
	l.gate.lease = &Slice{}
}

// Grant gives the limiter its slice. A new one takes the place of the one
// before; what is in flight goes on whatever it says.
func (l *Limiter) Grant(s Slice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.gate.grant(now, s)
	l.pump(now)
}

// A Demand is what a worker asks of an endpoint, for whoever shares it out.
type Demand struct {
	InFlight int
	Waiting  int
	// RPM and TPM are what it has used in the last seconds, as of a minute.
	RPM, TPM float64
	// Minute is what it has used in the last minute.
	Minute Declared
	// Declared are the strictest limits of the teachers that ask; 0 is none.
	Declared Declared
	// Learned is what refusals taught it; 0 is nothing.
	Learned Declared
}

// Declared are limits, as a recipe declares them or as refusals taught them; 0 of
// anything is none.
type Declared struct {
	Concurrency int
	RPM, TPM    float64
}

// lower is the stricter of each limit.
func (d Declared) lower(o Declared) Declared {
	if d.Concurrency == 0 || o.Concurrency > 0 && o.Concurrency < d.Concurrency {
		d.Concurrency = o.Concurrency
	}
	d.RPM, d.TPM = lowerOf(d.RPM, o.RPM), lowerOf(d.TPM, o.TPM)
	return d
}

// lowerOf is the lower of two limits of which 0 is none.
func lowerOf(a, b float64) float64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// Demand is what is asked of the endpoint here and now.
func (l *Limiter) Demand() Demand {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gate.demand(time.Now())
}

// demandOver is how far back a demand looks, in seconds.
const demandOver = 10

// join makes a client's limits count; leave ends that.
func (l *Limiter) join(p *permits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gate.members[p] = struct{}{}
}

func (l *Limiter) leave(p *permits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.gate.members, p)
	now := time.Now()
	l.gate.look(now)
	l.pump(now)
}

// A turn is one ask on its way through a limiter: it waits, holds a place for a
// request, and gives it back.
type turn struct {
	client *permits
	ticket uint64
	tokens float64 // that one request is expected to need
	placed bool
	live   bool // the request is counted as in flight
	sent   time.Time

	ready   chan struct{}
	index   int // in the queue; -1: not in it
	granted bool
}

// start waits until a request may be sent, and takes its place.
func (t *turn) start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.live {
		return nil // it has what it needs
	}
	l := t.client.limiter
	now := time.Now()
	l.mu.Lock()
	if t.ticket == 0 {
		l.gate.tickets++
		t.ticket = l.gate.tickets
	}
	l.gate.ran(now, t.client)
	if l.gate.admits(now, t) {
		l.gate.admit(now, t)
		l.mu.Unlock()
		return nil
	}
	t.ready = make(chan struct{})
	t.granted = false
	l.gate.wait(t)
	l.arm(now)
	l.mu.Unlock()
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.granted {
		l.gate.refund(time.Now(), t)
	} else {
		heap.Remove(&l.gate.queue, t.index)
		t.client.waiting--
	}
	l.pump(time.Now())
	return ctx.Err()
}

// over tells how the request ended. Its place is kept until release or keep.
func (t *turn) over(o outcome) {
	l := t.client.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.gate.over(now, t, o)
	l.pump(now)
}

// release gives the place back, if it is held, and where nothing was sent all
// the rest too.
func (t *turn) release() {
	l := t.client.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	switch {
	case t.live:
		l.gate.refund(now, t)
	case t.placed:
		l.gate.release(t)
	default:
		return
	}
	l.pump(now)
}

// keep trades the place of a request for one of an answer that is being kept.
// While there is none the request's is held, so that a slow disk slows asking.
func (t *turn) keep() (kept func()) {
	l := t.client.limiter
	l.mu.Lock()
	if len(l.gate.keepers) > 0 || l.gate.keeping >= max(l.gate.room(), 1) {
		got := make(chan struct{})
		l.gate.keepers = append(l.gate.keepers, got)
		l.mu.Unlock()
		<-got
		l.mu.Lock()
	} else {
		l.gate.keeping++
	}
	l.gate.release(t)
	l.pump(time.Now())
	l.mu.Unlock()
	return l.kept
}

// kept ends the keeping of one answer.
func (l *Limiter) kept() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gate.keeping--
	for len(l.gate.keepers) > 0 && l.gate.keeping < max(l.gate.room(), 1) {
		l.gate.keeping++
		close(l.gate.keepers[0])
		l.gate.keepers = l.gate.keepers[1:]
	}
}

// pump lets those go whose turn has come, and sets the timer for the next.
func (l *Limiter) pump(now time.Time) {
	if len(l.gate.queue) == 0 {
		return
	}
	for len(l.gate.queue) > 0 {
		t := l.gate.queue[0]
		if l.gate.blocked(now, t).by != byNothing {
			break
		}
		heap.Pop(&l.gate.queue)
		t.client.waiting--
		l.gate.admit(now, t)
		t.granted = true
		close(t.ready)
	}
	l.arm(now)
}

// arm sets the timer to when the first in the queue can go.
func (l *Limiter) arm(now time.Time) {
	if len(l.gate.queue) == 0 {
		return
	}
	b := l.gate.blocked(now, l.gate.queue[0])
	if b.by == byLease && l.leased != nil {
		l.leased()
	}
	if b.wait <= 0 || b.wait >= forever {
		return
	}
	at := now.Add(b.wait)
	if l.timer != nil && l.timerAt.After(now) && !at.Before(l.timerAt) {
		return
	}
	l.timerAt = at
	if l.timer == nil {
		l.timer = time.AfterFunc(b.wait, l.wake)
	} else {
		l.timer.Reset(b.wait)
	}
}

func (l *Limiter) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timerAt = time.Time{}
	l.pump(time.Now())
}

// A queue is a heap of turns, the oldest ask first.
type queue []*turn

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].ticket < q[j].ticket }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push and Pop are heap.Interface's.
func (q *queue) Push(x any) {
	t := x.(*turn)
	t.index = len(*q)
	*q = append(*q, t)
}

// Pop is heap.Interface's.
func (q *queue) Pop() any {
	old := *q
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	t.index = -1
	return t
}
