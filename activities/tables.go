package activities

import (
	"context"
	"errors"
	"os"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
)

// tableBytes is about how large a table's file becomes before the next one is
// begun, compressed.
const tableBytes = 256 << 20

// tableGroup bounds a row group, raw: four tables are written at once.
const tableGroup = 24 << 20

// A tableWriter writes one table's split to local files, and begins a new file
// where one is large enough. Equal rows give equal files. A table without rows
// has no file: not every reader opens an empty one.
type tableWriter[T any] struct {
	dir          string
	table, split string
	files        []string
	described    []catalog.FileRef // what was taken of each file while it was written
	file         *os.File
	w            *parquetio.Writer[T] // nil between files
	one          [1]T
	rows         int64
	most         int64 // bytes of a file
}

func newTable[T any](dir, table, split string) *tableWriter[T] {
	return &tableWriter[T]{dir: dir, table: table, split: split, most: tableBytes}
}

func (t *tableWriter[T]) begin() error {
	f, err := os.CreateTemp(t.dir, t.table+"-*.parquet")
	if err != nil {
		return err
	}
	w, err := parquetio.NewWriter[T](f, parquetio.Options{SortedBy: "prompt_id", RowGroupBytes: tableGroup})
	if err != nil {
		return errors.Join(err, f.Close())
	}
	t.file, t.w, t.files = f, w, append(t.files, f.Name())
	return nil
}

func (t *tableWriter[T]) add(row T) error {
	if t.w != nil && t.w.Bytes() > t.most {
		if err := t.close(); err != nil {
			return err
		}
	}
	if t.w == nil {
		if err := t.begin(); err != nil {
			return err
		}
	}
	t.rows++
	t.one[0] = row
	return t.w.Write(t.one[:])
}

// close ends the last file.
func (t *tableWriter[T]) close() error {
	if t.w == nil {
		return nil
	}
	err := errors.Join(t.w.Close(), t.file.Close())
	t.described = append(t.described, catalog.FileRef{Table: t.table, Split: t.split, SHA256: t.w.SHA256(), Bytes: t.w.Bytes()})
	t.w = nil
	return err
}

// stage uploads the files.
func (t *tableWriter[T]) stage(ctx context.Context, c *catalog.Catalog, dataset, buildID string) ([]catalog.FileRef, error) {
	var out []catalog.FileRef
	for i, path := range t.files {
		ref, err := c.Stage(ctx, dataset, buildID, t.table, t.split, i, path)
		if err != nil {
			return nil, err
		}
		out = append(out, ref)
	}
	return out, nil
}

// describe gives the files' digests as a manifest would name them, as they were
// taken while the files were written, so that nothing is read or uploaded where
// nothing changed. Stage takes them anew.
func (t *tableWriter[T]) describe() []catalog.FileRef { return t.described }

// A table is a tableWriter of any row.
type table interface {
	close() error
	describe() []catalog.FileRef
	stage(ctx context.Context, c *catalog.Catalog, dataset, buildID string) ([]catalog.FileRef, error)
}

// tables are the tables of a version being written.
type tables struct {
	train, test *tableWriter[datasets.Row]
	prompts     *tableWriter[datasets.PromptRow]
	candidates  *tableWriter[datasets.Candidate]
	attempts    *tableWriter[datasets.Attempt]
	logprobs    *tableWriter[datasets.LogprobRow] // nil where the recipe asks for none
	fit         *tableWriter[datasets.FitRow]     // nil where no student scores

	pairs, testPairs *tableWriter[datasets.Pair]
	judgements       *tableWriter[datasets.JudgeRow]
	rt               *runtime // nil measures nothing and makes no pairs
}

func newTables(dir string) *tables {
	return &tables{
		train:      newTable[datasets.Row](dir, datasets.TableTrain, datasets.TableTrain),
		test:       newTable[datasets.Row](dir, datasets.TableTest, datasets.TableTest),
		prompts:    newTable[datasets.PromptRow](dir, datasets.TablePrompts, "all"),
		candidates: newTable[datasets.Candidate](dir, datasets.TableCandidates, "all"),
		attempts:   newTable[datasets.Attempt](dir, datasets.TableAttempts, "all"),
		pairs:      newTable[datasets.Pair](dir, datasets.TablePairs, datasets.TableTrain),
		testPairs:  newTable[datasets.Pair](dir, datasets.TablePairs, datasets.TableTest),
		judgements: newTable[datasets.JudgeRow](dir, datasets.TableJudgements, "all"),
	}
}

// all lists the tables in the order of a manifest.
func (t *tables) all() []table {
	list := []table{t.train, t.test, t.prompts, t.candidates, t.attempts}
	if t.logprobs != nil {
		list = append(list, t.logprobs)
	}
	if t.fit != nil {
		list = append(list, t.fit)
	}
	return append(list, t.pairs, t.testPairs, t.judgements)
}

// add writes a refined task's rows.
func (t *tables) add(r *refinedTask) error {
	prompt := promptRow(&r.Task, r.Status)
	prompt.Escalated = r.Escalated
	t.rt.measure(&prompt, r)
	if err := t.prompts.add(prompt); err != nil {
		return err
	}
	if err := t.addPairs(r); err != nil {
		return err
	}
	if err := t.addJudgements(r); err != nil {
		return err
	}
	for i := range r.Candidates {
		c := &r.Candidates[i]
		if err := t.candidates.add(*c); err != nil {
			return err
		}
		if !c.Selected {
			continue
		}
		split := t.train
		if c.Split == datasets.TableTest {
			split = t.test
		}
		if err := split.add(datasets.RowOf(c)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tables) close() error {
	var errs []error
	for _, w := range t.all() {
		errs = append(errs, w.close())
	}
	return errors.Join(errs...)
}

func promptRow(task *datasets.Task, status string) datasets.PromptRow {
	row := datasets.PromptRow{
		TaskID: task.TaskID, PromptID: task.PromptID, Domain: task.Domain, Effort: task.Effort,
		Split: task.Split, Status: status, Route: task.Route, RouteReason: task.RouteWhy, Fallback: task.Fallback,
		Messages: task.Prompt.All(), Tools: optional(task.Prompt.Tools),
		Gold: task.Gold, Tests: task.Tests, Group: optional(task.Group), Meta: optional(task.Meta),
		Source: task.Source, Copies: task.Copies,
	}
	for _, im := range task.Prompt.Images {
		row.Images = append(row.Images, datasets.Image{Digest: im.Digest, MediaType: im.MediaType, Key: im.Key})
	}
	found(&row, task.Findings)
	return row
}
