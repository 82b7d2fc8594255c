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
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
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

// ViewPreference is the view of preference pairs: prompt, chosen and rejected,
// what TRL's DPO, reward and similar trainers read.
const ViewPreference = "preference"

// Names are the views that Export knows.
func Names() []string { return []string{ViewMessages, ViewPreference} }

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
	k, err := kindOf(view, &opt)
	if err != nil {
		return Summary{}, err
	}
	return fill(ctx, m, view, dest, opt, func(sink sink, about *about) error {
		if err := writeSplits(ctx, cat, m, sink, k, about); err != nil {
			return err
		}
		return writeCard(ctx, sink, about, card(m, k, about))
	})
}

// fill lets write fill an export at dest, and commits it: all of it appears or
// nothing. It writes nothing where the same export is there.
func fill(ctx context.Context, m *catalog.Manifest, view string, dest Dest, opt Options, write func(sink, *about) error) (Summary, error) {
	warnings, err := checkTerms(m, teacherRows(m, view))
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

// exported are the splits of an export, in the order in which they are written.
var exported = []string{datasets.TableTrain, datasets.TableTest}

// A kind is how a view is made of a version.
type kind struct {
	files    func(m *catalog.Manifest, split string) []catalog.FileRef
	write    func(ctx context.Context, cat *catalog.Catalog, one *catalog.Manifest, s sink, name string) (File, error)
	features string // of its rows, for a card
	prose    string // what its columns are
	none     string // why there is nothing to export
}

// kindOf is the view of that name in the form that the options want.
func kindOf(view string, opt *Options) (*kind, error) {
	if opt.Form == "" {
		opt.Form = Parquet
	}
	if opt.Form != Parquet && opt.Form != JSONL {
		return nil, fmt.Errorf("%w form %q; there are: %s, %s", ErrUnknownView, opt.Form, Parquet, JSONL)
	}
	switch view {
	case ViewMessages:
		k := kindFrom(opt.Form, conversation)
		k.files = func(m *catalog.Manifest, split string) []catalog.FileRef { return m.TableFiles(split) }
		k.prose = "`messages` holds the prompt and, last, the answer, with the reasoning in `reasoning_content`. What a message does not have is null. `tools` and the arguments of tool calls are JSON text."
		k.none = "the version has no train and no test rows; stillhouse show says why rows were rejected"
		return k, nil
	case ViewPreference:
		k := kindFrom(opt.Form, preference)
		k.files = pairFiles
		k.prose = "`prompt` holds the conversation before the two answers, `chosen` the better one and `rejected` the other. Where `cross_teacher` is true they are of two teachers, and differ in style too. What a message does not have is null. `tools` and the arguments of tool calls are JSON text."
		k.none = "the version has no preference pairs; its recipe has to ask for them: pairs: {}"
		return k, nil
	}
	return nil, fmt.Errorf("%w %q; there are: %s", ErrUnknownView, view, strings.Join(Names(), ", "))
}

// kindFrom is a view whose rows are of type T, made from rows of type R.
func kindFrom[R, T any](form string, to shape[R, T]) *kind {
	write := writeParquet(to)
	if form == JSONL {
		write = writeJSONL(to)
	}
	return &kind{
		write: func(ctx context.Context, cat *catalog.Catalog, one *catalog.Manifest, s sink, name string) (File, error) {
			return write(ctx, s, name, catalog.ReadTable[R](ctx, cat, one, one.Files[0].Table))
		},
		features: parquetio.FeaturesYAML[T]("  "),
	}
}

// writeSplits writes a file of the export for each file of the version, so
// that their number is known before the first row and shards stay the same
// where the version's do.
func writeSplits(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, s sink, k *kind, about *about) error {
	for _, split := range exported {
		files := k.files(m, split)
		for i, ref := range files {
			name := fmt.Sprintf("data/%s-%05d-of-%05d.%s", split, i, len(files), about.Form)
			one := *m
			one.Files = []catalog.FileRef{ref}
			file, err := k.write(ctx, cat, &one, s, name)
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
		return errors.New(k.none)
	}
	return nil
}

// teacherRows are the rows by teacher of what a view or table is made from.
func teacherRows(m *catalog.Manifest, view string) map[string]int64 {
	if view == ViewPreference || view == tableView(datasets.TablePairs) {
		return m.PairTeachers()
	}
	return m.TeacherRows()
}

// checkTerms holds the rows to what their teachers' terms allow.
func checkTerms(m *catalog.Manifest, rows map[string]int64) (warnings []string, err error) {
	warnings = []string{}
	terms := map[string]catalog.Terms{}
	for _, t := range m.Teachers {
		terms[t.ID] = t.Terms
	}
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
