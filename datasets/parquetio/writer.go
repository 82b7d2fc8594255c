package parquetio

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"github.com/parquet-go/parquet-go"

	"github.com/stillhouse-data/stillhouse/internal/pagezstd"
)

const (
	// createdBy is in every file. It names no version of a library or of this
	// program, because equal rows give equal bytes.
	createdBy = "stillhouse version " + SchemaVersion + " (build parquetio)"

	// dictionaryBytes bounds a dictionary. Enums stay far below it; a column
	// that a hostile endpoint fills turns to plain pages.
	dictionaryBytes = 256 << 10

	bloomBits = 10 // per value: about 1 % false positives

	// pageBytes is about how large a page of values becomes, raw. Compression
	// looks no further back than its page: pages of the library's 256 KiB take
	// 6 % more room in text, which pages of 1 MiB, as other writers make them,
	// do not.
	pageBytes = 1 << 20
)

// ids are the columns that people look rows up by: they get a bloom filter and
// keep their bounds.
var ids = map[string]bool{"sample_id": true, "task_id": true, "prompt_id": true, "ask_id": true}

// A Writer writes rows of T to one file. It is for one goroutine. After an
// error it only returns that error again.
type Writer[T any] struct {
	out     *countingWriter
	file    *parquet.GenericWriter[T]
	walk    walk
	options Options
	order   func(*T) string // the column of SortedBy, nil without one
	last    string

	rows, groupRows int64
	groupBytes      int64
	err             error
	closed          bool
}

// NewWriter starts a file of rows of T on w, which it does not close.
func NewWriter[T any](w io.Writer, options Options) (*Writer[T], error) {
	t := reflect.TypeFor[T]()
	if options.RowGroupRows <= 0 {
		options.RowGroupRows = DefaultRowGroupRows
	}
	if options.RowGroupBytes <= 0 {
		options.RowGroupBytes = DefaultRowGroupBytes
	}
	out := &countingWriter{w: w, sum: sha256.New()}
	pw := &Writer[T]{out: out, walk: walkOf(t), options: options}

	config, err := writerOptions[T](options)
	if err != nil {
		return nil, err
	}
	if by := options.SortedBy; by != "" {
		if pw.order, err = stringColumn[T](by); err != nil {
			return nil, err
		}
	}
	defer guard(&err)
	pw.file = parquet.NewGenericWriter[T](out, config...)
	return pw, err
}

func writerOptions[T any](options Options) ([]parquet.WriterOption, error) {
	schema := schemaOf[T]()
	features, err := featuresKey(schema, reflect.TypeFor[T]())
	if err != nil {
		return nil, fmt.Errorf("declare the features of %s: %w", schema.Name(), err)
	}
	codec := pagezstd.Default
	if options.Passing {
		codec = pagezstd.Fastest
	}
	config := []parquet.WriterOption{
		schema,
		&parquet.WriterConfig{CreatedBy: createdBy},
		parquet.Compression(codec),
		parquet.DataPageVersion(2),
		parquet.PageBufferSize(pageBytes),
		parquet.DataPageStatistics(true),
		parquet.DictionaryMaxBytes(dictionaryBytes),
		parquet.KeyValueMetadata(KeySchema, SchemaVersion),
		parquet.KeyValueMetadata(KeyFingerprint, Fingerprint[T]()),
		parquet.KeyValueMetadata(KeyFeatures, features),
	}
	for key, value := range options.Metadata {
		config = append(config, parquet.KeyValueMetadata(key, value))
	}
	if options.SortedBy != "" {
		config = append(config, parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending(options.SortedBy))))
	}
	var blooms []parquet.BloomFilterColumn
	for _, path := range schema.Columns() {
		leaf, _ := schema.Lookup(path...)
		switch {
		case len(path) == 1 && ids[path[0]]:
			blooms = append(blooms, parquet.SplitBlockFilter(bloomBits, path...))
		case isText(path, leaf.Node):
			// Both are needed: either alone still writes whole values, 4 MB
			// of reasoning twice for each page and again in the footer.
			config = append(config, parquet.SkipPageStatistics(path...), parquet.SkipPageBounds(path...))
		}
	}
	return append(config, parquet.BloomFilters(blooms...)), nil
}

