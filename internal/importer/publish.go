package importer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/internal/version"
)

// API is the api of teachers whose answers were imported.
const API = "imported"

// A Result is what an import did.
type Result struct {
	Dataset string           `json:"dataset"`
	Version int64            `json:"version"`
	BuildID string           `json:"build_id"`
	Rows    map[string]int64 `json:"rows"` // by split
	// Read are the rows that were read, and of them left out those that could
	// not be used, those that were there before; Moved those that moved from
	// test to train, where their prompt is.
	Read       int64    `json:"rows_read"`
	Bad        int64    `json:"bad_rows"`
	BadReasons []string `json:"bad_reasons"` // of the first few
	Duplicates int64    `json:"duplicates"`
	Moved      int64    `json:"moved_rows"`
	Prompts    int64    `json:"prompts"`
	// Unchanged: Version was there before and holds these very rows; nothing was
	// published.
	Unchanged bool `json:"unchanged"`
}

// maxName bounds what a manifest repeats of a name in the data, in bytes.
const maxName = 200

// maxTeachers bounds the teachers that the rows of an import may name.
const maxTeachers = 1000

// Publish imports the source as the next version of the dataset.
func (p *Plan) Publish(ctx context.Context, cat *catalog.Catalog) (*Result, error) {
	id, err := p.buildID()
	if err != nil {
		return nil, err
	}
	name := p.opt.Dataset
	var r *Result
	if err = cat.PutIntent(ctx, catalog.Intent{Dataset: name, BuildID: id}); err == nil {
		r, err = p.publish(ctx, cat, id)
	} else if !errors.Is(err, catalog.ErrPurging) { // then it is entered, and has to end
		return nil, err
	}
	if err != nil {
		state := catalog.BuildFailed
		if ctx.Err() != nil {
			state = catalog.BuildCancelled
		}
		reason := err.Error()
		noted := cat.FinishIntent(context.WithoutCancel(ctx), name, id, state, func(in *catalog.Intent) { in.Reason = clip(reason, 500) })
		return nil, errors.Join(fmt.Errorf("import %s into %s: %w", p.Source.Name, name, err), noted)
	}
	return r, cat.FinishIntent(ctx, name, id, catalog.BuildDone, func(in *catalog.Intent) { in.Version, in.Unchanged = r.Version, r.Unchanged })
}

