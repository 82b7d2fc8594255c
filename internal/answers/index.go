package answers

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

const (
	root          = "answers"
	indexVersion  = 1
	maxIndexBytes = 16 << 20
	// maxDepth ends the splitting of ranges; 2^40 ranges are never reached
	// by keys that are hashes.
	maxDepth = 40
)

// A rangeID names a range: the endpoint, and the leading bits of its keys as
// a string of 0 and 1.
type rangeID struct {
	endpoint string
	bits     string
}

func (id rangeID) dir() string                { return root + "/" + id.endpoint + "/b" + id.bits }
func (id rangeID) indexKey() string           { return id.dir() + "/index.json" }
func (id rangeID) segment(name string) string { return id.dir() + "/" + name + ".parquet" }
func (id rangeID) String() string             { return id.dir() }

func (id rangeID) child(bit int) rangeID {
	return rangeID{id.endpoint, id.bits + string('0'+byte(bit))}
}

// A segmentRef is a segment as the index lists it.
type segmentRef struct {
	Name  string `json:"name"`  // hex SHA-256 of the file, and its file name
	Rows  int64  `json:"rows"`  // records
	Bytes int64  `json:"bytes"` // of the file
	Min   string `json:"min"`   // hex of the smallest key
	Max   string `json:"max"`   // hex of the largest key
}

// An obsoleteRef is a segment that compaction replaced. Readers may still hold
// an index that names it, so it is deleted after a grace time.
type obsoleteRef struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
}

// An index orders the segments of a range. It is immutable in memory.
type index struct {
	Version  int           `json:"version"`
	Closed   bool          `json:"closed"` // later records go to the two children
	Segments []segmentRef  `json:"segments"`
	Obsolete []obsoleteRef `json:"obsolete,omitempty"`
	// Erased are names of segments that a purge replaced, the last ones: their
	// objects are deleted, and so are copies in the caches of other homes.
	Erased []string `json:"erased,omitempty"`
	// Tombstones counts the keys that purges erased here; 0: what is committed
	// need not be held against them.
	Tombstones int64 `json:"tombstones,omitempty"`
}

func parseIndex(data []byte) (*index, error) {
	var x index
	if err := json.Unmarshal(data, &x); err != nil {
		return nil, err
	}
	if x.Version != indexVersion {
		return nil, fmt.Errorf("version %d; this program knows %d", x.Version, indexVersion)
	}
	for _, s := range x.Segments {
		if !isHex(s.Name, 64) || !isHex(s.Min, 64) || !isHex(s.Max, 64) || s.Rows < 1 || s.Bytes < 1 {
			return nil, fmt.Errorf("segment %.80q: not a digest, two keys and counts above 0", s.Name)
		}
	}
	for _, o := range x.Obsolete {
		if !isHex(o.Name, 64) {
			return nil, fmt.Errorf("obsolete segment %.80q: not a digest", o.Name)
		}
	}
	for _, name := range x.Erased {
		if !isHex(name, 64) {
			return nil, fmt.Errorf("erased segment %.80q: not a digest", name)
		}
	}
	return &x, nil
}

func (x *index) rows() (n int64) {
	for _, s := range x.Segments {
		n += s.Rows
	}
	return n
}

// names tells whether the segment is or was listed.
func (x *index) names(name string) bool {
	return slices.ContainsFunc(x.Segments, func(s segmentRef) bool { return s.Name == name }) ||
		slices.ContainsFunc(x.Obsolete, func(o obsoleteRef) bool { return o.Name == name })
}

// with is the index with one more segment, closed where it is full.
func (x *index) with(s segmentRef, closeRows int64, depth int) *index {
	n := *x
	n.Segments = append(slices.Clip(x.Segments), s)
	if n.rows() > closeRows && depth < maxDepth {
		n.Closed = true
	}
	return &n
}

// replacing is the index with the run of segments from first replaced by one.
// It is nil where the run is not there any more.
func (x *index) replacing(run []segmentRef, by segmentRef, now time.Time) *index {
	first := slices.IndexFunc(x.Segments, func(s segmentRef) bool { return s.Name == run[0].Name })
	if first < 0 || first+len(run) > len(x.Segments) || !slices.Equal(x.Segments[first:first+len(run)], run) {
		return nil
	}
	n := *x
	n.Obsolete = slices.Clone(x.Obsolete)
	n.Segments = append(slices.Clone(x.Segments[:first]), by)
	n.Segments = append(n.Segments, x.Segments[first+len(run):]...)
	for _, s := range run {
		n.Obsolete = append(n.Obsolete, obsoleteRef{s.Name, now.UTC().Truncate(time.Second)})
	}
	return &n
}

// expired are the obsolete segments whose grace is over.
func (x *index) expired(before time.Time) (names []string) {
	for _, o := range x.Obsolete {
		if o.Since.Before(before) {
			names = append(names, o.Name)
		}
	}
	return names
}

