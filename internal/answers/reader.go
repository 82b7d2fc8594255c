package answers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

const (
	// staleAttempts is how often a lookup starts over because compaction
	// deleted a segment under an index that it had read before.
	staleAttempts = 3
	readsAtOnce   = 8
)

// AtOnce is how many asks' history is returned however large it is.
const AtOnce = 32

// ErrLarge ends a look at the history of more than AtOnce asks whose answers are
// too much to be in memory at once: look at fewer.
var ErrLarge = errors.New("the answers are too large to be read at once")

// A Reader looks answers up and writes nothing to the store. It is safe for
// concurrent use. Its memory does not grow with the number of answers.
type Reader struct {
	bucket    objstore.Bucket
	tune      *tuning
	ranges    *ranges
	cache     *cache
	temporary bool // the cache is ours to delete

	mu     sync.Mutex
	recent *lru[recordKey, *Record]
	erased map[string]bool // segments that purges erased, as far as is known here
}

// A recordKey names a record in memory: what its key file says of it.
type recordKey struct {
	endpoint string
	key      Key
	row      keyRow
}

// OpenReader opens the answers for reading. Segments and key files are kept in
// cacheDir, which may be a [Store]'s Dir/cache; "" is a temporary folder that
// Close deletes.
func OpenReader(bucket objstore.Bucket, cacheDir string) (*Reader, error) {
	temporary := cacheDir == ""
	if temporary {
		dir, err := os.MkdirTemp("", "stillhouse-answers-")
		if err != nil {
			return nil, fmt.Errorf("open answers: make a cache folder: %w", err)
		}
		cacheDir = dir
	}
	tune := defaults()
	r, err := newReader(bucket, cacheDir, &tune)
	if err != nil {
		return nil, err
	}
	r.temporary = temporary
	return r, nil
}

func newReader(bucket objstore.Bucket, cacheDir string, tune *tuning) (*Reader, error) {
	c, err := openCache(cacheDir, bucket, tune)
	if err != nil {
		return nil, err
	}
	r := &Reader{
		bucket: bucket,
		tune:   tune,
		ranges: newRanges(bucket),
		cache:  c,
		recent: newLRU[recordKey, *Record](tune.recentBytes, nil),
		erased: make(map[string]bool),
	}
	r.ranges.erased = r.dropErased
	return r, nil
}

// Close closes the reader's files and removes a cache that it made for itself.
func (r *Reader) Close() error {
	r.cache.close()
	if r.temporary {
		return os.RemoveAll(r.cache.dir)
	}
	return nil
}

