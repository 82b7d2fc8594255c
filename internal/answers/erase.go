package answers

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// mostErased bounds how many names of erased segments an index keeps for the
// caches of other homes.
const mostErased = 512

// An Eraser takes answers out of the store for good: segments are written anew
// with a tombstone in the place of all that was kept for a key, and the old ones
// are deleted, at once and not after the grace time of a compaction.
//
// It may be interrupted anywhere and run again: an index names the segments that
// an erasing replaced until their objects are gone, and an erased key stays
// erased. Commits and compactions may run beside it.
type Eraser struct {
	*Reader
	// Exclusive: nobody else writes to the store, as where it is this home's own
	// and the home's lock is held. Segments that no index names are then
	// leftovers, whatever their age.
	Exclusive bool
	// Delete deletes objects, with all that the store keeps of them; nil: the
	// bucket's.
	Delete func(ctx context.Context, keys ...string) error
	// Note is told which range is looked at; may be nil.
	Note func(string)
}

// Erased counts what an erasing did.
type Erased struct {
	Records  int64 // that are gone
	Keys     int64 // asks that a tombstone stands for now; 0 where that was so before
	Segments int64 // that were written anew
	Unnamed  int64 // leftovers of broken writes that were deleted
	Waiting  int64 // young segments that no index names yet and that hold such records

	Names []string // of the segments that are gone
}

// Endpoints are the identities of the endpoints that answers are kept of.
func (r *Reader) Endpoints(ctx context.Context) ([]string, error) {
	var out []string
	for after := ""; ; {
		next := ""
		for attr, err := range r.bucket.List(ctx, root+"/", after) {
			if err != nil {
				return nil, fmt.Errorf("list answers: %w", err)
			}
			next, _, _ = strings.Cut(strings.TrimPrefix(attr.Key, root+"/"), "/")
			break
		}
		if next == "" {
			return out, nil
		}
		if isHex(next, 32) {
			out = append(out, next)
		}
		after = root + "/" + next + "0" // '0' is the byte after '/'
	}
}