func clip(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

func (p *Plan) publish(ctx context.Context, cat *catalog.Catalog, id string) (*Result, error) {
	dir, err := os.MkdirTemp(p.opt.TempDir, "stillhouse-import-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &Result{Dataset: p.opt.Dataset, BuildID: id, Rows: map[string]int64{}, BadReasons: []string{}}
	t := newTables(dir)
	defer t.abandon()
	if err := p.write(ctx, dir, t, r); err != nil {
		return nil, err
	}
	if r.Rows[datasets.TableTrain]+r.Rows[datasets.TableTest] == 0 {
		return nil, fmt.Errorf("%w: no row could be used; the first: %s", ErrTooManyBad, p.bad.reason())
	}
	files, err := t.stage(ctx, cat, p.opt.Dataset, id)
	if err != nil {
		return nil, err
	}
	newest, parent, err := cat.Latest(ctx, p.opt.Dataset)
	if err != nil && !errors.Is(err, catalog.ErrUnknown) {
		return nil, err
	}
	if parent != nil && cat.Unchanged(parent, files) {
		r.Version, r.Unchanged = newest.Number, true
		return r, nil
	}
	v, err := cat.Publish(ctx, p.manifest(id, files, t, r))
	if err != nil {
		return nil, err
	}
	r.Version, r.Unchanged = v.Number, v.Number <= newest.Number
	return r, nil
}

func (b *badRows) reason() string {
	if len(b.first) == 0 {
		return "it holds none"
	}
	return b.first[0]
}

// write reads the source, sorts it and writes its tables.
func (p *Plan) write(ctx context.Context, dir string, t *tables, r *Result) error {
	s := newSpool(dir)
	defer s.close()
	p.bad = badRows{}
	var err error
	r.Read, err = p.conversations(ctx, func(c *sources.Conversation, split string) error {
		one, err := p.record(c, split)
		if err != nil {
			return err
		}
		return s.add(one)
	})
	r.Bad, r.BadReasons = p.bad.n, append(r.BadReasons, p.bad.first...)
	if err != nil {
		return err
	}
	err = s.each(func(records []record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		m := merge(records)
		r.Duplicates, r.Moved, r.Prompts = r.Duplicates+m.duplicates, r.Moved+m.moved, r.Prompts+1
		r.Rows[m.split] += int64(len(m.rows))
		return t.add(&m)
	})
	return errors.Join(err, t.close())
}

func (p *Plan) manifest(id string, files []catalog.FileRef, t *tables, r *Result) catalog.Manifest {
	m := catalog.Manifest{
		Dataset: p.opt.Dataset, BuildID: id, Files: files, Tool: "stillhouse " + version.Get().Version,
		Counts: catalog.Counts{Prompts: r.Prompts, Tasks: t.prompts.rows, Duplicates: r.Duplicates},
		Imported: &catalog.Imported{
			Source: p.Source.Name, SHA256: p.Source.SHA256, Config: p.Source.Config, Shape: p.Shape, Fields: p.Fields.Columns(),
			Importer: Version, Rows: r.Read, BadRows: r.Bad, Duplicates: r.Duplicates, Moved: r.Moved,
		},
	}
	if e := p.Source.Export; e != nil {
		m.Imported.From = &catalog.ImportedFrom{Dataset: clip(e.Dataset, 200), Version: e.Version, BuildID: clip(e.BuildID, 200), View: clip(e.View, 200)}
	}
	for _, f := range p.Source.Files {
		m.Sources = append(m.Sources, catalog.Source{Path: f.Path, Key: f.Key, SHA256: f.SHA256, Bytes: f.Size})
	}
	for _, teacher := range sortedKeys(t.teachers) {
		seen := t.teachers[teacher]
		licence := seen.licence
		if licence == "" {
			licence = p.opt.Licence
		}
		if licence == "" {
			licence = p.Source.Card.Licence
		}
		m.Teachers = append(m.Teachers, catalog.ManifestTeacher{
			ID: teacher, Model: clip(seen.model, maxName), API: API, Identity: "sha256:" + p.Source.SHA256,
			Terms: catalog.Terms{Licence: clip(licence, maxName), URL: p.opt.TermsURL, Training: p.opt.Training},
		})
	}
	return m
}

// A seenTeacher is one that rows name.
type seenTeacher struct{ model, licence string }

// tables are those of a version that is being imported.
type tables struct {
	train, test *table[datasets.Row]
	prompts     *table[datasets.PromptRow]
	teachers    map[string]seenTeacher
}

func newTables(dir string) *tables {
	return &tables{
		train:    &table[datasets.Row]{dir: dir, table: datasets.TableTrain, split: datasets.TableTrain},
		test:     &table[datasets.Row]{dir: dir, table: datasets.TableTest, split: datasets.TableTest},
		prompts:  &table[datasets.PromptRow]{dir: dir, table: datasets.TablePrompts, split: "all"},
		teachers: map[string]seenTeacher{},
	}
}

func (t *tables) add(m *merged) error {
	to := t.train
	if m.split == datasets.TableTest {
		to = t.test
	}
	for i := range m.rows {
		row := &m.rows[i]
		if _, known := t.teachers[row.Teacher]; !known {
			if len(t.teachers) == maxTeachers {
				return fmt.Errorf("%w: the rows name more than %d teachers; is that column the teacher's? --map teacher= leaves it out", ErrUsage, maxTeachers)
			}
			seen := seenTeacher{model: row.TeacherModel}
			if row.Licence != nil {
				seen.licence = *row.Licence
			}
			t.teachers[row.Teacher] = seen
		}
		if err := to.add(row); err != nil {
			return err
		}
	}
	for i := range m.tasks {
		if err := t.prompts.add(&m.tasks[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *tables) close() error {
	return errors.Join(t.train.close(), t.test.close(), t.prompts.close())
}

// abandon closes what an error left open.
func (t *tables) abandon() {
	for _, f := range []*os.File{t.train.file, t.test.file, t.prompts.file} {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (t *tables) stage(ctx context.Context, cat *catalog.Catalog, dataset, id string) ([]catalog.FileRef, error) {
	var out []catalog.FileRef
	for _, one := range []interface {
		stage(ctx context.Context, cat *catalog.Catalog, dataset, id string) ([]catalog.FileRef, error)
	}{t.train, t.test, t.prompts} {
		refs, err := one.stage(ctx, cat, dataset, id)
		if err != nil {
			return nil, err
		}
		out = append(out, refs...)
	}
	return out, nil
}

// fileBytes is about how large a file becomes before the next one is begun,
// and groupBytes how large a row group is, raw.
const (
	fileBytes  = 256 << 20
	groupBytes = 24 << 20
)

// A table writes one split of a table to local files.
type table[T any] struct {
	dir, table, split string
	paths             []string
	file              *os.File // nil between files
	w                 *parquetio.Writer[T]
	one               [1]T
	rows              int64
}

func (t *table[T]) add(row *T) (err error) {
	if t.w != nil && t.w.Bytes() > fileBytes {
		if err := t.close(); err != nil {
			return err
		}
	}
	if t.w == nil {
		if t.file, err = os.CreateTemp(t.dir, t.table+"-*.parquet"); err != nil {
			return err
		}
		t.paths = append(t.paths, t.file.Name())
		if t.w, err = parquetio.NewWriter[T](t.file, parquetio.Options{SortedBy: "prompt_id", RowGroupBytes: groupBytes}); err != nil {
			return err
		}
	}
	t.rows++
	t.one[0] = *row
	return t.w.Write(t.one[:])
}

func (t *table[T]) close() error {
	if t.w == nil {
		return nil
	}
	err := errors.Join(t.w.Close(), t.file.Close())
	t.w, t.file = nil, nil
	return err
}

func (t *table[T]) stage(ctx context.Context, cat *catalog.Catalog, dataset, id string) ([]catalog.FileRef, error) {
	var out []catalog.FileRef
	for i, path := range t.paths {
		ref, err := cat.Stage(ctx, dataset, id, t.table, t.split, i, path)
		if err != nil {
			return nil, err
		}
		out = append(out, ref)
	}
	return out, nil
}

// Count reads the source as Publish does and writes nothing.
func (p *Plan) Count(ctx context.Context) (*Result, error) {
	dir, err := os.MkdirTemp(p.opt.TempDir, "stillhouse-import-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &Result{Dataset: p.opt.Dataset, Rows: map[string]int64{}, BadReasons: []string{}}
	if r.BuildID, err = p.buildID(); err != nil {
		return nil, err
	}
	t := newTables(dir)
	defer t.abandon()
	if err := p.write(ctx, dir, t, r); err != nil {
		return nil, fmt.Errorf("import %s: %w", p.Source.Name, err)
	}
	return r, nil
}

// Terms is whether training on the rows is allowed, forbidden or unknown.
func (p *Plan) Terms() string { return p.opt.Training }
