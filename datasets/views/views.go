// Package views shapes the rows of a version for the programs that read them,
// and exports them as folders or prefixes that need nothing of ours to be read.
//
//	s, err := views.Export(ctx, cat, m, "messages", views.Folder("out"), views.Options{Version: v})
//
// An export is data/<split>-00000-of-00004.parquet (or .jsonl), a README.md
// that is a Hugging Face dataset card, and manifest.json with the digest of
// every file. It appears whole or not at all in a folder, and in a bucket it is
// whole once manifest.json is there. The same version, view and options give
// the same bytes.
//
// A [View] is a value that a file of its own registers: the tables that it
// reads, the options that it honours, and a function from a row of a table to a
// row of the view. Every view declares its columns. They never depend on what
// the rows happen to hold: a column that is all null in one shard and text in
// the next is what breaks loaders.
//
// [Open] is the door for programs that stream rows and write no files: batches
// of typed rows, split by split, in the order of an export. Each data file of
// the version is held to its digest before its first row goes out.
package views

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

// Errors that callers branch on.
var (
	// ErrForbidden: a teacher's terms forbid training on its answers.
	ErrForbidden = errors.New("terms forbid training")
	// ErrForeign: the destination holds something that is not an export of
	// this dataset and view.
	ErrForeign = errors.New("destination is not empty")
	// ErrUnsupported: the view can't hold a row without losing part of it.
	ErrUnsupported = errors.New("row does not fit the view")
	// ErrUnknownView: there is no view, form or option of that name.
	ErrUnknownView = errors.New("unknown view")
	// ErrNoRows: the version has nothing that the view is made of.
	ErrNoRows = errors.New("nothing to export")
)

// Forms of an export.
const (
	Parquet = "parquet"
	JSONL   = "jsonl"
)

// A Summary is what an export wrote.
type Summary struct {
	Dest     string           `json:"dest"`
	View     string           `json:"view"`
	Form     string           `json:"form"`
	Files    []File           `json:"files"`
	Rows     map[string]int64 `json:"rows"` // by split
	Bytes    int64            `json:"bytes"`
	Warnings []string         `json:"warnings"`
	// LeftOut counts the rows that the options left out, by reason; absent
	// where all rows of the version are there.
	LeftOut map[string]int64 `json:"left_out,omitempty"`
	// Resumed counts the files that an interrupted run of the same export had
	// finished, and that were kept.
	Resumed int `json:"resumed,omitempty"`
	// Unchanged: the destination held exactly this export already.
	Unchanged bool `json:"unchanged"`
}

// A File of an export, by its path below the destination.
type File struct {
	Path   string `json:"path"`
	Split  string `json:"split,omitempty"`
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Export writes one view of a version to a destination. It refuses
// (ErrForbidden) where rows come from a teacher whose terms forbid training,
// and warns where the terms are not known; it refuses (ErrUnsupported) where
// rows don't fit the view, and says how many and which. What it replaces is an
// earlier export of the same dataset and view, never anything else
// (ErrForeign). An interrupted export goes on where it stopped when it is
// called again, and writes no finished file anew. Every file is read back and
// held to its digest.
func Export(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, view string, dest Dest, opt Options) (Summary, error) {
	s, err := export(ctx, cat, m, view, dest, opt)
	if err != nil {
		return Summary{}, fmt.Errorf("export view %s of %s to %s: %w", view, m.Dataset, dest, err)
	}
	return s, nil
}

func export(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, view string, dest Dest, opt Options) (Summary, error) {
	p, err := prepare(view, m, opt)
	if err != nil {
		return Summary{}, err
	}
	p.tally.refuse = !opt.LeaveOutUnfit
	if err := p.check(ctx, cat); err != nil {
		return Summary{}, err
	}
	return fill(ctx, p.about(m), dest, func(sink sink, about *about) error {
		if sink.replaces() {
			// The earlier export is gone with the first file: it stays where
			// this one would be refused.
			if err := p.dry(ctx, cat, m, exported); err != nil {
				return err
			}
		}
		if err := sink.start(ctx); err != nil {
			return err
		}
		if err := writeSplits(ctx, cat, m, sink, p, about); err != nil {
			return err
		}
		if err := writeImages(ctx, cat.Bucket(), sink, p, about); err != nil {
			return err
		}
		for _, extra := range p.view.Beside {
			if err := extra(ctx, sink, p, m, about); err != nil {
				return err
			}
		}
		text, err := hubCard(ctx, cat, m, p, about)
		if err != nil {
			return err
		}
		return writeCard(ctx, sink, about, text)
	})
}

// fill lets write fill an export at dest, and commits it: all of it appears or
// nothing. It writes nothing where the same export is there.
func fill(ctx context.Context, about *about, dest Dest, write func(sink, *about) error) (_ Summary, err error) {
	sink, err := dest.begin(ctx, about)
	if err != nil {
		return Summary{}, err
	}
	if sink == nil { // it is all there
		about.Unchanged = true
		return about.summary(dest), nil
	}
	defer func() {
		if kept := sink.abort(err); kept > 0 {
			err = fmt.Errorf("%w; %s finished, and the same command goes on from there", err, plural(kept, "file"))
		}
	}()
	if err := write(sink, about); err != nil {
		return Summary{}, err
	}
	if err := sink.commit(ctx, about); err != nil {
		return Summary{}, err
	}
	return about.summary(dest), nil
}

// writeSplits writes a file of the export for each file of the version, so
// that their number is known before the first row and shards stay the same
// where the version's do. Where rows don't fit, the rest is only counted, so
// that the refusal names them all.
func writeSplits(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, s sink, p *plan, about *about) error {
	for _, split := range exported {
		files := p.view.Reads.files(m, split)
		for i, ref := range files {
			name := fmt.Sprintf("%s%s-%05d-of-%05d.%s", p.view.folder(split), split, i, len(files), about.Form)
			if err := writeOne(ctx, cat, m, ref, split, name, s, p, about); err != nil {
				return err
			}
		}
	}
	about.LeftOut = p.tally.leftOut()
	if err := p.tally.refusal(); err != nil {
		return err
	}
	if len(about.Files) == 0 {
		return p.empty()
	}
	return nil
}

func writeOne(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, ref catalog.FileRef, split, name string, s sink, p *plan, about *about) error {
	one := *m
	one.Files = []catalog.FileRef{ref}
	rows := p.shape.open(ctx, cat, &one, split, p)
	if p.tally.refused() {
		return rows.drain()
	}
	if d, err := s.done(ctx, name); err != nil {
		return err
	} else if d != nil {
		p.tally.again(d)
		p.gallery.names(d.Images)
		about.add(d.File, true)
		return nil
	}
	before, named := p.tally.passed(), p.gallery.since()
	write := rows.writer(about.Form)
	file, err := s.write(ctx, name, func(w io.Writer) (int64, error) {
		n, err := write(w)
		if err == nil && p.tally.refused() {
			err = errNoRows // of use: the export is about to be refused
		}
		return n, err
	})
	if errors.Is(err, errNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	file.Split = split
	d := finished{File: file, Images: named()}
	p.tally.since(before, &d)
	if n := d.Rows + d.Elsewhere + d.Forbidden + d.Unfit; n != ref.Rows {
		return fmt.Errorf("%w: %s got %d rows of %d", catalog.ErrDamaged, name, n, ref.Rows)
	}
	about.add(file, false)
	return s.finish(ctx, d)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