// Lookup returns, for each ask, the answer that serves it ([Record.Serves]),
// of several the one that the index names first; else the failure with the
// same key and cap that started last; else nil. Whatever was flushed before
// the call, by whomever, is seen. The records are shared and must not be
// changed.
func (r *Reader) Lookup(ctx context.Context, asks []Ask) ([]*Record, error) {
	var records []*Record
	err := r.whileStale(func() error {
		hits, err := r.find(ctx, asks)
		if err != nil {
			return err
		}
		records, err = r.fetch(ctx, asks, hits, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look up answers: %w", err)
	}
	return records, nil
}

// Answered tells, for each ask, whether an answer serves it. It reads no
// answers, only keys.
func (r *Reader) Answered(ctx context.Context, asks []Ask) ([]bool, error) {
	hits, err := r.findFresh(ctx, asks)
	if err != nil {
		return nil, fmt.Errorf("look up answers: %w", err)
	}
	answered := make([]bool, len(asks))
	for i := range hits {
		answered[i] = hits[i].served
	}
	return answered, nil
}

// findFresh is find, started over where a segment went away.
func (r *Reader) findFresh(ctx context.Context, asks []Ask) (hits []hit, err error) {
	err = r.whileStale(func() error {
		hits, err = r.find(ctx, asks)
		return err
	})
	return hits, err
}

func (r *Reader) whileStale(do func() error) error {
	for attempt := 1; ; attempt++ {
		err := do()
		var damaged *damagedError
		if err == nil || attempt == staleAttempts || !errors.Is(err, objstore.ErrNotFound) && !errors.As(err, &damaged) {
			return err
		}
	}
}

// A hit is where the record for an ask is.
type hit struct {
	served bool // by an answer
	failed bool // there is no answer, but this failure
	id     rangeID
	ref    segmentRef
	row    int64
	keyRow
}

// find finds the record for each ask.
func (r *Reader) find(ctx context.Context, asks []Ask) ([]hit, error) {
	began := time.Now()
	search := &search{Reader: r, began: began, asks: asks, hits: make([]hit, len(asks))}
	if err := eachEndpoint(ctx, asks, search.in); err != nil {
		return nil, err
	}
	return search.hits, nil
}

// eachEndpoint calls in with each endpoint's whole range and the asks of it,
// sorted by key, side by side.
func eachEndpoint(ctx context.Context, asks []Ask, in func(context.Context, rangeID, []int) error) error {
	byEndpoint := make(map[string][]int)
	for i := range asks {
		if err := asks[i].validate(); err != nil {
			return err
		}
		byEndpoint[asks[i].Endpoint] = append(byEndpoint[asks[i].Endpoint], i)
	}
	group, ctx := errgroup.WithContext(ctx)
	for endpoint, which := range byEndpoint {
		slices.SortFunc(which, func(a, b int) int { return bytes.Compare(asks[a].Key[:], asks[b].Key[:]) })
		group.Go(func() error { return in(ctx, rangeID{endpoint: endpoint}, which) })
	}
	return group.Wait()
}

// A search is one call of find. Its goroutines write to different hits.
type search struct {
	*Reader
	began time.Time
	asks  []Ask
	hits  []hit
}

// in searches a range for the given asks, which are sorted by key, and then
// its children for what is left.
//
// An answer stays the answer, so one that an old index names needs no look at
// a newer one. That nothing serves an ask is said of a current index only.
func (s *search) in(ctx context.Context, id rangeID, which []int) error {
	old, _ := s.ranges.known(id)
	if old != nil {
		if err := s.segments(ctx, id, old.Segments, which); err != nil {
			return err
		}
		if which = s.unserved(which); len(which) == 0 {
			return nil
		}
	}
	x, err := s.ranges.current(ctx, id, s.began)
	if err != nil {
		return err
	}
	if old == nil || x.index != old.index {
		if err := s.segments(ctx, id, x.Segments, which); err != nil {
			return err
		}
		which = s.unserved(which)
	}
	if !x.Closed {
		return nil
	}
	var children [2][]int
	for _, i := range which {
		bit := s.asks[i].Key.bit(len(id.bits))
		children[bit] = append(children[bit], i)
	}
	group, ctx := errgroup.WithContext(ctx)
	for bit, which := range children {
		if len(which) > 0 {
			group.Go(func() error { return s.in(ctx, id.child(bit), which) })
		}
	}
	return group.Wait()
}

func (s *search) unserved(which []int) (rest []int) {
	for _, i := range which {
		if !s.hits[i].served {
			rest = append(rest, i)
		}
	}
	return rest
}

// segments searches the segments of a range, in their order.
func (s *search) segments(ctx context.Context, id rangeID, refs []segmentRef, which []int) error {
	files := make([]*keyFile, len(refs))
	releases := make([]func(), len(refs))
	defer func() {
		for _, release := range releases {
			if release != nil {
				release()
			}
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for n, ref := range refs {
		if !s.anyWithin(which, parseKey(ref.Min), parseKey(ref.Max)) {
			continue
		}
		group.Go(func() (err error) {
			files[n], releases[n], err = s.cache.keys(ctx, id, ref)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		if errors.Is(err, objstore.ErrNotFound) {
			s.ranges.forget(id) // merged and deleted since the index was read
		}
		return err
	}
	for n, file := range files {
		if file == nil {
			continue
		}
		for _, i := range which {
			if s.hits[i].served {
				continue
			}
			if err := s.one(file, id, refs[n], i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *search) anyWithin(which []int, min, max Key) bool {
	first, _ := slices.BinarySearchFunc(which, min, func(i int, min Key) int { return bytes.Compare(s.asks[i].Key[:], min[:]) })
	return first < len(which) && bytes.Compare(s.asks[which[first]].Key[:], max[:]) <= 0
}

// one looks for one ask in one segment.
func (s *search) one(file *keyFile, id rangeID, ref segmentRef, i int) error {
	ask, best := &s.asks[i], &s.hits[i]
	return file.find(ask.Key, func(row int64, k keyRow) bool {
		switch {
		case k.kind.serves(k.cap, ask.Cap):
			*best = hit{served: true, id: id, ref: ref, row: row, keyRow: k}
			return false
		case k.kind == failed && k.cap == ask.Cap && (!best.failed || k.started >= best.started):
			*best = hit{failed: true, id: id, ref: ref, row: row, keyRow: k}
		}
		return true
	})
}

// fetch reads the records that were found. room, where it is not nil, is how many
// bytes of raw answers may be read.
func (r *Reader) fetch(ctx context.Context, asks []Ask, hits []hit, room *atomic.Int64) ([]*Record, error) {
	records := make([]*Record, len(hits))
	bySegment := make(map[string][]int)
	for i := range hits {
		h := &hits[i]
		if !h.served && !h.failed {
			continue
		}
		if records[i] = r.remembered(recordKey{asks[i].Endpoint, asks[i].Key, h.keyRow}); records[i] == nil {
			bySegment[h.ref.Name] = append(bySegment[h.ref.Name], i)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for _, which := range bySegment {
		group.Go(func() error { return r.fetchFrom(ctx, asks, hits, which, records, room) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return records, nil
}

// fetchFrom reads the records of some hits, all in one segment.
func (r *Reader) fetchFrom(ctx context.Context, asks []Ask, hits []hit, which []int, records []*Record, room *atomic.Int64) error {
	slices.SortFunc(which, func(a, b int) int { return int(hits[a].row - hits[b].row) })
	id, ref := hits[which[0]].id, hits[which[0]].ref
	segment, release, err := r.cache.segment(ctx, id, ref)
	if err != nil {
		if errors.Is(err, objstore.ErrNotFound) {
			r.ranges.forget(id)
		}
		return err
	}
	defer release()
	numbers := make([]int64, len(which))
	for n, i := range which {
		numbers[n] = hits[i].row
	}
	rows, err := segment.read(numbers, room)
	if errors.Is(err, ErrLarge) {
		return err
	}
	if err != nil {
		r.cache.drop(ref.Name)
		return &damagedError{id.segment(ref.Name), err}
	}
	for n, i := range which {
		record, err := rows[n].record(id.endpoint)
		if err == nil && (record.Key != asks[i].Key || rows[n].meta() != hits[i].keyRow) {
			err = fmt.Errorf("row %d is another answer than its key file says", numbers[n])
		}
		if err != nil {
			r.cache.drop(ref.Name)
			return &damagedError{id.segment(ref.Name), err}
		}
		records[i] = record
		r.remember(record, hits[i].keyRow)
	}
	return nil
}

func (r *Reader) remembered(key recordKey) *Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	record, _ := r.recent.get(key)
	return record
}

func (r *Reader) remember(record *Record, row keyRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recent.put(recordKey{record.Endpoint, record.Key, row}, record, record.size())
}
