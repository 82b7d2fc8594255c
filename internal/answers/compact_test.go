package answers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A model answers as the package promises, from a list in the index's order.
type model []*Record

func (m model) lookup(a Ask) *Record {
	for _, r := range m {
		if r.Serves(a) {
			return r
		}
	}
	var best *Record
	for _, r := range m {
		if r.Endpoint == a.Endpoint && r.Key == a.Key && !r.Complete && r.Cap == a.Cap && (best == nil || !r.Started.Before(best.Started)) {
			best = r
		}
	}
	return best
}

// TestStoreEqualsModel does anything in any order, with two stores on one
// bucket, and compares with the model after each step. Compaction, splitting,
// restarts and cold caches must not show.
func TestStoreEqualsModel(t *testing.T) {
	fewerChecks(t)
	rapid.Check(t, func(t *rapid.T) {
		bucket := memBucket()
		base, err := os.MkdirTemp("", "answers")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(base)
		small := func(tune *tuning) {
			tune.closeRows = rapid.Int64Range(5, 60).Draw(t, "close")
			tune.smallMost = rapid.IntRange(leastRun-1, 8).Draw(t, "small")
			tune.grace = 0
			tune.batchRows = 10
		}
		var stores [2]*Store
		open := func(n int) {
			if stores[n], err = reopen(bucket, filepath.Join(base, fmt.Sprint(n)), small); err != nil {
				t.Fatal(err)
			}
		}
		for n := range stores {
			open(n)
		}
		defer func() {
			for _, s := range stores {
				if err := s.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}()
		var m model
		ask := rapid.Custom(func(t *rapid.T) Ask {
			return askFor(rapid.SampledFrom([]string{endpointA, endpointB}).Draw(t, "endpoint"), rapid.IntRange(0, 9).Draw(t, "prompt"),
				rapid.SampledFrom([]int64{0, 10, 20}).Draw(t, "cap"))
		})
		serial := 0
		record := func() *Record {
			serial++
			a := ask.Draw(t, "ask")
			if rapid.Bool().Draw(t, "fails") {
				return failureOf(a, time.UnixMicro(rapid.Int64Range(1, 3).Draw(t, "started")).UTC(), fmt.Sprint("f", serial))
			}
			return answerTo(a, rapid.SampledFrom([]string{"stop", "length"}).Draw(t, "finish"), fmt.Sprint("a", serial))
		}
		store := rapid.IntRange(0, 1)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(*rapid.T) {
				s := stores[store.Draw(t, "store")]
				for range rapid.IntRange(1, 12).Draw(t, "n") {
					r := record()
					if err := s.Append(context.Background(), r); err != nil {
						t.Fatal(err)
					}
					m = append(m, r)
				}
				if err := s.Flush(context.Background()); err != nil {
					t.Fatal(err)
				}
			},
			"compact": func(*rapid.T) {
				s := stores[store.Draw(t, "store")]
				for _, endpoint := range []string{endpointA, endpointB} {
					for _, bits := range []string{"", "0", "1", "01"} {
						if err := s.compact(context.Background(), rangeID{endpoint, bits}); err != nil {
							t.Fatal(err)
						}
					}
				}
			},
			"restart": func(*rapid.T) {
				n := store.Draw(t, "store")
				if err := stores[n].Close(context.Background()); err != nil {
					t.Fatal(err)
				}
				if rapid.Bool().Draw(t, "cold") {
					os.RemoveAll(stores[n].cache.dir)
				}
				open(n)
			},
			"import": func(*rapid.T) {
				var records []*Record
				for range rapid.IntRange(1, 12).Draw(t, "n") {
					if r := record(); r.Endpoint == endpointA {
						records = append(records, r)
					}
				}
				want := 0
				before := m
				for i := 0; i < len(records); i += 10 { // batchRows
					old := m
					for _, r := range records[i:min(i+10, len(records))] {
						was := old.lookup(r.Ask)
						known := was != nil && (was.Complete || !r.Complete && !r.Started.After(was.Started))
						sameBatch := slices.ContainsFunc(m[len(old):], func(o *Record) bool { return o.Serves(r.Ask) })
						if !known && !sameBatch {
							m = append(m, r)
							want++
						}
					}
				}
				got, err := stores[store.Draw(t, "store")].Import(context.Background(), endpointA, sequence(records, nil))
				if err != nil || got != want {
					t.Fatalf("imported %d, %v; want %d of %d (had %d)", got, err, want, len(records), len(before))
				}
			},
			"": func(*rapid.T) {
				var asks []Ask
				for _, endpoint := range []string{endpointA, endpointB} {
					for i := range 10 {
						for _, limit := range []int64{0, 10, 20} {
							asks = append(asks, askFor(endpoint, i, limit))
						}
					}
				}
				for n, s := range stores {
					got, err := s.Lookup(context.Background(), asks)
					if err != nil {
						t.Fatal(err)
					}
					for i, a := range asks {
						if diff := cmp.Diff(m.lookup(a), got[i], sameBytes); diff != "" {
							t.Fatalf("store %d, %+v (-want +got):\n%s", n, a, diff)
						}
					}
				}
			},
		})
	})
}

