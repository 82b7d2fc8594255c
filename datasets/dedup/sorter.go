package dedup

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
)

// A record is what is sorted: four numbers, compared in order.
type record [4]uint64

const recordBytes = 32

func compareRecords(a, b record) int {
	return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]), cmp.Compare(a[2], b[2]), cmp.Compare(a[3], b[3]))
}

// fanIn is how many runs are merged at once.
const fanIn = 64

// A sorter sorts records, on disk where they are more than fit its memory.
type sorter struct {
	dir  string
	most int // records in memory
	held []record
	runs []*os.File
}

// newSorter sorts with about memory bytes and temporary files in dir.
func newSorter(dir string, memory int) *sorter {
	return &sorter{dir: dir, most: max(memory/recordBytes, 256)}
}

func (s *sorter) add(r record) error {
	if len(s.held) == s.most {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.held = append(s.held, r)
	return nil
}

func (s *sorter) spill() error {
	slices.SortFunc(s.held, compareRecords)
	err := s.write(slices.Values(s.held))
	s.held = s.held[:0]
	if err != nil || len(s.runs) < fanIn {
		return err
	}
	return s.join()
}

// join makes one run of all.
func (s *sorter) join() (err error) {
	runs := s.runs
	s.runs = nil
	defer func() { err = errors.Join(err, removeFiles(runs)) }()
	var failed error
	if err := s.write(func(yield func(record) bool) {
		for r, err := range mergeRuns(runs) {
			if failed = err; err != nil || !yield(r) {
				return
			}
		}
	}); err != nil {
		return err
	}
	return failed
}

// write makes a run of sorted records.
func (s *sorter) write(sorted iter.Seq[record]) error {
	f, err := os.CreateTemp(s.dir, "sort-*")
	if err != nil {
		return fmt.Errorf("near duplicates: sort on disk: %w", err)
	}
	s.runs = append(s.runs, f)
	out := bufio.NewWriterSize(f, 1<<18)
	var b [recordBytes]byte
	for r := range sorted {
		for i, v := range r {
			binary.LittleEndian.PutUint64(b[8*i:], v)
		}
		if _, err := out.Write(b[:]); err != nil {
			return fmt.Errorf("near duplicates: sort on disk: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("near duplicates: sort on disk: %w", err)
	}
	return nil
}

// sorted gives every record in order, once. It may be called once.
func (s *sorter) sorted() iter.Seq2[record, error] {
	slices.SortFunc(s.held, compareRecords)
	if len(s.runs) == 0 {
		return func(yield func(record, error) bool) {
			for _, r := range s.held {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
	if len(s.held) > 0 {
		if err := s.write(slices.Values(s.held)); err != nil {
			return func(yield func(record, error) bool) { yield(record{}, err) }
		}
		s.held = nil
	}
	return mergeRuns(s.runs)
}

// close removes what is on disk.
func (s *sorter) close() error {
	runs := s.runs
	s.held, s.runs = nil, nil
	return removeFiles(runs)
}

func removeFiles(files []*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close(), os.Remove(f.Name()))
	}
	return errors.Join(errs...)
}

// mergeRuns reads runs from their beginnings as one.
func mergeRuns(runs []*os.File) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		streams := make([]*recordReader, len(runs))
		for i, f := range runs {
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				yield(record{}, fmt.Errorf("near duplicates: sort on disk: %w", err))
				return
			}
			streams[i] = newRecordReader(f)
		}
		mergeReaders(streams)(yield)
	}
}

// mergeReaders gives the records of sorted streams in order. It ends at the
// first error.
func mergeReaders(streams []*recordReader) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		var h readerHeap
		for _, s := range streams {
			switch ok, err := s.next(); {
			case err != nil:
				yield(record{}, err)
				return
			case ok:
				h = append(h, s)
			}
		}
		heap.Init(&h)
		for len(h) > 0 {
			if !yield(h[0].head, nil) {
				return
			}
			ok, err := h[0].next()
			switch {
			case err != nil:
				yield(record{}, err)
				return
			case ok:
				heap.Fix(&h, 0)
			default:
				heap.Pop(&h)
			}
		}
	}
}

// A recordReader reads records one after the other.
type recordReader struct {
	in   *bufio.Reader
	head record
}

func newRecordReader(r io.Reader) *recordReader {
	return &recordReader{in: bufio.NewReaderSize(r, 1<<16)}
}

// next moves head to the next record; false at the end.
func (s *recordReader) next() (bool, error) {
	var b [recordBytes]byte
	if _, err := io.ReadFull(s.in, b[:]); errors.Is(err, io.EOF) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("near duplicates: read sorted pairs: %w", err)
	}
	for i := range s.head {
		s.head[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return true, nil
}

type readerHeap []*recordReader

func (h readerHeap) Len() int           { return len(h) }
func (h readerHeap) Less(i, j int) bool { return compareRecords(h[i].head, h[j].head) < 0 }
func (h readerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *readerHeap) Push(x any)        { *h = append(*h, x.(*recordReader)) }
func (h *readerHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
