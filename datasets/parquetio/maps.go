package parquetio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/parquet-go/parquet-go"
)

// Maps yields the rows of any Parquet file as what a JSON reader would give:
// nil, bool, int64, uint64 (only above the int64 range), float64, string,
// []byte (only for bytes that are no UTF-8), []any and map[string]any. Dates
// and times are RFC 3339 text, decimals and UUIDs text, so that nothing loses
// digits. Memory is bounded by the pages of one row group and a few rows.
//
// It ends at the first error, which wraps ErrDamaged where the file is at
// fault, or when ctx ends.
func Maps(ctx context.Context, r io.ReaderAt, size int64) iter.Seq2[map[string]any, error] {
	return func(yield func(map[string]any, error) bool) {
		if err := maps(ctx, r, size, yield); err != nil {
			yield(nil, err)
		}
	}
}

func maps(ctx context.Context, r io.ReaderAt, size int64, yield func(map[string]any, error) bool) error {
	file, err := openFile(r, size)
	if err != nil {
		return err
	}
	root, err := planOf(file)
	if err != nil {
		return err
	}
	for i, group := range file.RowGroups() {
		if err := checkPages(file, i, nil); err != nil {
			return fmt.Errorf("read row group %d: %w", i, err)
		}
		more, err := mapGroup(ctx, root, group, batchRows(file, i), yield)
		if err != nil {
			return fmt.Errorf("read row group %d: %w", i, err)
		}
		if !more {
			return nil
		}
	}
	return nil
}

func mapGroup(ctx context.Context, root *plan, group parquet.RowGroup, batch int, yield func(map[string]any, error) bool) (more bool, err error) {
	rows, err := openRows(group)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, closeRows(rows)) }()
	buf := make([]parquet.Row, batch)
	columns := make([][]parquet.Value, root.last)
	var seen int64
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, end, err := readRows(rows, buf)
		for _, row := range buf[:n] { // one at a time: each may be large
			m, err := mapOf(root, columns, row, maxRowBytes)
			if err != nil {
				return false, err
			}
			if !yield(m, nil) {
				return false, nil
			}
		}
		seen += int64(n)
		switch {
		case err != nil:
			return false, err
		case end && seen != group.NumRows():
			return false, fmt.Errorf("%w: it counts %d rows and holds %d", ErrDamaged, group.NumRows(), seen)
		case end:
			return true, nil
		case n == 0:
			return false, fmt.Errorf("%w: no rows after %d of %d", ErrDamaged, seen, group.NumRows())
		}
	}
}

func openRows(group parquet.RowGroup) (rows parquet.Rows, err error) {
	defer guard(&err)
	return group.Rows(), nil
}

func closeRows(rows parquet.Rows) (err error) {
	defer guard(&err)
	return rows.Close()
}

// readRows reads some rows, which are good until the next ones are read.
func readRows(rows parquet.Rows, buf []parquet.Row) (n int, end bool, err error) {
	defer guard(&err)
	n, err = rows.ReadRows(buf)
	end = errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !end {
		return 0, false, damaged(err)
	}
	return n, end, nil
}

// mapOf copies a row of at most so many bytes out of the pages.
func mapOf(root *plan, columns [][]parquet.Value, row parquet.Row, most int) (m map[string]any, err error) {
	defer guard(&err)
	clear(columns)
	for column, values := range row.Range {
		columns[column] = values
	}
	return root.row(columns, &most)
}
