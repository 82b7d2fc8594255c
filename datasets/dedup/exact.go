package dedup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// Exact finds exact duplicates by their keys, in bounded memory.
type Exact struct {
	dir    string
	memory int
	keys   *sorter
}

// NewExact begins to look for exact duplicates with about memory bytes (0: the
// default) and temporary files in dir.
func NewExact(dir string, memory int) *Exact {
	if memory == 0 {
		memory = DefaultMemory
	}
	return &Exact{dir: dir, memory: memory, keys: newSorter(dir, memory/2)}
}

// Add takes the key of a document. Order is its own number; of equal documents
// that of the lowest is kept.
func (e *Exact) Add(key Key, order uint64) error {
	return e.keys.add(record{binary.BigEndian.Uint64(key[:8]), binary.BigEndian.Uint64(key[8:]), order})
}

// Find gives every document that equals an earlier one, by order, with the
// first of its equals. It may be called once.
func (e *Exact) Find(ctx context.Context, found func(order, of uint64) error) (err error) {
	copies := newSorter(e.dir, e.memory/2)
	defer func() { err = errors.Join(err, copies.close()) }()
	var first record
	n := 0
	for r, err := range e.keys.sorted() {
		if err == nil && n&4095 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if n++; n == 1 || r[0] != first[0] || r[1] != first[1] {
			first = r
			continue
		}
		if r[2] == first[2] {
			return fmt.Errorf("exact duplicates: two documents have the order %d; each needs its own", r[2])
		}
		if err := copies.add(record{r[2], first[2]}); err != nil {
			return err
		}
	}
	for r, err := range copies.sorted() {
		if err != nil {
			return err
		}
		if err := found(r[0], r[1]); err != nil {
			return err
		}
	}
	return nil
}

// Close removes what is on disk.
func (e *Exact) Close() error { return e.keys.close() }
