package parquetio

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// Info is what a file says of itself.
type Info struct {
	Rows        int64
	RowGroups   int
	Columns     []Column
	Fingerprint string // of Columns, derived from the file's own schema
	Metadata    map[string]string
}

// HasColumn reports whether there is a top-level column of that name.
func (i *Info) HasColumn(name string) bool {
	for _, c := range i.Columns {
		if c.Name == name {
			return true
		}
	}
	return false
}

// Inspect reads the footer alone.
func Inspect(r io.ReaderAt, size int64) (*Info, error) {
	file, err := openFile(r, size)
	if err != nil {
		return nil, err
	}
	return inspect(file)
}

func inspect(file *parquet.File) (info *Info, err error) {
	defer guard(&err)
	if err := checkFingerprint(file); err != nil {
		return nil, err
	}
	columns := columnsOf(file.Root())
	info = &Info{
		Rows: file.NumRows(), RowGroups: len(file.RowGroups()),
		Columns: columns, Fingerprint: fingerprintOf(columns),
		Metadata: map[string]string{},
	}
	for _, kv := range file.Metadata().KeyValueMetadata {
		info.Metadata[kv.Key] = kv.Value
	}
	return info, nil
}

// Check reads every page of every column, so that their checksums are tried,
// and counts the rows of each column from its pages. Rows of the result is
// that count, not the footer's. It assembles no rows.
func Check(r io.ReaderAt, size int64) (*Info, error) {
	file, err := openFile(r, size)
	if err != nil {
		return nil, err
	}
	info, err := inspect(file)
	if err != nil {
		return nil, err
	}
	info.Rows = 0
	for i, group := range file.RowGroups() {
		if err := checkPages(file, i, nil); err != nil {
			return nil, fmt.Errorf("read row group %d: %w", i, err)
		}
		for j, chunk := range group.ColumnChunks() {
			n, err := pageRows(chunk)
			if err != nil {
				return nil, fmt.Errorf("read row group %d, column %d: %w", i, j, err)
			}
			if n != group.NumRows() {
				return nil, fmt.Errorf("%w: row group %d counts %d rows, its column %d holds %d", ErrDamaged, i, group.NumRows(), j, n)
			}
		}
		info.Rows += group.NumRows()
	}
	return info, nil
}

func pageRows(chunk parquet.ColumnChunk) (rows int64, err error) {
	defer guard(&err)
	pages := chunk.Pages()
	defer func() { err = errors.Join(err, pages.Close()) }()
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return rows, nil
		}
		if err != nil {
			return rows, damaged(err)
		}
		rows += page.NumRows()
		parquet.Release(page)
	}
}

// Count counts the rows by the value of one top-level string column, reading
// that column alone.
func Count(r io.ReaderAt, size int64, column string) (map[string]int64, error) {
	file, err := openFile(r, size)
	if err != nil {
		return nil, err
	}
	counts := map[string]int64{}
	leaf, ok := file.Schema().Lookup(column)
	if !ok || !leaf.Node.Leaf() || leaf.MaxRepetitionLevel > 0 || leafType(leaf.Node.Type()) != "string" {
		return nil, fmt.Errorf("%w: the file has no string column %s to count", ErrSchema, column)
	}
	only := map[int]bool{leaf.ColumnIndex: true}
	for i, group := range file.RowGroups() {
		if err := checkPages(file, i, only); err != nil {
			return nil, fmt.Errorf("read row group %d: %w", i, err)
		}
		if err := countValues(group.ColumnChunks()[leaf.ColumnIndex], counts); err != nil {
			return nil, fmt.Errorf("read row group %d, column %s: %w", i, column, err)
		}
	}
	return counts, nil
}

func countValues(chunk parquet.ColumnChunk, counts map[string]int64) (err error) {
	defer guard(&err)
	pages := chunk.Pages()
	defer func() { err = errors.Join(err, pages.Close()) }()
	buf := make([]parquet.Value, 256)
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return damaged(err)
		}
		if err := countPage(page, buf, counts); err != nil {
			return err
		}
		parquet.Release(page)
	}
}

// countPage counts the values of one page; of indexes, each index.
func countPage(page parquet.Page, buf []parquet.Value, counts map[string]int64) error {
	if d := page.Dictionary(); d != nil {
		data := page.Data()
		times := make([]int64, d.Len())
		index := data.Int32()
		for _, i := range index {
			times[i]++
		}
		for i, n := range times {
			if n > 0 {
				counts[string(d.Index(int32(i)).ByteArray())] += n
			}
		}
		if nulls := page.NumValues() - int64(len(index)); nulls > 0 {
			counts[""] += nulls
		}
		return nil
	}
	values := page.Values()
	for {
		n, err := values.ReadValues(buf)
		for _, v := range buf[:n] {
			counts[string(v.ByteArray())]++
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return damaged(err)
		}
	}
}
