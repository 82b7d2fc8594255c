package dedup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func someDocuments() []Document {
	return []Document{
		{Order: 1, Text: "one two three four five six seven"},
		{Order: 2, Text: "one two three four five six seven"},
		{Order: 3, Text: "something else that nobody else says"},
	}
}

// failing is a writer that is full after some bytes.
type failing struct{ left int }

var errFull = errors.New("no space left on device")

func (w *failing) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestAFullDiskIsAnError(t *testing.T) {
	o := NearOptions{}
	whole := len(writePart(t, o, someDocuments()))
	for left := 0; left < whole; left += 97 {
		w, err := NewPartWriter(&failing{left}, o)
		if err == nil {
			for _, d := range someDocuments() {
				err = errors.Join(err, w.Add(d))
			}
			err = errors.Join(err, w.Close())
		}
		if !errors.Is(err, errFull) {
			t.Fatalf("a part of %d bytes on a disk of %d: %v", whole, left, err)
		}
	}
	p := partOf(t, o, someDocuments())
	if _, err := Pairs(context.Background(), o, []*Part{p}, 0, t.TempDir(), &failing{20}); !errors.Is(err, errFull) {
		t.Errorf("pairs on a full disk: %v", err)
	}
	// No folder for what is sorted on disk.
	gone := filepath.Join(t.TempDir(), "gone")
	if _, err := NewNear(o, gone); err == nil {
		t.Error("a folder that is not there is no error")
	}
	e := NewExact(gone, 1)
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		err = e.Add(Key{}, uint64(i))
	}
	if err == nil || !strings.Contains(err.Error(), "sort on disk") {
		t.Errorf("keys that fit no memory, without a folder: %v", err)
	}
}

func TestDamagedFilesAreErrors(t *testing.T) {
	ctx := context.Background()
	o := NearOptions{Bands: 3, Rows: 2}
	whole := writePart(t, o, someDocuments())
	for n := range whole {
		if _, err := OpenPart(bytes.NewReader(whole[:n]), int64(n)); err == nil {
			t.Fatalf("the first %d of %d bytes are opened", n, len(whole))
		}
	}
	p := partOf(t, o, someDocuments())
	parts := []*Part{p}
	var pairs bytes.Buffer
	stats, err := Pairs(ctx, o, parts, 0, t.TempDir(), &pairs)
	if err != nil || stats.Pairs != 1 || stats.Documents != 2 || stats.Largest != 2 {
		t.Fatalf("%+v, %v; want the pair of equals", stats, err)
	}
	none := func(Match) error { return nil }
	verify := func(parts []*Part, o NearOptions, b []byte) error {
		_, err := Verify(ctx, o, parts, []io.Reader{bytes.NewReader(b)}, none)
		return err
	}
	outside := bytes.Clone(pairs.Bytes())
	outside[len(outside)-1] = 0x11 // a part that is not there
	for _, tc := range []struct {
		name, want string
		err        error
	}{
		{"half a pair", "read sorted pairs", verify(parts, o, pairs.Bytes()[:pairs.Len()-5])},
		{"no header", "read pairs of band 0", verify(parts, o, nil)},
		{"another file", "not of these signatures", verify(parts, o, whole)},
		{"other signatures", "not of these signatures", verify([]*Part{p, p}, o, pairs.Bytes())},
		{"other options", "written with other options", verify(parts, NearOptions{Bands: 3, Rows: 3}, pairs.Bytes())},
		{"a pair outside", "not there", verify(parts, o, outside)},
	} {
		if tc.err == nil || !strings.Contains(tc.err.Error(), tc.want) {
			t.Errorf("%s: error is %v, want one with %q", tc.name, tc.err, tc.want)
		}
	}
	if _, err := Pairs(ctx, o, parts, 3, t.TempDir(), io.Discard); err == nil {
		t.Error("a fourth band of three is no error")
	}
	stop := errors.New("enough")
	if _, err := Verify(ctx, o, parts, []io.Reader{bytes.NewReader(pairs.Bytes())}, func(Match) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the caller's error becomes %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Pairs(cancelled, o, parts, 0, t.TempDir(), io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled pairs: %v", err)
	}
	if _, err := Verify(cancelled, o, parts, []io.Reader{bytes.NewReader(pairs.Bytes())}, none); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled comparing: %v", err)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for _, tc := range []struct {
		o    NearOptions
		want string
	}{
		{NearOptions{Jaccard: 0.1}, "jaccard is 0.1"},
		{NearOptions{Jaccard: 2}, "jaccard is 2"},
		{NearOptions{Bands: -1}, "bands is -1"},
		{NearOptions{Rows: 65}, "rows is 65"},
		{NearOptions{Shingle: 33}, "shingle is 33"},
	} {
		if _, err := NewNear(tc.o, t.TempDir()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: error is %v, want one with %q", tc.o, err, tc.want)
		}
		if _, err := NewAnswerComparer(tc.o); err == nil {
			t.Errorf("%+v: answers are compared with it", tc.o)
		}
	}
}
