package teachers

import (
	"container/heap"
	"fmt"
	"time"
)

// A gate is what a Limiter decides with. Pure: it knows no clock, no lock and no
// timer but what its Limiter gives it.
type gate struct {
	places          *concurrency
	requests        bucket
	tokens          bucket
	learnedRequests learned
	learnedTokens   learned
	closedUntil     time.Time // the endpoint asked all to wait
	closedWhy       string
	lease           *Slice // nil: all of the limits are ours

	members  map[*permits]struct{}
	declared Declared
	lookAt   time.Time // when to look again at who asks
	needs    largest   // tokens of one ask

	queue    queue
	tickets  uint64
	inFlight int // places taken
	keeping  int
	keepers  []chan struct{} // those who wait to keep an answer

	sent  tally     // requests that were let in
	used  tally     // tokens of answers
	alone int       // refusals in a row with nothing else in flight
	since time.Time // begin of the use that goes on
	last  time.Time // when a request was sent last
}

const (
	// memberIdle is how long a teacher's limits count after its last ask.
	memberIdle = time.Minute
	// An endpoint that refuses even the one request that is sent is left alone for
	// a while, after alonePatience of them for aloneFirst and twice as long each
	// time: asks that it has not refused yet must not all try in turn.
	alonePatience = 2
	aloneFirst    = 250 * time.Millisecond
	aloneMost     = 8 * time.Second
	// lookEvery is how often it is looked at who asks.
	lookEvery = 10 * time.Second
)

// What holds an ask back.
const (
	byNothing = iota
	byClosure
	byLease
	byShare
	byConcurrency
	byRequests
	byTokens
)

type block struct {
	by   int
	wait time.Duration // until it is worth looking again; forever: something else ends it
}

// ran notes that a teacher asks.
func (g *gate) ran(now time.Time, p *permits) {
	lapsed := now.Sub(p.asked) > memberIdle
	p.asked = now
	if lapsed || !now.Before(g.lookAt) {
		g.look(now)
	}
}

// look finds the limits of the teachers that ask.
func (g *gate) look(now time.Time) {
	g.lookAt = now.Add(lookEvery)
	var d, all Declared
	asking := false
	for p := range g.members {
		all = all.lower(p.declared)
		if now.Sub(p.asked) <= memberIdle || p.inFlight > 0 || p.waiting > 0 {
			d, asking = d.lower(p.declared), true
		}
	}
	if !asking {
		d = all // of whoever is about to ask
	}
	if d.Concurrency != g.declared.Concurrency {
		g.places.declare(d.Concurrency)
	}
	g.declared = d
	g.needs.age(now)
	g.retune(now)
}

// retune sets the pace by what is declared, learned and granted.
func (g *gate) retune(now time.Time) {
	now = g.paced(now)
	if rpm, limited := g.allowance(g.declared.RPM, g.learnedRequests.rate, func(s *Slice) float64 { return s.RPM }); limited {
		g.requests.setRequests(now, rpm)
	} else {
		g.requests.open()
	}
	if tpm, limited := g.allowance(g.declared.TPM, g.learnedTokens.rate, func(s *Slice) float64 { return s.TPM }); limited {
		g.tokens.setTokens(now, tpm, g.needs.value())
	} else {
		g.tokens.open()
	}
}

func (g *gate) allowance(declared, learned float64, granted func(*Slice) float64) (a float64, limited bool) {
	a = lowerOf(declared, learned)
	if g.lease != nil {
		if part := granted(g.lease); part != Unlimited && (a == 0 || part < a) {
			return part, true
		}
	}
	return a, a > 0
}

// paced is the clock of the buckets: they do not fill while there is no lease.
func (g *gate) paced(now time.Time) time.Time {
	if g.lease != nil && now.After(g.lease.Until) && !g.lease.Until.IsZero() {
		return g.lease.Until
	}
	return now
}

// grant takes a new slice.
func (g *gate) grant(now time.Time, s Slice) {
	for _, b := range []*bucket{&g.requests, &g.tokens} {
		b.advance(g.paced(now))
		b.at = now
	}
	g.lease = &s
	has := g.learned()
	if n := s.Learned.Concurrency; n > 0 && has.Concurrency == s.Said.Concurrency {
		g.places.assign(now, n)
	}
	if has.RPM == s.Said.RPM {
		g.learnedRequests.assign(now, s.Learned.RPM)
	}
	if has.TPM == s.Said.TPM {
		g.learnedTokens.assign(now, s.Learned.TPM)
	}
	g.retune(now)
}

