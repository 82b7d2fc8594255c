package answers

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Flush returns when every record that was appended before the call is in the
// index. Callers at the same time share one commit, and one starts at once
// when none is running. An error means that some record is not in the index;
// it stays in the journal and the next commit takes it.
func (s *Store) Flush(ctx context.Context) error {
	s.mu.Lock()
	r := s.round
	if len(s.pending) > 0 {
		if s.ended {
			s.mu.Unlock()
			return fmt.Errorf("index answers: %w", errClosed)
		}
		r = s.join()
	}
	s.mu.Unlock()
	if r != nil {
		select {
		case <-r.done:
		case <-ctx.Done():
			return fmt.Errorf("index answers: %w", ctx.Err())
		}
		if r.err != nil {
			return fmt.Errorf("index answers: %w", r.err)
		}
	}
	return s.jrnl.failed()
}

// join returns the next round, with the lock held.
func (s *Store) join() *round {
	if s.next == nil {
		s.next = &round{done: make(chan struct{})}
		wake(s.kick)
	}
	return s.next
}

// After a round of fewer records than restRows the rest is restFew times as long
// as the round: little is asked, and somebody waits.
const (
	restRows = 64
	restFew  = 2
)

// commitRounds runs one round after the other while any is wanted.
func (s *Store) commitRounds(ctx context.Context) {
	defer s.endRounds()
	var rest time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		}
		s.pause(ctx, time.Until(rest))
		began := time.Now()
		times := s.tune.restTimes
		if s.runRound(ctx) < restRows {
			times = min(times, restFew)
		}
		rest = time.Now().Add(min(time.Duration(times*time.Since(began).Nanoseconds()), s.tune.restMost))
	}
}

// pause lets records gather between two rounds. What a round costs hardly
// depends on how many it takes, so rounds that follow each other at once would
// cost more than asking does. The rest is a few times what the last round took:
// short where the store answers at once, and where little is asked none at all.
func (s *Store) pause(ctx context.Context, rest time.Duration) {
	if rest <= 0 {
		return
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.hurry:
	case <-ctx.Done():
	}
}

// endRounds turns away those who wait for a round that will not run.
func (s *Store) endRounds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.next != nil {
		s.next.err = errClosed
		close(s.next.done)
		s.next = nil
	}
}

// runRound commits what is pending and tells how many records that was.
func (s *Store) runRound(ctx context.Context) int {
	s.mu.Lock()
	r := s.next
	s.next, s.round = nil, r
	s.working, s.pending = s.pending, nil
	s.mu.Unlock()
	if r == nil {
		return 0
	}
	records := len(s.working)
	r.err = s.commitEntries(ctx, s.working)
	s.mu.Lock()
	s.pending = append(slices.DeleteFunc(s.working, func(e *entry) bool { return e.indexed }), s.pending...)
	s.round, s.working = nil, nil
	if s.next != nil {
		wake(s.kick)
	}
	s.mu.Unlock()
	close(r.done)
	wake(s.moveNow)
	if r.err != nil {
		s.log.Warn("answers: not indexed yet; they stay in the journal", "error", r.err)
	}
	return records
}

// commitEntries commits in parts, so that memory stays bounded however many
// records wait.
func (s *Store) commitEntries(ctx context.Context, entries []*entry) error {
	for len(entries) > 0 {
		items, err := s.loadPart(entries)
		if err != nil {
			return err
		}
		if err := s.commit(ctx, items, s.indexed); err != nil {
			return err
		}
		entries = entries[len(items):]
	}
	return nil
}

// loadPart returns as many of the first entries, at least one, as make one
// commit.
func (s *Store) loadPart(entries []*entry) ([]item, error) {
	n, bytes := 0, int64(0)
	for n < len(entries) && n < s.tune.batchRows && (n == 0 || bytes+entries[n].size <= s.tune.batchBytes) {
		bytes += entries[n].size
		n++
	}
	items := make([]item, n)
	for i, e := range entries[:n] {
		record, err := e.load()
		if err != nil {
			return nil, err
		}
		items[i] = item{record, e}
	}
	return items, nil
}

func (s *Store) indexed(items []item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range items {
		s.settle(it.entry)
	}
}

// flushOverdue starts a commit where a record has waited long enough without
// anyone's asking for it.
func (s *Store) flushOverdue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) > 0 && !s.ended && time.Since(s.pending[0].since) > s.tune.flushAge {
		s.join()
	}
}
