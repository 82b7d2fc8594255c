package activities

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// sightings tell which links occur in more than one row. The first are counted
// exactly; from then on memory does not grow: two bits for each of
// sightingPlaces. Where two links share a place one may be taken for shared that
// is not; its tasks are then ordered for nothing.
type sightings struct {
	exact map[uint64]bool // whether it was seen twice
	bits  []uint64
}

const (
	// exactSightings is how many links are counted exactly.
	exactSightings = 1 << 17
	// sightingPlaces is how many are told apart beyond: 16 MiB, for ten million
	// rows with an error of one in seven.
	sightingPlaces = 1 << 26
)

// note takes down that a row has the link.
func (s *sightings) note(link uint64) {
	if s.bits != nil {
		s.mark(link)
		return
	}
	if s.exact == nil {
		s.exact = map[uint64]bool{}
	}
	_, again := s.exact[link]
	s.exact[link] = again
	if len(s.exact) < exactSightings {
		return
	}
	s.bits = make([]uint64, sightingPlaces/32)
	for link, again := range s.exact {
		if s.mark(link); again {
			s.mark(link)
		}
	}
	s.exact = nil
}

func (s *sightings) mark(link uint64) {
	at := link % sightingPlaces
	word, shift := &s.bits[at/32], 2*(at%32)
	switch *word >> shift & 3 {
	case 0:
		*word |= 1 << shift
	case 1:
		*word |= 2 << shift
	}
}

// shared tells whether more than one row has the link.
func (s *sightings) shared(link uint64) bool {
	if s.bits == nil {
		return s.exact[link]
	}
	at := link % sightingPlaces
	return s.bits[at/32]>>(2*(at%32))&2 != 0
}

// noteLinks takes down what the prompt of a row may share with others.
func (p *planner) noteLinks(item *sources.Item) {
	if item.Group != "" {
		p.links.note(groupLink(item.Group))
	}
	if links := prefixChain(&item.Prompt); len(links) > 0 {
		p.links.note(links[0])
	}
}

// sharedOf says how much each task has in common with the one before it.
func sharedOf(keys []string) []byte {
	if len(keys) == 0 {
		return nil
	}
	out := make([]byte, len(keys))
	for i := 1; i < len(keys); i++ {
		out[i] = sharedLinks(keys[i-1], keys[i])
	}
	return out
}

// orderKey is the place of a task among those that it shares a group or a long
// beginning with; "" where it shares neither.
func (p *planner) orderKey(t *datasets.Task) string {
	links := taskChain(t)
	if t.Group != "" && !p.links.shared(links[0]) {
		links = links[1:]
	}
	if len(links) == 0 || t.Group == "" && !p.links.shared(links[0]) {
		return ""
	}
	return links.key()
}

// A keyedTask is a task with its order key.
type keyedTask struct {
	Key  string        `json:"k"`
	Task datasets.Task `json:"t"`
}

func compareKeyed(a, b *keyedTask) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Task.TaskID, b.Task.TaskID))
}

// sortFanIn is how many sorted files are read at once.
const sortFanIn = 64

// A taskSorter sorts tasks by their keys: in memory while they are few, and
// from then on in sorted files that are merged.
type taskSorter struct {
	dir   string
	most  int64 // bytes in memory, before they go to disk
	held  int64
	items []keyedTask
	runs  []string
	made  int
}

func (s *taskSorter) add(key string, t datasets.Task) error {
	s.items = append(s.items, keyedTask{key, t})
	if s.held += taskBytes(&t) + int64(len(key)); s.held <= s.most {
		return nil
	}
	return s.spill()
}

// spill writes what is in memory to a sorted file.
func (s *taskSorter) spill() error {
	if len(s.items) == 0 {
		return nil
	}
	slices.SortFunc(s.items, func(a, b keyedTask) int { return compareKeyed(&a, &b) })
	err := s.write(func(yield func(*keyedTask, error) bool) {
		for i := range s.items {
			if !yield(&s.items[i], nil) {
				return
			}
		}
	})
	s.items, s.held = nil, 0
	return err
}

