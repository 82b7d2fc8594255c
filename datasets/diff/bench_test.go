package diff_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/diff"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// BenchmarkCompare compares versions of some rows each, of 1.3 kB of text, with
// their prompts and two candidates a row; every tenth row changed and every
// twentieth is in one of the versions alone. STILLHOUSE_DIFF_ROWS is how many.
func BenchmarkCompare(b *testing.B) {
	n := 5_000
	if text := os.Getenv("STILLHOUSE_DIFF_ROWS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	m := mem.New("b")
	c := catalog.Open(m)
	for version := range 2 {
		large(b, c, version, n)
	}
	b.ReportAllocs()
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	store, most := s.HeapInuse, uint64(0) // the files are in memory here
	for b.Loop() {
		r, err := diff.Compare(b.Context(), c, "maths@1", "maths@2", diff.Options{Examples: 1, Note: func(int64) {
			runtime.ReadMemStats(&s)
			most = max(most, s.HeapInuse-store)
		}})
		if err != nil {
			b.Fatal(err)
		}
		if r.Tasks < int64(n) || r.Unchanged {
			b.Fatalf("%+v", r)
		}
	}
	b.ReportMetric(float64(2*n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	if most > 0 {
		b.ReportMetric(float64(most)/(1<<20), "heap-MiB")
	}
}

func large(b *testing.B, c *catalog.Catalog, version, n int) {
	b.Helper()
	m := catalog.Manifest{Dataset: "maths", BuildID: fmt.Sprintf("b%d", version), RecipeDigest: strings.Repeat("0", 64), Teachers: []catalog.ManifestTeacher{{ID: "k3"}, {ID: "r1"}}}
	ids := func(yield func(i int, task string)) {
		for i := range n + n/20 {
			if i%20 == 0 && i/20%2 == version {
				continue
			}
			yield(i, fmt.Sprintf("%032x/math/high", i))
		}
	}
	body := strings.Repeat("of the answer, ", 40)
	candidate := func(i int, task, teacher string) datasets.Candidate {
		text := fmt.Sprintf("%d %s", i, body)
		if i%10 == 0 {
			text += strconv.Itoa(version)
		}
		return datasets.Candidate{
			SampleID: sampleOf(task, teacher), TaskID: task, PromptID: task[:32], Domain: "math", Effort: "high", Split: "train", Teacher: teacher, Accepted: true,
			Messages: []chat.Message{{Role: "user", Content: &body}, {Role: "assistant", Content: &text, Train: true}},
		}
	}
	written(b, c, &m, "train", "train", func(w *parquetio.Writer[datasets.Row]) error {
		var err error
		ids(func(i int, task string) {
			cand := candidate(i, task, "k3")
			err = errors.Join(err, w.Write([]datasets.Row{datasets.RowOf(&cand)}))
		})
		return err
	})
	written(b, c, &m, "prompts", "all", func(w *parquetio.Writer[datasets.PromptRow]) error {
		var err error
		ids(func(_ int, task string) {
			err = errors.Join(err, w.Write([]datasets.PromptRow{{TaskID: task, PromptID: task[:32], Domain: "math", Effort: "high", Status: datasets.StatusClean, Split: "train",
				Messages: []chat.Message{{Role: "user", Content: &body}}}}))
		})
		return err
	})
	written(b, c, &m, "candidates", "all", func(w *parquetio.Writer[datasets.Candidate]) error {
		var err error
		ids(func(i int, task string) {
			err = errors.Join(err, w.Write([]datasets.Candidate{candidate(i, task, "k3"), candidate(i, task, "r1")}))
		})
		return err
	})
	if _, err := c.Publish(context.Background(), m); err != nil {
		b.Fatal(err)
	}
}

func written[T any](b *testing.B, c *catalog.Catalog, m *catalog.Manifest, table, split string, fill func(*parquetio.Writer[T]) error) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "file.parquet")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w, err := parquetio.NewWriter[T](f, parquetio.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(fill(w), w.Close(), f.Close()); err != nil {
		b.Fatal(err)
	}
	ref, err := c.Stage(context.Background(), m.Dataset, m.BuildID, table, split, 0, path)
	if err != nil {
		b.Fatal(err)
	}
	m.Files = append(m.Files, ref)
}
