package teachers

import "time"

// How a rate is learned from refusals.
const (
	// learnAfter is how much of a minute must have been seen, counting the
	// wait that the endpoint asked for, before its refusal says what a minute
	// holds.
	learnAfter = 45 * time.Second
	// learnShare is taken of a learned rate that was refused again.
	learnShare = 0.98
	// A learned rate is raised by raiseFirst after raiseEvery without a
	// refusal, then by twice as much each time; after a raise that was refused
	// it waits twice as long, up to raiseMost.
	raiseFirst = 0.03
	raiseEvery = time.Minute
	raiseMost  = 10 * time.Minute
)

// A learned is what an endpoint was seen to allow in a minute, of requests or of
// tokens. Pure.
type learned struct {
	rate   float64 // a minute; 0: nothing is known
	step   float64
	every  time.Duration
	next   time.Time // when it may be raised
	at     time.Time // of the last refusal that it learned from
	raised bool      // since the last refusal
}

// refused notes that the endpoint refused after so much in the last minute.
func (l *learned) refused(now time.Time, held float64) {
	to := held
	if l.rate > 0 {
		to = min(to, l.rate*learnShare)
	}
	switch {
	case l.every == 0:
		l.every = raiseEvery
	case l.raised:
		l.every = min(2*l.every, raiseMost)
	}
	l.rate, l.step, l.raised = max(to, 1), raiseFirst, false
	l.next, l.at = now.Add(l.every), now
}

// fewer takes one of a minute's requests back: sent with the one that was refused
// first, it was refused as well.
func (l *learned) fewer(now time.Time) {
	if l.rate > 1 && !l.at.IsZero() && now.Sub(l.at) < raiseEvery {
		l.rate--
	}
}

// assign takes a part of what all workers have learned together in place of what
// this one has.
func (l *learned) assign(now time.Time, rate float64) {
	if rate <= 0 || rate == l.rate {
		return
	}
	if l.every == 0 {
		l.every, l.step, l.next = raiseEvery, raiseFirst, now.Add(raiseEvery)
	}
	l.rate = rate
}

// raise tries more, where the rate is what holds asks back. It tells whether the
// rate changed.
func (l *learned) raise(now time.Time) bool {
	if l.rate == 0 || now.Before(l.next) {
		return false
	}
	l.rate *= 1 + l.step
	l.step = min(2*l.step, 1)
	l.raised = true
	l.next = now.Add(raiseEvery)
	return true
}
