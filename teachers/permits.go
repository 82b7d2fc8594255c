package teachers

import (
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
	// Longest is for how long the oldest request has been under way; 0 where
	// there is none. Where nothing else holds the asks up and it is long, Why
	// tells what it waits for.
	Longest time.Duration
}

// permits are one client's part in its Limiter, and what became of its asks.
type permits struct {
	limiter  *Limiter
	declared Declared
	reserved bool // the endpoint counts the whole token cap: Profile.CapReserved

	// The limiter's lock guards these.
	asked    time.Time // when it asked last
	inFlight int
	waiting  int

	mu        sync.Mutex
	estimate  estimate
	backUntil time.Time // some asks back off
	backWhy   string
	done      int64
	failures  int64
	stop      *Error // the teacher is unusable
	stopUntil time.Time
}

func newPermits(l Limits, limiter *Limiter, reserved bool) *permits {
	p := &permits{limiter: limiter, reserved: reserved, declared: Declared{Concurrency: l.Concurrency, RPM: l.RPM, TPM: l.TPM}}
	limiter.join(p)
	return p
}

// turn begins the way of one ask.
func (p *permits) turn(r *Request) *turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &turn{client: p, tokens: p.estimate.of(r, p.reserved), index: -1}
}

// outcome is how a request ended, for the limiter.
func (p *permits) outcome(r *Request, reply *Reply, e *Error) outcome {
	if e == nil {
		o := outcome{answered: true, counted: true}
		if reply.TTFT < reply.Latency {
			o.first = reply.TTFT // a response in one piece has waited for its answer
		}
		answer, err := reply.Parse()
		if err != nil || answer.Usage == nil {
			o.tokens = float64(len(r.Body)+len(reply.Raw)) / firstBytesPerToken
			return o
		}
		u := answer.Usage
		o.tokens = float64(u.PromptTokens + u.CompletionTokens)
		if p.reserved {
			o.tokens = float64(u.PromptTokens + max(u.CompletionTokens, r.Cap))
		}
		p.mu.Lock()
		p.estimate.learn(r, u)
		p.mu.Unlock()
		return o
	}
	o := outcome{overload: e.overloads(), reason: e.reason, why: statusOrClass(e)}
	if o.overload && e.RetryAfter <= longestWait {
		o.closed = e.RetryAfter
	}
	o.counted = !o.overload
	if len(e.Partial) > 0 {
		o.tokens = float64(len(r.Body)+len(e.Partial)) / firstBytesPerToken
	}
	return o
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
func (c *Client) State() State {
	s := c.permits.state()
	c.flights.describe(&s)
	return s
}

func (p *permits) state() State {
	now := time.Now()
	p.limiter.mu.Lock()
	s := State{InFlight: p.inFlight, Waiting: p.waiting}
	closed := p.limiter.gate.closedUntil.After(now)
	why, until := p.limiter.gate.why(now)
	if closed {
		why, until = p.limiter.gate.closedWhy, p.limiter.gate.closedUntil
	}
	p.limiter.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Done, s.Failed = p.done, p.failures
	switch {
	case p.stop != nil && now.Before(p.stopUntil):
		s.Why = p.stop.Class + ": stopped"
	case p.backUntil.After(now) && !closed:
		s.Why, s.Until = p.backWhy, p.backUntil
	case closed || s.Waiting > 0:
		s.Why, s.Until = why, until
	}
	return s
}
