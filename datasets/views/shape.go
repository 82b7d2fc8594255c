package views

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"reflect"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
)

// A Shape is how rows of a view are made of rows of the version. [Of] makes it.
type Shape struct {
	// Row is the type of a row: a struct with parquet and json tags, anonymous
	// structs standing for their fields.
	Row reflect.Type
	// Prose says in a card what the columns are.
	Prose string

	features func(form string) string // of the rows, for a card
	open     func(ctx context.Context, cat *catalog.Catalog, one *catalog.Manifest, split string, p *plan) rowSource
}

// Of is the shape of a view whose rows are of type T, each made by to of a row
// of type R: datasets.Row, datasets.Pair or datasets.PromptRow, as the view's
// Source says. The function gives an error that is ErrUnsupported, and names
// the row, for a row that the view can't hold whole, and errElsewhere for a row
// that is not of the view. It keeps nothing of the row that it does not give
// out.
func Of[R, T any](prose string, to func(*R) (T, error)) Shape {
	return Shape{
		Row: reflect.TypeFor[T](), Prose: prose, features: featuresOf[T],
		open: func(ctx context.Context, cat *catalog.Catalog, one *catalog.Manifest, split string, p *plan) rowSource {
			return typedRows[T](shaped(ctx, cat, one, split, p, to))
		},
	}
}

// featuresOf declares the columns of T as a card does, for the files of a form.
func featuresOf[T any](form string) string {
	if form == JSONL {
		return parquetio.LinesFeaturesYAML[T]("  ")
	}
	return parquetio.FeaturesYAML[T]("  ")
}

// shaped makes rows of the view, and tallies those that are passed over.
func shaped[R, T any](ctx context.Context, cat *catalog.Catalog, one *catalog.Manifest, split string, p *plan, to func(*R) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		for row, err := range catalog.ReadTable[R](ctx, cat, one, one.Files[0].Table) {
			if err != nil {
				yield(zero, err)
				return
			}
			if prompt, ok := any(&row).(*datasets.PromptRow); ok && prompt.Split != split {
				p.tally.elsewhere++
				continue
			}
			if p.isForbidden(teachersOf(any(&row))) {
				p.tally.forbidden++
				continue
			}
			out, err := to(&row)
			if shows, ok := any(&out).(interface{ pictures() []Image }); ok && err == nil {
				err = p.gallery.fill(ctx, cat.Bucket(), shows.pictures(), p.opt.Form)
			}
			switch {
			case errors.Is(err, errElsewhere):
				p.tally.elsewhere++
				continue
			case errors.Is(err, ErrUnsupported):
				p.tally.unfitRow(err)
				if p.opt.LeaveOutUnfit {
					continue
				}
				if !p.tally.refuse {
					yield(zero, err)
					return
				}
				continue
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}

func (p *plan) isForbidden(teachers []string) bool {
	for _, id := range teachers {
		if p.forbidden[id] {
			return true
		}
	}
	return false
}

// A rowSource gives the rows of a view that one file of the version makes, once.
type rowSource interface {
	// writer writes them in a form, and gives errNoRows where there are none.
	writer(form string) func(io.Writer) (int64, error)
	// batches gives them as []T, at most n a batch.
	batches(n int) iter.Seq2[any, error]
	// drain only counts what is passed over.
	drain() error
}

type typedRows[T any] iter.Seq2[T, error]

func (r typedRows[T]) writer(form string) func(io.Writer) (int64, error) {
	write := r.parquet
	switch form {
	case JSONL:
		write = r.jsonl
	case Arrow:
		write = r.arrow
	}
	return func(out io.Writer) (int64, error) {
		n, err := write(out)
		if err == nil && n == 0 {
			err = errNoRows
		}
		return n, err
	}
}

func (r typedRows[T]) parquet(out io.Writer) (int64, error) {
	w, err := parquetio.NewWriter[T](out, parquetio.Options{})
	if err != nil {
		return 0, err
	}
	one := make([]T, 1)
	for row, err := range r {
		if err != nil {
			return 0, err
		}
		one[0] = row
		if err := w.Write(one); err != nil {
			return 0, err
		}
	}
	return w.Rows(), w.Close()
}

// jsonl writes JSON, a line each, with every key on every line.
func (r typedRows[T]) jsonl(out io.Writer) (n int64, err error) {
	buffer := bufio.NewWriterSize(out, 256<<10)
	enc := json.NewEncoder(buffer)
	enc.SetEscapeHTML(false)
	for row, err := range r {
		if err != nil {
			return n, err
		}
		if err := enc.Encode(&row); err != nil {
			return n, err
		}
		n++
	}
	return n, buffer.Flush()
}

func (r typedRows[T]) batches(n int) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		batch := make([]T, 0, n)
		for row, err := range r {
			if err != nil {
				yield(nil, err)
				return
			}
			if batch = append(batch, row); len(batch) == n {
				if !yield(batch, nil) {
					return
				}
				batch = make([]T, 0, n)
			}
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}

func (r typedRows[T]) drain() error {
	for _, err := range r {
		if err != nil {
			return err
		}
	}
	return nil
}

// withPlan is Of for a function that also looks at what the view's Check found,
// which runs before the first row.
func withPlan[R, T any](prose string, to func(*plan, *R) (T, error)) Shape {
	return Shape{
		Row: reflect.TypeFor[T](), Prose: prose, features: featuresOf[T],
		open: func(ctx context.Context, cat *catalog.Catalog, one *catalog.Manifest, split string, p *plan) rowSource {
			return typedRows[T](func(yield func(T, error) bool) {
				if err := p.check(ctx, cat); err != nil {
					var zero T
					yield(zero, err)
					return
				}
				shaped(ctx, cat, one, split, p, func(row *R) (T, error) { return to(p, row) })(yield)
			})
		},
	}
}
