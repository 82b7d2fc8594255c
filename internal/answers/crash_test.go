package answers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func put(t testing.TB, b objstore.Bucket, key string, data []byte) {
	t.Helper()
	if _, err := objstore.PutBytes(context.Background(), b, key, data, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// copyHome copies a home as it is at this moment, under a running store: what
// a kill leaves. A file may be gone by the time that its turn comes.
func copyHome(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	for _, dir := range []string{".", "journal"} {
		entries, err := os.ReadDir(filepath.Join(from, dir))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(to, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() {
				continue
			}
			data, err := os.ReadFile(filepath.Join(from, dir, e.Name()))
			if os.IsNotExist(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(to, dir, e.Name()), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return to
}

func copyBucket(t testing.TB, from *mem.Bucket) *mem.Bucket {
	t.Helper()
	to := memBucket()
	for attr, err := range from.List(context.Background(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		body, _, err := from.Get(context.Background(), attr.Key)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(body)
		body.Close()
		if err != nil {
			t.Fatal(err)
		}
		put(t, to, attr.Key, data)
	}
	return to
}

// TestKilledAtAnyMoment stops the world between the operations on the store
// and opens what is there then: whatever Append had acknowledged must be there.
func TestKilledAtAnyMoment(t *testing.T) {
	bucket, dir := memBucket(), t.TempDir()
	small := func(tune *tuning) {
		tune.closeRows, tune.smallMost, tune.pieceBytes, tune.pieceAge = 40, 5, 3000, time.Millisecond
		tune.grace = 0
	}
	var mu sync.Mutex // held while a snapshot is taken, and during every change of the store
	acknowledged := make(map[int]string)
	kills := rand.New(rand.NewPCG(1, 2))
	operations, snapshots := 0, 0
	snapshot := func(where string) {
		home, copied := copyHome(t, dir), copyBucket(t, bucket)
		var asks []Ask
		var want []string
		for i, text := range acknowledged {
			asks, want = append(asks, askFor(endpointA, i, 0)), append(want, text)
		}
		s, err := reopen(copied, home, small)
		if err != nil {
			t.Errorf("after a kill %s: %v", where, err)
			return
		}
		wantTexts(t, s, asks, want...)
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("after a kill %s: Close: %v", where, err)
		}
		if left := keysUnder(t, copied, journalPrefix); len(left) > 0 {
			t.Errorf("after a kill %s the store's journal holds %v", where, left)
		}
		snapshots++
	}
	gated := &gate{Bucket: bucket, do: func(op, key string, act func() error) error {
		mu.Lock()
		defer mu.Unlock()
		operations++
		kill := kills.IntN(12) == 0
		if kill {
			snapshot("before " + op + " " + key)
		}
		err := act()
		if kill {
			snapshot("after " + op + " " + key)
		}
		return err
	}}
	s := opened(t, gated, dir, small)
	order := rand.New(rand.NewPCG(3, 4))
	for i := range 150 {
		text := fmt.Sprint("answer ", i)
		mustAppend(t, s, answerTo(askFor(endpointA, i, 0), "stop", text))
		mu.Lock()
		acknowledged[i] = text
		if order.IntN(20) == 0 {
			snapshot("after an append")
		}
		mu.Unlock()
		if order.IntN(4) == 0 {
			mustFlush(t, s)
		}
	}
	mustFlush(t, s)
	if snapshots < 20 {
		t.Errorf("%d snapshots at %d operations: the test kills too rarely", snapshots, operations)
	}
}

// A gate lets every change of the store pass one by one.
type gate struct {
	objstore.Bucket
	do func(op, key string, act func() error) error
}

func (g *gate) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opt objstore.PutOptions) (attr objstore.Attr, err error) {
	err = g.do("put", key, func() error {
		attr, err = g.Bucket.Put(ctx, key, body, size, opt)
		return err
	})
	return attr, err
}

func (g *gate) Delete(ctx context.Context, keys ...string) error {
	return g.do("delete", keys[0], func() error { return g.Bucket.Delete(ctx, keys...) })
}

// TestDamagedCacheIsMadeAgain changes bytes of every cached file.
func TestDamagedCacheIsMadeAgain(t *testing.T) {
	bucket, dir := memBucket(), t.TempDir()
	var asks []Ask
	var want []string
	s, err := reopen(bucket, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		asks, want = append(asks, askFor(endpointA, i, 0)), append(want, fmt.Sprint("answer ", i))
		mustAppend(t, s, answerTo(asks[i], "stop", want[i]))
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(dir, "cache")
	files, err := filepath.Glob(filepath.Join(cache, "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("the cache holds %v, %v; want a segment and its keys", files, err)
	}
	damage := map[string]func([]byte) []byte{
		"empty":   func([]byte) []byte { return nil },
		"cut":     func(b []byte) []byte { return b[:len(b)/2] },
		"zeros":   func(b []byte) []byte { return make([]byte, len(b)) },
		"flipped": func(b []byte) []byte { b = bytes.Clone(b); b[len(b)/3] ^= 1; return b },
		"footer":  func(b []byte) []byte { b = bytes.Clone(b); b[len(b)-9] ^= 1; return b },
		"tail":    func(b []byte) []byte { b = bytes.Clone(b); b[len(b)-1] ^= 1; return b },
	}
	for _, file := range files {
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, hurt := range damage {
			t.Run(filepath.Ext(file)+" "+name, func(t *testing.T) {
				if err := os.WriteFile(file, hurt(good), 0o600); err != nil {
					t.Fatal(err)
				}
				r, err := OpenReader(bucket, cache)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				wantTexts(t, r, asks, want...)
			})
		}
	}
}

func TestCacheStaysWithinItsBytes(t *testing.T) {
	bucket, dir := memBucket(), t.TempDir()
	const limit = 40_000
	s := opened(t, bucket, dir, func(tune *tuning) { tune.cacheBytes, tune.recentBytes, tune.smallMost = limit, 1, 1000 })
	var asks []Ask
	var want []string
	for i := range 15 {
		asks, want = append(asks, askFor(endpointA, i, 0)), append(want, fmt.Sprint("answer ", i))
		mustAppend(t, s, answerTo(asks[i], "stop", want[i]))
		mustFlush(t, s)
		wantTexts(t, s, asks, want...)
		entries, err := os.ReadDir(filepath.Join(dir, "cache"))
		if err != nil {
			t.Fatal(err)
		}
		total := int64(0)
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				total += info.Size()
			}
		}
		if total > limit {
			t.Fatalf("after %d segments the cache holds %d bytes, at most %d", i+1, total, limit)
		}
	}
}
