package activities

import (
	"bufio"
	"cmp"
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/merge"
)

// mixChunk is how many rows of a mixture are sorted in memory at once.
const mixChunk = 1 << 18

// mixBytes is the size of a row on disk.
const mixBytes = 16 + 8 + 4 + 4*merge.MaxCaps

// mixSort sorts the rows of a mixture by their keys: in memory where they are
// few, else in runs on disk that are merged as they are read. 48 bytes a row of
// disk, and memory that does not grow but for the readers of the runs.
type mixSort struct {
	dir   string
	chunk int // rows in memory
	rows  []merge.Row
	file  *os.File
	runs  []int64 // rows of each run
}

func (s *mixSort) add(r merge.Row) error {
	if len(s.rows) == s.chunk {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.rows = append(s.rows, r)
	return nil
}

func (s *mixSort) spill() error {
	s.sort()
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "mix-*.rows")
		if err != nil {
			return fmt.Errorf("mix: %w", err)
		}
		s.file = f
	}
	w := bufio.NewWriterSize(s.file, 1<<20)
	var b [mixBytes]byte
	for i := range s.rows {
		encodeRow(&b, &s.rows[i])
		if _, err := w.Write(b[:]); err != nil {
			return fmt.Errorf("mix: %w", err)
		}
	}
	s.runs = append(s.runs, int64(len(s.rows)))
	s.rows = s.rows[:0]
	if err := w.Flush(); err != nil {
		return fmt.Errorf("mix: %w", err)
	}
	return nil
}

func (s *mixSort) sort() {
	slices.SortFunc(s.rows, func(a, b merge.Row) int { return merge.CompareRows(&a, &b) })
}

// finish ends the adding.
func (s *mixSort) finish() error {
	if s.file == nil {
		s.sort()
		return nil
	}
	if err := s.spill(); err != nil {
		return err
	}
	s.rows = nil
	return nil
}

func (s *mixSort) close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}

// all yields the rows in the order of their keys. It may be called again.
func (s *mixSort) all() iter.Seq2[merge.Row, error] {
	if s.file == nil {
		return func(yield func(merge.Row, error) bool) {
			for _, r := range s.rows {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
	return func(yield func(merge.Row, error) bool) {
		var h mixHeap
		at := int64(0)
		for _, n := range s.runs {
			size := n * mixBytes
			h = append(h, &mixHead{in: bufio.NewReaderSize(io.NewSectionReader(s.file, at, size), 64<<10), left: n})
			at += size
		}
		for _, head := range h {
			if err := head.next(); err != nil {
				yield(merge.Row{}, err)
				return
			}
		}
		heap.Init(&h)
		for len(h) > 0 {
			if !yield(h[0].row, nil) {
				return
			}
			if h[0].left == 0 {
				heap.Pop(&h)
				continue
			}
			if err := h[0].next(); err != nil {
				yield(merge.Row{}, err)
				return
			}
			heap.Fix(&h, 0)
		}
	}
}

// A mixHead is the next row of a sorted run. Every run has one row or more.
type mixHead struct {
	in   *bufio.Reader
	left int64
	row  merge.Row
}

func (r *mixHead) next() error {
	var b [mixBytes]byte
	if _, err := io.ReadFull(r.in, b[:]); err != nil {
		return fmt.Errorf("mix: read the rows back: %w", err)
	}
	decodeRow(&b, &r.row)
	r.left--
	return nil
}

type mixHeap []*mixHead

func (h mixHeap) Len() int           { return len(h) }
func (h mixHeap) Less(i, j int) bool { return merge.CompareRows(&h[i].row, &h[j].row) < 0 }
func (h mixHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *mixHeap) Push(x any)        { *h = append(*h, x.(*mixHead)) }
func (h *mixHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func encodeRow(b *[mixBytes]byte, r *merge.Row) {
	copy(b[:16], r.Key[:])
	binary.LittleEndian.PutUint64(b[16:], uint64(r.Index))
	binary.LittleEndian.PutUint32(b[24:], uint32(r.Kind))
	for i, v := range r.Values {
		binary.LittleEndian.PutUint32(b[28+4*i:], uint32(v))
	}
}

func decodeRow(b *[mixBytes]byte, r *merge.Row) {
	copy(r.Key[:], b[:16])
	r.Index = int64(binary.LittleEndian.Uint64(b[16:]))
	r.Kind = int32(binary.LittleEndian.Uint32(b[24:]))
	for i := range r.Values {
		r.Values[i] = int32(binary.LittleEndian.Uint32(b[28+4*i:]))
	}
}

// mixKey is a row's place in the order in which rows are taken: by the seed and
// by nothing that another build could have otherwise.
func mixKey(seed int64, sampleID string) [16]byte {
	sum := sha256.Sum256([]byte("mix\x00" + strconv.FormatInt(seed, 10) + "\x00" + sampleID))
	return [16]byte(sum[:16])
}

// sourceFile is the file of a place such as file.jsonl:17 or file.parquet#3.
func sourceFile(where string) string {
	if i := strings.LastIndexAny(where, ":#"); i > 0 {
		if _, err := strconv.Atoi(where[i+1:]); err == nil {
			return where[:i]
		}
	}
	return where
}

// numbers gives names numbers, in the order in which they come.
type numbers struct {
	of   map[string]int32
	list []string
	rows []int64
}

// mostKinds bounds the values that shares and caps may be of: domains may come
// from a column of hostile data.
const mostKinds = 100_000

func (n *numbers) add(name, what string) (int32, error) {
	i, ok := n.of[name]
	if !ok {
		if len(n.list) >= mostKinds {
			return 0, badSource("mix: more than %d values of %s; name something with fewer", mostKinds, what)
		}
		name = strings.Clone(name)
		i = int32(len(n.list))
		if n.of == nil {
			n.of = map[string]int32{}
		}
		n.of[name] = i
		n.list, n.rows = append(n.list, name), append(n.rows, 0)
	}
	n.rows[i]++
	return i, nil
}

// rank gives the rows of one prompt their ranks among themselves, in the order
// of their keys, in the place of the capped dimension.
func rank(rows []merge.Row, dimension int) {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(merge.CompareRows(&rows[a], &rows[b]), cmp.Compare(a, b)) })
	for n, i := range order {
		rows[i].Values[dimension] = int32(n)
	}
}
