package teachers

import (
	"fmt"
	"sync"
	"time"
)

// longWait is how long an answer must be under way to be spoken of.
const longWait = time.Minute

// flights are the requests under way, for whoever asks what is waited for: an
// answer may take an hour, and nobody should have to guess what goes on.
type flights struct {
	mu   sync.Mutex
	dogs map[*watchdog]struct{}
}

// add notes a request; the function that it returns ends it.
func (f *flights) add(w *watchdog) (ended func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dogs == nil {
		f.dogs = map[*watchdog]struct{}{}
	}
	f.dogs[w] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.dogs, w)
	}
}

// longest is the request that has been under way for longest; nil for none.
func (f *flights) longest() *watchdog {
	f.mu.Lock()
	defer f.mu.Unlock()
	var longest *watchdog
	for w := range f.dogs {
		if longest == nil || w.start.Before(longest.start) {
			longest = w
		}
	}
	return longest
}

// describe completes a state with what the longest request waits for, where
// nothing else holds the asks up.
func (f *flights) describe(s *State) {
	w := f.longest()
	if w == nil {
		return
	}
	s.Longest = time.Since(w.start)
	if s.Why == "" && s.Longest >= longWait {
		s.Why = w.waitsFor()
	}
}

// waitsFor says what a request waits for and when it will be given up.
func (w *watchdog) waitsFor() string {
	now := w.now()
	limit, left := w.nearest()
	since := func(at int64) time.Duration { return coarse(time.Duration(now - at)) }
	text := fmt.Sprintf("an answer takes %s so far: ", coarse(time.Duration(now)))
	silent, idle := time.Duration(now-w.byteAt.Load()), time.Duration(now-w.progress.Load())
	switch w.phase.Load() {
	case phaseConnecting:
		text += "no connection yet"
	case phaseSent:
		text += "sent, and nothing came yet"
	case phaseReading:
		switch {
		case silent >= longWait:
			text += fmt.Sprintf("silent for %s", since(w.byteAt.Load()))
		case idle >= longWait:
			text += fmt.Sprintf("only keep-alives for %s", since(w.progress.Load()))
		default:
			return text + "text is coming"
		}
	default:
		return text + "it has ended"
	}
	return text + fmt.Sprintf("; limits.%s passes in %s", limit.name, coarse(max(left, 0)))
}

// coarse is a time as a person reads it: seconds below two minutes, else
// minutes.
func coarse(d time.Duration) time.Duration {
	if d < 2*time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(time.Minute)
}