// room is how many places there are.
func (g *gate) room() int {
	n := g.places.allowed()
	if g.lease != nil && g.lease.Concurrency != Unlimited {
		n = min(n, g.lease.Concurrency)
	}
	return n
}

// admits tells whether an ask that is not queued can go at once.
func (g *gate) admits(now time.Time, t *turn) bool {
	return (len(g.queue) == 0 || t.ticket < g.queue[0].ticket) && g.blocked(now, t).by == byNothing
}

// blocked tells what holds an ask back whose turn it is.
func (g *gate) blocked(now time.Time, t *turn) block {
	if wait := g.closedUntil.Sub(now); wait > 0 {
		return block{byClosure, wait}
	}
	if g.lease != nil {
		if !now.Before(g.lease.Until) {
			return block{byLease, forever}
		}
		if g.lease.Concurrency == 0 || g.lease.RPM == 0 || g.lease.TPM == 0 {
			return block{byShare, forever}
		}
	}
	if g.inFlight >= g.room() {
		return block{byConcurrency, forever}
	}
	if g.needs.add(now, t.tokens) {
		g.retune(now)
	}
	if wait := g.requests.wait(now, 1); wait > 0 {
		if !g.raise(now, &g.learnedRequests, &g.requests) {
			return block{byRequests, wait}
		}
		if wait = g.requests.wait(now, 1); wait > 0 {
			return block{byRequests, wait}
		}
	}
	if wait := g.tokens.wait(now, t.tokens); wait > 0 {
		if !g.raise(now, &g.learnedTokens, &g.tokens) {
			return block{byTokens, wait}
		}
		if wait = g.tokens.wait(now, t.tokens); wait > 0 {
			return block{byTokens, wait}
		}
	}
	return block{}
}

// raise tries a higher rate where a learned one is what holds asks back.
func (g *gate) raise(now time.Time, l *learned, b *bucket) bool {
	if l.rate == 0 || b.allowance != l.rate || !l.raise(now) {
		return false
	}
	g.retune(now)
	return true
}

// wait queues an ask.
func (g *gate) wait(t *turn) {
	heap.Push(&g.queue, t)
	t.client.waiting++
}

// admit takes what one request needs.
func (g *gate) admit(now time.Time, t *turn) {
	if now.Sub(g.last) > lookEvery && g.inFlight == 0 {
		g.since = now
	}
	g.last = now
	g.inFlight++
	g.requests.take(1)
	g.tokens.take(t.tokens)
	g.sent.add(now, 1)
	t.placed, t.live, t.sent = true, true, now
	t.client.inFlight++
}

// release gives a place back.
func (g *gate) release(t *turn) {
	if !t.placed {
		return
	}
	g.landed(t)
	t.placed = false
	g.inFlight--
}

func (g *gate) landed(t *turn) {
	if t.live {
		t.live = false
		t.client.inFlight--
	}
}

// refund gives everything back that a request took which was not sent.
func (g *gate) refund(now time.Time, t *turn) {
	g.requests.give(1)
	g.tokens.give(t.tokens)
	g.sent.add(t.sent, -1)
	g.release(t)
}

// An outcome is how a request ended, as far as limits are concerned.
type outcome struct {
	answered bool
	overload bool          // 429, 503, 529 or a reset
	counted  bool          // the endpoint has let it in
	reason   reason        // of a 429
	closed   time.Duration // the endpoint asked all to wait so long
	why      string        // of that, in a few words
	tokens   float64       // that it took
	first    time.Duration // to the first text
}

