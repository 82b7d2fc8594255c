package answers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// A History is all that was paid for one ask.
type History struct {
	// Record is what [Reader.Lookup] returns: the answer that serves the ask,
	// else the newest failure, else nil.
	Record *Record
	// Others are the ask's other records, oldest first: failures before the
	// answer, and answers that came when there was one.
	Others []*Record
}

// History returns everything that is kept for each ask, of what was committed
// before since. Like the records of a lookup they are shared and must not be
// changed. More than [AtOnce] asks may be refused with [ErrLarge].
func (r *Reader) History(ctx context.Context, since time.Time, asks []Ask) ([]History, error) {
	var out []History
	err := r.whileStale(func() error {
		all, err := r.rowsOf(ctx, since, asks)
		if err != nil {
			return err
		}
		out, err = r.histories(ctx, asks, all)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look up the history of answers: %w", err)
	}
	return out, nil
}

// History is [Reader.History] with [Store.Lookup]'s addition.
func (s *Store) History(ctx context.Context, since time.Time, asks []Ask) ([]History, error) {
	if err := s.flushKeys(ctx, asks); err != nil {
		return nil, fmt.Errorf("look up the history of answers: %w", err)
	}
	return s.Reader.History(ctx, since, asks)
}

// States of an ask.
const (
	Unasked = iota // nothing is known of the ask
	Failed         // there is a failure and no answer
	Served         // an answer serves it
)

// States tells, for each ask, whether an answer serves it or a failure is known
// of it. Like [Store.Answered] it reads no answers.
func (s *Store) States(ctx context.Context, asks []Ask) ([]int, error) {
	if err := s.flushKeys(ctx, asks); err != nil {
		return nil, fmt.Errorf("look up answers: %w", err)
	}
	hits, err := s.findFresh(ctx, asks)
	if err != nil {
		return nil, fmt.Errorf("look up answers: %w", err)
	}
	states := make([]int, len(asks))
	for i := range hits {
		switch {
		case hits[i].served:
			states[i] = Served
		case hits[i].failed:
			states[i] = Failed
		}
	}
	return states, nil
}

// histories reads the records of the rows that were found for each ask.
func (r *Reader) histories(ctx context.Context, asks []Ask, all [][]hit) ([]History, error) {
	var flatAsks []Ask
	var flat []hit
	for i := range asks {
		best := chosen(all[i], asks[i].Cap)
		for n := range all[i] {
			h := &all[i][n]
			if n != best && h.cap != asks[i].Cap {
				continue // of the same prompt under another token cap
			}
			h.failed = true // what fetch reads
			flat, flatAsks = append(flat, *h), append(flatAsks, asks[i])
		}
	}
	var room *atomic.Int64
	if len(asks) > AtOnce {
		room = new(atomic.Int64)
		room.Store(r.tune.fetchBytes)
	}
	records, err := r.fetch(ctx, flatAsks, flat, room)
	if err != nil {
		return nil, err
	}
	out := make([]History, len(asks))
	at := 0
	for i := range asks {
		best := chosen(all[i], asks[i].Cap)
		for n := range all[i] {
			switch {
			case n == best:
				out[i].Record = records[at]
			case all[i][n].cap == asks[i].Cap:
				out[i].Others = append(out[i].Others, records[at])
			default:
				continue
			}
			at++
		}
		slices.SortStableFunc(out[i].Others, func(a, b *Record) int { return a.Started.Compare(b.Started) })
	}
	return out, nil
}

// chosen is the index of the row that a lookup returns; -1 for none.
func chosen(rows []hit, limit int64) int {
	best := -1
	for n := range rows {
		k := rows[n].keyRow
		if k.kind.serves(k.cap, limit) {
			return n
		}
		if k.kind == failed && k.cap == limit && (best < 0 || k.started >= rows[best].started) {
			best = n
		}
	}
	return best
}

// rowsOf finds all rows of each ask's key, in the index's order and without
// copies.
func (r *Reader) rowsOf(ctx context.Context, since time.Time, asks []Ask) ([][]hit, error) {
	scan := &scan{Reader: r, since: since, asks: asks, all: make([][]hit, len(asks))}
	if err := eachEndpoint(ctx, asks, scan.in); err != nil {
		return nil, err
	}
	return scan.all, nil
}

// A scan is one call of rowsOf. Its goroutines write to different asks.
type scan struct {
	*Reader
	since time.Time
	asks  []Ask
	all   [][]hit
}

// in scans a range for the given asks, which are sorted by key, and then its
// children: a key's rows lie in all of the ranges on its way down.
func (s *scan) in(ctx context.Context, id rangeID, which []int) error {
	x, err := s.ranges.current(ctx, id, s.since)
	if err != nil {
		return err
	}
	for _, ref := range x.Segments {
		if err := s.segment(ctx, id, ref, which); err != nil {
			return err
		}
	}
	if !x.Closed {
		return nil
	}
	depth := len(id.bits)
	split, _ := slices.BinarySearchFunc(which, 1, func(i, bit int) int { return s.asks[i].Key.bit(depth) - bit })
	for bit, part := range [][]int{which[:split], which[split:]} {
		if len(part) > 0 {
			if err := s.in(ctx, id.child(bit), part); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *scan) segment(ctx context.Context, id rangeID, ref segmentRef, which []int) error {
	least, most := parseKey(ref.Min), parseKey(ref.Max)
	first, _ := slices.BinarySearchFunc(which, least, func(i int, k Key) int { return bytes.Compare(s.asks[i].Key[:], k[:]) })
	if which = which[first:]; len(which) == 0 || bytes.Compare(s.asks[which[0]].Key[:], most[:]) > 0 {
		return nil
	}
	file, release, err := s.cache.keys(ctx, id, ref)
	if err != nil {
		if errors.Is(err, objstore.ErrNotFound) {
			s.ranges.forget(id) // merged and deleted since the index was read
		}
		return err
	}
	defer release()
	for _, i := range which {
		key := &s.asks[i].Key
		if bytes.Compare(key[:], most[:]) > 0 {
			return nil
		}
		err := file.find(*key, func(row int64, k keyRow) bool {
			if !slices.ContainsFunc(s.all[i], func(h hit) bool { return h.keyRow == k }) {
				s.all[i] = append(s.all[i], hit{id: id, ref: ref, row: row, keyRow: k})
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unseen returns the items that the index does not hold already, byte for
// byte: whatever was paid for is kept, also where it is no longer needed.
func (s *Store) unseen(ctx context.Context, items []item) ([]item, error) {
	asks := make([]Ask, len(items))
	for i, it := range items {
		asks[i] = it.record.Ask
	}
	var all [][]hit
	err := s.whileStale(func() (err error) {
		all, err = s.rowsOf(ctx, time.Now(), asks)
		return err
	})
	if err != nil {
		return nil, err
	}
	var fresh []item
	seen := make(map[recordKey]bool)
	for i, it := range items {
		row := keyRow{cap: it.record.Cap, kind: it.record.kind(), started: micros(it.record.Started), crc: it.record.checksum()}
		key := recordKey{it.record.Endpoint, it.record.Key, row}
		if seen[key] || slices.ContainsFunc(all[i], func(h hit) bool { return h.keyRow == row }) {
			continue
		}
		seen[key] = true
		fresh = append(fresh, it)
	}
	return fresh, nil
}
