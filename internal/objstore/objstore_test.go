package objstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func TestReadAllStopsAtTheLimit(t *testing.T) {
	b := mem.New("t")
	put(t, b, "ten", "0123456789")
	if data, attr, err := objstore.ReadAll(t.Context(), b, "ten", 10); err != nil || len(data) != 10 || attr.Size != 10 {
		t.Fatalf("at the limit: %d bytes, %v", len(data), err)
	}
	if _, _, err := objstore.ReadAll(t.Context(), b, "ten", 9); !errors.Is(err, objstore.ErrTooLarge) {
		t.Fatalf("beyond the limit: %v", err)
	}
}

func TestReadAllDoesNotRepeatWhatTheStoreRefused(t *testing.T) {
	b := mem.New("t")
	gets := 0
	b.Fault = func(string, string) error { gets++; return objstore.ErrUnavailable }
	if _, _, err := objstore.ReadAll(t.Context(), b, "k", 9); !errors.Is(err, objstore.ErrUnavailable) || gets != 1 {
		t.Fatalf("%d gets, %v", gets, err)
	}
}

func TestFiles(t *testing.T) {
	b := mem.New("t")
	path := filepath.Join(t.TempDir(), "f")
	write := func(content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("from a file")
	if attr, err := objstore.PutFile(t.Context(), b, "put", path, objstore.PutOptions{IfNoneMatch: true}); err != nil || attr.Size != 11 {
		t.Fatalf("put: %+v, %v", attr, err)
	}
	for range 2 {
		if _, err := objstore.CreateFileOrSame(t.Context(), b, "create", path); err != nil {
			t.Fatal(err)
		}
	}
	write("another length")
	if _, err := objstore.CreateFileOrSame(t.Context(), b, "create", path); !errors.Is(err, objstore.ErrPrecondition) {
		t.Fatalf("create with another size: %v", err)
	}
	for _, bad := range []string{path + "-missing", filepath.Dir(path)} {
		if _, err := objstore.PutFile(t.Context(), b, "k", bad, objstore.PutOptions{}); err == nil {
			t.Errorf("put %s", bad)
		}
		if _, err := objstore.CreateFileOrSame(t.Context(), b, "k", bad); err == nil {
			t.Errorf("created from %s", bad)
		}
	}
}

func TestLargeBodyThatIsThereIsNotSentAgain(t *testing.T) {
	b := mem.New("t")
	puts := 0
	b.Fault = func(op, _ string) error {
		if op == mem.OpPut {
			puts++
		}
		return nil
	}
	for range 2 {
		if attr, err := objstore.CreateOrSame(t.Context(), b, "k", make([]byte, 2<<20)); err != nil || attr.Size != 2<<20 {
			t.Fatalf("%+v, %v", attr, err)
		}
	}
	if puts != 1 {
		t.Fatalf("sent %d times", puts)
	}
	if _, err := objstore.CreateOrSame(t.Context(), b, "k", make([]byte, 3<<20)); !errors.Is(err, objstore.ErrPrecondition) {
		t.Fatalf("another size: %v", err)
	}
}

func TestReaderAtReadsBlocksOnce(t *testing.T) {
	b := mem.New("t")
	put(t, b, "k", string(make([]byte, 5<<20)))
	var mu sync.Mutex
	ranges := 0
	b.Fault = func(op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		if op == mem.OpRange {
			ranges++
		}
		return nil
	}
	r := objstore.NewReaderAt(t.Context(), b, "k", 5<<20)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := io.Copy(io.Discard, io.NewSectionReader(r, 0, r.Size())); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if ranges != 5 {
		t.Fatalf("%d requests for 5 blocks", ranges)
	}
}

func TestReaderAtHoldsFewBlocks(t *testing.T) {
	b := mem.New("t")
	want := make([]byte, 40<<20)
	for i := range want {
		want[i] = byte(i >> 12)
	}
	put(t, b, "k", string(want))
	r := objstore.NewReaderAt(t.Context(), b, "k", int64(len(want)))
	// Small steps through the cache, over block borders; then one read that is
	// larger than the cache.
	p := make([]byte, 700_001)
	for off := 0; off < len(want); off += len(p) {
		n, err := r.ReadAt(p, int64(off))
		if err != nil && err != io.EOF || !bytes.Equal(p[:n], want[off:off+n]) {
			t.Fatalf("at %d: %d bytes, %v", off, n, err)
		}
	}
	all := make([]byte, len(want))
	if n, err := r.ReadAt(all, 0); n != len(all) || err != nil || !bytes.Equal(all, want) {
		t.Fatalf("all: %d bytes, %v", n, err)
	}
	if _, err := r.ReadAt(p, -1); err == nil {
		t.Fatal("read before the start")
	}
	if n, err := r.ReadAt(p, r.Size()); n != 0 || err != io.EOF {
		t.Fatalf("at the end: %d bytes, %v", n, err)
	}
}

func TestReaderAtOfAShrunkObject(t *testing.T) {
	b := mem.New("t")
	put(t, b, "k", "short")
	if _, err := objstore.NewReaderAt(t.Context(), b, "k", 100).ReadAt(make([]byte, 100), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("error %v", err)
	}
}

func TestClampRange(t *testing.T) {
	for _, test := range []struct{ off, n, size, wantOff, wantN int64 }{
		{0, -1, 10, 0, 10}, {3, 4, 10, 3, 4}, {8, 4, 10, 8, 2}, {10, 1, 10, 10, 0}, {0, -1, 0, 0, 0}, {1, 1<<63 - 1, 10, 1, 9},
	} {
		off, n, err := objstore.ClampRange(test.off, test.n, test.size)
		if err != nil || off != test.wantOff || n != test.wantN {
			t.Errorf("%+v: %d %d %v", test, off, n, err)
		}
	}
	for _, off := range []int64{-1, 11} {
		if _, _, err := objstore.ClampRange(off, 1, 10); err == nil {
			t.Errorf("a range from %d of 10", off)
		}
	}
}

type signer struct{ *mem.Bucket }

func (signer) PresignGet(_ context.Context, key string, _ time.Duration) (string, error) {
	return "get:" + key, nil
}

func (signer) PresignPut(_ context.Context, key string, _ time.Duration) (string, error) {
	return "put:" + key, nil
}

func TestPrefixPresignsWhereTheStoreDoes(t *testing.T) {
	if _, ok := objstore.WithPrefix(mem.New("t"), "p").(objstore.Presigner); ok {
		t.Fatal("a bucket that can't presign does under a prefix")
	}
	inner := objstore.WithPrefix(objstore.WithPrefix(signer{mem.New("t")}, "p"), "q").(objstore.Presigner)
	get, err := inner.PresignGet(t.Context(), "k", time.Minute)
	if err != nil || get != "get:p/q/k" {
		t.Errorf("get %q, %v", get, err)
	}
	put, err := inner.PresignPut(t.Context(), "k", time.Minute)
	if err != nil || put != "put:p/q/k" {
		t.Errorf("put %q, %v", put, err)
	}
	if _, err := inner.PresignGet(t.Context(), "../k", time.Minute); !errors.Is(err, objstore.ErrInvalidKey) {
		t.Errorf("climb out: %v", err)
	}
}

// A careless store takes every write.
type careless struct {
	*mem.Bucket
	create, replace, mangle bool
}

func (c careless) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opt objstore.PutOptions) (objstore.Attr, error) {
	if c.create {
		opt.IfNoneMatch = false
	}
	if c.replace {
		opt.IfMatch = ""
	}
	if c.mangle && opt.IfMatch != "" {
		body, size = bytes.NewReader([]byte("other!")), 6
	}
	return c.Bucket.Put(ctx, key, body, size, opt)
}

func TestProbeNoticesCarelessStores(t *testing.T) {
	for _, test := range []struct {
		store careless
		want  error
	}{
		{careless{}, nil},
		{careless{create: true}, objstore.ErrIgnoresConditions},
		{careless{replace: true}, objstore.ErrIgnoresConditions},
	} {
		test.store.Bucket = mem.New("t")
		if err := objstore.Probe(t.Context(), test.store); !errors.Is(err, test.want) {
			t.Errorf("%+v: error %v", test.store, err)
		}
	}
	if err := objstore.Probe(t.Context(), careless{Bucket: mem.New("t"), mangle: true}); err == nil {
		t.Error("a store that changes the bytes passed")
	}
}

// Where objects may not be deleted, publishing can still be safe.
func TestProbePassesWhereDeletesAreForbidden(t *testing.T) {
	b := mem.New("t")
	b.Fault = func(op, _ string) error {
		if op == mem.OpDelete {
			return fmt.Errorf("forbidden: %w", objstore.ErrUnavailable)
		}
		return nil
	}
	if err := objstore.Probe(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, b objstore.Bucket, key, data string) {
	t.Helper()
	if _, err := objstore.PutBytes(t.Context(), b, key, []byte(data), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}
