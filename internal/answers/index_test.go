package answers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// faults decides by operation and key; it may be changed while the bucket is
// used.
type faults struct {
	mu sync.Mutex
	do func(op, key string) error
}

func (f *faults) set(do func(op, key string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.do = do
}

func (f *faults) hit(op, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.do == nil {
		return nil
	}
	return f.do(op, key)
}

// times returns an error for the first n writes of an index.
func times(n int, err error) func(op, key string) error {
	return func(op, key string) error {
		if op == mem.OpPut && strings.HasSuffix(key, "index.json") && n > 0 {
			n--
			return err
		}
		return nil
	}
}

func indexOf(t testing.TB, b objstore.Bucket, id rangeID) *index {
	t.Helper()
	data, _, err := objstore.ReadAll(context.Background(), b, id.indexKey(), maxIndexBytes)
	if err != nil {
		t.Fatal(err)
	}
	x, err := parseIndex(data)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// listedAndThere checks that every segment that an index names exists, that no
// record is listed twice, and that no other segment lies about.
func listedAndThere(t testing.TB, b objstore.Bucket, endpoint string) (rows int64) {
	t.Helper()
	named := make(map[string]bool)
	var indexes, segments []string
	for _, key := range keysUnder(t, b, root+"/"+endpoint+"/") {
		if strings.HasSuffix(key, "index.json") {
			indexes = append(indexes, key)
		} else {
			segments = append(segments, key)
		}
	}
	for _, key := range indexes {
		bits := strings.TrimSuffix(strings.TrimPrefix(key, root+"/"+endpoint+"/b"), "/index.json")
		id := rangeID{endpoint, bits}
		x := indexOf(t, b, id)
		for _, s := range x.Segments {
			if named[id.segment(s.Name)] {
				t.Errorf("%s names %s twice", key, s.Name)
			}
			named[id.segment(s.Name)] = true
			rows += s.Rows
		}
		for _, o := range x.Obsolete {
			named[id.segment(o.Name)] = true
		}
	}
	for _, key := range segments {
		if !named[key] {
			t.Errorf("no index names %s", key)
		}
		delete(named, key)
	}
	for key := range named {
		t.Errorf("%s is named but not there", key)
	}
	return rows
}

func TestIndexRaces(t *testing.T) {
	tests := []struct {
		name    string
		before  func(op, key string) error // takes effect instead of the write
		after   func(op, key string) error // the write happened, its answer is lost
		flushes bool                       // does Flush succeed?
	}{
		{"a lost race", times(3, objstore.ErrPrecondition), nil, true},
		{"an answer lost, and 412 for the retry", nil, times(1, objstore.ErrPrecondition), true},
		{"an answer lost for good", nil, times(1, errors.New("connection reset")), true},
		{"an outage", times(1, objstore.ErrUnavailable), nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bucket := memBucket()
			var before, after faults
			bucket.Fault, bucket.Lost = before.hit, after.hit
			s := opened(t, bucket, t.TempDir(), nil)
			a, b := askFor(endpointA, 1, 0), askFor(endpointA, 2, 0)
			mustAppend(t, s, answerTo(a, "stop", "one"))
			before.set(tt.before)
			after.set(tt.after)
			if err := s.Flush(context.Background()); (err == nil) != tt.flushes {
				t.Fatalf("Flush: %v", err)
			}
			mustFlush(t, s)
			mustAppend(t, s, answerTo(b, "stop", "two"))
			mustFlush(t, s)
			wantTexts(t, s, []Ask{a, b}, "one", "two")
			if tt.flushes {
				if rows := listedAndThere(t, bucket, endpointA); rows != 2 {
					t.Errorf("the index holds %d records, want 2", rows)
				}
			}
		})
	}
}

// TestOwnSegmentAlreadyMerged loses the answer to an index write and lets
// another worker merge the segment before the writer looks again.
func TestOwnSegmentAlreadyMerged(t *testing.T) {
	bucket := memBucket()
	compact := func(tune *tuning) { tune.smallMost = leastRun - 1 }
	quiet := func(tune *tuning) { tune.smallMost = 1000 }
	var after faults
	bucket.Lost = after.hit
	writer, other := opened(t, bucket, t.TempDir(), quiet), opened(t, bucket, t.TempDir(), compact)
	var asks []Ask
	var want []string
	for i := range leastRun {
		asks, want = append(asks, askFor(endpointA, i, 0)), append(want, fmt.Sprint("answer ", i))
		mustAppend(t, writer, answerTo(asks[i], "stop", want[i]))
		if i == leastRun-1 {
			lost := times(1, errors.New("connection reset"))
			after.set(func(op, key string) error {
				err := lost(op, key)
				if err != nil {
					after.do = nil // merging must go through
					after.mu.Unlock()
					if err := other.compact(context.Background(), rangeID{endpoint: endpointA}); err != nil {
						t.Error(err)
					}
					after.mu.Lock()
				}
				return err
			})
		}
		mustFlush(t, writer)
	}
	wantTexts(t, writer, asks, want...)
	x := indexOf(t, bucket, rangeID{endpoint: endpointA})
	if len(x.Segments) != 1 || len(x.Obsolete) != leastRun || x.rows() != leastRun {
		t.Errorf("index %+v, want one segment of %d records", x, leastRun)
	}
}

func TestFullRangesSplit(t *testing.T) {
	bucket := memBucket()
	const limit, batches, each = 30, 20, 25
	tune := func(tune *tuning) { tune.closeRows = limit }
	s := opened(t, bucket, t.TempDir(), tune)
	stale := opened(t, bucket, t.TempDir(), tune) // knows only indexes from before they were closed
	var asks []Ask
	var want []string
	for b := range batches {
		writer := s
		if b%5 == 0 {
			writer = stale
		}
		for i := range each {
			n := b*each + i
			asks, want = append(asks, askFor(endpointA, n, 0)), append(want, fmt.Sprint("answer ", n))
			mustAppend(t, writer, answerTo(asks[n], "stop", want[n]))
		}
		mustFlush(t, writer)
	}
	wantTexts(t, s, asks, want...)
	wantTexts(t, stale, asks, want...)
	if rows := listedAndThere(t, bucket, endpointA); rows != batches*each {
		t.Errorf("the index holds %d records, want %d", rows, batches*each)
	}
	ranges := 0
	for _, key := range keysUnder(t, bucket, root+"/"+endpointA+"/") {
		if !strings.HasSuffix(key, "index.json") {
			continue
		}
		ranges++
		bits := strings.TrimSuffix(strings.TrimPrefix(key, root+"/"+endpointA+"/b"), "/index.json")
		x := indexOf(t, bucket, rangeID{endpointA, bits})
		if rows := x.rows(); x.Closed != (rows > limit) || rows > limit+each {
			t.Errorf("%s holds %d records, closed: %v", key, rows, x.Closed)
		}
		for _, seg := range x.Segments {
			for _, k := range []Key{parseKey(seg.Min), parseKey(seg.Max)} {
				for i, bit := range bits {
					if k.bit(i) != int(bit-'0') {
						t.Errorf("%s holds key %s", key, k)
					}
				}
			}
		}
	}
	if ranges < 8 {
		t.Errorf("%d ranges for %d records of at most about %d each", ranges, batches*each, limit)
	}
	// A parent's answer stays before a child's.
	mustAppend(t, s, answerTo(asks[0], "stop", "too late"))
	mustFlush(t, s)
	wantTexts(t, s, asks[:1], want[0])
}

func TestReplacedSegmentsAreDeletedAfterTheGrace(t *testing.T) {
	bucket := memBucket()
	s := opened(t, bucket, t.TempDir(), func(tune *tuning) { tune.smallMost = 1000 })
	id := rangeID{endpoint: endpointA}
	reader, err := OpenReader(bucket, "")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var asks []Ask
	var want []string
	add := func() {
		i := len(asks)
		asks, want = append(asks, askFor(endpointA, i, 0)), append(want, fmt.Sprint("answer ", i))
		mustAppend(t, s, answerTo(asks[i], "stop", want[i]))
		mustFlush(t, s)
	}
	for range 6 {
		add()
	}
	old, err := reader.ranges.read(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	s.tune.smallMost = 5
	if err := s.compact(context.Background(), id); err != nil {
		t.Fatal(err)
	}
	s.tune.smallMost = 1000
	segments := func() (n int) {
		for _, key := range keysUnder(t, bucket, id.dir()) {
			if strings.HasSuffix(key, segmentSuffix) {
				n++
			}
		}
		return n
	}
	add()
	if n := segments(); n != 6+1+1 {
		t.Errorf("%d segments within the grace, want 8", n)
	}
	s.tune.grace = -time.Hour // every grace is over
	add()
	if n := segments(); n != 1+2 {
		t.Errorf("%d segments after the grace, want 3", n)
	}
	if x := indexOf(t, bucket, id); len(x.Obsolete) != 0 {
		t.Errorf("the index still lists %v", x.Obsolete)
	}
	listedAndThere(t, bucket, endpointA)

	// The reader believes an index from before all that.
	held := *old
	held.asOf = time.Now().Add(time.Hour)
	reader.ranges.keep(id, &held)
	wantTexts(t, reader, asks, want...)
}

func TestDamagedIndexIsAnError(t *testing.T) {
	for _, text := range []string{
		``, `{`, `[]`, `{"version":2}`,
		`{"version":1,"segments":[{"name":"../../x","rows":1,"bytes":1}]}`,
		`{"version":1,"obsolete":[{"name":"x"}]}`,
	} {
		bucket := memBucket()
		put(t, bucket, rangeID{endpoint: endpointA}.indexKey(), []byte(text))
		s, err := reopen(bucket, t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		a := askFor(endpointA, 1, 0)
		if _, err := s.Lookup(context.Background(), []Ask{a}); err == nil || !strings.Contains(err.Error(), "index.json") {
			t.Errorf("%s: Lookup: %v", text, err)
		}
		mustAppend(t, s, answerTo(a, "stop", "one"))
		if err := s.Flush(context.Background()); err == nil {
			t.Errorf("%s: Flush succeeded", text)
		}
		s.Close(context.Background())
		if files, _ := listPieces(s.jrnl.dir); len(files) == 0 {
			t.Errorf("%s: the journal is gone", text)
		}
	}
}

func FuzzParseIndex(f *testing.F) {
	good, err := json.Marshal(&index{Version: 1, Closed: true, Segments: []segmentRef{{
		Name: strings.Repeat("a", 64), Rows: 2, Bytes: 3, Min: strings.Repeat("0", 64), Max: strings.Repeat("f", 64),
	}}, Obsolete: []obsoleteRef{{Name: strings.Repeat("b", 64)}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := parseIndex(data)
		if err != nil {
			return
		}
		for _, s := range x.Segments {
			if strings.ContainsAny(s.Name, "./\\") || s.Rows < 1 {
				t.Fatalf("segment %+v was taken", s)
			}
		}
	})
}

// TestReaderWritesNothing lets a reader do all that it can on a bucket that
// refuses every change.
func TestReaderWritesNothing(t *testing.T) {
	bucket := memBucket()
	s := opened(t, bucket, t.TempDir(), nil)
	a := askFor(endpointA, 1, 0)
	r, err := OpenReader(&gate{Bucket: bucket, do: func(op, key string, _ func() error) error {
		t.Errorf("the reader tried to %s %s", op, key)
		return objstore.ErrReadOnly
	}}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	wantTexts(t, r, []Ask{a}, "-")
	mustAppend(t, s, answerTo(a, "stop", "one"))
	mustFlush(t, s)
	wantTexts(t, r, []Ask{a, askFor(endpointB, 1, 0)}, "one", "-")
}