// Find looks for records of an endpoint by ask id, and returns the keys that
// they are kept under. What was purged is not found, nor what was never asked.
func (e *Eraser) Find(ctx context.Context, endpoint string, ids map[string]bool) (map[string]Key, error) {
	found := map[string]Key{}
	err := e.eachRange(ctx, rangeID{endpoint: endpoint}, func(id rangeID, x *index) error {
		for _, ref := range x.Segments {
			err := e.read(ctx, id, ref.Name, ref.Bytes, func(s *segmentFile) error {
				return s.eachID(func(key Key, ask string) {
					if ids[ask] {
						found[ask] = key
					}
				})
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for answers to purge: %w", err)
	}
	return found, nil
}

// Erase erases everything that is kept under these keys of an endpoint.
func (e *Eraser) Erase(ctx context.Context, endpoint string, keys []Key) (Erased, error) {
	w := &erasing{Eraser: e, keys: slices.Clone(keys), began: time.Now()}
	sortKeys(w.keys)
	w.keys = slices.Compact(w.keys)
	err := e.eachRange(ctx, rangeID{endpoint: endpoint}, func(id rangeID, _ *index) error { return w.erase(ctx, id) })
	if err != nil {
		return w.sum, fmt.Errorf("erase answers: %w", err)
	}
	return w.sum, nil
}

// eachRange visits a range and those below it, each as the store has it now. A
// range that is closed meanwhile is looked into afterwards.
func (e *Eraser) eachRange(ctx context.Context, id rangeID, visit func(rangeID, *index) error) error {
	if e.Note != nil {
		e.Note(id.String())
	}
	snap, err := e.ranges.read(ctx, id)
	if err != nil {
		return err
	}
	if err := visit(id, snap.index); err != nil {
		return err
	}
	if !snap.Closed {
		if snap, err = e.ranges.read(ctx, id); err != nil || !snap.Closed {
			return err
		}
	}
	for bit := range 2 {
		if err := e.eachRange(ctx, id.child(bit), visit); err != nil {
			return err
		}
	}
	return nil
}

// An erasing is one call of Erase.
type erasing struct {
	*Eraser
	keys  []Key
	began time.Time
	sum   Erased
}

func (w *erasing) has(key Key) bool {
	_, ok := slices.BinarySearchFunc(w.keys, key, func(a, b Key) int { return strings.Compare(string(a[:]), string(b[:])) })
	return ok
}

func (w *erasing) within(least, most Key) bool {
	i, _ := slices.BinarySearchFunc(w.keys, least, func(a, b Key) int { return strings.Compare(string(a[:]), string(b[:])) })
	return i < len(w.keys) && string(w.keys[i][:]) <= string(most[:])
}

// A rewritten segment: what stands in its place, and what went.
type rewritten struct {
	ref     segmentRef
	records int64
	keys    int64
}

// erase erases the keys in one range.
func (w *erasing) erase(ctx context.Context, id rangeID) error {
	done := map[string]*rewritten{} // by the name before; nil: it holds nothing of them
	for attempt := 0; ; attempt++ {
		snap, err := w.ranges.read(ctx, id)
		if err != nil {
			return err
		}
		if len(snap.Erased) > mostErased { // those of earlier purges, whose objects are gone
			if err := w.clean(ctx, id, snap.index); err != nil {
				return err
			}
			short := *snap.index
			short.Erased = short.Erased[len(short.Erased)-mostErased:]
			snap = &snapshot{index: &short, etag: snap.etag, asOf: snap.asOf}
		}
		next, changed, err := w.without(ctx, id, snap.index, done)
		if err != nil {
			if errors.Is(err, objstore.ErrNotFound) && attempt < staleAttempts {
				continue // merged meanwhile
			}
			return err
		}
		if changed {
			if _, err := w.ranges.replace(ctx, id, snap, next); err != nil {
				current, readErr := w.ranges.read(ctx, id)
				if readErr != nil {
					return errors.Join(err, readErr)
				}
				if !sameSegments(current.index, next) {
					if !errors.Is(err, objstore.ErrPrecondition) {
						return err
					}
					if err := backOff(ctx, attempt); err != nil {
						return err
					}
					continue
				}
			}
			for name, r := range done {
				if r != nil && slices.ContainsFunc(next.Segments, func(ref segmentRef) bool { return ref.Name == r.ref.Name }) {
					w.sum.Records += r.records
					w.sum.Keys += r.keys
					w.sum.Segments++
					w.sum.Names = append(w.sum.Names, name)
				} else if r != nil { // of a segment that was merged meanwhile
					w.discard(ctx, id, r.ref.Name)
				}
			}
		}
		if err := w.clean(ctx, id, next); err != nil {
			return err
		}
		return w.leftovers(ctx, id, next)
	}
}

func sameSegments(a, b *index) bool {
	return slices.Equal(a.Segments, b.Segments) && slices.Equal(a.Erased, b.Erased)
}

// without is the index with every segment that holds a record of the keys
// replaced by one without. Segments that compaction has replaced are forgotten
// with them: they hold the same records.
func (w *erasing) without(ctx context.Context, id rangeID, x *index, done map[string]*rewritten) (*index, bool, error) {
	next := *x
	next.Segments = slices.Clone(x.Segments)
	changed := false
	for i, ref := range x.Segments {
		if !w.within(parseKey(ref.Min), parseKey(ref.Max)) {
			continue
		}
		r, known := done[ref.Name]
		if !known {
			var err error
			if r, err = w.rewrite(ctx, id, ref); err != nil {
				return nil, false, err
			}
			done[ref.Name] = r
		}
		if r == nil {
			continue
		}
		changed = true
		next.Segments[i] = r.ref
		next.Erased = append(slices.Clone(next.Erased), ref.Name)
		next.Tombstones += r.keys
	}
	if len(x.Obsolete) > 0 {
		for _, o := range x.Obsolete {
			holds, err := w.holdsAny(ctx, id, o.Name)
			if err != nil {
				return nil, false, err
			}
			if holds {
				changed = true
				next.Erased = append(slices.Clone(next.Erased), o.Name)
				next.Obsolete = slices.DeleteFunc(slices.Clone(next.Obsolete), func(p obsoleteRef) bool { return p.Name == o.Name })
			}
		}
	}
	return &next, changed, nil
}

// holdsAny tells whether an object, named by an index or not, holds a record
// of the keys. One that is gone holds none.
func (w *erasing) holdsAny(ctx context.Context, id rangeID, name string) (bool, error) {
	attr, err := w.bucket.Head(ctx, id.segment(name))
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	holds := false
	err = w.read(ctx, id, name, attr.Size, func(s *segmentFile) error {
		return s.eachKey(func(key Key, k keyRow) { holds = holds || k.kind != purged && w.has(key) })
	})
	if errors.Is(err, objstore.ErrNotFound) {
		return false, nil
	}
	return holds, err
}

// rewrite writes a segment anew without what is kept under the keys; nil where
// it holds nothing of them but tombstones.
func (w *erasing) rewrite(ctx context.Context, id rangeID, ref segmentRef) (*rewritten, error) {
	holds, err := w.holdsAny(ctx, id, ref.Name)
	if err != nil || !holds {
		return nil, err
	}
	data, err := os.CreateTemp(w.cache.dir, tempPrefix)
	if err != nil {
		return nil, err
	}
	defer os.Remove(data.Name())
	defer data.Close()
	r := &rewritten{}
	err = w.read(ctx, id, ref.Name, ref.Bytes, func(s *segmentFile) error {
		var err error
		r, err = w.copyWithout(ctx, id, s, newSegmentWriter(data, io.Discard))
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := objstore.CreateFileOrSame(ctx, w.bucket, id.segment(r.ref.Name), data.Name()); err != nil {
		return nil, err
	}
	return r, nil
}

func (w *erasing) copyWithout(ctx context.Context, id rangeID, s *segmentFile, out *segmentWriter) (*rewritten, error) {
	r := &rewritten{}
	var last Key
	stands := false // a tombstone for last
	err := s.each(func(row *segmentRow) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := Key(row.Key)
		if !w.has(key) {
			return out.add(*row)
		}
		if row.meta().kind != purged {
			r.records++
		}
		if stands && key == last {
			return nil
		}
		last, stands = key, true
		r.keys++
		stone, err := tombstone(id.endpoint, key)
		if err != nil {
			return err
		}
		return out.add(stone)
	})
	if err != nil {
		return nil, err
	}
	r.ref, err = out.close()
	return r, err
}

// discard deletes a segment that was written here and that no index names.
// Where it stays, it holds nothing that was to be erased.
func (w *erasing) discard(ctx context.Context, id rangeID, name string) {
	_ = w.delete(ctx, id.segment(name))
}

// clean deletes the objects of segments that were replaced by an erasing, of
// this one or of one that was interrupted.
func (w *erasing) clean(ctx context.Context, id rangeID, x *index) error {
	if len(x.Erased) == 0 {
		return nil
	}
	keys := make([]string, len(x.Erased))
	for i, name := range x.Erased {
		keys[i] = id.segment(name)
		w.cache.drop(name)
	}
	if err := w.delete(ctx, keys...); err != nil {
		return fmt.Errorf("delete erased segments of %s: %w", id, err)
	}
	return nil
}

func (w *erasing) delete(ctx context.Context, keys ...string) error {
	if w.Delete != nil {
		return w.Delete(ctx, keys...)
	}
	return w.bucket.Delete(ctx, keys...)
}

// leftovers deletes segments of the range that no index names, as a write that
// broke off leaves them, where they hold records of the keys. A young one may
// be named in a moment: it is counted, and a later call sees what became of it.
func (w *erasing) leftovers(ctx context.Context, id rangeID, x *index) error {
	for attr, err := range w.bucket.List(ctx, id.dir()+"/", "") {
		if err != nil {
			return fmt.Errorf("list segments of %s: %w", id, err)
		}
		name, ok := strings.CutSuffix(strings.TrimPrefix(attr.Key, id.dir()+"/"), segmentSuffix)
		if !ok || !isHex(name, 64) || x.names(name) {
			continue
		}
		holds, err := w.holdsAny(ctx, id, name)
		if err != nil {
			return err
		}
		if !holds {
			continue
		}
		if !w.Exclusive && time.Since(attr.Modified) < w.tune.grace {
			w.sum.Waiting++
			continue
		}
		if err := w.delete(ctx, attr.Key); err != nil {
			return fmt.Errorf("delete an unused segment of %s: %w", id, err)
		}
		w.sum.Unnamed++
	}
	return nil
}

// read opens a segment by its name: a copy here where it is small.
func (e *Eraser) read(ctx context.Context, id rangeID, name string, size int64, visit func(*segmentFile) error) error {
	key := id.segment(name)
	var s *segmentFile
	if size <= e.tune.remoteBytes {
		data, _, err := objstore.ReadAll(ctx, e.bucket, key, size)
		if err != nil {
			return fmt.Errorf("read segment of answers %s: %w", key, err)
		}
		if s, err = openSegment(bytes.NewReader(data), size); err != nil {
			return fmt.Errorf("segment of answers %s is damaged: %w", key, err)
		}
		return visit(s)
	}
	s, err := openSegment(objstore.NewReaderAt(ctx, e.bucket, key, size), size)
	if err != nil {
		return fmt.Errorf("read segment of answers %s: %w", key, err)
	}
	return visit(s)
}

// idColumn is where a segment has the ask's id.
const idColumn = keyColumns

// eachID visits key and ask id of all rows, and reads those columns alone.
func (s *segmentFile) eachID(visit func(Key, string)) error {
	return s.eachOf([]int{0, idColumn}, func(v []parquet.Value) error {
		key := v[0].ByteArray()
		if len(key) != len(Key{}) {
			return fmt.Errorf("a key of %d bytes", len(key))
		}
		visit(Key(key), string(v[1].ByteArray()))
		return nil
	})
}

// eachKey visits what a key file says of all rows.
func (s *segmentFile) eachKey(visit func(Key, keyRow)) error {
	return s.eachOf([]int{0, 1, 2, 3, 4, 5}, func(v []parquet.Value) error {
		key := v[0].ByteArray()
		if len(key) != len(Key{}) {
			return fmt.Errorf("a key of %d bytes", len(key))
		}
		row := segmentRow{Cap: v[1].Int64(), Complete: v[2].Boolean(), Finish: string(v[3].ByteArray()), Started: v[4].Int64(), CRC: v[5].Uint32()}
		visit(Key(key), row.meta())
		return nil
	})
}

func (s *segmentFile) eachOf(which []int, visit func([]parquet.Value) error) error {
	for n, group := range s.groups {
		if err := eachOfGroup(group, which, visit); err != nil {
			return fmt.Errorf("row group %d: %w", n, err)
		}
	}
	return nil
}

func eachOfGroup(group parquet.RowGroup, which []int, visit func([]parquet.Value) error) (err error) {
	columns := make([]columnValues, len(which))
	chunks := group.ColumnChunks()
	for i, c := range which {
		columns[i].pages = chunks[c].Pages()
		defer func() { err = errors.Join(err, columns[i].close()) }()
	}
	values := make([]parquet.Value, len(which))
	for range group.NumRows() {
		for i := range columns {
			if values[i], err = columns[i].next(); err != nil {
				return err
			}
		}
		if err := visit(values); err != nil {
			return err
		}
	}
	return nil
}

// ParseKey reads a key in hex.
func ParseKey(s string) (Key, error) {
	if !isHex(s, 64) {
		return Key{}, fmt.Errorf("key %.80q: want 64 hex digits", s)
	}
	var k Key
	_, err := hex.Decode(k[:], []byte(s))
	return k, err
}

// Journals are the pieces of journals in the store that still hold records of
// the keys: their workers have not indexed them yet.
func (e *Eraser) Journals(ctx context.Context, endpoint string, keys []Key) ([]string, error) {
	wanted := make(map[Key]bool, len(keys))
	for _, key := range keys {
		wanted[key] = true
	}
	var held []string
	for attr, err := range e.bucket.List(ctx, journalPrefix, "") {
		if err != nil {
			return nil, fmt.Errorf("list journals: %w", err)
		}
		data, _, err := objstore.ReadAll(ctx, e.bucket, attr.Key, maxPieceBytes)
		if errors.Is(err, objstore.ErrNotFound) {
			continue // indexed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read journal %s: %w", attr.Key, err)
		}
		holds := false
		if _, err := scanFrames(data, func(_, _ int, r *Record) error {
			holds = holds || r.Endpoint == endpoint && wanted[r.Key]
			return nil
		}); err != nil {
			return nil, fmt.Errorf("read journal %s: %w", attr.Key, err)
		}
		if holds {
			held = append(held, attr.Key)
		}
	}
	return held, nil
}

// IDs are the ask ids of all that is kept under these keys of an endpoint: the
// same asks under other token caps.
func (e *Eraser) IDs(ctx context.Context, endpoint string, keys []Key) (map[string]Key, error) {
	wanted := make(map[Key]bool, len(keys))
	for _, key := range keys {
		wanted[key] = true
	}
	found := map[string]Key{}
	err := e.eachRange(ctx, rangeID{endpoint: endpoint}, func(id rangeID, x *index) error {
		for _, ref := range x.Segments {
			err := e.read(ctx, id, ref.Name, ref.Bytes, func(s *segmentFile) error {
				return s.eachID(func(key Key, ask string) {
					if wanted[key] && ask != "" {
						found[ask] = key
					}
				})
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for answers to purge: %w", err)
	}
	return found, nil
}
