package parquetio

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"unsafe"

	"github.com/parquet-go/parquet-go"
)

// A columnReader stores the values of one column in rows. What is in a page is
// untrusted: an index that is out of range panics, for the caller's guard.
type columnReader struct {
	*assembledColumn
	pages parquet.Pages
	page  parquet.Page // nil between pages

	repeat, define []byte // levels of the page; nil where there are none
	entry, entries int    // the next one, and how many the page has
	value, values  int    // the next value, and how many: entries that are there alone count

	// The values of the page, by their type.
	bytes   []byte
	offsets []uint32
	bits    []byte
	int32s  []int32
	int64s  []int64
	floats  []float32
	doubles []float64

	// Of a page of indexes: they, and what they stand for.
	index      []int32
	dictionary parquet.Dictionary
	words      []string

	strings slab[string]
	blobs   slab[[]byte]
	bools   slab[bool]
	i32s    slab[int32]
	i64s    slab[int64]
	f32s    slab[float32]
	f64s    slab[float64]
}

// A slab makes room for values that rows point to, a few at a time: one by one
// costs more than reading them, and many at once would be kept by a single row
// that somebody keeps.
type slab[T any] struct{ left []T }

const slabValues = 32

func (s *slab[T]) next() *T {
	if len(s.left) == 0 {
		s.left = make([]T, slabValues)
	}
	p := &s.left[0]
	s.left = s.left[1:]
	return p
}