// isText reports whether a column holds text that nobody compares: all but
// the enums at the top level, and of those not the JSON texts.
func isText(path []string, n parquet.Node) bool {
	if n.Type().Kind() != parquet.ByteArray && n.Type().Kind() != parquet.FixedLenByteArray {
		return false
	}
	enum := n.Encoding() != nil && n.Encoding().Encoding() == parquet.RLEDictionary.Encoding()
	return !enum || len(path) > 1 || strings.HasPrefix(path[0], "params_")
}

// stringColumn returns the access to a top-level string column of T.
func stringColumn[T any](name string) (func(*T) string, error) {
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		f := t.Field(i)
		column, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		if column == name && f.Type.Kind() == reflect.String {
			return func(row *T) string { return *(*string)(unsafe.Add(unsafe.Pointer(row), f.Offset)) }, nil
		}
	}
	return nil, fmt.Errorf("%w: %s has no string column %q to be sorted by", ErrSchema, t, name)
}

// Write appends rows. It keeps none of the slice.
func (w *Writer[T]) Write(rows []T) (err error) {
	if w.err != nil {
		return w.err
	}
	defer func() {
		if err != nil {
			w.err = err
		}
	}()
	defer guard(&err)
	for i := range rows {
		if err := w.write(rows[i : i+1 : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// write appends one row, given as a slice of one. Rows go to the encoder one
// by one: it looks at the size of its pages after each call, so the pages
// would otherwise depend on how the caller cut the rows.
func (w *Writer[T]) write(row []T) error {
	if err := w.checkOrder(&row[0]); err != nil {
		return err
	}
	var size int64
	if !w.walk(unsafe.Pointer(&row[0]), &size) {
		row = []T{sanitised(reflect.ValueOf(row[0])).Interface().(T)}
	}
	if w.groupRows > 0 && (w.groupRows >= int64(w.options.RowGroupRows) || w.groupBytes+size > w.options.RowGroupBytes) {
		if err := w.endGroup(); err != nil {
			return err
		}
	}
	n, err := w.file.Write(row)
	if err == nil && n != 1 {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write row %d: %w", w.rows, err)
	}
	w.groupRows++
	w.groupBytes += size
	w.rows++
	return nil
}

func (w *Writer[T]) checkOrder(row *T) error {
	if w.order == nil {
		return nil
	}
	at := w.order(row)
	if at < w.last {
		return fmt.Errorf("%w: row %d has %s %q after %q; sort the rows or leave Options.SortedBy empty",
			ErrUnsorted, w.rows, w.options.SortedBy, at, w.last)
	}
	w.last = at
	return nil
}

func (w *Writer[T]) endGroup() error {
	if err := w.file.Flush(); err != nil {
		return fmt.Errorf("end the row group at row %d: %w", w.rows, err)
	}
	w.groupRows, w.groupBytes = 0, 0
	return nil
}

// Close ends the file: the last row group and the footer. It checks the
// library's count of rows against its own.
func (w *Writer[T]) Close() (err error) {
	if w.closed || w.err != nil {
		return w.err
	}
	defer func() { w.closed, w.err = true, err }()
	defer guard(&err)
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("write the footer: %w", err)
	}
	if n := w.file.File().NumRows(); n != w.rows {
		return fmt.Errorf("%w: %d rows were written and the footer counts %d", ErrDamaged, w.rows, n)
	}
	return nil
}

// Rows counts the rows that Write took.
func (w *Writer[T]) Rows() int64 { return w.rows }

// Bytes is the size of the file, once it is closed.
func (w *Writer[T]) Bytes() int64 { return w.out.n }

// SHA256 is the hex digest of the file, once it is closed.
func (w *Writer[T]) SHA256() string { return hex.EncodeToString(w.out.sum.Sum(nil)) }

type countingWriter struct {
	w   io.Writer
	n   int64
	sum hash.Hash
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.sum.Write(p[:n])
	return n, err
}

// Sorted sorts rows by key, ascending by bytes, and keeps the order of equal
// keys.
func Sorted[T any](rows []T, key func(*T) string) {
	slices.SortStableFunc(rows, func(a, b T) int { return strings.Compare(key(&a), key(&b)) })
}
