package objstoretest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

func testCreateOnly(t *testing.T, b objstore.Bucket) {
	ctx, create := t.Context(), objstore.PutOptions{IfNoneMatch: true}
	first, err := objstore.PutBytes(ctx, b, "once", []byte("first"), create)
	if err != nil {
		t.Fatal(err)
	}
	_, err = objstore.PutBytes(ctx, b, "once", []byte("second"), create)
	wantError(t, "create it again", err, objstore.ErrPrecondition)
	// The same bytes are no excuse: the caller asks who wrote them.
	_, err = objstore.PutBytes(ctx, b, "once", []byte("first"), create)
	wantError(t, "create it again with the same bytes", err, objstore.ErrPrecondition)
	got, attr := mustGet(t, b, "once")
	if string(got) != "first" || attr.ETag != first.ETag {
		t.Fatalf("the first write is gone: %q %+v", got, attr)
	}
	if err := b.Delete(ctx, "once"); err != nil {
		t.Fatal(err)
	}
	if _, err := objstore.PutBytes(ctx, b, "once", []byte("third"), create); err != nil {
		t.Fatalf("create it after a delete: %v", err)
	}
}

func testReplaceMatching(t *testing.T, b objstore.Bucket) {
	ctx := t.Context()
	match := func(etag string) objstore.PutOptions { return objstore.PutOptions{IfMatch: etag} }
	first := put(t, b, "ref", []byte("one"))
	second, err := objstore.PutBytes(ctx, b, "ref", []byte("two"), match(first.ETag))
	if err != nil {
		t.Fatal(err)
	}
	_, err = objstore.PutBytes(ctx, b, "ref", []byte("three"), match(first.ETag))
	wantError(t, "replace under an old ETag", err, objstore.ErrPrecondition)
	_, err = objstore.PutBytes(ctx, b, "missing", []byte("x"), match(first.ETag))
	wantError(t, "replace what is not there", err, objstore.ErrPrecondition)
	if got, attr := mustGet(t, b, "ref"); string(got) != "two" || attr.ETag != second.ETag {
		t.Fatalf("holds %q %+v", got, attr)
	}
	// An ETag that was listed or read works as well as one that a put gave.
	for attr, err := range b.List(ctx, "ref", "") {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := objstore.PutBytes(ctx, b, "ref", []byte("four"), match(attr.ETag)); err != nil {
			t.Fatalf("replace under a listed ETag: %v", err)
		}
	}
}

func testBothConditions(t *testing.T, b objstore.Bucket) {
	attr := put(t, b, "k", []byte("x"))
	if _, err := objstore.PutBytes(t.Context(), b, "k", []byte("y"), objstore.PutOptions{IfNoneMatch: true, IfMatch: attr.ETag}); err == nil {
		t.Fatal("both conditions at once were taken")
	}
	if got, _ := mustGet(t, b, "k"); string(got) != "x" {
		t.Fatalf("holds %q", got)
	}
}

// Bodies that go up in parts meet their condition at another request.
func testBigConditional(t *testing.T, b objstore.Bucket) {
	ctx := t.Context()
	big := noise(17 << 20)
	first, err := objstore.PutBytes(ctx, b, "big", big, objstore.PutOptions{IfNoneMatch: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = objstore.PutBytes(ctx, b, "big", big, objstore.PutOptions{IfNoneMatch: true})
	wantError(t, "create it again", err, objstore.ErrPrecondition)
	big[0]++
	second, err := objstore.PutBytes(ctx, b, "big", big, objstore.PutOptions{IfMatch: first.ETag})
	if err != nil {
		t.Fatal(err)
	}
	_, err = objstore.PutBytes(ctx, b, "big", big, objstore.PutOptions{IfMatch: first.ETag})
	wantError(t, "replace under an old ETag", err, objstore.ErrPrecondition)
	_, err = objstore.PutBytes(ctx, b, "missing", big, objstore.PutOptions{IfMatch: first.ETag})
	wantError(t, "replace what is not there", err, objstore.ErrPrecondition)
	got, attr := mustGet(t, b, "big")
	if !bytes.Equal(got, big) || attr.ETag != second.ETag {
		t.Fatal("the second write is not what is there")
	}
}

const racers = 16

// race lets all racers put at once and returns the winners.
func race(t *testing.T, b objstore.Bucket, key string, opt objstore.PutOptions) []int {
	var mu sync.Mutex
	var winners []int
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range racers {
		group.Go(func() {
			<-start
			_, err := objstore.PutBytes(t.Context(), b, key, fmt.Appendf(nil, "racer %d", i), opt)
			switch {
			case err == nil:
				mu.Lock()
				winners = append(winners, i)
				mu.Unlock()
			case !errors.Is(err, objstore.ErrPrecondition):
				t.Errorf("racer %d: %v", i, err)
			}
		})
	}
	close(start)
	group.Wait()
	return winners
}

func wantWinner(t *testing.T, b objstore.Bucket, key string, winners []int) {
	t.Helper()
	if len(winners) != 1 {
		t.Fatalf("%s: winners %v, want one", key, winners)
	}
	if got, _ := mustGet(t, b, key); string(got) != fmt.Sprintf("racer %d", winners[0]) {
		t.Fatalf("%s: racer %d won, but the object says %q", key, winners[0], got)
	}
}

func testCreateRace(t *testing.T, b objstore.Bucket) {
	for round := range 10 {
		key := fmt.Sprintf("create/%d", round)
		wantWinner(t, b, key, race(t, b, key, objstore.PutOptions{IfNoneMatch: true}))
	}
}

func testReplaceRace(t *testing.T, b objstore.Bucket) {
	for round := range 10 {
		key := fmt.Sprintf("replace/%d", round)
		base := put(t, b, key, []byte("base"))
		wantWinner(t, b, key, race(t, b, key, objstore.PutOptions{IfMatch: base.ETag}))
	}
}

// Readers see one whole object or the other, never a mixture or nothing.
func testAtomicReplace(t *testing.T, b objstore.Bucket) {
	const size, replaces, readers = 256 << 10, 20, 4
	versions := [2][]byte{bytes.Repeat([]byte("a"), size), bytes.Repeat([]byte("b"), size+1)}
	put(t, b, "swap", versions[0])
	done := make(chan struct{})
	var group sync.WaitGroup
	for range readers {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				got, _, err := objstore.ReadAll(t.Context(), b, "swap", 1<<20)
				if err != nil {
					t.Errorf("read during a replace: %v", err)
					return
				}
				if !bytes.Equal(got, versions[0]) && !bytes.Equal(got, versions[1]) {
					t.Errorf("read a mixture of %d bytes", len(got))
					return
				}
			}
		})
	}
	for i := range replaces {
		put(t, b, "swap", versions[(i+1)%2])
	}
	close(done)
	group.Wait()
}

func testCreateOrSame(t *testing.T, b objstore.Bucket) {
	ctx := t.Context()
	first, err := objstore.CreateOrSame(ctx, b, "digest", []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := objstore.CreateOrSame(ctx, b, "digest", []byte("content"))
	if err != nil {
		t.Fatalf("create the same again: %v", err)
	}
	if again.ETag != first.ETag || again.Size != first.Size {
		t.Fatalf("described as %+v, then %+v", first, again)
	}
	_, err = objstore.CreateOrSame(ctx, b, "digest", []byte("other content"))
	wantError(t, "create it with another size", err, objstore.ErrPrecondition)
}

func testProbe(t *testing.T, b objstore.Bucket) {
	if err := objstore.Probe(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, "left behind", keys(t, b, "", ""), nil)
}
