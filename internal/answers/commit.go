package answers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// An item is a record on its way into the index; entry is where it is in the
// journal, nil for an import.
type item struct {
	record *Record
	entry  *entry
}

// commit puts records into the index, in their order where keys are equal.
// done is called with those that are in it, from several goroutines, whatever
// becomes of the rest.
func (s *Store) commit(ctx context.Context, items []item, done func([]item)) error {
	byEndpoint := make(map[string][]item)
	for _, it := range items {
		byEndpoint[it.record.Endpoint] = append(byEndpoint[it.record.Endpoint], it)
	}
	var group errgroup.Group
	for endpoint, items := range byEndpoint {
		slices.SortStableFunc(items, func(a, b item) int { return bytes.Compare(a.record.Key[:], b.record.Key[:]) })
		group.Go(func() error { return s.commitRange(ctx, rangeID{endpoint: endpoint}, items, done) })
	}
	return group.Wait()
}

// mostRaces bounds how often a commit looks anew for what was purged, because
// a segment went away under it.
const mostRaces = 16

// commitRange writes the items, sorted by key, as a segment of the range and
// appends it to the index, or splits them where the range is closed.
func (s *Store) commitRange(ctx context.Context, id rangeID, items []item, done func([]item)) error {
	snap, err := s.ranges.recent(ctx, id)
	if err != nil {
		return err
	}
	var segment *stored
	var stones int64 // tombstones that the items were held against
	for attempt := 0; ; attempt++ {
		if snap.Tombstones != stones {
			rest, erased, err := s.unerased(ctx, id, snap.index, items)
			if errors.Is(err, objstore.ErrNotFound) && attempt < mostRaces { // merged or erased since the index was read
				if err := backOff(ctx, attempt); err != nil {
					return err
				}
				if snap, err = s.ranges.read(ctx, id); err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return err
			}
			stones = snap.Tombstones
			if len(erased) > 0 {
				s.discard(ctx, id, segment)
				segment, items = nil, rest
				done(erased)
			}
			if len(items) == 0 {
				return nil
			}
		}
		if snap.Closed {
			s.discard(ctx, id, segment)
			return s.commitChildren(ctx, id, items, done)
		}
		// A segment that waited for long may have been indexed by a write
		// whose answer was lost, merged, and deleted: then it must not be
		// named again.
		if segment != nil && time.Since(segment.at) > s.tune.patience {
			return fmt.Errorf("index answers in %s: no success within %v", id, s.tune.patience)
		}
		if segment == nil {
			if segment, err = s.writeSegment(ctx, id, items); err != nil {
				return err
			}
		}
		next := s.sweep(ctx, id, snap.index).with(segment.ref, s.tune.closeRows, len(id.bits))
		written, err := s.ranges.replace(ctx, id, snap, next)
		if err == nil {
			s.committed(id, written, segment, items, done)
			return nil
		}
		// The write may have happened although its answer says no or is lost.
		current, readErr := s.ranges.read(ctx, id)
		switch {
		case readErr != nil:
			return errors.Join(err, readErr)
		case current.names(segment.ref.Name):
			s.committed(id, current, segment, items, done)
			return nil
		case !errors.Is(err, objstore.ErrPrecondition):
			return err
		}
		snap = current
		if err := backOff(ctx, attempt); err != nil {
			return err
		}
	}
}

func (s *Store) commitChildren(ctx context.Context, id rangeID, items []item, done func([]item)) error {
	depth := len(id.bits)
	split := slices.IndexFunc(items, func(it item) bool { return it.record.Key.bit(depth) == 1 })
	if split < 0 {
		split = len(items)
	}
	var group errgroup.Group
	for bit, part := range [][]item{items[:split], items[split:]} {
		if len(part) > 0 {
			group.Go(func() error { return s.commitRange(ctx, id.child(bit), part, done) })
		}
	}
	return group.Wait()
}

func (s *Store) committed(id rangeID, x *snapshot, segment *stored, items []item, done func([]item)) {
	for n := range items {
		s.remember(items[n].record, segment.rows[n])
	}
	done(items)
	s.wantCompaction(id, x.index)
}

// backOff waits a little longer after every lost race, at random, so that the
// racers part.
func backOff(ctx context.Context, attempt int) error {
	most := min(5*time.Millisecond<<min(attempt, 6), 250*time.Millisecond)
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A stored segment is in the bucket, and named by no index yet.
type stored struct {
	ref  segmentRef
	rows []keyRow
	at   time.Time
}

func (s *Store) writeSegment(ctx context.Context, id rangeID, items []item) (*stored, error) {
	var data, keys bytes.Buffer
	w := newSegmentWriter(&data, &keys)
	rows := make([]keyRow, len(items))
	for n, it := range items {
		row, err := toRow(it.record)
		if err != nil {
			return nil, fmt.Errorf("write segment of answers: %s: %w", it.record.ID, err)
		}
		rows[n] = row.meta()
		if err := w.add(row); err != nil {
			return nil, err
		}
	}
	ref, err := w.close()
	if err != nil {
		return nil, err
	}
	if _, err := objstore.CreateOrSame(ctx, s.bucket, id.segment(ref.Name), data.Bytes()); err != nil {
		return nil, fmt.Errorf("write segment of answers: %w", err)
	}
	s.cacheSegment(ref, data.Bytes(), keys.Bytes())
	return &stored{ref, rows, time.Now()}, nil
}

// cacheSegment keeps a new segment on the local disk. Without space there it
// is read from the store.
func (s *Store) cacheSegment(ref segmentRef, data, keys []byte) {
	for _, file := range []struct {
		name string
		data []byte
	}{{ref.Name + segmentSuffix, data}, {ref.Name + keysSuffix, keys}} {
		if err := s.cache.create(file.name, writeBytes(file.data)); err != nil {
			s.log.Warn("answers: not cached", "file", file.name, "error", err)
			return
		}
		s.cache.added(file.name, int64(len(file.data)))
	}
}

// discard deletes a segment that no index names and none will: nobody else
// ever writes its name, and its one writer has seen that the index moved on.
func (s *Store) discard(ctx context.Context, id rangeID, segment *stored) {
	if segment == nil {
		return
	}
	s.cache.drop(segment.ref.Name)
	if err := s.bucket.Delete(ctx, id.segment(segment.ref.Name)); err != nil {
		s.log.Warn("answers: an unused segment stays in the store", "segment", id.segment(segment.ref.Name), "error", err)
	}
}

// sweep deletes replaced segments whose grace is over, and returns the index
// without them. Deleting comes first, so that none is forgotten.
func (s *Store) sweep(ctx context.Context, id rangeID, x *index) *index {
	names := x.expired(time.Now().Add(-s.tune.grace))
	if len(names) == 0 {
		return x
	}
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = id.segment(name)
		s.cache.drop(name)
	}
	if err := s.bucket.Delete(ctx, keys...); err != nil {
		s.log.Warn("answers: replaced segments stay for now", "range", id.String(), "error", err)
		return x
	}
	return x.forgetting(names)
}
