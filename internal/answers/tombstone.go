package answers

import (
	"bytes"
	"context"
	"slices"
	"time"
)

// A tombstone stands in the place of what was purged. It is a record like any
// other, without content: it serves its ask under every token cap, so that
// nobody asks, and pays, for it again. It holds the key alone, which is a digest.
const (
	purgedFinish = "stillhouse:purged" // no endpoint's word: normal sees to that
	purgedFormat = "purged"
)

// Purged tells whether the record is what is left of answers that were purged:
// it says that there was something, and nothing of what it was.
func (r *Record) Purged() bool { return r.Complete && r.Finish == purgedFinish }

// tombstone is the row that stands for all rows of a key. Two of one key are
// the same, byte for byte, so that one of them is passed over as a copy.
func tombstone(endpoint string, key Key) (segmentRow, error) {
	return toRow(&Record{
		Ask: Ask{Endpoint: endpoint, Key: key}, Complete: true, Finish: purgedFinish, Format: purgedFormat,
		Started: time.UnixMicro(0).UTC(),
	})
}

// unerased splits items into those that may be indexed and those whose key was
// purged while they were on their way: these are dropped, wherever they come
// from. The items are sorted by key.
func (s *Store) unerased(ctx context.Context, id rangeID, x *index, items []item) (rest, erased []item, err error) {
	if x.Tombstones == 0 {
		return items, nil, nil
	}
	asks, which := make([]Ask, len(items)), make([]int, len(items))
	for i := range items {
		asks[i], which[i] = items[i].record.Ask, i
	}
	scan := &scan{Reader: s.Reader, asks: asks, all: make([][]hit, len(asks))}
	for _, ref := range x.Segments {
		if err := scan.segment(ctx, id, ref, which); err != nil {
			return nil, nil, err
		}
	}
	for i := range items {
		if slices.ContainsFunc(scan.all[i], func(h hit) bool { return h.kind == purged }) {
			erased = append(erased, items[i])
			continue
		}
		rest = append(rest, items[i])
	}
	return rest, erased, nil
}

// Refresh makes the next look at every index a look at the store. What is known
// of answers stays true but for a purge, which changes also ranges that are
// closed; whoever begins work that must not see what was purged calls it.
func (r *Reader) Refresh() { r.ranges.forgetAll() }

// dropErased forgets what other homes' purges have erased: the copies of
// segments on this disk, and records in memory.
func (r *Reader) dropErased(names []string) {
	r.mu.Lock()
	fresh := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return r.erased[name] })
	for _, name := range fresh {
		r.erased[name] = true
	}
	if len(fresh) > 0 {
		r.recent.clear()
	}
	r.mu.Unlock()
	for _, name := range fresh {
		r.cache.drop(name)
	}
}

func (r *ranges) forgetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.last)
}

func sortKeys(keys []Key) {
	slices.SortFunc(keys, func(a, b Key) int { return bytes.Compare(a[:], b[:]) })
}
