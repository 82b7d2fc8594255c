package objstoretest

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

func testListOrder(t *testing.T, b objstore.Bucket) {
	// A slash sorts after "-" and "." but before digits and letters, so a
	// folder's content comes between its siblings.
	want := []string{"A", "a-b", "a.b", "a/b/c", "a/b-c", "a0", "aa/x", "b", "ü"}
	slices.Sort(want)
	for _, key := range want {
		put(t, b, key, []byte("x"))
	}
	wantKeys(t, "listed", keys(t, b, "", ""), want)
}

func testListPrefixAndAfter(t *testing.T, b objstore.Bucket) {
	all := []string{"data/1/a", "data/1/b", "data/10/a", "data/2/a", "datum", "other/x"}
	for _, key := range all {
		put(t, b, key, []byte("x"))
	}
	for _, prefix := range []string{"", "d", "data", "data/", "data/1", "data/1/", "data/1/a", "data/1/ab", "dat", "datu", "o", "z"} {
		for _, after := range []string{"", "a", "data", "data/", "data/1", "data/1/a", "data/1/aa", "data/10", "data/1\U0010FFFF", "data/2/a", "datum", "other/x", "z"} {
			var want []string
			for _, key := range all {
				if strings.HasPrefix(key, prefix) && key > after {
					want = append(want, key)
				}
			}
			wantKeys(t, fmt.Sprintf("prefix %q after %q", prefix, after), keys(t, b, prefix, after), want)
		}
	}
}

// A page of S3 holds 1000 keys, and so does a batch of deletes.
func testListMany(t *testing.T, b objstore.Bucket) {
	const n = 2050
	want := make([]string, n)
	limit := make(chan struct{}, 32)
	var group sync.WaitGroup
	for i := range n {
		want[i] = fmt.Sprintf("many/%03d/%04d", i%7, i)
		limit <- struct{}{}
		group.Go(func() {
			defer func() { <-limit }()
			if _, err := objstore.PutBytes(t.Context(), b, want[i], []byte("x"), objstore.PutOptions{}); err != nil {
				t.Errorf("put %s: %v", want[i], err)
			}
		})
	}
	group.Wait()
	slices.Sort(want)
	wantKeys(t, "all", keys(t, b, "", ""), want)
	wantKeys(t, "after the 1500th", keys(t, b, "many/", want[1499]), want[1500:])
	if err := b.Delete(t.Context(), want[:n-1]...); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, "left", keys(t, b, "", ""), want[n-1:])
}

func testListStops(t *testing.T, b objstore.Bucket) {
	for i := range 10 {
		put(t, b, fmt.Sprintf("k%d", i), []byte("x"))
	}
	var got []string
	for attr, err := range b.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, attr.Key); len(got) == 3 {
			break
		}
	}
	wantKeys(t, "the first three", got, []string{"k0", "k1", "k2"})
}

func testUnderPrefix(t *testing.T, b objstore.Bucket) {
	put(t, b, "team", []byte("x"))
	put(t, b, "team-b/k", []byte("x"))
	team := objstore.WithPrefix(b, "team-a/sub")
	attr := put(t, team, "k/1", []byte("mine"))
	if attr.Key != "k/1" {
		t.Errorf("put calls it %q", attr.Key)
	}
	put(t, team, "k/2", []byte("x"))
	wantKeys(t, "inside", keys(t, team, "", ""), []string{"k/1", "k/2"})
	wantKeys(t, "inside after", keys(t, team, "k", "k/1"), []string{"k/2"})
	wantKeys(t, "outside", keys(t, b, "team-a", ""), []string{"team-a/sub/k/1", "team-a/sub/k/2"})
	if got, attr := mustGet(t, team, "k/1"); string(got) != "mine" || attr.Key != "k/1" {
		t.Fatalf("read %q %+v", got, attr)
	}
	_, err := team.Head(t.Context(), "../../team")
	wantError(t, "climb out", err, objstore.ErrInvalidKey)
	if err := team.Delete(t.Context(), "k/1", "k/2"); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, "left", keys(t, b, "", ""), []string{"team", "team-b/k"})
}

func testReaderAt(t *testing.T, b objstore.Bucket) {
	want := noise(3<<20 + 17)
	put(t, b, "file", want)
	r := objstore.NewReaderAt(t.Context(), b, "file", int64(len(want)))
	got, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read %d bytes, %v", len(got), err)
	}
	tail := make([]byte, 100)
	n, err := r.ReadAt(tail, int64(len(want))-10)
	if n != 10 || err != io.EOF || !bytes.Equal(tail[:n], want[len(want)-10:]) {
		t.Fatalf("read over the end: %d bytes, %v", n, err)
	}
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			p := make([]byte, 70000)
			off := int64(i) * 190000
			if _, err := r.ReadAt(p, off); err != nil || !bytes.Equal(p, want[off:off+int64(len(p))]) {
				t.Errorf("read at %d: %v", off, err)
			}
		})
	}
	group.Wait()
}
