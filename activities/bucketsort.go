package activities

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// bucketRows is how many values a bucketSort holds before they go to disk.
const bucketRows = 100_000

// A bucketSort sorts values by a key of hexadecimal digits that are spread
// evenly: in memory while they are few, and from then on in a file for each
// first byte of the key, of which one is in memory at a time. Values of one key
// keep their order.
type bucketSort[T any] struct {
	dir  string
	name string
	key  func(*T) string
	most int // values in memory

	held  int
	items [256][]T
	files [256]*os.File
}

func newBucketSort[T any](dir, name string, key func(*T) string) *bucketSort[T] {
	return &bucketSort[T]{dir: dir, name: name, key: key, most: bucketRows}
}

func (b *bucketSort[T]) add(v T) error {
	i := hexByte(b.key(&v))
	b.items[i] = append(b.items[i], v)
	if b.held++; b.held <= b.most {
		return nil
	}
	b.held = 0
	for i := range b.items {
		if err := b.spill(i); err != nil {
			return fmt.Errorf("sort on disk: %w", err)
		}
	}
	return nil
}

// spill moves what is in memory of a bucket to the end of its file.
func (b *bucketSort[T]) spill(i int) (err error) {
	if len(b.items[i]) == 0 {
		return nil
	}
	if b.files[i] == nil {
		if b.files[i], err = os.Create(filepath.Join(b.dir, fmt.Sprintf("%s-%02x", b.name, i))); err != nil {
			return err
		}
	}
	out := bufio.NewWriterSize(b.files[i], 1<<16)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for j := range b.items[i] {
		if err := enc.Encode(&b.items[i][j]); err != nil {
			return err
		}
	}
	b.items[i] = nil
	return out.Flush()
}

// sorted yields the values in the order of their keys, once.
func (b *bucketSort[T]) sorted() iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for i := range b.items {
			items, err := b.take(i)
			if err != nil {
				var none T
				yield(none, fmt.Errorf("sort on disk: %w", err))
				return
			}
			for _, v := range items {
				if !yield(v, nil) {
					return
				}
			}
		}
	}
}

func (b *bucketSort[T]) take(i int) ([]T, error) {
	items := b.items[i]
	b.items[i] = nil
	if f := b.files[i]; f != nil {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		var onDisk []T
		dec := json.NewDecoder(bufio.NewReaderSize(f, 1<<16))
		for {
			var v T
			if err := dec.Decode(&v); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			onDisk = append(onDisk, v)
		}
		items = append(onDisk, items...)
	}
	slices.SortStableFunc(items, func(a, c T) int { return strings.Compare(b.key(&a), b.key(&c)) })
	return items, nil
}

// close removes what is on the disk.
func (b *bucketSort[T]) close() {
	for _, f := range b.files {
		if f != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}
}
