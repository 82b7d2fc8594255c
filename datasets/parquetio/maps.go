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
	var seen int64
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		got, end, err := readMaps(root, rows, buf)
		for _, m := range got {
			if !yield(m, nil) {
				return false, nil
			}
		}
		seen += int64(len(got))
		switch {
		case err != nil:
			return false, err
		case end && seen != group.NumRows():
			return false, fmt.Errorf("%w: it counts %d rows and holds %d", ErrDamaged, group.NumRows(), seen)
		case end:
			return true, nil
		case len(got) == 0:
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

// readMaps reads one batch and copies it out of the pages, which the next read
// reuses.
func readMaps(root *plan, rows parquet.Rows, buf []parquet.Row) (out []map[string]any, end bool, err error) {
	defer guard(&err)
	n, err := rows.ReadRows(buf)
	end = errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !end {
		return nil, false, damaged(err)
	}
	out = make([]map[string]any, n)
	columns := make([][]parquet.Value, root.last)
	for i, row := range buf[:n] {
		clear(columns)
		for column, values := range row.Range {
			columns[column] = values
		}
		if out[i], err = root.row(columns); err != nil {
			return out[:i], false, err
		}
	}
	return out, end, nil
}
