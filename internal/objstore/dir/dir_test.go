package dir_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/dir"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func lay(t testing.TB, root, key, content string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(key))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, root string) *dir.Bucket {
	t.Helper()
	b, err := dir.Open(root, "s3://stillhouse")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func keys(t testing.TB, b objstore.Bucket, prefix, after string) []string {
	t.Helper()
	var got []string
	for attr, err := range b.List(context.Background(), prefix, after) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, attr.Key)
	}
	return got
}

func TestReads(t *testing.T) {
	root := t.TempDir()
	lay(t, root, "datasets/maths/refs/latest.json", "0123456789")
	b := open(t, root)
	data, attr, err := objstore.ReadAll(t.Context(), b, "datasets/maths/refs/latest.json", 100)
	if err != nil || string(data) != "0123456789" {
		t.Fatalf("read %q, %v", data, err)
	}
	head, err := b.Head(t.Context(), attr.Key)
	if err != nil || head != attr {
		t.Fatalf("head %+v, %v, get said %+v", head, err, attr)
	}
	if head.Size != 10 || head.ETag == "" || head.Modified.IsZero() {
		t.Fatalf("described as %+v", head)
	}
	body, err := b.GetRange(t.Context(), attr.Key, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || string(got) != "3456" {
		t.Fatalf("range %q, %v", got, err)
	}
	if _, err := b.GetRange(t.Context(), attr.Key, 11, 1); err == nil {
		t.Fatal("a range beyond the end was served")
	}
}

func TestMissing(t *testing.T) {
	root := t.TempDir()
	lay(t, root, "a/b", "x")
	b := open(t, root)
	for _, key := range []string{"nothing", "a", "a/b/c", "a/c"} {
		if _, err := b.Head(t.Context(), key); !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("head %s: %v", key, err)
		}
		if _, _, err := b.Get(t.Context(), key); !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("get %s: %v", key, err)
		}
	}
}

func TestNoFolderIsAnEmptyBucket(t *testing.T) {
	root := filepath.Join(t.TempDir(), "not", "yet")
	b := open(t, root)
	if got := keys(t, b, "", ""); got != nil {
		t.Fatalf("listed %q", got)
	}
	if _, err := b.Head(t.Context(), "k"); !errors.Is(err, objstore.ErrNotFound) {
		t.Fatalf("head: %v", err)
	}
	lay(t, root, "k", "x")
	if got := keys(t, b, "", ""); len(got) != 1 {
		t.Fatalf("after the first object: %q", got)
	}
}

func TestFileAsRootIsRefused(t *testing.T) {
	root := t.TempDir()
	lay(t, root, "file", "x")
	if _, err := dir.Open(filepath.Join(root, "file"), "s3://x"); err == nil {
		t.Fatal("opened a file as a bucket")
	}
}

func TestWritesAreRefused(t *testing.T) {
	root := t.TempDir()
	lay(t, root, "k", "x")
	b := open(t, root)
	if _, err := objstore.PutBytes(t.Context(), b, "k", []byte("y"), objstore.PutOptions{}); !errors.Is(err, objstore.ErrReadOnly) {
		t.Errorf("put: %v", err)
	}
	if err := b.Delete(t.Context(), "k"); !errors.Is(err, objstore.ErrReadOnly) {
		t.Errorf("delete: %v", err)
	}
	if data, _, err := objstore.ReadAll(t.Context(), b, "k", 10); err != nil || string(data) != "x" {
		t.Errorf("holds %q, %v", data, err)
	}
}

func TestTheStoresOwnFilesAreHidden(t *testing.T) {
	root := t.TempDir()
	for _, key := range []string{".sgwtmp/multipart/1/part", ".vgwlocks/ab/00", "refs/.latest.json.sgwtmp.1764520000", "refs/latest.json", ".hidden"} {
		lay(t, root, key, "x")
	}
	b := open(t, root)
	if diff := cmp.Diff([]string{".hidden", "refs/latest.json"}, keys(t, b, "", "")); diff != "" {
		t.Fatalf("listed (-want +got):\n%s", diff)
	}
	if _, _, err := b.Get(t.Context(), ".sgwtmp/multipart/1/part"); !errors.Is(err, objstore.ErrInvalidKey) {
		t.Fatalf("get: %v", err)
	}
}

func TestLinksAreNotFollowedOut(t *testing.T) {
	outside := t.TempDir()
	lay(t, outside, "secret", "top")
	root := t.TempDir()
	lay(t, root, "real/k", "x")
	for link, target := range map[string]string{
		"file":    filepath.Join(outside, "secret"),
		"folder":  outside,
		"inside":  "real",
		"dangles": "nowhere",
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	b := open(t, root)
	if diff := cmp.Diff([]string{"real/k"}, keys(t, b, "", "")); diff != "" {
		t.Fatalf("listed (-want +got):\n%s", diff)
	}
	for _, key := range []string{"file", "folder/secret", "dangles"} {
		if body, _, err := b.Get(t.Context(), key); err == nil {
			body.Close()
			t.Errorf("%s was served", key)
		}
	}
}

func TestCancelled(t *testing.T) {
	root := t.TempDir()
	lay(t, root, "k", "x")
	b := open(t, root)
	ctx, cancel := context.WithCancel(t.Context())
	body, _, err := b.Get(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	cancel()
	if _, err := io.ReadAll(body); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
	if _, err := b.Head(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("head: %v", err)
	}
	for _, err := range b.List(ctx, "", "") {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("list: %v", err)
		}
	}
}

// Whatever keys there are, the folder lists as the reference does.
func TestListsAsTheReferenceDoes(t *testing.T) {
	part := rapid.StringMatching(`[ab./0é+ -]{1,3}`)
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		want, got := mem.New("reference"), open(t, root)
		var files []string
		for range rapid.IntRange(0, 12).Draw(rt, "count") {
			key := strings.Join(rapid.SliceOfN(part, 1, 4).Draw(rt, "parts"), "/")
			if objstore.ValidKey(key) != nil || clashes(files, key) {
				continue
			}
			files = append(files, key)
			lay(t, root, key, key)
			if _, err := objstore.PutBytes(context.Background(), want, key, []byte(key), objstore.PutOptions{}); err != nil {
				rt.Fatal(err)
			}
		}
		fragment := rapid.OneOf(rapid.StringMatching(`[ab./0é+ -]{0,5}`), prefixOf(files))
		for range 8 {
			prefix, after := fragment.Draw(rt, "prefix"), fragment.Draw(rt, "after")
			if diff := cmp.Diff(keys(t, want, prefix, after), keys(t, got, prefix, after)); diff != "" {
				rt.Fatalf("prefix %q after %q of %q (-reference +folder):\n%s", prefix, after, files, diff)
			}
		}
	})
}

// clashes is true where a file system can't hold key next to the others.
func clashes(files []string, key string) bool {
	for _, f := range files {
		if f == key || strings.HasPrefix(f, key+"/") || strings.HasPrefix(key, f+"/") {
			return true
		}
	}
	return false
}

func prefixOf(files []string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		key := rapid.SampledFrom(append([]string{""}, files...)).Draw(t, "of")
		return key[:rapid.IntRange(0, len(key)).Draw(t, "bytes")]
	})
}

func BenchmarkListAll(b *testing.B) {
	root := b.TempDir()
	for i := range 10000 {
		lay(b, root, fmt.Sprintf("datasets/d%02d/data/build/train/train-%05d.parquet", i%20, i), "x")
	}
	bucket := open(b, root)
	for b.Loop() {
		if n := len(keys(b, bucket, "", "")); n != 10000 {
			b.Fatal(n)
		}
	}
}
