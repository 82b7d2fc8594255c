// Package views shapes the rows of a version for the programs that read them,
// and exports them as folders or prefixes that need nothing of ours to be read.
//
//	s, err := views.Export(ctx, cat, m, "messages", views.Folder("out"), views.Options{Version: v})
//
// An export is data/<split>-00000-of-00004.parquet (or .jsonl), a README.md
// that is a Hugging Face dataset card, and manifest.json with the digest of
// every file. It appears whole or not at all in a folder, and in a bucket it is
// whole once manifest.json is there. The same version, view and form give the
// same bytes.
//
// Every view declares its columns. They never depend on what the rows happen
// to hold: a column that is all null in one shard and text in the next is what
// breaks loaders.
package views

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
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
	// ErrUnknownView: there is no view or form of that name.
	ErrUnknownView = errors.New("unknown view")
)

// Forms of an export.
const (
	Parquet = "parquet"
	JSONL   = "jsonl"
)

// ViewMessages is the view of conversations: what TRL, NeMo-RL and OpenRLHF
// read for supervised fine-tuning.
const ViewMessages = "messages"

// Names are the views that Export knows.
func Names() []string { return []string{ViewMessages} }

// Options of an export. The zero value is right, save that the card then
// names no version.
type Options struct {
	Version catalog.Version // that the manifest belongs to
	Form    string          // Parquet (the default) or JSONL
}

// A Summary is what an export wrote.
type Summary struct {
	Dest     string           `json:"dest"`
	View     string           `json:"view"`
	Form     string           `json:"form"`
	Files    []File           `json:"files"`
	Rows     map[string]int64 `json:"rows"` // by split
	Bytes    int64            `json:"bytes"`
	Warnings []string         `json:"warnings"`
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
// and warns where the terms are not known. What it replaces is an earlier
// export of the same dataset and view, never anything else (ErrForeign).
func Export(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, view string, dest Dest, opt Options) (Summary, error) {
	s, err := export(ctx, cat, m, view, dest, opt)
	if err != nil {
		return Summary{}, fmt.Errorf("export view %s of %s to %s: %w", view, m.Dataset, dest, err)
	}
	return s, nil
}

func export(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, view string, dest Dest, opt Options) (Summary, error) {
	write, err := formOf(view, &opt)
	if err != nil {
		return Summary{}, err
	}
	return fill(ctx, m, view, dest, opt, func(sink sink, about *about) error {
		if err := writeSplits(ctx, cat, m, sink, write, about); err != nil {
			return err
		}
		return writeCard(ctx, sink, about, card(m, about))
	})
}

// fill lets write fill an export at dest, and commits it: all of it appears or
// nothing. It writes nothing where the same export is there.
func fill(ctx context.Context, m *catalog.Manifest, view string, dest Dest, opt Options, write func(sink, *about) error) (Summary, error) {
	warnings, err := checkTerms(m)
	if err != nil {
		return Summary{}, err
	}
	about := describe(m, view, opt, warnings)
	sink, err := dest.begin(ctx, about)
	if err != nil {
		return Summary{}, err
	}
	if sink == nil { // it is all there
		about.Unchanged = true
		return about.summary(dest), nil
	}
	defer sink.abort()
	if err := write(sink, about); err != nil {
		return Summary{}, err
	}
	if err := sink.commit(ctx, about); err != nil {
		return Summary{}, err
	}
	return about.summary(dest), nil
}

// exported are the tables of a version that a trainer reads; their names are
// the splits of the export.
var exported = []string{datasets.TableTrain, datasets.TableTest}

// writeSplits writes a file of the export for each file of the version, so
// that their number is known before the first row and shards stay the same
// where the version's do.
func writeSplits(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, s sink, write writeFile, about *about) error {
	for _, split := range exported {
		files := m.TableFiles(split)
		for i, ref := range files {
			name := fmt.Sprintf("data/%s-%05d-of-%05d.%s", split, i, len(files), about.Form)
			one := *m
			one.Files = []catalog.FileRef{ref}
			file, err := write(ctx, s, name, catalog.ReadTable[datasets.Row](ctx, cat, &one, split))
			if err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
			if file.Rows != ref.Rows {
				return fmt.Errorf("%w: %s got %d rows of %d", catalog.ErrDamaged, name, file.Rows, ref.Rows)
			}
			file.Split = split
			about.Files = append(about.Files, file)
			about.Rows[split] += file.Rows
		}
	}
	if len(about.Files) == 0 {
		return errors.New("the version has no train and no test rows; stillhouse show says why rows were rejected")
	}
	return nil
}

// writeFile writes rows as one file of an export.
type writeFile func(ctx context.Context, s sink, name string, rows iter.Seq2[datasets.Row, error]) (File, error)

func formOf(view string, opt *Options) (writeFile, error) {
	if !slices.Contains(Names(), view) {
		return nil, fmt.Errorf("%w %q; there are: %s", ErrUnknownView, view, strings.Join(Names(), ", "))
	}
	switch opt.Form {
	case "", Parquet:
		opt.Form = Parquet
		return writeParquet(conversation), nil
	case JSONL:
		return writeJSONL(conversation), nil
	default:
		return nil, fmt.Errorf("%w form %q; there are: %s, %s", ErrUnknownView, opt.Form, Parquet, JSONL)
	}
}

// checkTerms holds the rows to what their teachers' terms allow.
func checkTerms(m *catalog.Manifest) (warnings []string, err error) {
	warnings = []string{}
	terms := map[string]catalog.Terms{}
	for _, t := range m.Teachers {
		terms[t.ID] = t.Terms
	}
	rows := m.TeacherRows()
	var forbidden []string
	for _, id := range sortedKeys(rows) {
		switch terms[id].Training {
		case catalog.TrainingAllowed:
		case catalog.TrainingForbidden:
			forbidden = append(forbidden, fmt.Sprintf("%s (%d rows, licence %q)", id, rows[id], terms[id].Licence))
		default:
			warnings = append(warnings, fmt.Sprintf("teacher %s (%d rows): it is not known whether its terms allow training; set terms.training in the recipe", id, rows[id]))
		}
	}
	if len(forbidden) > 0 {
		return nil, fmt.Errorf("%w on the answers of %s; build without them, or correct terms.training if it is wrong", ErrForbidden, strings.Join(forbidden, ", "))
	}
	return warnings, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