// over takes note of how a request ended. Its place stays taken.
func (g *gate) over(now time.Time, t *turn, o outcome) {
	g.landed(t)
	g.tokens.advance(g.paced(now))
	g.tokens.give(t.tokens - o.tokens)
	g.used.add(now, o.tokens)
	if !o.counted {
		g.sent.add(t.sent, -1)
	}
	switch {
	case o.overload:
		g.refused(now, t, o)
	case o.answered:
		g.alone = 0
		full := len(g.queue) > 0 || g.inFlight >= g.places.allowed()
		g.places.succeeded(now, full && g.inFlight >= g.places.allowed()/2, o.first)
	}
	if o.closed > 0 {
		g.close(now.Add(o.closed), fmt.Sprintf("%s: waits %s as asked", o.why, o.closed.Round(time.Millisecond)))
	}
	if o.overload && g.inFlight == 1 {
		if g.alone++; g.alone > alonePatience {
			g.close(now.Add(min(aloneFirst<<min(g.alone-alonePatience, 10), aloneMost)), o.why+": backs off")
		}
	}
}

// close holds everything back until a time. It never shortens a wait.
func (g *gate) close(until time.Time, why string) {
	if until.After(g.closedUntil) {
		g.closedUntil, g.closedWhy = until, why
	}
}

// refused learns from an overload.
func (g *gate) refused(now time.Time, t *turn, o outcome) {
	ofRate := o.reason == reasonRequests || o.reason == reasonTokens
	if !g.places.refused(t.sent, now, g.inFlight-1, ofRate) {
		if o.reason == reasonRequests {
			g.learnedRequests.fewer(now) // it was counted among those that the minute held
			g.retune(now)
		}
		return
	}
	if !ofRate {
		return
	}
	if now.Add(o.closed).Sub(g.since) < learnAfter {
		return // it may be the rest of a minute that others have used
	}
	if o.reason == reasonRequests {
		g.learnedRequests.refused(now, g.sent.sum(now))
	} else {
		g.learnedTokens.refused(now, g.used.sum(now))
	}
	g.retune(now)
}

// learned is what refusals have taught.
func (g *gate) learned() Declared {
	return Declared{Concurrency: g.places.claim(), RPM: g.learnedRequests.rate, TPM: g.learnedTokens.rate}
}

// demand is what is asked of the endpoint.
func (g *gate) demand(now time.Time) Demand {
	g.look(now)
	return Demand{
		Learned:  g.learned(),
		InFlight: g.inFlight, Waiting: len(g.queue), Declared: g.declared,
		Minute: Declared{RPM: g.sent.sum(now), TPM: g.used.sum(now)},
		RPM:    g.sent.since(now, demandOver) * 60 / demandOver,
		TPM:    g.used.since(now, demandOver) * 60 / demandOver,
	}
}

// why says what holds the first in the queue back, and until when.
func (g *gate) why(now time.Time) (text string, until time.Time) {
	if len(g.queue) == 0 {
		return "", time.Time{}
	}
	b := g.blocked(now, g.queue[0])
	if b.wait < forever {
		until = now.Add(b.wait)
	}
	switch b.by {
	case byClosure:
		return g.closedWhy, g.closedUntil
	case byLease:
		return "waits for a lease of its limits: Temporal does not answer", time.Time{}
	case byShare:
		return "waits for its share of the limits, which other workers use", time.Time{}
	case byRequests:
		return "at its " + pace(g.requests.allowance, g.declared.RPM, g.learnedRequests.rate) + " rpm", until
	case byTokens:
		return "at its " + pace(g.tokens.allowance, g.declared.TPM, g.learnedTokens.rate) + " tpm", until
	case byConcurrency:
		return g.atOnce(), time.Time{}
	}
	return "", time.Time{}
}

// pace is an allowance, with where it comes from.
func pace(allowance, declared, learned float64) string {
	switch {
	case allowance == learned:
		return fmt.Sprintf("%.0f learned", allowance)
	case allowance < declared:
		return fmt.Sprintf("%.0f of %.0f", allowance, declared)
	}
	return fmt.Sprintf("%g", allowance)
}

func (g *gate) atOnce() string {
	n := g.room()
	switch {
	case n == g.declared.Concurrency:
		return fmt.Sprintf("at its %d requests at once", n)
	case n < g.places.allowed():
		return fmt.Sprintf("at its %d of %d requests at once", n, g.declared.Concurrency)
	case g.places.knee > 0 && g.places.limit < g.places.ceiling:
		return fmt.Sprintf("at the %d requests at once that the endpoint takes", n)
	}
	return fmt.Sprintf("at %d requests at once, and more if the endpoint takes them", n)
}
