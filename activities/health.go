package activities

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// When a teacher is given up for this build, though asking again might help:
// whoever waits must not wait for a whole build's worth of retries. Every ask
// counted here has been sent several times by its client. What was not
// answered is asked again by the next run, so the price of giving up too early
// is that run.
const (
	// refusedRow asks in a row could not connect, and none was ever answered.
	refusedRow = 3
	// neverRow asks in a row failed, over neverFor, and none was ever answered.
	neverRow = 8
	neverFor = 8 * time.Second
	// badRow asks in a row were refused as they are, and none was ever
	// answered: the parameters are at fault, not the prompts.
	badRow = 64
	// trial is how many asks are under way until the first of them is answered,
	// where no concurrency is declared: an ask that waits for its next request
	// holds no place at the endpoint, so without this a teacher that never
	// answers would be sent every prompt before it is given up.
	trial = 8
	// lostNetwork requests in a row were cut off, over neverFor, and none was
	// ever answered; of other failures that may be charged it takes lostTimes
	// for each ask under way.
	lostNetwork = 12
	lostTimes   = 3
	// lostRow asks in a row failed, over lostFor, of a teacher that had
	// answered before: longer than an endpoint takes to restart.
	lostRow = 64
	lostFor = 2 * time.Minute
)

// classUnreachable is the stop of a teacher that could not be connected to.
const classUnreachable = "unreachable"

// keptHealth bounds the builds and teachers that a worker remembers.
const keptHealth = 4096

// A health is what this worker has seen of a teacher in one build, over all of
// its batches.
type health struct {
	mu       sync.Mutex
	answered bool
	row      int // asks that failed for good since the last answer
	refused  int // of them could not connect
	bad      int // of them were refused as they are
	since    time.Time
	last     string // what the last of them said
	stopped  *wire.TeacherFailed
	gone     chan struct{} // closed when the teacher is given up

	underWay int
	room     chan struct{} // closed when one that is under way ends, until the first answer
	lost     int           // requests that may be charged and failed, before the first answer
	cut      int           // of them were cut off
	lostFrom time.Time
}

func newHealth() *health { return &health{gone: make(chan struct{}), room: make(chan struct{})} }

// begin waits until an ask may be sent: until the first answer no more than most
// are under way. The caller calls end.
func (h *health) begin(ctx context.Context, most int) error {
	for {
		h.mu.Lock()
		if h.answered || h.underWay < most {
			h.underWay++
			h.mu.Unlock()
			return nil
		}
		room := h.room
		h.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (h *health) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.underWay--
	h.makeRoom()
}

// makeRoom lets those look again who wait. The lock is held.
func (h *health) makeRoom() {
	if h.room != nil {
		close(h.room)
		h.room = make(chan struct{})
		if h.answered {
			h.room = nil // nobody waits any more
		}
	}
}

// lose notes a failed request that may be charged, of an ask that goes on. A
// teacher that has never answered is not paid for every retry of every ask.
func (h *health) lose(e *teachers.Error, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.answered || h.stopped != nil || e.Class == teachers.ClassTooLarge || e.Class == teachers.ClassCancelled {
		return
	}
	if h.lost == 0 {
		h.lostFrom = e.Started
	}
	h.lost++
	h.last = briefly(e)
	if e.Class == teachers.ClassNetwork {
		h.cut++
	}
	if now.Sub(h.lostFrom) >= neverFor && (h.cut == h.lost && h.cut >= lostNetwork || h.lost >= max(lostNetwork, lostTimes*h.underWay)) {
		h.giveUp(e, e.Class)
	}
}

func (h *health) giveUp(e *teachers.Error, class string) {
	h.stopped = &wire.TeacherFailed{Class: class, Text: bounded(e.Error())}
	close(h.gone)
}

// healthOf is the one record of a teacher in a build.
func (a *Activities) healthOf(buildID, teacherID string) *health {
	key := buildID + " " + teacherID
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.healths[key]; h != nil {
		return h
	}
	if a.healths == nil || len(a.healths) >= keptHealth {
		a.healths = map[string]*health{}
	}
	h := newHealth()
	a.healths[key] = h
	return h
}

// succeeded notes an answer.
func (h *health) succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.answered {
		h.answered = true
		h.makeRoom()
	}
	h.row, h.refused, h.bad, h.last = 0, 0, 0, ""
}

// failed notes an ask that failed for good, and gives the teacher up where
// further asks would very likely fail as well. began is when its first request
// was sent.
func (h *health) failed(e *teachers.Error, began, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = briefly(e)
	if h.row == 0 || began.Before(h.since) {
		h.since = began
	}
	h.row++
	switch e.Class {
	case teachers.ClassNetwork:
		h.refused++
	case teachers.ClassBadRequest:
		h.bad++
	case teachers.ClassContextOverflow, teachers.ClassTooLarge:
		// These are faults of one prompt, or of one answer, and say that the
		// endpoint works.
		h.row, h.refused, h.bad = 0, 0, 0
	}
	if class := h.verdict(e, now); class != "" && h.stopped == nil {
		h.giveUp(e, class)
	}
}

// verdict is the class under which the teacher is given up, or "".
func (h *health) verdict(e *teachers.Error, now time.Time) string {
	lasted := now.Sub(h.since)
	switch {
	case e.StopsTeacher():
		return e.Class
	case h.answered && h.row >= lostRow && lasted >= lostFor, !h.answered && h.bad >= badRow:
		return e.Class
	case h.answered:
		return ""
	case h.refused >= refusedRow && h.refused == h.row:
		return classUnreachable
	case h.row-h.bad >= neverRow && lasted >= neverFor:
		return e.Class
	}
	return ""
}

// stop is why the teacher was given up; nil while it was not.
func (h *health) stop() *wire.TeacherFailed {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stopped
}

// watch calls shut once the teacher is given up, and at the latest when the
// returned function is called, which ends the watch.
func (h *health) watch(shut func()) (end func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-h.gone:
		case <-done:
		}
		shut()
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// trouble says what goes wrong while nothing is answered; "" where all is well.
func (h *health) trouble() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.row == 0 || h.stopped != nil {
		return ""
	}
	if h.answered {
		return "fails: " + h.last
	}
	return "no answer yet: " + h.last
}

// briefly is an error in a few words, for a line of progress.
func briefly(e *teachers.Error) string {
	const most = 160
	text := e.Class
	if e.Status != 0 {
		text += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if words, _, _ := strings.Cut(strings.TrimSpace(e.Excerpt), "\n"); words != "" {
		text += ": " + words
	}
	return clipped(text, most)
}
