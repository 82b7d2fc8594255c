package answers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/dir"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// streamed is about what an endpoint streams for a short answer.
func streamed(i int) []byte {
	var raw []byte
	for n := range 12 {
		raw = fmt.Appendf(raw, "data: {\"id\":\"chatcmpl-%x\",\"choices\":[{\"delta\":{\"content\":\" word%d\"}}]}\n\n", i*7919, (i+n)%1000)
	}
	return append(raw, "data: [DONE]\n\n"...)
}

func BenchmarkIdentify(b *testing.B) {
	id := identity(nil)
	id.Body = append(append([]byte(`{"messages":[{"content":"`), make([]byte, 4096)...), `","role":"user"}]}`...)
	b.SetBytes(int64(len(id.Body)))
	b.ReportAllocs()
	for b.Loop() {
		Identify(id)
	}
}

// BenchmarkAppend has 64 callers; records/s is what they are acknowledged
// together.
func BenchmarkAppend(b *testing.B) {
	s := opened(b, mem.New("b"), b.TempDir(), nil)
	raw := streamed(1)
	var serial atomic.Int64
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r := answerTo(askFor(endpointA, int(serial.Add(1)), 0), "stop", "")
			r.Raw = raw
			if err := s.Append(context.Background(), r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkFlush appends one batch of 64 and flushes it.
func BenchmarkFlush(b *testing.B) {
	s := opened(b, mem.New("b"), b.TempDir(), nil)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		b.StopTimer()
		done := make(chan error, 64)
		for range 64 {
			r := answerTo(askFor(endpointA, n, 0), "stop", "")
			r.Raw = streamed(n)
			n++
			go func() { done <- s.Append(context.Background(), r) }()
		}
		for range 64 {
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		mustFlush(b, s)
	}
}

// numbered is an ask whose key is cheap to make and spread as a digest is.
func numbered(i int) Ask {
	a := Ask{Endpoint: endpointA, ID: strconv.Itoa(i)}
	state := rand.NewPCG(uint64(i), 1)
	for n := 0; n < len(a.Key); n += 8 {
		binary.BigEndian.PutUint64(a.Key[n:], state.Uint64())
	}
	return a
}

func numberedRecords(n int) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		for i := range n {
			r := answerTo(numbered(i), "stop", "")
			r.Raw, r.Headers = streamed(i), nil
			if !yield(r, nil) {
				return
			}
		}
	}
}

// lookupRecords is how many records the lookup benchmark has; the environment
// makes it other sizes, to see that memory stays flat.
func lookupRecords(b *testing.B) int {
	text := os.Getenv("STILLHOUSE_BENCH_ANSWERS")
	if text == "" {
		return 100_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkLookup looks 64 random keys up, of 100,000 or
// STILLHOUSE_BENCH_ANSWERS records on disk.
func BenchmarkLookup(b *testing.B) {
	n := lookupRecords(b)
	dir := b.TempDir()
	bucket := newDirBucket(b)
	s := opened(b, bucket, dir, func(tune *tuning) { tune.recentBytes = 1 })
	if added, err := s.Import(context.Background(), endpointA, numberedRecords(n)); added != n || err != nil {
		b.Fatal(added, err)
	}
	order := rand.New(rand.NewPCG(1, 1))
	asks := make([]Ask, 64)
	pick := func(beyond int) {
		for i := range asks {
			asks[i] = numbered(beyond + order.IntN(n))
		}
	}
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	for _, bench := range []struct {
		name string
		look func() error
	}{
		{"Answered", func() error {
			pick(0)
			_, err := s.Answered(context.Background(), asks)
			return err
		}},
		{"AnsweredMiss", func() error {
			pick(n)
			_, err := s.Answered(context.Background(), asks)
			return err
		}},
		{"Lookup", func() error {
			pick(0)
			records, err := s.Lookup(context.Background(), asks)
			if err == nil && records[0].ID != asks[0].ID {
				err = fmt.Errorf("got %s, want %s", records[0].ID, asks[0].ID)
			}
			return err
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := bench.look(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(heap(), "heap-MiB")
		})
	}
}

// A dirBucket keeps objects in files, so that a benchmark's heap is ours alone.
type dirBucket struct {
	*dir.Bucket
	root string
	mu   sync.Mutex
}

func newDirBucket(b *testing.B) *dirBucket {
	root := b.TempDir()
	read, err := dir.Open(root, "files")
	if err != nil {
		b.Fatal(err)
	}
	return &dirBucket{Bucket: read, root: root}
}

func (d *dirBucket) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opt objstore.PutOptions) (objstore.Attr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old, err := d.Head(ctx, key)
	if opt.IfNoneMatch && err == nil || opt.IfMatch != "" && old.ETag != opt.IfMatch {
		return objstore.Attr{}, objstore.ErrPrecondition
	}
	path := filepath.Join(d.root, filepath.FromSlash(key))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return objstore.Attr{}, err
	}
	f, err := os.CreateTemp(d.root, "put-")
	if err != nil {
		return objstore.Attr{}, err
	}
	_, err = io.Copy(f, body)
	if err := errors.Join(err, f.Close(), os.Rename(f.Name(), path)); err != nil {
		return objstore.Attr{}, err
	}
	return d.Head(ctx, key)
}

func (d *dirBucket) Delete(_ context.Context, keys ...string) error {
	for _, key := range keys {
		os.Remove(filepath.Join(d.root, filepath.FromSlash(key)))
	}
	return nil
}
