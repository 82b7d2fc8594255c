// Package objstoretest holds the tests that every writable implementation of
// objstore.Bucket passes. An implementation's own test calls Run:
//
//	func TestConformance(t *testing.T) {
//		objstoretest.Run(t, func(t *testing.T) objstore.Bucket { return mem.New(t.Name()) })
//	}
package objstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// Run runs the suite. open returns an empty bucket; it is called once for each
// of the tests, and what they write may stay.
func Run(t *testing.T, open func(t *testing.T) objstore.Bucket) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, b objstore.Bucket)
	}{
		{"ReadsBackWhatWasWritten", testReadsBack},
		{"EmptyObject", testEmptyObject},
		{"BigObject", testBigObject},
		{"Ranges", testRanges},
		{"NotFound", testNotFound},
		{"BodyStartsWhereItStands", testBodyPosition},
		{"WrongSizeIsRefused", testWrongSize},
		{"CreateOnly", testCreateOnly},
		{"ReplaceOnlyMatching", testReplaceMatching},
		{"BothConditionsAreRefused", testBothConditions},
		{"BigConditional", testBigConditional},
		{"CreateRaceHasOneWinner", testCreateRace},
		{"ReplaceRaceHasOneWinner", testReplaceRace},
		{"ReplaceIsAtomic", testAtomicReplace},
		{"ListOrder", testListOrder},
		{"ListPrefixAndAfter", testListPrefixAndAfter},
		{"ListManyKeys", testListMany},
		{"ListStopsEarly", testListStops},
		{"Delete", testDelete},
		{"OddKeys", testOddKeys},
		{"InvalidKeys", testInvalidKeys},
		{"Cancelled", testCancelled},
		{"UnderPrefix", testUnderPrefix},
		{"ReaderAt", testReaderAt},
		{"CreateOrSame", testCreateOrSame},
		{"Probe", testProbe},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func put(t *testing.T, b objstore.Bucket, key string, data []byte) objstore.Attr {
	t.Helper()
	attr, err := objstore.PutBytes(t.Context(), b, key, data, objstore.PutOptions{})
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return attr
}

func mustGet(t *testing.T, b objstore.Bucket, key string) ([]byte, objstore.Attr) {
	t.Helper()
	data, attr, err := objstore.ReadAll(t.Context(), b, key, 1<<30)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	return data, attr
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: error %v, want %v", what, err, want)
	}
}

func keys(t *testing.T, b objstore.Bucket, prefix, after string) []string {
	t.Helper()
	var got []string
	for attr, err := range b.List(t.Context(), prefix, after) {
		if err != nil {
			t.Fatalf("list %q after %q: %v", prefix, after, err)
		}
		got = append(got, attr.Key)
	}
	return got
}

func wantKeys(t *testing.T, what string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// noise is size bytes that don't repeat, the same in every run.
func noise(size int) []byte {
	var seed [32]byte
	data := make([]byte, size)
	_, _ = rand.NewChaCha8(seed).Read(data)
	return data
}

func testReadsBack(t *testing.T, b objstore.Bucket) {
	want := []byte("four and twenty\x00\xff")
	written := put(t, b, "a/b/c.bin", want)
	got, attr := mustGet(t, b, "a/b/c.bin")
	if !bytes.Equal(got, want) {
		t.Fatalf("read %q, wrote %q", got, want)
	}
	head, err := b.Head(t.Context(), "a/b/c.bin")
	if err != nil {
		t.Fatal(err)
	}
	for what, a := range map[string]objstore.Attr{"put": written, "get": attr, "head": head} {
		if a.Key != "a/b/c.bin" || a.Size != int64(len(want)) || a.ETag == "" || a.ETag != written.ETag || a.Modified.IsZero() {
			t.Errorf("%s describes it as %+v", what, a)
		}
	}
	for listed, err := range b.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if listed.Key != head.Key || listed.Size != head.Size || listed.ETag != head.ETag || listed.Modified.IsZero() {
			t.Errorf("list describes it as %+v, head as %+v", listed, head)
		}
	}
	put(t, b, "a/b/c.bin", []byte("new"))
	if got, _ := mustGet(t, b, "a/b/c.bin"); string(got) != "new" {
		t.Fatalf("after replacing it: %q", got)
	}
}