// more reports whether there is an entry, and makes its page the current one.
func (c *columnReader) more() (bool, error) {
	for c.entry == c.entries {
		if c.page != nil && c.value != c.values {
			return false, fmt.Errorf("%w: a page of %d values has levels for %d", ErrDamaged, c.values, c.value)
		}
		c.release()
		page, err := c.pages.ReadPage()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		if err != nil {
			return false, damaged(err)
		}
		if err := c.begin(page); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (c *columnReader) release() {
	if c.page != nil {
		parquet.Release(c.page)
	}
	c.page, c.entry, c.entries, c.value, c.values = nil, 0, 0, 0, 0
}

func (c *columnReader) begin(page parquet.Page) error {
	c.page, c.entries = page, int(page.NumValues())
	c.repeat, c.define = page.RepetitionLevels(), page.DefinitionLevels()
	if c.entries > 0 && len(c.repeat) > 0 && c.repeat[0] != 0 {
		return fmt.Errorf("%w: a page begins inside of a row", ErrDamaged)
	}
	if (c.repeat != nil && len(c.repeat) != c.entries) || (c.define != nil && len(c.define) != c.entries) {
		return fmt.Errorf("%w: a page has other levels than values", ErrDamaged)
	}
	c.index = nil
	values := page.Data()
	if d := page.Dictionary(); d != nil {
		c.index = values.Int32()
		c.values = len(c.index)
		return c.expand(d)
	}
	switch c.kind.kind {
	case reflect.String, reflect.Slice:
		c.bytes, c.offsets = values.ByteArray()
		c.values = max(0, len(c.offsets)-1)
	case reflect.Bool: // in whole bytes, so the page says how many
		c.bits, c.values = values.Boolean(), int(page.NumValues()-page.NumNulls())
	case reflect.Int32:
		c.int32s = values.Int32()
		c.values = len(c.int32s)
	case reflect.Int64:
		c.int64s = values.Int64()
		c.values = len(c.int64s)
	case reflect.Float32:
		c.floats = values.Float()
		c.values = len(c.floats)
	case reflect.Float64:
		c.doubles = values.Double()
		c.values = len(c.doubles)
	}
	return nil
}

// expand reads the dictionary of the chunk once.
func (c *columnReader) expand(d parquet.Dictionary) error {
	if c.kind.kind != reflect.String {
		return fmt.Errorf("%w: a dictionary where none is written", ErrDamaged)
	}
	if c.dictionary == d {
		return nil
	}
	c.dictionary, c.words = d, make([]string, d.Len())
	for i := range c.words {
		c.words[i] = string(d.Index(int32(i)).ByteArray())
	}
	return nil
}

// read stores the column's part of n rows of size bytes.
func (c *columnReader) read(rows unsafe.Pointer, n int, size uintptr) error {
	for done := 0; done < n; {
		more, err := c.more()
		switch {
		case err != nil:
			return err
		case !more:
			return fmt.Errorf("%w: it ends after %d rows of %d", ErrDamaged, done, n)
		}
		at := unsafe.Add(rows, uintptr(done)*size)
		if c.repeat == nil {
			m := min(n-done, c.entries-c.entry)
			c.flat(at, m, size)
			done += m
			continue
		}
		m, err := c.nested(at, n-done, size)
		if err != nil {
			return err
		}
		done += m
	}
	return nil
}

// flat stores n entries, one in each row.
func (c *columnReader) flat(row unsafe.Pointer, n int, size uintptr) {
	for i := range n {
		at, ok := unsafe.Add(row, uintptr(i)*size), true
		level := c.level(c.entry)
		for i := range c.steps {
			if at, ok = c.steps[i].follow(at, level); !ok {
				break
			}
		}
		if ok && level >= c.assembledColumn.define {
			c.store(unsafe.Add(at, c.offset))
		}
		c.entry++
	}
}

// level is the definition level of an entry; a column that nothing makes
// optional has values alone.
func (c *columnReader) level(entry int) int {
	if c.define == nil {
		return c.assembledColumn.define
	}
	return int(c.define[entry])
}

// follow goes through a pointer, which it sets where the level says that
// something is there.
func (s *step) follow(at unsafe.Pointer, level int) (unsafe.Pointer, bool) {
	if level < s.define {
		return nil, false
	}
	p := (*unsafe.Pointer)(unsafe.Add(at, s.offset))
	if *p == nil {
		*p = reflect.New(s.typ).UnsafePointer()
	}
	return *p, true
}

const (
	maxLists     = 8         // how deep lists may lie in lists
	maxListBytes = 512 << 20 // of the elements of one list; a row has several
)

// nested stores up to n rows of a column in lists, as far as the page goes.
func (c *columnReader) nested(row unsafe.Pointer, n int, size uintptr) (rows int, err error) {
	var index [maxLists + 1]int // of the element, by repetition level
	for ; rows < n && c.entry < c.entries; rows++ {
		at := unsafe.Add(row, uintptr(rows)*size)
		for first := true; c.entry < c.entries && (first || c.repeat[c.entry] != 0); first = false {
			r := int(c.repeat[c.entry])
			if r > 0 {
				index[r]++
			}
			clear(index[r+1:])
			if err := c.place(at, &index); err != nil {
				return rows, err
			}
			c.entry++
		}
		clear(index[:])
	}
	return rows, nil
}

// place stores the current entry in a row.
func (c *columnReader) place(at unsafe.Pointer, index *[maxLists + 1]int) error {
	level := int(c.define[c.entry])
	for i := range c.steps {
		s := &c.steps[i]
		if s.repeat == 0 {
			var ok bool
			if at, ok = s.follow(at, level); !ok {
				return nil
			}
			continue
		}
		if level < s.define {
			return nil // a list that is null
		}
		list := (*sliceHeader)(unsafe.Add(at, s.offset))
		k := index[s.repeat]
		if k == 0 {
			n := 0
			if level > s.define {
				n = c.elements(s.repeat)
			}
			if uintptr(n)*s.size > maxListBytes {
				return fmt.Errorf("%w: a list of %d elements", ErrDamaged, n)
			}
			if list.data == nil {
				*list = sliceHeader{reflect.MakeSlice(s.typ, n, n).UnsafePointer(), n, n}
			}
			if list.len != n {
				return errLists
			}
		}
		if level == s.define {
			return nil // an empty list
		}
		if k >= list.len {
			return errLists
		}
		at = unsafe.Add(list.data, uintptr(k)*s.size)
	}
	if level >= c.assembledColumn.define {
		c.store(unsafe.Add(at, c.offset))
	}
	return nil
}

var errLists = fmt.Errorf("%w: columns of one list differ in length", ErrDamaged)

// sliceHeader is how a slice lies in memory, whatever its elements are.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}

// elements counts the elements of the list that the current entry begins.
func (c *columnReader) elements(repeat int) int {
	n := 1
	for _, r := range c.repeat[c.entry+1 : c.entries] {
		switch {
		case int(r) < repeat:
			return n
		case int(r) == repeat:
			n++
		}
	}
	return n
}

// store puts the next value at dst.
func (c *columnReader) store(dst unsafe.Pointer) {
	i := c.value
	c.value++
	switch c.kind.kind {
	case reflect.String:
		put(dst, c.text(i), c.kind.pointer, &c.strings)
	case reflect.Slice:
		put(dst, append([]byte{}, c.bytes[c.offsets[i]:c.offsets[i+1]]...), c.kind.pointer, &c.blobs)
	case reflect.Bool:
		put(dst, c.bits[i>>3]>>(i&7)&1 == 1, c.kind.pointer, &c.bools)
	case reflect.Int32:
		put(dst, c.int32s[i], c.kind.pointer, &c.i32s)
	case reflect.Int64:
		put(dst, c.int64s[i], c.kind.pointer, &c.i64s)
	case reflect.Float32:
		put(dst, c.floats[i], c.kind.pointer, &c.f32s)
	case reflect.Float64:
		put(dst, c.doubles[i], c.kind.pointer, &c.f64s)
	}
}

func put[T any](dst unsafe.Pointer, v T, pointer bool, s *slab[T]) {
	if !pointer {
		*(*T)(dst) = v
		return
	}
	p := s.next()
	*p = v
	*(**T)(dst) = p
}

// text is a value that does not outlive its page, copied; words of a dictionary
// are shared.
func (c *columnReader) text(i int) string {
	if c.index != nil {
		return c.words[c.index[i]]
	}
	return string(c.bytes[c.offsets[i]:c.offsets[i+1]])
}

func (c *columnReader) close() error {
	c.release()
	return c.pages.Close()
}
