package parquetio

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"unsafe"

	"github.com/parquet-go/parquet-go"
)

// Bounds of what a reader holds at once, beside the pages it is in.
const (
	batchBytes   = 4 << 20
	maxBatchRows = 256
)

// A Reader reads rows of T from one file. Its methods are safe for concurrent
// use where the io.ReaderAt is; every All is a pass of its own.
type Reader[T any] struct {
	file     *parquet.File
	schema   *parquet.Schema
	assembly *assembly // nil: the library assembles the rows
	trusted  bool
}

// Open reads the footer of a file of size bytes and checks that it holds the
// columns of T: nullable ones may be absent and read as nil, further ones are
// ignored. The error wraps ErrDamaged or ErrSchema, or is the reader's own.
func Open[T any](r io.ReaderAt, size int64) (*Reader[T], error) {
	file, err := openFile(r, size)
	if err != nil {
		return nil, err
	}
	schema := schemaOf[T]()
	if err := checkSchema(schema, file); err != nil {
		return nil, err
	}
	reader := &Reader[T]{file: file, schema: schema}
	if a, ok := assemblyOf(reflect.TypeFor[T](), file); ok {
		reader.assembly = a
	}
	return reader, nil
}

func checkSchema(want *parquet.Schema, file *parquet.File) (err error) {
	defer guard(&err)
	if err := checkFingerprint(file); err != nil {
		return err
	}
	return check(want, file.Root(), "")
}

// checkFingerprint compares a file's columns with what its writer noted of
// them. The footer has no checksum, and a column whose name lost a bit would
// pass for one that an older release did not write.
func checkFingerprint(file *parquet.File) error {
	noted, ok := file.Lookup(KeyFingerprint)
	if !ok {
		return nil
	}
	if got := fingerprintOf(columnsOf(file.Root())); got != noted {
		return fmt.Errorf("%w: its columns (%s) are not those that were written (%s)", ErrDamaged, got, noted)
	}
	return nil
}

// NumRows is the number of rows that the footer counts. All fails unless it
// finds exactly as many.
func (r *Reader[T]) NumRows() int64 { return r.file.NumRows() }

// OpenTrusted is Open for a file whose bytes were held to their digest, or come
// from our own store: All leaves out the walk over the pages that finds damage
// outside of their checksums and pages that expand without bounds, and so need
// not read a row group whole for its first rows.
func OpenTrusted[T any](r io.ReaderAt, size int64) (*Reader[T], error) {
	reader, err := Open[T](r, size)
	if err == nil {
		reader.trusted = true
	}
	return reader, err
}

// All yields the rows in file order. It ends at the first error, which wraps
// ErrDamaged where the file is at fault. The rows are the caller's to keep.
func (r *Reader[T]) All() iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		for i, group := range r.file.RowGroups() {
			more, err := r.readGroup(i, group, yield)
			if err != nil {
				yield(zero, fmt.Errorf("read row group %d: %w", i, err))
				return
			}
			if !more {
				return
			}
		}
	}
}

// readGroup yields the rows of one row group and reports whether the caller
// wants more.
func (r *Reader[T]) readGroup(i int, group parquet.RowGroup, yield func(T, error) bool) (more bool, err error) {
	if !r.trusted {
		if err := checkPages(r.file, i, r.assembly.leaves()); err != nil {
			return false, err
		}
	}
	reader, err := r.openGroup(group)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, closeGroup(reader)) }()
	rows := make([]T, batchRows(r.file, i))
	var seen int64
	for {
		// The rows of the batch before are the caller's, with all that they
		// point to.
		clear(rows)
		n, err := readBatch(reader, rows)
		for i := range n {
			if !yield(rows[i], nil) {
				return false, nil
			}
		}
		seen += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			if seen != group.NumRows() {
				return false, fmt.Errorf("%w: it counts %d rows and holds %d", ErrDamaged, group.NumRows(), seen)
			}
			return true, nil
		case err != nil:
			return false, err
		case n == 0:
			return false, fmt.Errorf("%w: no rows after %d of %d", ErrDamaged, seen, group.NumRows())
		}
	}
}

// A groupReader reads the rows of a row group into zero rows, and gives io.EOF
// after the last.
type groupReader[T any] interface {
	Read(rows []T) (int, error)
	Close() error
}

// An assembledGroup reads a row group of one of our own files.
type assembledGroup[T any] struct {
	*assembler
	left int64
}

func (g *assembledGroup[T]) Read(rows []T) (int, error) {
	if g.left == 0 {
		if err := g.end(); err != nil {
			return 0, err
		}
		return 0, io.EOF
	}
	n := int(min(int64(len(rows)), g.left))
	if err := g.read(unsafe.Pointer(unsafe.SliceData(rows)), n, unsafe.Sizeof(rows[0])); err != nil {
		return 0, err
	}
	g.left -= int64(n)
	return n, nil
}

func (g *assembledGroup[T]) Close() error { return g.close() }

// The library panics on some damage, so each call into it is guarded by
// itself: yield runs the caller's code, whose panics are none of ours.

func (r *Reader[T]) openGroup(group parquet.RowGroup) (g groupReader[T], err error) {
	defer guard(&err)
	if r.assembly != nil {
		return &assembledGroup[T]{r.assembly.open(group), group.NumRows()}, nil
	}
	return parquet.NewGenericRowGroupReader[T](group, r.schema), nil
}

func readBatch[T any](r groupReader[T], rows []T) (n int, err error) {
	defer guard(&err)
	n, err = r.Read(rows)
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return n, io.EOF
	}
	return n, damaged(err)
}

func closeGroup[T any](r groupReader[T]) (err error) {
	defer guard(&err)
	return r.Close()
}

// batchRows is how many rows of a row group are read at once, by the raw size
// that the footer gives them.
func batchRows(file *parquet.File, group int) int {
	g := file.Metadata().RowGroups[group]
	if g.NumRows <= 0 || g.TotalByteSize <= 0 {
		return 1
	}
	return int(max(1, min(maxBatchRows, batchBytes/max(1, g.TotalByteSize/g.NumRows))))
}
