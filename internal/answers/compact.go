package answers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// A run is worth merging from leastRun segments on; mostRun bounds the open
// files and pages of one merge.
const (
	leastRun = 4
	mostRun  = 64
)

// wantCompaction queues a range that has come to hold many small segments.
// A full queue drops it: the next commit asks again.
func (s *Store) wantCompaction(id rangeID, x *index) {
	if s.run(x) == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.compacting[id] {
		return
	}
	select {
	case s.compactions <- id:
		s.compacting[id] = true
	default:
	}
}

func (s *Store) compactRanges(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-s.compactions:
			s.mu.Lock()
			delete(s.compacting, id)
			s.mu.Unlock()
			if err := s.compact(ctx, id); err != nil && ctx.Err() == nil {
				s.log.Warn("answers: segments not merged", "range", id.String(), "error", err)
			}
		}
	}
}

// run chooses the segments to merge: the longest contiguous run of small ones
// in which every segment is at most as large as all newer ones of the run
// together, so that merging at least doubles what it rewrites and a record is
// rewritten a logarithmic number of times.
func (s *Store) run(x *index) []segmentRef {
	small := 0
	for _, ref := range x.Segments {
		if ref.Bytes < s.tune.smallBytes {
			small++
		}
	}
	if small <= s.tune.smallMost {
		return nil
	}
	var best []segmentRef
	for end := len(x.Segments); end > len(best); end-- {
		start, bytes := end, int64(0)
		for start > 0 && end-start < mostRun {
			next := x.Segments[start-1].Bytes
			if next >= s.tune.smallBytes || bytes+next > s.tune.mergeBytes || end-start >= 2 && next > bytes {
				break
			}
			bytes += next
			start--
		}
		if end-start > len(best) {
			best = x.Segments[start:end]
		}
	}
	if len(best) < leastRun {
		return nil
	}
	return best
}

// compact merges a run of the range's segments into one, in their order. What
// a lookup finds is the same before and after.
func (s *Store) compact(ctx context.Context, id rangeID) error {
	snap, err := s.ranges.read(ctx, id)
	if err != nil {
		return err
	}
	run := s.run(snap.index)
	if run == nil {
		return nil
	}
	merged, err := s.merge(ctx, id, run)
	if err != nil {
		if errors.Is(err, objstore.ErrNotFound) {
			s.ranges.forget(id) // another worker merged them long ago
		}
		return fmt.Errorf("merge segments of answers: %w", err)
	}
	for attempt := 0; ; attempt++ {
		next := s.sweep(ctx, id, snap.index).replacing(run, merged.ref, time.Now())
		if next == nil { // another worker was faster
			s.discard(ctx, id, merged)
			return nil
		}
		_, err := s.ranges.replace(ctx, id, snap, next)
		if err == nil {
			break
		}
		current, readErr := s.ranges.read(ctx, id)
		if readErr != nil {
			return errors.Join(err, readErr)
		}
		if current.names(merged.ref.Name) {
			break
		}
		if !errors.Is(err, objstore.ErrPrecondition) {
			return err
		}
		snap = current
		if err := backOff(ctx, attempt); err != nil {
			return err
		}
	}
	for _, ref := range run {
		s.cache.drop(ref.Name)
	}
	return nil
}

// merge writes the run as one segment, into the bucket and the cache.
func (s *Store) merge(ctx context.Context, id rangeID, run []segmentRef) (_ *stored, err error) {
	data, err := os.CreateTemp(s.cache.dir, tempPrefix)
	if err != nil {
		return nil, err
	}
	defer os.Remove(data.Name()) // where it has not moved into the cache
	defer data.Close()
	keys, err := os.CreateTemp(s.cache.dir, tempPrefix)
	if err != nil {
		return nil, err
	}
	defer os.Remove(keys.Name())
	defer keys.Close()

	w := newSegmentWriter(data, keys)
	if err := s.mergeInto(ctx, w, id, run); err != nil {
		return nil, err
	}
	ref, err := w.close()
	if err != nil {
		return nil, err
	}
	if _, err := objstore.CreateFileOrSame(ctx, s.bucket, id.segment(ref.Name), data.Name()); err != nil {
		return nil, err
	}
	if err := s.cache.adopt(data.Name(), ref.Name+segmentSuffix, ref.Bytes); err != nil {
		return nil, err
	}
	if err := s.cache.adopt(keys.Name(), ref.Name+keysSuffix, ref.Rows*keyEntryBytes+keyTrailerBytes); err != nil {
		return nil, err
	}
	return &stored{ref: ref, at: time.Now()}, nil
}

// mergeInto writes the rows of all segments by key, rows of one key in the
// order of the segments.
func (s *Store) mergeInto(ctx context.Context, w *segmentWriter, id rangeID, run []segmentRef) error {
	sources := make([]*source, len(run))
	for n, ref := range run {
		file, release, err := s.cache.segment(ctx, id, ref)
		if err != nil {
			return err
		}
		defer release()
		src := openSource(file)
		defer src.stop()
		if err := src.next(); err != nil {
			return err
		}
		sources[n] = src
	}
	var rows []segmentRow
	for {
		var least *Key
		for _, src := range sources {
			if src.row != nil && (least == nil || bytes.Compare(src.row.Key[:], least[:]) < 0) {
				key := Key(src.row.Key)
				least = &key
			}
		}
		if least == nil {
			return ctx.Err()
		}
		rows = rows[:0]
		for _, src := range sources {
			for src.row != nil && Key(src.row.Key) == *least {
				rows = append(rows, *src.row)
				if err := src.next(); err != nil {
					return err
				}
			}
		}
		for _, row := range withoutCopies(rows) {
			if err := w.add(row); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// withoutCopies drops rows of one key that say what an earlier one says, as
// after a crash between the index and the end of a journal piece. All others
// stay, also failures that an answer took the place of: they were paid for, and
// the ledger tells of them.
func withoutCopies(rows []segmentRow) []segmentRow {
	if len(rows) == 1 {
		return rows
	}
	kept := rows[:0:0]
	for i := range rows {
		meta := rows[i].meta()
		if !slices.ContainsFunc(rows[:i], func(before segmentRow) bool { return before.meta() == meta }) {
			kept = append(kept, rows[i])
		}
	}
	return kept
}

// A source is a segment that is being merged, and its next row.
type source struct {
	pull func() (*segmentRow, error, bool)
	stop func()
	row  *segmentRow // nil: at the end
}

func openSource(file *segmentFile) *source {
	pull, stop := iter.Pull2(func(yield func(*segmentRow, error) bool) {
		errStop := errors.New("stop")
		err := file.each(func(row *segmentRow) error {
			if !yield(row, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && err != errStop {
			yield(nil, err)
		}
	})
	return &source{pull: pull, stop: stop}
}

func (s *source) next() error {
	row, err, more := s.pull()
	if !more {
		s.row = nil
		return nil
	}
	s.row = row
	return err
}