func (x *index) forgetting(names []string) *index {
	n := *x
	n.Obsolete = slices.DeleteFunc(slices.Clone(x.Obsolete), func(o obsoleteRef) bool { return slices.Contains(names, o.Name) })
	return &n
}

// A snapshot is an index as it was read or written. An empty etag: there is
// none yet.
type snapshot struct {
	*index
	etag string
	// asOf is when the read or write began: whatever was committed before it
	// is in the index.
	asOf time.Time
}

// ranges keeps the last snapshot of every index that was looked at. An index
// holds a few kilobytes, and there is one for about every million records.
type ranges struct {
	bucket objstore.Bucket
	erased func(names []string) // told of segments that purges erased; may be nil

	mu   sync.Mutex
	last map[rangeID]*snapshot
	busy map[rangeID]chan struct{} // one read at a time per index
}

func newRanges(bucket objstore.Bucket) *ranges {
	return &ranges{bucket: bucket, last: make(map[rangeID]*snapshot), busy: make(map[rangeID]chan struct{})}
}

func (r *ranges) known(id rangeID) (*snapshot, chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[id] == nil {
		r.busy[id] = make(chan struct{}, 1)
	}
	return r.last[id], r.busy[id]
}

func (r *ranges) keep(id rangeID, s *snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.last[id]; old == nil || !s.asOf.Before(old.asOf) {
		r.last[id] = s
	}
}

// forget makes the next load read.
func (r *ranges) forget(id rangeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, id)
}

// current returns an index that holds whatever was committed before the given
// time: one read since then, or a closed one, whose records never change.
func (r *ranges) current(ctx context.Context, id rangeID, began time.Time) (*snapshot, error) {
	usable := func(s *snapshot) bool { return s != nil && (s.Closed || !s.asOf.Before(began)) }
	s, busy := r.known(id)
	if usable(s) {
		return s, nil
	}
	select {
	case busy <- struct{}{}:
		defer func() { <-busy }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s, _ = r.known(id); usable(s) { // another lookup read it meanwhile
		return s, nil
	}
	return r.read(ctx, id)
}

// recent returns the last known index, however old; it is read where none is
// known.
func (r *ranges) recent(ctx context.Context, id rangeID) (*snapshot, error) {
	if s, _ := r.known(id); s != nil {
		return s, nil
	}
	return r.read(ctx, id)
}

func (r *ranges) read(ctx context.Context, id rangeID) (*snapshot, error) {
	began := time.Now()
	old, _ := r.known(id)
	body, attr, err := r.bucket.Get(ctx, id.indexKey())
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		s := &snapshot{index: &index{Version: indexVersion}, asOf: began}
		r.keep(id, s)
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("read index of answers: %w", err)
	}
	defer body.Close()
	if old != nil && old.etag == attr.ETag && attr.ETag != "" {
		s := &snapshot{index: old.index, etag: attr.ETag, asOf: began}
		r.keep(id, s)
		return s, nil
	}
	data, err := io.ReadAll(io.LimitReader(body, maxIndexBytes))
	if err != nil || int64(len(data)) != attr.Size { // it broke off, or is too large
		if data, attr, err = objstore.ReadAll(ctx, r.bucket, id.indexKey(), maxIndexBytes); err != nil {
			return nil, fmt.Errorf("read index of answers: %w", err)
		}
	}
	x, err := parseIndex(data)
	if err != nil {
		return nil, fmt.Errorf("index of answers %s in %s is damaged: %w", id.indexKey(), r.bucket, err)
	}
	if len(x.Erased) > 0 && r.erased != nil {
		r.erased(x.Erased)
	}
	s := &snapshot{index: x, etag: attr.ETag, asOf: began}
	r.keep(id, s)
	return s, nil
}

// replace writes an index in place of the snapshot that it was made from.
func (r *ranges) replace(ctx context.Context, id rangeID, from *snapshot, to *index) (*snapshot, error) {
	data, err := json.Marshal(to)
	if err != nil {
		return nil, fmt.Errorf("write index of answers %s: %w", id, err)
	}
	if len(data) > maxIndexBytes {
		return nil, fmt.Errorf("write index of answers %s: %d bytes, at most %d: too many segments are left unmerged", id, len(data), maxIndexBytes)
	}
	opt := objstore.PutOptions{IfMatch: from.etag, ContentType: "application/json"}
	if from.etag == "" {
		opt.IfNoneMatch = true
	}
	began := time.Now()
	attr, err := objstore.PutBytes(ctx, r.bucket, id.indexKey(), data, opt)
	if err != nil {
		return nil, fmt.Errorf("write index of answers: %w", err)
	}
	s := &snapshot{index: to, etag: attr.ETag, asOf: began}
	r.keep(id, s)
	return s, nil
}

func parseKey(s string) (k Key) {
	_, _ = hex.Decode(k[:], []byte(s)) // parseIndex has checked it
	return k
}
