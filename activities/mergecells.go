package activities

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"

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

// cells are the refined rows in streams that are sorted by task id: one of each
// cell, and one of each shard whose tasks are ordered by what they share.
func (s *seal) cells(ctx context.Context) ([]rowStream, error) {
	type object struct {
		key  string
		size int64
	}
	files := make([]object, len(s.plan.Shards))
	prefix := workPrefix(s.in.Dataset, s.in.BuildID, stageRefined)
	for at, err := range s.a.Bucket.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(at.Key, prefix), "-")
		i, err := strconv.Atoi(number)
		// A refinement that ran twice left two files of the same tasks; the
		// first in order is as good as the other.
		if err == nil && i >= 0 && i < len(files) && files[i].key == "" {
			files[i] = object{at.Key, at.Size}
		}
	}
	byCell := make([][]int, len(s.plan.Cells)) // shards that follow each other
	for i, shard := range s.plan.Shards {
		if files[i].key == "" {
			return nil, fmt.Errorf("shard %d was refined, but its file under %s is gone", i, prefix)
		}
		if shard.Shared != nil {
			byCell = append(byCell, []int{i})
			continue
		}
		byCell[shard.Cell] = append(byCell[shard.Cell], i)
	}
	var cells []rowStream
	for _, shards := range byCell {
		if len(shards) == 0 {
			continue
		}
		slices.SortFunc(shards, func(a, b int) int { return cmp.Compare(s.plan.Shards[a].Seq, s.plan.Shards[b].Seq) })
		cells = append(cells, func(yield func(stagedRow, error) bool) {
			for _, i := range shards {
				for row, err := range stagedRows(ctx, s.a.Bucket, files[i].key, files[i].size) {
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