func testEmptyObject(t *testing.T, b objstore.Bucket) {
	put(t, b, "empty", nil)
	got, attr := mustGet(t, b, "empty")
	if len(got) != 0 || attr.Size != 0 {
		t.Fatalf("read %d bytes, attr %+v", len(got), attr)
	}
	body, err := b.GetRange(t.Context(), "empty", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || len(got) != 0 {
		t.Fatalf("range: %d bytes, %v", len(got), err)
	}
}

func testBigObject(t *testing.T, b objstore.Bucket) {
	want := noise(20<<20 + 12345)
	written := put(t, b, "big", want)
	if written.Size != int64(len(want)) {
		t.Fatalf("size %d", written.Size)
	}
	got, attr := mustGet(t, b, "big")
	if !bytes.Equal(got, want) {
		t.Fatal("other bytes came back")
	}
	if attr.ETag != written.ETag {
		t.Fatalf("ETag %s, put said %s", attr.ETag, written.ETag)
	}
}

func testRanges(t *testing.T, b objstore.Bucket) {
	put(t, b, "digits", []byte("0123456789"))
	for _, test := range []struct {
		off, n int64
		want   string
	}{
		{0, 3, "012"},
		{7, 3, "789"},
		{7, -1, "789"},
		{0, -1, "0123456789"},
		{8, 100, "89"},
		{4, 0, ""},
		{10, -1, ""},
		{10, 5, ""},
	} {
		body, err := b.GetRange(t.Context(), "digits", test.off, test.n)
		if err != nil {
			t.Errorf("range %d+%d: %v", test.off, test.n, err)
			continue
		}
		got, err := io.ReadAll(body)
		body.Close()
		if err != nil || string(got) != test.want {
			t.Errorf("range %d+%d: %q, %v, want %q", test.off, test.n, got, err, test.want)
		}
	}
	for _, off := range []int64{-1, 11} {
		if body, err := b.GetRange(t.Context(), "digits", off, 1); err == nil {
			body.Close()
			t.Errorf("a range from %d was served", off)
		}
	}
}

func testNotFound(t *testing.T, b objstore.Bucket) {
	put(t, b, "there/is", []byte("x"))
	for _, key := range []string{"nothing", "there/isn't", "there"} {
		_, _, err := b.Get(t.Context(), key)
		wantError(t, "get "+key, err, objstore.ErrNotFound)
		_, err = b.GetRange(t.Context(), key, 0, 1)
		wantError(t, "range of "+key, err, objstore.ErrNotFound)
		_, err = b.Head(t.Context(), key)
		wantError(t, "head "+key, err, objstore.ErrNotFound)
	}
}

func testBodyPosition(t *testing.T, b objstore.Bucket) {
	body := bytes.NewReader([]byte("skip me, keep me"))
	if _, err := body.Seek(9, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), "tail", body, 7, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, _ := mustGet(t, b, "tail"); string(got) != "keep me" {
		t.Fatalf("read %q", got)
	}
}

func testWrongSize(t *testing.T, b objstore.Bucket) {
	for _, size := range []int64{0, 4, 6} {
		if _, err := b.Put(t.Context(), "five", bytes.NewReader([]byte("12345")), size, objstore.PutOptions{}); err == nil {
			t.Errorf("5 bytes were taken as %d", size)
		}
	}
	_, err := b.Head(t.Context(), "five")
	wantError(t, "head", err, objstore.ErrNotFound)
}

func testDelete(t *testing.T, b objstore.Bucket) {
	ctx := t.Context()
	if err := b.Delete(ctx); err != nil {
		t.Fatalf("delete nothing: %v", err)
	}
	for i := range 5 {
		put(t, b, fmt.Sprintf("d/%d", i), []byte("x"))
	}
	if err := b.Delete(ctx, "d/0"); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(ctx, "d/0"); err != nil {
		t.Fatalf("delete it again: %v", err)
	}
	if err := b.Delete(ctx, "d/1", "never/was", "d/3", "d/0"); err != nil {
		t.Fatalf("delete many with missing ones: %v", err)
	}
	wantKeys(t, "left", keys(t, b, "", ""), []string{"d/2", "d/4"})
	_, err := b.Head(ctx, "d/1")
	wantError(t, "head of a deleted key", err, objstore.ErrNotFound)
	put(t, b, "d/1", []byte("again"))
	if got, _ := mustGet(t, b, "d/1"); string(got) != "again" {
		t.Fatalf("after writing it again: %q", got)
	}
}

var oddKeys = []string{
	"with space/and  two",
	"plus+plus/a+b",
	"equals=1/x=y",
	"percent%20/100%",
	"ünïcödé/日本語/🙂",
	"e\u0301/é",
	"quote'\"/back`tick",
	"amp&/<angle>",
	"question?/hash#",
	"at@:colon;semi,comma",
	"tilde~/dash-/under_/dot.",
	"brackets[1]/{2}/(3)",
	"star*/!bang/$dollar/pipe|",
	".hidden/.x",
	"...",
}

func testOddKeys(t *testing.T, b objstore.Bucket) {
	for _, key := range oddKeys {
		put(t, b, key, []byte(key))
	}
	for _, key := range oddKeys {
		if got, _ := mustGet(t, b, key); string(got) != key {
			t.Errorf("key %q holds %q", key, got)
		}
		if got := keys(t, b, key, ""); len(got) != 1 || got[0] != key {
			t.Errorf("listed under %q: %q", key, got)
		}
	}
	wantKeys(t, "all", keys(t, b, "", ""), slices.Sorted(slices.Values(oddKeys)))
	if err := b.Delete(t.Context(), oddKeys...); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, "left", keys(t, b, "", ""), nil)
}

