package teachers

import (
	"sync"
	"time"
)

// A share divides an endpoint's time among the requests that it has in hand.
// Every moment counts once, in equal parts to all requests in flight, so that
// the shares of all requests add up to the time in which there were any. It is
// the virtual clock of fair queuing: it runs at 1/n of the real one, and a
// request's share is how far it went meanwhile.
//
// It knows the requests of this process. Where several workers ask the same
// endpoint, each counts the time in which it had requests there itself.
type share struct {
	mu       sync.Mutex
	inFlight int64
	virtual  time.Duration
	at       time.Time
}

// advance is called with the lock held.
func (s *share) advance(now time.Time) {
	if s.inFlight > 0 {
		s.virtual += now.Sub(s.at) / time.Duration(s.inFlight)
	}
	s.at = now
}

// begin counts a request in. A nil share measures nothing.
func (s *share) begin() time.Duration {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(time.Now())
	s.inFlight++
	return s.virtual
}

// end counts it out again and notes its share.
func (s *share) end(begun time.Duration, reply *Reply, e *Error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.advance(time.Now())
	s.inFlight--
	took := s.virtual - begun
	s.mu.Unlock()
	if e != nil {
		e.Share = took
		return
	}
	reply.Share = took
}
