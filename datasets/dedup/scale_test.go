package dedup

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// shortText makes the text of document i: 8 to 20 words. One in fifty is an
// earlier text with a word more, and one in five hundred is a template that
// ten thousand others fill.
func shortText(dst []byte, i uint64) []byte {
	if i%50 == 49 && i > 10_000 {
		dst = shortText(dst, i-9_973)
		return append(dst, " indeed"...)
	}
	random := rand.New(rand.NewPCG(i, 77))
	if i%500 == 0 {
		return fmt.Appendf(dst, "please translate the word number %d of the list into the language of your choice and explain it", i)
	}
	for n := 8 + random.IntN(13); n > 0; n-- {
		w := random.IntN(20_000)
		dst = append(dst, byte('a'+w%26), byte('a'+w/26%26), byte('a'+w/676%26), byte('a'+w/17576), byte('a'+w%7), ' ')
	}
	return dst[:len(dst)-1]
}

// peak is the most heap that was seen in use.
type peak struct{ bytes uint64 }

func (p *peak) look() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p.bytes = max(p.bytes, m.HeapAlloc)
}

// findShort looks for near-duplicates among n short documents.
func findShort(t testing.TB, o NearOptions, dir string, n uint64, seen *peak) NearStats {
	t.Helper()
	near, err := NewNear(o, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := near.Close(); err != nil {
			t.Error(err)
		}
	}()
	var text []byte
	for i := range n {
		text = shortText(text[:0], i)
		if err := near.Add(Document{Order: i, Text: string(text)}); err != nil {
			t.Fatal(err)
		}
		if i%5_000 == 0 {
			seen.look()
		}
	}
	found := 0
	stats, err := near.Find(context.Background(), func(Match) error {
		if found++; found%100 == 0 {
			seen.look()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

// TestMemoryDoesNotGrow has four times as many documents in the same memory.
func TestMemoryDoesNotGrow(t *testing.T) {
	testdata.Heavy(t)
	if testing.Short() {
		t.Skip("looks at 250,000 documents")
	}
	const bound = 48 << 20
	o := NearOptions{Memory: 1 << 20}
	for _, n := range []uint64{50_000, 200_000} {
		runtime.GC()
		var before, seen peak
		before.look()
		stats := findShort(t, o, t.TempDir(), n, &seen)
		if used := int64(seen.bytes) - int64(before.bytes); used > bound {
			t.Errorf("%d documents: %d MiB of heap, want at most %d", n, used>>20, bound>>20)
		} else {
			t.Logf("%d documents: %d MiB of heap, %+v", n, used>>20, stats)
		}
		if want := int64(n-10_000) / 50; stats.Duplicates < want*9/10 || stats.Duplicates > want {
			t.Errorf("%d documents: %d duplicates, want nearly %d", n, stats.Duplicates, want)
		}
	}
}

// BenchmarkNearDocuments looks for near-duplicates among 100,000 short documents,
// or as many as STILLHOUSE_DOCUMENTS says, and reports the peak of the process's
// memory. With ten million it takes some gigabytes of the temporary folder:
//
//	STILLHOUSE_DOCUMENTS=10000000 go test -run '^$' -bench NearDocuments -benchtime 1x -timeout 2h ./datasets/dedup
func BenchmarkNearDocuments(b *testing.B) {
	n := uint64(100_000)
	if s := os.Getenv("STILLHOUSE_DOCUMENTS"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 32); err != nil {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	for b.Loop() {
		start := time.Now()
		var seen peak
		stats := findShort(b, NearOptions{}, dir, n, &seen)
		b.ReportMetric(float64(n)/time.Since(start).Seconds(), "documents/s")
		b.ReportMetric(float64(stats.Duplicates), "duplicates")
		b.ReportMetric(float64(seen.bytes>>20), "MiB-heap")
	}
	if kib, ok := residentPeak(); ok {
		b.ReportMetric(float64(kib>>10), "MiB-resident")
	}
}

// residentPeak is the most memory, in KiB, that this process ever held, where
// the system tells.
func residentPeak() (int64, bool) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, false
	}
	_, rest, ok := bytes.Cut(status, []byte("VmHWM:"))
	if !ok {
		return 0, false
	}
	var kib int64
	_, err = fmt.Sscan(string(rest), &kib)
	return kib, err == nil
}
