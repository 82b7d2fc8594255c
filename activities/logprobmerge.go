package activities

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// logprobMergeFanIn is how many cells' rows are merged at once: a long answer's
// row takes megabytes, and each cell has a row group in memory.
const logprobMergeFanIn = 4

// A logprobStream is rows of the logprobs table in the order of their tasks.
type logprobStream = iter.Seq2[datasets.LogprobRow, error]

// writeLogprobs merges the shards' rows, in the order of task ids, into the
// table. Intermediate files go to dir.
func (s *seal) writeLogprobs(ctx context.Context, dir string, to *tableWriter[datasets.LogprobRow]) error {
	streams, err := s.logprobCells(ctx)
	if err != nil {
		return err
	}
	for len(streams) > logprobMergeFanIn {
		var merged []logprobStream
		for group := range slices.Chunk(streams, logprobMergeFanIn) {
			one, err := mergeLogprobsToDisk(ctx, dir, group)
			if err != nil {
				return fmt.Errorf("merge logprobs: %w", err)
			}
			merged = append(merged, one)
		}
		streams = merged
	}
	n := 0
	for row, err := range mergeLogprobs(streams) {
		if n++; n%64 == 0 {
			s.note(fmt.Sprintf("wrote the logprobs of %d answers", n))
			err = errors.Join(err, ctx.Err())
		}
		if err == nil {
			err = to.add(row)
		}
		if err != nil {
			return fmt.Errorf("write the logprobs table: %w", err)
		}
	}
	return to.close()
}

// logprobCells are the staged rows in streams that are sorted by task id.
func (s *seal) logprobCells(ctx context.Context) ([]logprobStream, error) {
	groups, err := s.sortedFiles(ctx, stageLogprobs)
	if err != nil {
		return nil, err
	}
	var cells []logprobStream
	for _, files := range groups {
		cells = append(cells, func(yield func(datasets.LogprobRow, error) bool) {
			for _, f := range files {
				r, err := parquetio.Open[datasets.LogprobRow](objstore.NewReaderAt(ctx, s.a.Bucket, f.key, f.size), f.size)
				if err != nil {
					yield(datasets.LogprobRow{}, fmt.Errorf("read %s: %w", f.key, err))
					return
				}
				for row, err := range r.All() {
					if !yield(row, err) || err != nil {
						return
					}
				}
			}
		})
	}
	return cells, nil
}

// mergeLogprobsToDisk merges streams into one that reads from a file in dir.
func mergeLogprobsToDisk(ctx context.Context, dir string, streams []logprobStream) (_ logprobStream, err error) {
	f, err := os.CreateTemp(dir, "logprobs-*.parquet")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	options := logprobGroup
	options.Passing = true
	w, err := parquetio.NewWriter[datasets.LogprobRow](f, options)
	if err != nil {
		return nil, err
	}
	for row, err := range mergeLogprobs(streams) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = w.Write([]datasets.LogprobRow{row})
		}
		if err != nil {
			return nil, err
		}
	}
	return localLogprobs(f.Name()), w.Close()
}

func localLogprobs(path string) logprobStream {
	return func(yield func(datasets.LogprobRow, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(datasets.LogprobRow{}, err)
			return
		}
		defer f.Close()
		var r *parquetio.Reader[datasets.LogprobRow]
		info, err := f.Stat()
		if err == nil {
			r, err = parquetio.Open[datasets.LogprobRow](f, info.Size())
		}
		if err != nil {
			yield(datasets.LogprobRow{}, fmt.Errorf("read %s: %w", path, err))
			return
		}
		r.All()(yield)
	}
}

// mergeLogprobs merges streams into one. Rows of one task keep the order of
// their stream: a task is in one cell alone. It ends at the first error.
func mergeLogprobs(streams []logprobStream) logprobStream {
	return func(yield func(datasets.LogprobRow, error) bool) {
		var h logprobHeap
		for _, stream := range streams {
			next, stop := iter.Pull2(stream)
			defer stop()
			row, err, ok := next()
			if err != nil {
				yield(row, err)
				return
			}
			if ok {
				h = append(h, &logprobHead{row, next})
			}
		}
		heap.Init(&h)
		for len(h) > 0 {
			head := h[0]
			if !yield(head.row, nil) {
				return
			}
			row, err, ok := head.next()
			switch {
			case err != nil:
				yield(row, err)
				return
			case ok:
				head.row = row
				heap.Fix(&h, 0)
			default:
				heap.Pop(&h)
			}
		}
	}
}

type logprobHead struct {
	row  datasets.LogprobRow
	next func() (datasets.LogprobRow, error, bool)
}

type logprobHeap []*logprobHead

func (h logprobHeap) Len() int           { return len(h) }
func (h logprobHeap) Less(i, j int) bool { return h[i].row.TaskID < h[j].row.TaskID }
func (h logprobHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *logprobHeap) Push(x any)        { *h = append(*h, x.(*logprobHead)) }
func (h *logprobHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
