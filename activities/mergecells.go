package activities

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
)

// mergeFanIn is how many cells are merged at once. Each holds some rows and
// megabytes of its file; where there are more, some are merged on disk first.
const mergeFanIn = 16

// A rowStream is staged rows in the order of their task ids.
type rowStream = iter.Seq2[stagedRow, error]

// tasks yields the refined tasks of all cells in the order of their ids.
// Intermediate files go to dir.
func (s *seal) tasks(ctx context.Context, dir string) (iter.Seq2[refinedTask, error], error) {
	streams, err := s.cells(ctx)
	if err != nil {
		return nil, err
	}
	for len(streams) > mergeFanIn {
		var merged []rowStream
		for group := range slices.Chunk(streams, mergeFanIn) {
			s.note(fmt.Sprintf("merging: %d cells are left", len(streams)-len(merged)*mergeFanIn))
			one, err := mergeToDisk(ctx, dir, group)
			if err != nil {
				return nil, fmt.Errorf("merge refined tasks: %w", err)
			}
			merged = append(merged, one)
		}
		streams = merged
	}
	return unstaged[refinedTask](mergeRows(streams)), nil
}

// cells are the refined rows in streams that are sorted by task id.
func (s *seal) cells(ctx context.Context) ([]rowStream, error) {
	groups, err := s.sortedFiles(ctx, stageRefined)
	if err != nil {
		return nil, err
	}
	var cells []rowStream
	for _, files := range groups {
		cells = append(cells, func(yield func(stagedRow, error) bool) {
			for _, f := range files {
				for row, err := range stagedRows(ctx, s.a.Bucket, f.key, f.size) {
					if !yield(row, err) || err != nil {
						return
					}
				}
			}
		})
	}
	return cells, nil
}

// mergeToDisk merges streams into one that reads from a file in dir.
func mergeToDisk(ctx context.Context, dir string, streams []rowStream) (_ rowStream, err error) {
	f, err := os.CreateTemp(dir, "merged-*.parquet")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w, err := parquetio.NewWriter[stagedRow](f, stageGroup)
	if err != nil {
		return nil, err
	}
	n := 0
	for row, err := range mergeRows(streams) {
		if n++; err == nil && n%1024 == 0 {
			err = ctx.Err()
		}
		if err == nil {
			err = w.Write([]stagedRow{row})
		}
		if err != nil {
			return nil, err
		}
	}
	return localRows(f.Name()), w.Close()
}

// localRows streams the rows of a file on this disk.
func localRows(path string) rowStream {
	return func(yield func(stagedRow, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(stagedRow{}, err)
			return
		}
		defer f.Close()
		var r *parquetio.Reader[stagedRow]
		info, err := f.Stat()
		if err == nil {
			r, err = parquetio.Open[stagedRow](f, info.Size())
		}
		if err != nil {
			yield(stagedRow{}, fmt.Errorf("read %s: %w", path, err))
			return
		}
		r.All()(yield)
	}
}

// mergeRows merges streams into one. It ends at the first error.
func mergeRows(streams []rowStream) rowStream {
	return func(yield func(stagedRow, error) bool) {
		var h rowHeap
		for _, stream := range streams {
			next, stop := iter.Pull2(stream)
			defer stop()
			row, err, ok := next()
			if err != nil {
				yield(row, err)
				return
			}
			if ok {
				h = append(h, &streamHead{row, next})
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

type streamHead struct {
	row  stagedRow
	next func() (stagedRow, error, bool)
}

// rowHeap orders streams by the id of their next task.
type rowHeap []*streamHead

func (h rowHeap) Len() int           { return len(h) }
func (h rowHeap) Less(i, j int) bool { return h[i].row.TaskID < h[j].row.TaskID }
func (h rowHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *rowHeap) Push(x any)        { *h = append(*h, x.(*streamHead)) }
func (h *rowHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