// write makes one more sorted file.
func (s *taskSorter) write(items iter.Seq2[*keyedTask, error]) (err error) {
	path := filepath.Join(s.dir, fmt.Sprintf("grouped-%06d", s.made))
	s.made++
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("sort the tasks on disk: %w", err)
	}
	s.runs = append(s.runs, path)
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriterSize(f, 1<<18)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for item, err := range items {
		if err == nil {
			err = enc.Encode(item)
		}
		if err != nil {
			return fmt.Errorf("sort the tasks on disk: %w", err)
		}
	}
	return out.Flush()
}

// sorted yields the tasks in the order of their keys, once.
func (s *taskSorter) sorted() (iter.Seq2[*keyedTask, error], error) {
	if len(s.runs) == 0 {
		slices.SortFunc(s.items, func(a, b keyedTask) int { return compareKeyed(&a, &b) })
		return func(yield func(*keyedTask, error) bool) {
			for i := range s.items {
				if !yield(&s.items[i], nil) {
					return
				}
				s.items[i] = keyedTask{} // its shard has it now
			}
		}, nil
	}
	if err := s.spill(); err != nil {
		return nil, err
	}
	for len(s.runs) > sortFanIn {
		first := s.runs[:sortFanIn]
		s.runs = s.runs[sortFanIn:]
		if err := s.write(mergeRuns(first)); err != nil {
			return nil, err
		}
		for _, path := range first {
			_ = os.Remove(path)
		}
	}
	return mergeRuns(s.runs), nil
}

func (s *taskSorter) close() {
	for _, path := range s.runs {
		_ = os.Remove(path)
	}
	s.items, s.runs = nil, nil
}

// mergeRuns reads sorted files as one.
func mergeRuns(paths []string) iter.Seq2[*keyedTask, error] {
	return func(yield func(*keyedTask, error) bool) {
		var h runHeap
		defer func() {
			for _, r := range h {
				_ = r.file.Close()
			}
		}()
		for _, path := range paths {
			f, err := os.Open(path)
			if err != nil {
				yield(nil, fmt.Errorf("read back sorted tasks: %w", err))
				return
			}
			r := &sortedRun{file: f, dec: json.NewDecoder(bufio.NewReaderSize(f, 1<<16))}
			h = append(h, r)
			if err := r.next(); err != nil {
				yield(nil, err)
				return
			}
		}
		heap.Init(&h)
		for len(h) > 0 {
			r := h[0]
			if r.head == nil {
				_ = r.file.Close()
				heap.Pop(&h)
				continue
			}
			if !yield(r.head, nil) {
				return
			}
			if err := r.next(); err != nil {
				yield(nil, err)
				return
			}
			heap.Fix(&h, 0)
		}
	}
}

// A sortedRun is one sorted file being read.
type sortedRun struct {
	file *os.File
	dec  *json.Decoder
	head *keyedTask // nil at the end
}

func (r *sortedRun) next() error {
	var item keyedTask
	switch err := r.dec.Decode(&item); {
	case errors.Is(err, io.EOF):
		r.head = nil
	case err != nil:
		return fmt.Errorf("read back sorted tasks: %w", err)
	default:
		r.head = &item
	}
	return nil
}

// runHeap orders runs by their next task; those at their end come first.
type runHeap []*sortedRun

func (h runHeap) Len() int { return len(h) }
func (h runHeap) Less(i, j int) bool {
	if h[i].head == nil || h[j].head == nil {
		return h[i].head == nil && h[j].head != nil
	}
	return compareKeyed(h[i].head, h[j].head) < 0
}
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)   { *h = append(*h, x.(*sortedRun)) }
func (h *runHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	*h = old[:len(old)-1]
	return r
}
