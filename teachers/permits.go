package teachers

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// State is what a client is doing, for progress.
type State struct {
	InFlight int       // requests sent and not answered
	Waiting  int       // asks that wait for a permit
	Done     int64     // asks that brought a reply
	Failed   int64     // asks that ended in an error, cancelled ones apart
	Why      string    // why asks wait, such as "429: waits 12s as asked"; "" where they do not
	Until    time.Time // when that ends; zero where it is not known
}

// rpmMargin keeps us below the declared rate: the endpoint counts arrivals,
// and the network moves them by more than nothing.
const rpmMargin = 0.98

// permits decide when a request may be sent: so many at once, so many a
// minute, and none before the time that the endpoint asked for.
type permits struct {
	slots    chan struct{} // requests
	keeping  chan struct{} // answers on their way to the disk
	limits   Limits
	interval time.Duration // between two requests; 0: no limit

	mu          sync.Mutex
	next        time.Time // when the next request may start
	pacing      int       // asks that wait for that
	closedUntil time.Time // the endpoint asked all to wait
	closedWhy   string
	backUntil   time.Time // some asks back off
	backWhy     string
	inFlight    int
	waiting     int
	done        int64
	failures    int64
	stop        *Error // the teacher is unusable
	stopUntil   time.Time
}

func newPermits(l Limits) *permits {
	p := &permits{slots: make(chan struct{}, l.Concurrency), keeping: make(chan struct{}, l.Concurrency), limits: l}
	if l.RPM > 0 {
		p.interval = time.Duration(float64(time.Minute) / (l.RPM * rpmMargin))
	}
	return p
}

// acquire takes one of the concurrent places; it is kept for all requests of
// one ask.
func (p *permits) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case p.slots <- struct{}{}:
		return nil
	default:
	}
	p.wait(1)
	defer p.wait(-1)
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *permits) release() { <-p.slots }

// keep trades the place of a request for one of an answer that is being kept.
// While there is none the request's is held, so that a slow disk slows asking.
func (p *permits) keep() (kept func()) {
	p.keeping <- struct{}{}
	p.release()
	return func() { <-p.keeping }
}

func (p *permits) wait(n int) {
	p.mu.Lock()
	p.waiting += n
	p.mu.Unlock()
}

// start waits until a request may be sent and counts it as in flight.
func (p *permits) start(ctx context.Context) error {
	paced := false
	for {
		wait, ok := p.tryStart(&paced)
		if ok {
			return nil
		}
		err := sleep(ctx, wait)
		p.mu.Lock()
		p.waiting--
		if paced {
			p.pacing--
		}
		p.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// tryStart starts a request or tells how long to wait before the next try. A
// caller that waited for its turn under the rate (paced) has it.
func (p *permits) tryStart(paced *bool) (wait time.Duration, ok bool) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := p.closedUntil.Sub(now); wait > 0 {
		*paced = false
		p.waiting++
		return wait, false
	}
	if p.interval > 0 && !*paced {
		turn := p.next
		if turn.Before(now) {
			turn = now
		}
		p.next = turn.Add(p.interval)
		if turn.After(now) {
			*paced = true
			p.waiting++
			p.pacing++
			return turn.Sub(now), false
		}
	}
	p.inFlight++
	return 0, true
}

func (p *permits) ended() {
	p.mu.Lock()
	p.inFlight--
	p.mu.Unlock()
}

// close keeps every request back until a time. It never shortens a wait.
func (p *permits) close(until time.Time, e *Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.closedUntil) {
		p.closedUntil = until
		p.closedWhy = fmt.Sprintf("%s: waits %s as asked", statusOrClass(e), e.RetryAfter.Round(time.Millisecond))
	}
}

// backsOff notes that an ask backs off by itself.
func (p *permits) backsOff(until time.Time, e *Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until.After(p.backUntil) {
		p.backUntil, p.backWhy = until, statusOrClass(e)+": backs off"
	}
}

func statusOrClass(e *Error) string {
	if e.Status >= 400 {
		return strconv.Itoa(e.Status)
	}
	return e.Class
}

func (p *permits) succeeded() {
	p.mu.Lock()
	p.done++
	p.stop = nil
	p.mu.Unlock()
}

// failed counts a failed ask. One that makes the teacher unusable holds the
// next ones back for a while, so that a wrong key is not tried a thousand
// times.
func (p *permits) failed(e *Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
	if e.StopsTeacher() && p.stop == nil {
		p.stop, p.stopUntil = e, time.Now().Add(stopFor)
	}
}

// stopped is a copy of the error that stopped the teacher, while that holds.
func (p *permits) stopped() *Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop == nil {
		return nil
	}
	if !time.Now().Before(p.stopUntil) {
		p.stop = nil
		return nil
	}
	e := *p.stop
	e.Partial, e.Attempts = nil, nil
	return &e
}

// State says what the client is doing and why it waits.
func (c *Client) State() State { return c.permits.state() }

func (p *permits) state() State {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := State{InFlight: p.inFlight, Waiting: p.waiting, Done: p.done, Failed: p.failures}
	switch {
	case p.stop != nil && now.Before(p.stopUntil):
		s.Why = p.stop.Class + ": stopped"
	case p.closedUntil.After(now):
		s.Why, s.Until = p.closedWhy, p.closedUntil
	case p.backUntil.After(now):
		s.Why, s.Until = p.backWhy, p.backUntil
	case p.pacing > 0:
		s.Why, s.Until = fmt.Sprintf("at its %g rpm", p.limits.RPM), p.next.Add(-p.interval*time.Duration(p.pacing))
	case p.waiting > 0 && p.inFlight >= p.limits.Concurrency:
		s.Why = fmt.Sprintf("at its %d requests at once", p.limits.Concurrency)
	}
	return s
}
