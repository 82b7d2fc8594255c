package views

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/arrowio"
)

// Arrow is the form of an export whose files are IPC streams: what a process
// reads from a pipe, and what loads without decoding a page.
const Arrow = "arrow"

// forms are the forms of an export, the default first.
var forms = []string{Parquet, JSONL, Arrow}

// knownForm refuses a form that there is not (ErrUnknownView).
func knownForm(form string) error {
	if slices.Contains(forms, form) {
		return nil
	}
	return fmt.Errorf("%w form %q; there are: %s", ErrUnknownView, form, strings.Join(forms, ", "))
}

// arrow writes rows as one IPC stream. It has no end, and no reader takes it,
// where the rows end with an error.
func (r typedRows[T]) arrow(out io.Writer) (int64, error) {
	w, err := arrowio.NewWriter(out, reflect.TypeFor[T](), arrowio.Options{})
	if err != nil {
		return 0, err
	}
	for row, err := range r {
		if err != nil {
			return 0, err
		}
		if err := w.Write(&row); err != nil {
			return 0, err
		}
	}
	return w.Rows(), w.Close()
}

// batchedRows is how many rows of a stream are held at once on their way into
// record batches, which are bounded by bytes: each may have megabytes.
const batchedRows = 16

// WriteArrow writes every row as one Arrow IPC stream, split by split, and
// returns their number. After an error the stream has no end: readers refuse
// it rather than take it for a shorter one.
func (s *Stream) WriteArrow(ctx context.Context, w io.Writer) (rows int64, err error) {
	out, err := arrowio.NewWriter(w, s.Row, arrowio.Options{})
	if err != nil {
		return 0, err
	}
	for _, split := range s.Splits() {
		for batch, err := range s.Batches(ctx, split, batchedRows) {
			if err != nil {
				return out.Rows(), err
			}
			all := reflect.ValueOf(batch)
			for i := range all.Len() {
				if err := out.Write(all.Index(i).Addr().Interface()); err != nil {
					return out.Rows(), fmt.Errorf("write an Arrow stream: %w", err)
				}
			}
		}
	}
	if err := out.Close(); err != nil {
		return out.Rows(), fmt.Errorf("write an Arrow stream: %w", err)
	}
	return out.Rows(), nil
}
