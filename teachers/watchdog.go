package teachers

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// A limitError is a limit on time that passed. It ends the attempt's context.
type limitError struct {
	limit string // its name in the recipe
	after time.Duration
	final bool // no sense in sending the same request again at once
}

func (e *limitError) Error() string {
	return fmt.Sprintf("limits.%s of %s passed", e.limit, e.after)
}

// How long a response may stay open after what it was opened for.
const (
	finishGrace = 10 * time.Second       // for usage, after the finish reason
	doneGrace   = 250 * time.Millisecond // for the end of the response, after [DONE]
)

// Phases of an attempt.
const (
	phaseConnecting = iota
	phaseSent
	phaseReading
	phaseFinished // the finish reason came
	phaseDone     // [DONE] came
)

// A watchdog ends an attempt at the first limit that passes. Reading only
// notes the time; one timer looks at the notes.
type watchdog struct {
	limits   *Limits
	cancel   context.CancelCauseFunc
	trace    httptrace.ClientTrace
	start    time.Time
	timer    *time.Timer
	armed    atomic.Int64 // when the timer looks, or earlier
	phase    atomic.Int32
	since    atomic.Int64 // the phase; all times are nanoseconds from start
	byteAt   atomic.Int64
	progress atomic.Int64
}

func watch(l *Limits, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{limits: l, cancel: cancel, start: time.Now()}
	w.trace.GotConn = w.connected
	first := min(l.FirstByte, l.Idle, l.NoProgress, l.Total)
	w.armed.Store(int64(first))
	w.timer = time.AfterFunc(time.Hour, w.look)
	w.timer.Reset(first) // only now: look uses w.timer
	return w
}

func (w *watchdog) connected(httptrace.GotConnInfo) { w.enter(phaseSent) }

func (w *watchdog) stop() { w.timer.Stop() }

func (w *watchdog) now() int64 { return int64(time.Since(w.start)) }

// enter starts a phase, never an earlier one.
func (w *watchdog) enter(phase int32) {
	if w.phase.Load() >= phase {
		return
	}
	now := w.now()
	w.since.Store(now)
	w.byteAt.Store(now)
	w.progress.Store(now)
	w.phase.Store(phase)
	// A timer that looks too early sets itself anew, which is cheaper than
	// setting it with every phase.
	if first, wait := w.nearest(); first.at < w.armed.Load() {
		w.armed.Store(first.at)
		w.timer.Reset(max(wait, 0))
	}
}

// earlier returns the limit that passes first of two.
func (l passing) earlier(name string, from int64, after time.Duration) passing {
	if at := from + int64(after); at < l.at {
		return passing{name: name, after: after, at: at}
	}
	return l
}

// A passing limit, and when it passes in nanoseconds from the start.
type passing struct {
	name  string
	after time.Duration
	at    int64
}

// nearest is the limit that passes first, and how long until then.
func (w *watchdog) nearest() (passing, time.Duration) {
	l, since := w.limits, w.since.Load()
	first := passing{name: limitTotal, after: l.Total, at: int64(l.Total)}
	switch w.phase.Load() {
	case phaseConnecting:
		first = first.earlier("first_byte", since, l.Connect+l.FirstByte)
	case phaseSent:
		first = first.earlier("first_byte", since, l.FirstByte)
	case phaseReading:
		first = first.earlier("idle", w.byteAt.Load(), l.Idle)
		first = first.earlier("no_progress", w.progress.Load(), l.NoProgress)
	case phaseFinished:
		first = first.earlier("idle", since, min(finishGrace, l.Idle))
	case phaseDone:
		first = first.earlier("idle", since, doneGrace)
	}
	return first, time.Duration(first.at - w.now())
}

const limitTotal = "total"

func (w *watchdog) look() {
	for {
		first, wait := w.nearest()
		if wait <= 0 {
			w.cancel(&limitError{limit: first.name, after: first.after, final: first.name == limitTotal})
			return
		}
		w.armed.Store(first.at)
		w.timer.Reset(wait)
		// A phase that was entered meanwhile saw the time before, and did not
		// set the timer to an earlier one.
		if now, _ := w.nearest(); now.at >= first.at {
			return
		}
	}
}