// fewerChecks keeps a property that works on files from taking minutes. An
// explicit -rapid.checks wins.
func fewerChecks(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if old := checks.Value.String(); old == checks.DefValue {
		checks.Value.Set("10")
		t.Cleanup(func() { checks.Value.Set(old) })
	}
}

func sequence(records []*Record, end error) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
		if end != nil {
			yield(nil, end)
		}
	}
}

func TestCompactionKeepsSegmentsFew(t *testing.T) {
	bucket := memBucket()
	s := opened(t, bucket, t.TempDir(), func(tune *tuning) { tune.smallMost = 8 })
	id := rangeID{endpoint: endpointA}
	var asks []Ask
	var want []string
	most, written := 0, int64(0)
	for i := range 200 {
		asks, want = append(asks, askFor(endpointA, i, 0)), append(want, fmt.Sprint("answer ", i))
		mustAppend(t, s, answerTo(asks[i], "stop", want[i]))
		mustFlush(t, s)
		before := indexOf(t, bucket, id)
		if err := s.compact(context.Background(), id); err != nil {
			t.Fatal(err)
		}
		after := indexOf(t, bucket, id)
		if len(after.Segments) < len(before.Segments) {
			for _, seg := range after.Segments {
				if !before.names(seg.Name) {
					written += seg.Rows
				}
			}
		}
		most = max(most, len(after.Segments))
	}
	if most > 16 {
		t.Errorf("up to %d segments", most)
	}
	if written > 200*13 { // log2 of the segments, and some: a segment of one record is mostly footer
		t.Errorf("200 records were rewritten %d times", written)
	}
	wantTexts(t, s, asks, want...)
}

func TestCompactionLosesARaceGracefully(t *testing.T) {
	bucket := memBucket()
	compact := func(tune *tuning) { tune.smallMost = leastRun - 1 }
	quiet := func(tune *tuning) { tune.smallMost = 1000 }
	writer := opened(t, bucket, t.TempDir(), quiet)
	var asks []Ask
	var want []string
	for i := range 10 {
		asks, want = append(asks, askFor(endpointA, i, 0)), append(want, fmt.Sprint("answer ", i))
		mustAppend(t, writer, answerTo(asks[i], "stop", want[i]))
		mustFlush(t, writer)
	}
	id := rangeID{endpoint: endpointA}
	a, b := opened(t, bucket, t.TempDir(), compact), opened(t, bucket, t.TempDir(), compact)
	snap, err := a.ranges.read(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.compact(context.Background(), id); err != nil {
		t.Fatal(err)
	}
	// a merges the run that it saw before b was done.
	a.ranges.keep(id, &snapshot{index: snap.index, etag: snap.etag, asOf: time.Now()})
	merged, err := a.merge(context.Background(), id, a.run(snap.index))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.ranges.replace(context.Background(), id, snap, snap.index.replacing(a.run(snap.index), merged.ref, time.Now())); err == nil {
		t.Fatal("the index was replaced under another's feet")
	}
	a.discard(context.Background(), id, merged)
	if rows := listedAndThere(t, bucket, endpointA); rows != 10 {
		t.Errorf("the index holds %d records, want 10", rows)
	}
	wantTexts(t, a, asks, want...)
}

func TestImport(t *testing.T) {
	bucket := memBucket()
	s := opened(t, bucket, t.TempDir(), func(tune *tuning) { tune.batchRows = 7 })
	var asks []Ask
	var want []string
	var records []*Record
	for i := range 50 {
		asks, want = append(asks, askFor(endpointA, i, 0)), append(want, fmt.Sprint("answer ", i))
		records = append(records, answerTo(asks[i], "stop", want[i]), answerTo(asks[i], "stop", "second"))
	}
	mustAppend(t, s, answerTo(asks[3], "stop", "paid for"))
	want[3] = "paid for"
	mustFlush(t, s)
	if n, err := s.Import(context.Background(), endpointA, sequence(records, nil)); n != 49 || err != nil {
		t.Errorf("imported %d, %v; want 49", n, err)
	}
	wantTexts(t, s, asks, want...)
	if n, err := s.Import(context.Background(), endpointA, sequence(records, nil)); n != 0 || err != nil {
		t.Errorf("imported %d again, %v", n, err)
	}
	broken := errors.New("line 9 is no JSON")
	more := []*Record{answerTo(askFor(endpointA, 99, 0), "stop", "x")}
	if _, err := s.Import(context.Background(), endpointA, sequence(more, broken)); !errors.Is(err, broken) {
		t.Errorf("the source's error became %v", err)
	}
	if _, err := s.Import(context.Background(), endpointB, sequence(more, nil)); err == nil {
		t.Error("a record of another endpoint was taken")
	}
}
