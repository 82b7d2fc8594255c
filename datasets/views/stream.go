package views

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"reflect"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

// DefaultBatchRows is how many rows Batches gives at once where its caller has
// no wish.
const DefaultBatchRows = 256

// A Stream gives the rows of a view of a version without writing files. It is
// for one goroutine.
type Stream struct {
	// Row is the type of a row: a struct with parquet and json tags, anonymous
	// structs standing for their fields. It depends on view and options alone.
	Row reflect.Type
	// Warnings are what a person should know of the teachers' terms.
	Warnings []string
	// Options are the view's, with every default filled in.
	Options Options
	// Split is the one split to stream; "" for all, which is the default.
	Split string

	cat  *catalog.Catalog
	m    *catalog.Manifest
	plan *plan
}

// Open looks a view of a version up, settles its options and holds it to its
// teachers' terms (ErrForbidden), as Export does. Options.Form does not matter.
func Open(cat *catalog.Catalog, m *catalog.Manifest, view string, opt Options) (*Stream, error) {
	p, err := prepare(view, m, opt)
	if err != nil {
		return nil, fmt.Errorf("open view %s of %s: %w", view, m.Dataset, err)
	}
	return &Stream{Row: p.shape.Row, Warnings: p.warnings, Options: p.opt, cat: cat, m: m, plan: p}, nil
}

// Splits are the splits to stream that the version has files for, in the order
// of an export.
func (s *Stream) Splits() []string {
	var out []string
	for _, split := range exported {
		if s.Split != "" && s.Split != split {
			continue
		}
		if len(s.plan.view.Reads.files(s.m, split)) > 0 {
			out = append(out, split)
		}
	}
	return out
}

// AtMost counts the rows of the tables that a split is made of: Batches gives
// that many, or fewer where rows are left out.
func (s *Stream) AtMost(split string) int64 {
	var n int64
	for _, ref := range s.plan.view.Reads.files(s.m, split) {
		n += ref.Rows
	}
	return n
}

// LeftOut counts the rows that were left out so far, by reason; nil for none.
func (s *Stream) LeftOut() map[string]int64 { return s.plan.tally.leftOut() }

// Check reads the whole view once and gives nothing out. It refuses
// (ErrUnsupported) where rows don't fit the view, naming how many and which,
// and (ErrNoRows) where there are none: for consumers that could not tell a
// stream that ended early from a whole one.
func (s *Stream) Check(ctx context.Context) error {
	if err := s.plan.dry(ctx, s.cat, s.m, s.Splits()); err != nil {
		return fmt.Errorf("check view %s of %s: %w", s.plan.view.Name, s.m.Dataset, err)
	}
	return nil
}

// dry reads the whole view and gives nothing out: the error is that of an
// export.
func (p *plan) dry(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, splits []string) error {
	own := *p
	own.tally = tally{refuse: !p.opt.LeaveOutUnfit}
	rows := int64(0)
	for _, split := range splits {
		for _, ref := range own.view.Reads.files(m, split) {
			one := *m
			one.Files = []catalog.FileRef{ref}
			before := own.tally.total()
			if err := own.shape.open(ctx, cat, &one, split, &own).drain(); err != nil {
				return err
			}
			rows += ref.Rows - (own.tally.total() - before)
		}
	}
	err := own.tally.refusal()
	if err == nil && rows == 0 {
		err = own.empty()
	}
	return err
}

// WriteJSONL writes every row as a line of JSON, split by split, and returns
// their number.
func (s *Stream) WriteJSONL(ctx context.Context, w io.Writer) (rows int64, err error) {
	buffer := bufio.NewWriterSize(w, 256<<10)
	enc := json.NewEncoder(buffer)
	enc.SetEscapeHTML(false)
	for _, split := range s.Splits() {
		for batch, err := range s.Batches(ctx, split, 0) {
			if err != nil {
				return rows, err
			}
			all := reflect.ValueOf(batch)
			for i := range all.Len() {
				if err := enc.Encode(all.Index(i).Addr().Interface()); err != nil {
					return rows, fmt.Errorf("write JSON lines: %w", err)
				}
				rows++
			}
		}
	}
	if err := buffer.Flush(); err != nil {
		return rows, fmt.Errorf("write JSON lines: %w", err)
	}
	return rows, nil
}

// Batches gives the rows of one split in the order of an export, as slices of
// Row ([]T in an any) of at most n rows, or DefaultBatchRows for n < 1. A batch
// is the caller's to keep. Each file of the version is held to its digest
// before the first of its rows goes out (catalog.ErrDamaged); a row that does
// not fit the view ends the stream with ErrUnsupported unless the options leave
// such rows out. After an error there is nothing more.
func (s *Stream) Batches(ctx context.Context, split string, n int) iter.Seq2[any, error] {
	if n < 1 {
		n = DefaultBatchRows
	}
	return func(yield func(any, error) bool) {
		for _, ref := range s.plan.view.Reads.files(s.m, split) {
			one := *s.m
			one.Files = []catalog.FileRef{ref}
			for batch, err := range s.plan.shape.open(ctx, s.cat, &one, split, s.plan).batches(n) {
				if err != nil {
					err = fmt.Errorf("stream view %s of %s: %w", s.plan.view.Name, s.m.Dataset, err)
				}
				if !yield(batch, err) || err != nil {
					return
				}
			}
		}
	}
}
