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

// A sortedMerge merges streams of rows that are each sorted by task id. Rows of
// one task keep the order of their stream.
type sortedMerge[T any] struct {
	id      func(*T) string   // a row's task
	fanIn   int               // streams merged at once; where there are more, some are merged on disk first
	dir     string            // for intermediate files
	name    string            // their pattern
	options parquetio.Options // and how they are written
	note    func(left int)    // tells how many streams are left; may be nil
}

// all merges the streams into one. It ends at the first error.
func (m *sortedMerge[T]) all(ctx context.Context, streams []iter.Seq2[T, error]) (iter.Seq2[T, error], error) {
	for len(streams) > m.fanIn {
		var merged []iter.Seq2[T, error]
		for group := range slices.Chunk(streams, m.fanIn) {
			if m.note != nil {
				m.note(len(streams) - len(merged)*m.fanIn)
			}
			one, err := m.toDisk(ctx, group)
			if err != nil {
				return nil, err
			}
			merged = append(merged, one)
		}
		streams = merged
	}
	return mergeSorted(streams, m.id), nil
}

// toDisk merges streams into one that reads from a file in dir.
func (m *sortedMerge[T]) toDisk(ctx context.Context, streams []iter.Seq2[T, error]) (_ iter.Seq2[T, error], err error) {
	f, err := os.CreateTemp(m.dir, m.name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w, err := parquetio.NewWriter[T](f, m.options)
	if err != nil {
		return nil, err
	}
	for row, err := range mergeSorted(streams, m.id) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = w.Write([]T{row})
		}
		if err != nil {
			return nil, err
		}
	}
	return localRows[T](f.Name()), w.Close()
}

// localRows streams the rows of a file on this disk.
func localRows[T any](path string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		f, err := os.Open(path)
		if err != nil {
			yield(none, err)
			return
		}
		defer f.Close()
		var r *parquetio.Reader[T]
		info, err := f.Stat()
		if err == nil {
			r, err = parquetio.Open[T](f, info.Size())
		}
		if err != nil {
			yield(none, fmt.Errorf("read %s: %w", path, err))
			return
		}
		r.All()(yield)
	}
}

// mergeSorted merges streams that are sorted by id into one. It ends at the
// first error.
func mergeSorted[T any](streams []iter.Seq2[T, error], id func(*T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		h := streamHeap[T]{id: id}
		for _, stream := range streams {
			next, stop := iter.Pull2(stream)
			defer stop()
			row, err, ok := next()
			if err != nil {
				yield(row, err)
				return
			}
			if ok {
				h.heads = append(h.heads, &streamHead[T]{row, next})
			}
		}
		heap.Init(&h)
		for len(h.heads) > 0 {
			head := h.heads[0]
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

type streamHead[T any] struct {
	row  T
	next func() (T, error, bool)
}

// A streamHeap orders streams by the id of their next row.
type streamHeap[T any] struct {
	heads []*streamHead[T]
	id    func(*T) string
}

func (h *streamHeap[T]) Len() int           { return len(h.heads) }
func (h *streamHeap[T]) Less(i, j int) bool { return h.id(&h.heads[i].row) < h.id(&h.heads[j].row) }
func (h *streamHeap[T]) Swap(i, j int)      { h.heads[i], h.heads[j] = h.heads[j], h.heads[i] }
func (h *streamHeap[T]) Push(x any)         { h.heads = append(h.heads, x.(*streamHead[T])) }
func (h *streamHeap[T]) Pop() any {
	last := h.heads[len(h.heads)-1]
	h.heads = h.heads[:len(h.heads)-1]
	return last
}