func testInvalidKeys(t *testing.T, b objstore.Bucket) {
	ctx := t.Context()
	for _, key := range []string{"", "/a", "a/", "a//b", "../a", "a/../b", "a/.", "a\x00b", "a\nb", "\xff", ".sgwtmp/x", string(bytes.Repeat([]byte("x"), 256)), string(bytes.Repeat([]byte("x/"), 600)) + "x"} {
		_, err := objstore.PutBytes(ctx, b, key, nil, objstore.PutOptions{})
		wantError(t, fmt.Sprintf("put %.20q", key), err, objstore.ErrInvalidKey)
		_, _, err = b.Get(ctx, key)
		wantError(t, fmt.Sprintf("get %.20q", key), err, objstore.ErrInvalidKey)
		_, err = b.GetRange(ctx, key, 0, 1)
		wantError(t, fmt.Sprintf("range of %.20q", key), err, objstore.ErrInvalidKey)
		_, err = b.Head(ctx, key)
		wantError(t, fmt.Sprintf("head %.20q", key), err, objstore.ErrInvalidKey)
		wantError(t, fmt.Sprintf("delete %.20q", key), b.Delete(ctx, key), objstore.ErrInvalidKey)
	}
	wantKeys(t, "left", keys(t, b, "", ""), nil)
}

func testCancelled(t *testing.T, b objstore.Bucket) {
	put(t, b, "k", []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check := func(what string, err error) {
		t.Helper()
		wantError(t, what, err, context.Canceled)
		if errors.Is(err, objstore.ErrUnavailable) {
			t.Errorf("%s: the caller's own end counts as the store's: %v", what, err)
		}
	}
	_, err := objstore.PutBytes(ctx, b, "new", []byte("x"), objstore.PutOptions{})
	check("put", err)
	_, err = objstore.PutBytes(ctx, b, "large", noise(17<<20), objstore.PutOptions{})
	check("put of a large body", err)
	_, _, err = b.Get(ctx, "k")
	check("get", err)
	_, err = b.GetRange(ctx, "k", 0, 1)
	check("range", err)
	_, err = b.Head(ctx, "k")
	check("head", err)
	check("delete", b.Delete(ctx, "k"))
	for _, err := range b.List(ctx, "", "") {
		check("list", err)
	}
	wantKeys(t, "left", keys(t, b, "", ""), []string{"k"})
}
