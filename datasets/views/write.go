package views

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"iter"

	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
)

// A shape turns a row of one of the version's tables into a row of the view.
type shape[R, T any] func(*R) (T, error)

// writeFile writes rows of a table as one file of an export.
type writeFile[R any] func(ctx context.Context, s sink, name string, rows iter.Seq2[R, error]) (File, error)

// writeParquet writes rows of a view as Parquet files.
func writeParquet[R, T any](to shape[R, T]) writeFile[R] {
	return func(ctx context.Context, s sink, name string, rows iter.Seq2[R, error]) (File, error) {
		return s.write(ctx, name, func(out io.Writer) (int64, error) {
			w, err := parquetio.NewWriter[T](out, parquetio.Options{})
			if err != nil {
				return 0, err
			}
			one := make([]T, 1)
			for row, err := range rows {
				if err != nil {
					return 0, err
				}
				if one[0], err = to(&row); err != nil {
					return 0, err
				}
				if err := w.Write(one); err != nil {
					return 0, err
				}
			}
			return w.Rows(), w.Close()
		})
	}
}

// writeJSONL writes rows of a view as JSON, a line each, with every key on
// every line.
func writeJSONL[R, T any](to shape[R, T]) writeFile[R] {
	return func(ctx context.Context, s sink, name string, rows iter.Seq2[R, error]) (File, error) {
		return s.write(ctx, name, func(out io.Writer) (n int64, err error) {
			buffer := bufio.NewWriterSize(out, 256<<10)
			enc := json.NewEncoder(buffer)
			enc.SetEscapeHTML(false)
			for row, err := range rows {
				if err != nil {
					return n, err
				}
				shaped, err := to(&row)
				if err != nil {
					return n, err
				}
				if err := enc.Encode(shaped); err != nil {
					return n, err
				}
				n++
			}
			return n, buffer.Flush()
		})
	}
}

// A summing writer counts and digests what goes through it.
type summing struct {
	w   io.Writer
	n   int64
	sum interface {
		io.Writer
		Sum([]byte) []byte
	}
}

func newSumming(w io.Writer) *summing { return &summing{w: w, sum: sha256.New()} }

func (s *summing) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.n += int64(n)
	_, _ = s.sum.Write(p[:n]) // a hash takes everything
	return n, err
}

func (s *summing) hex() string { return hex.EncodeToString(s.sum.Sum(nil)) }
