package answers

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// TestCompactInterrupted cuts a merge at every request that it makes to the
// store, before it takes effect and, with the answer lost, after it. Whatever
// was kept is found by a process that knows nothing, the merge can be made again,
// and writers beside it lose nothing.
func TestCompactInterrupted(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for cut := 1; ; cut++ {
			bucket := mem.New("t")
			broken := breaking(bucket, cut)
			if lost {
				bucket.Fault, bucket.Lost = nil, broken.fault
			}
			s := opened(t, bucket, t.TempDir(), func(tune *tuning) { tune.smallMost = 1 << 30 })
			for i := range 8 {
				mustAppend(t, s, answerTo(askFor(endpointA, i, 0), "stop", "kept"))
				mustFlush(t, s)
			}
			// The merge is one of its own process.
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			s = opened(t, bucket, t.TempDir(), func(tune *tuning) { tune.smallMost = leastRun })
			broken.armed.Store(true)
			err := s.compact(context.Background(), rangeID{endpoint: endpointA})
			broken.armed.Store(false)
			if err != nil && !errors.Is(err, objstore.ErrUnavailable) {
				t.Fatal(err)
			}
			mustAppend(t, s, answerTo(askFor(endpointA, 100, 0), "stop", "kept")) // a writer goes on
			mustFlush(t, s)
			for range 2 {
				fresh, openErr := OpenReader(bucket, t.TempDir())
				if openErr != nil {
					t.Fatal(openErr)
				}
				for _, i := range []int{0, 1, 2, 3, 4, 5, 6, 7, 100} {
					records, lookErr := fresh.Lookup(t.Context(), []Ask{askFor(endpointA, i, 0)})
					if lookErr != nil || records[0] == nil || !bytes.Equal(records[0].Raw, []byte("kept")) {
						t.Fatalf("cut %d, lost %v: ask %d: %+v, %v", cut, lost, i, records, lookErr)
					}
				}
				if closeErr := fresh.Close(); closeErr != nil {
					t.Fatal(closeErr)
				}
				if again := s.compact(context.Background(), rangeID{endpoint: endpointA}); again != nil {
					t.Fatalf("cut %d, lost %v: again: %v", cut, lost, again)
				}
			}
			if err == nil {
				if cut < 3 {
					t.Fatalf("a merge makes only %d requests", cut)
				}
				break
			}
		}
	}
}
