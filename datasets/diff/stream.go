package diff

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

// An unsortedError is a table whose rows are not in the order of their tasks.
type unsortedError struct {
	side  int
	table string
}

func (e *unsortedError) Error() string {
	return "table " + e.table + " is not sorted by task"
}

// A stream gives the rows of one table task by task.
type stream[T any] struct {
	task func(*T) string
	next func() (T, error, bool)
	stop func()
	head *T
	last string
	fail error // of disorder
}

// open reads a table as records. Each of its splits is a run of its own, and
// the runs are merged. Nil where the version has no such table.
func open[S, T any](ctx context.Context, k *comparison, at int, table string, convert func(*S) T, task func(*T) string) *stream[T] {
	s := k.sides[at]
	var splits []string
	for _, f := range s.manifest.TableFiles(table) {
		if !slices.Contains(splits, f.Split) {
			splits = append(splits, f.Split)
		}
	}
	if len(splits) == 0 {
		return nil
	}
	var runs []iter.Seq2[T, error]
	for _, split := range splits {
		m := *s.manifest
		m.Files = nil
		for _, f := range s.manifest.TableFiles(table) {
			if f.Split == split {
				m.Files = append(m.Files, f)
			}
		}
		run := func(yield func(T, error) bool) {
			for row, err := range catalog.ReadTable[S](ctx, k.c, &m, table) {
				var rec T
				if err == nil {
					rec = convert(&row)
				}
				if !yield(rec, err) || err != nil {
					return
				}
			}
		}
		runs = append(runs, run)
	}
	if s.unsorted[table] {
		for i := range runs {
			runs[i] = sorted(runs[i], task, k.opt.TempDir, sortedAtOnce)
		}
	}
	next, stop := iter.Pull2(merged(runs, task))
	return &stream[T]{task: task, next: next, stop: stop, fail: &unsortedError{at, table}}
}

// peek is the task of the next row; ok is false at the end.
func (s *stream[T]) peek() (task string, ok bool, err error) {
	if s == nil {
		return "", false, nil
	}
	if s.head == nil {
		row, err, ok := s.next()
		if err != nil || !ok {
			return "", false, err
		}
		s.head = &row
		task := s.task(s.head)
		if task < s.last {
			return "", false, s.fail
		}
		s.last = task
	}
	return s.task(s.head), true, nil
}

// take gives the rows of a task, none where there are none.
func (s *stream[T]) take(task string) ([]T, error) {
	var rows []T
	for {
		next, ok, err := s.peek()
		if err != nil || !ok || next != task {
			return rows, err
		}
		rows = append(rows, *s.head)
		s.head = nil
	}
}

func (s *stream[T]) close() {
	if s != nil {
		s.stop()
	}
}

// merged joins runs that are sorted by task into one.
func merged[T any](runs []iter.Seq2[T, error], task func(*T) string) iter.Seq2[T, error] {
	if len(runs) == 1 {
		return runs[0]
	}
	return func(yield func(T, error) bool) {
		h := &runHeap[T]{task: task}
		for i, run := range runs {
			next, stop := iter.Pull2(run)
			defer stop()
			row, err, ok := next()
			if err != nil {
				yield(row, err)
				return
			}
			if ok {
				h.runs = append(h.runs, &pulled[T]{row, next, i})
			}
		}
		heap.Init(h)
		for len(h.runs) > 0 {
			first := h.runs[0]
			if !yield(first.row, nil) {
				return
			}
			row, err, ok := first.next()
			switch {
			case err != nil:
				yield(row, err)
				return
			case ok:
				first.row = row
				heap.Fix(h, 0)
			default:
				heap.Pop(h)
			}
		}
	}
}

type pulled[T any] struct {
	row   T
	next  func() (T, error, bool)
	order int
}

type runHeap[T any] struct {
	runs []*pulled[T]
	task func(*T) string
}

func (h *runHeap[T]) Len() int { return len(h.runs) }
func (h *runHeap[T]) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h.task(&h.runs[i].row), h.task(&h.runs[j].row)), cmp.Compare(h.runs[i].order, h.runs[j].order)) < 0
}
func (h *runHeap[T]) Swap(i, j int) { h.runs[i], h.runs[j] = h.runs[j], h.runs[i] }
func (h *runHeap[T]) Push(x any)    { h.runs = append(h.runs, x.(*pulled[T])) }
func (h *runHeap[T]) Pop() any {
	last := h.runs[len(h.runs)-1]
	h.runs = h.runs[:len(h.runs)-1]
	return last
}

// sortedAtOnce is how many records are sorted in memory.
const sortedAtOnce = 50_000

// sorted sorts records by task on disk, most at a time in memory. Records of a
// task keep their order.
func sorted[T any](rows iter.Seq2[T, error], task func(*T) string, dir string, most int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		var runs []iter.Seq2[T, error]
		var files []*os.File
		defer func() {
			for _, f := range files {
				_ = f.Close()
			}
		}()
		var chunk []T
		spill := func() error {
			slices.SortStableFunc(chunk, func(a, b T) int { return cmp.Compare(task(&a), task(&b)) })
			f, err := spilled(dir, chunk)
			if err != nil {
				return fmt.Errorf("sort a table: %w; TMPDIR names the folder", err)
			}
			files, runs, chunk = append(files, f), append(runs, unspilled[T](f)), chunk[:0]
			return nil
		}
		for row, err := range rows {
			if err == nil {
				if chunk = append(chunk, row); len(chunk) == most {
					err = spill()
				}
			}
			if err != nil {
				yield(zero, err)
				return
			}
		}
		if err := spill(); err != nil {
			yield(zero, err)
			return
		}
		for row, err := range merged(runs, task) {
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// spilled writes records to a file that is gone once it is closed.
func spilled[T any](dir string, chunk []T) (*os.File, error) {
	f, err := os.CreateTemp(dir, "stillhouse-diff-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	enc := gob.NewEncoder(f)
	for i := range chunk {
		if err := enc.Encode(&chunk[i]); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func unspilled[T any](f *os.File) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		dec := gob.NewDecoder(f)
		for {
			var row T
			err := dec.Decode(&row)
			if err == io.EOF {
				return
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}
