package answers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// eraser is one with a cache of its own.
func eraser(t testing.TB, bucket objstore.Bucket) *Eraser {
	t.Helper()
	r, err := OpenReader(bucket, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Eraser{Reader: r}
}

// everything is the raw bytes of every record in every segment of the bucket,
// named by an index or not.
func everything(t testing.TB, bucket objstore.Bucket) string {
	t.Helper()
	var out strings.Builder
	for attr, err := range bucket.List(context.Background(), root+"/", "") {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(attr.Key, segmentSuffix) {
			continue
		}
		data, _, err := objstore.ReadAll(context.Background(), bucket, attr.Key, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		s, err := openSegment(strings.NewReader(string(data)), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.each(func(row *segmentRow) error {
			fmt.Fprintf(&out, "%s %s %s %s %s\n", row.Raw, row.Headers, row.ErrorText, row.Ledger, row.AskID)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestErase(t *testing.T) {
	bucket, dir := memBucket(), t.TempDir()
	s := opened(t, bucket, dir, func(tune *tuning) { tune.closeRows = 12; tune.grace = time.Hour })
	var asks []Ask
	for i := range 40 {
		a := askFor(endpointA, i, 100)
		asks = append(asks, a)
		text := fmt.Sprintf("kept-%d", i)
		if i%10 == 3 {
			text = "CANARY"
			mustAppend(t, s, failureOf(a, time.Unix(1, 0), "CANARY-class"))
			mustAppend(t, s, answerTo(askFor(endpointA, i, 10), "length", "CANARY-short")) // the same ask under another cap
		}
		mustAppend(t, s, answerTo(a, "stop", text))
		if i%7 == 0 {
			mustFlush(t, s)
		}
	}
	mustFlush(t, s)
	if !strings.Contains(everything(t, bucket), "CANARY") {
		t.Fatal("the test has no canary")
	}
	e := eraser(t, bucket)
	endpoints, err := e.Endpoints(t.Context())
	if err != nil || len(endpoints) != 1 || endpoints[0] != endpointA {
		t.Fatalf("endpoints %v, %v", endpoints, err)
	}
	ids := map[string]bool{asks[3].ID: true, asks[13].ID: true, asks[23].ID: true, asks[33].ID: true, "absent": true}
	found, err := e.Find(t.Context(), endpointA, ids)
	if err != nil || len(found) != 4 {
		t.Fatalf("found %d of 4, %v", len(found), err)
	}
	var keys []Key
	for id, key := range found {
		if !ids[id] {
			t.Errorf("found %s, which nobody looked for", id)
		}
		keys = append(keys, key)
	}
	sum, err := e.Erase(t.Context(), endpointA, keys)
	if err != nil || sum.Records != 12 || sum.Waiting != 0 {
		t.Fatalf("erased %+v, %v", sum, err)
	}
	if left := everything(t, bucket); strings.Contains(left, "CANARY") || strings.Count(left, "kept-") != 2*36 { // in text and headers
		t.Fatalf("left: %s", left)
	}
	for name, look := range map[string]looker{"the same store": s, "another reader": e.Reader} {
		for i, a := range asks {
			records, err := look.Lookup(t.Context(), []Ask{a})
			if err != nil {
				t.Fatal(err)
			}
			switch r := records[0]; {
			case i%10 == 3 && name == "another reader" && (r == nil || !r.Purged() || r.Raw != nil || r.ID != ""):
				t.Errorf("%s: purged ask %d is %+v", name, i, r)
			case i%10 != 3 && (r == nil || string(r.Raw) != fmt.Sprintf("kept-%d", i)):
				t.Errorf("%s: ask %d is %+v", name, i, r)
			}
		}
	}
	// Under any cap nobody is to ask again.
	for _, limit := range []int64{0, 10, 100, 1000} {
		answered, err := e.Answered(t.Context(), []Ask{askFor(endpointA, 3, limit)})
		if err != nil || !answered[0] {
			t.Errorf("cap %d: answered %v, %v", limit, answered, err)
		}
	}
	// Again: nothing is left to do.
	if sum, err = e.Erase(t.Context(), endpointA, keys); err != nil || sum.Records != 0 || sum.Segments != 0 {
		t.Fatalf("again: %+v, %v", sum, err)
	}
	if found, err = e.Find(t.Context(), endpointA, ids); err != nil || len(found) != 0 {
		t.Fatalf("found again: %v, %v", found, err)
	}
}

// A store that runs sees a purge of another process, also in ranges that it
// took for closed, and lets go of its copies.
func TestErasedIsSeenByRunningStores(t *testing.T) {
	bucket := memBucket()
	s := opened(t, bucket, t.TempDir(), func(tune *tuning) { tune.closeRows = 1 })
	asks := []Ask{askFor(endpointA, 1, 0), askFor(endpointA, 2, 0), askFor(endpointA, 3, 0)}
	for _, a := range asks {
		mustAppend(t, s, answerTo(a, "stop", "text"))
		mustFlush(t, s)
	}
	texts(t, s, asks...)
	e := eraser(t, bucket)
	if _, err := e.Erase(t.Context(), endpointA, []Key{asks[0].Key, asks[1].Key, asks[2].Key}); err != nil {
		t.Fatal(err)
	}
	s.Refresh()
	for _, a := range asks {
		h, err := s.History(t.Context(), time.Now(), []Ask{a})
		if err != nil || h[0].Record == nil || !h[0].Record.Purged() || len(h[0].Others) != 0 {
			t.Errorf("%+v, %v", h[0], err)
		}
	}
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	if n := len(s.cache.files.items); n > 6 { // key file and segment of what there is now
		t.Errorf("%d files are cached", n)
	}
}

// What arrives late, for an ask that was purged meanwhile, is not kept.
func TestLateAnswersOfPurgedAsksAreDropped(t *testing.T) {
	bucket := memBucket()
	s := opened(t, bucket, t.TempDir(), nil)
	a, b := askFor(endpointA, 1, 0), askFor(endpointA, 2, 0)
	mustAppend(t, s, answerTo(a, "stop", "CANARY"))
	mustFlush(t, s)
	e := eraser(t, bucket)
	if _, err := e.Erase(t.Context(), endpointA, []Key{a.Key}); err != nil {
		t.Fatal(err)
	}
	late := answerTo(a, "stop", "CANARY of a late answer")
	late.Started = late.Started.Add(time.Second)
	mustAppend(t, s, late, answerTo(b, "stop", "another"))
	mustFlush(t, s)
	if left := everything(t, bucket); strings.Contains(left, "CANARY") || !strings.Contains(left, "another") {
		t.Fatalf("left: %s", left)
	}
	if _, err := s.Import(t.Context(), endpointA, seq(answerTo(askFor(endpointA, 1, 7), "length", "CANARY again"))); err != nil {
		t.Fatal(err)
	}
	if left := everything(t, bucket); strings.Contains(left, "CANARY") {
		t.Fatalf("left: %s", left)
	}
}

func seq(records ...*Record) func(func(*Record, error) bool) {
	return func(yield func(*Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// A breaker fails every request from the cut-th on, while it is armed.
type breaker struct {
	armed atomic.Bool
	n     atomic.Int64
	cut   int64
}

// breaking puts a breaker before a bucket that nobody uses yet.
func breaking(b *mem.Bucket, cut int) *breaker {
	f := &breaker{cut: int64(cut)}
	b.Fault = f.fault
	return f
}

func (f *breaker) fault(string, string) error {
	if f.armed.Load() && f.n.Add(1) >= f.cut {
		return objstore.ErrUnavailable
	}
	return nil
}

// TestEraseInterrupted cuts the erasing at every request that it makes: run
// again it completes, and in between every other answer is there.
func TestEraseInterrupted(t *testing.T) {
	for cut := 1; ; cut++ {
		bucket := memBucket()
		b := breaking(bucket, cut)
		s := opened(t, bucket, t.TempDir(), func(tune *tuning) { tune.closeRows = 4 })
		var keys []Key
		for i := range 9 {
			a := askFor(endpointA, i, 0)
			text := "kept"
			if i%3 == 0 {
				text, keys = "CANARY", append(keys, a.Key)
			}
			mustAppend(t, s, answerTo(a, "stop", text))
			mustFlush(t, s)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.armed.Store(true)
		_, err := eraser(t, bucket).Erase(t.Context(), endpointA, keys)
		b.armed.Store(false)
		if err != nil && !errors.Is(err, objstore.ErrUnavailable) {
			t.Fatal(err)
		}
		kept := 0
		fresh := eraser(t, bucket)
		for i := range 9 {
			if i%3 != 0 {
				records, err := fresh.Lookup(t.Context(), []Ask{askFor(endpointA, i, 0)})
				if err != nil || string(records[0].Raw) != "kept" {
					t.Fatalf("cut %d: %+v, %v", cut, records, err)
				}
				kept++
			}
		}
		last := eraser(t, bucket)
		last.Exclusive = true
		if _, err := last.Erase(t.Context(), endpointA, keys); err != nil || kept != 6 {
			t.Fatal(err)
		}
		if left := everything(t, bucket); strings.Contains(left, "CANARY") {
			t.Fatalf("cut %d left: %s", cut, left)
		}
		if err == nil { // it was not cut any more
			if cut < 10 {
				t.Fatalf("only %d requests", cut)
			}
			return
		}
	}
}

// TestEraseBesideWriters erases while a store commits and merges.
func TestEraseBesideWriters(t *testing.T) {
	bucket := memBucket()
	s := opened(t, bucket, t.TempDir(), func(tune *tuning) { tune.smallMost = leastRun; tune.grace = 0; tune.closeRows = 300 })
	var keys []Key
	for i := range 30 {
		a := askFor(endpointA, i, 0)
		keys = append(keys, a.Key)
		mustAppend(t, s, answerTo(a, "stop", "CANARY"))
		mustFlush(t, s)
	}
	var writers sync.WaitGroup
	writers.Go(func() {
		for i := 100; i < 200; i++ {
			mustAppend(t, s, answerTo(askFor(endpointA, i, 0), "stop", "kept"))
			mustFlush(t, s)
		}
	})
	e := eraser(t, bucket)
	for _, key := range keys {
		if _, err := e.Erase(t.Context(), endpointA, []Key{key}); err != nil {
			t.Fatal(err)
		}
	}
	writers.Wait()
	s.Refresh()
	for i := 100; i < 200; i++ {
		if got := texts(t, s, askFor(endpointA, i, 0)); got[0] != "kept" {
			t.Fatalf("ask %d is %s", i, got[0])
		}
	}
	e.Exclusive = true // a merge that lost the race may not have deleted its segment yet
	if _, err := e.Erase(t.Context(), endpointA, keys); err != nil {
		t.Fatal(err)
	}
	if left := everything(t, bucket); strings.Contains(left, "CANARY") {
		t.Fatal("the canary is left")
	}
}

// A young segment that no index names yet is left to its writer, and told of.
func TestEraseWaitsForYoungSegments(t *testing.T) {
	bucket := mem.New("t")
	s := opened(t, bucket, t.TempDir(), nil)
	a := askFor(endpointA, 1, 0)
	if _, err := s.writeSegment(t.Context(), rangeID{endpoint: endpointA}, []item{{record: answerTo(a, "stop", "CANARY").normal()}}); err != nil {
		t.Fatal(err)
	}
	e := eraser(t, bucket)
	if sum, err := e.Erase(t.Context(), endpointA, []Key{a.Key}); err != nil || sum.Waiting != 1 || sum.Unnamed != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	e.Exclusive = true
	if sum, err := e.Erase(t.Context(), endpointA, []Key{a.Key}); err != nil || sum.Unnamed != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if left := everything(t, bucket); left != "" {
		t.Fatalf("left: %s", left)
	}
}

// No endpoint can make a tombstone of its answer.
func TestOnlyPurgesMakeTombstones(t *testing.T) {
	s := opened(t, memBucket(), t.TempDir(), nil)
	a := askFor(endpointA, 1, 0)
	mustAppend(t, s, answerTo(a, purgedFinish, "text"))
	mustFlush(t, s)
	records, err := s.Lookup(t.Context(), []Ask{a})
	if err != nil || records[0].Purged() || string(records[0].Raw) != "text" {
		t.Fatalf("%+v, %v", records[0], err)
	}
}
