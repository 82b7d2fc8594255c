// Package diff says what changed between two versions: which rows came, went
// and changed, and why, by domain and by teacher, with what changed in the
// recipe, the teachers, the methods, the sources and the columns.
//
//	r, err := diff.Compare(ctx, c, "maths@11", "maths@12", diff.Options{})
//
// Tables are sorted by task, so both versions are read once, side by side, and
// only the rows of one task are in memory. Why a row is there or not is looked
// up in the other version's prompts and candidates. The two may be of different
// datasets.
package diff

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// What became of a row.
const (
	In      = "in"      // of the second version alone
	Out     = "out"     // of the first alone
	Changed = "changed" // of both, and not the same
)

// Why a row came, went or changed: the first that applies, in the order of this
// list. Of a changed row the reason is that for which the old answer left, or
// where none speaks against it, that for which the new one came.
const (
	WhyPrompt       = "prompt"         // the task is in one of the versions alone
	WhyPromptFilter = "prompt_filter"  // it was left out before it was asked; Detail is its status
	WhySplit        = "split"          // the row is in the other split
	WhyAnswer       = "answer_changed" // the same ask has another answer: asked anew, or read by another parser
	WhyTeacher      = "teacher"        // the teacher is in one of the recipes alone
	WhyNotAsked     = "not_asked"      // the ask was not made in the other build: samples, route, parameters, epoch or budget
	WhyFailed       = "failed"         // the ask brought no answer in the other build; Detail is its error
	WhyVerdict      = "verdict"        // the verdict differs; Detail is from → to
	WhyFilter       = "filter"         // a filter decides otherwise; Detail are the reject reasons
	WhyMixture      = "mixture"        // the mixture or a cap decides otherwise
	WhyRoute        = "route"          // of a prompt: other teachers are asked; Detail is from → to
	WhyChoice       = "choice"         // the merge policy took another answer
	WhyFields       = "fields"         // other columns differ; Detail names them
	WhyUnknown      = "unknown"        // a version has no table that could tell
)

// Options of a comparison.
type Options struct {
	// Examples is how many rows are shown of each table and reason; 0 for none.
	Examples int
	// TempDir is where tables that are not sorted are sorted; "" for the
	// system's. Those that this program builds are.
	TempDir string
	// Note, where set, is told how many tasks were compared, now and then.
	Note func(tasks int64)
}

// A Report is what differs.
type Report struct {
	A Side `json:"a"`
	B Side `json:"b"`
	// Unchanged: the tables that are compared hold the same rows.
	Unchanged bool     `json:"unchanged"`
	Tasks     int64    `json:"tasks"` // that were compared; 0 where no table had to be read
	Tables    []Table  `json:"tables"`
	Recipe    []Change `json:"recipe"`   // by path, such as teachers[k3].params.temperature
	Teachers  []Change `json:"teachers"` // by id and field
	Methods   []Change `json:"methods"`  // verifiers, filters and policies by kind and name
	Sources   []Change `json:"sources"`  // by path: digests
	Schema    []Change `json:"schema"`   // by table and column
	// Notes say what could not be compared.
	Notes    []string  `json:"notes"`
	Examples []Example `json:"examples,omitempty"`
}

// A Side is one of the versions.
type Side struct {
	Ref            string           `json:"ref"` // name@number
	Dataset        string           `json:"dataset"`
	Version        int64            `json:"version"`
	BuildID        string           `json:"build_id"`
	CreatedAt      time.Time        `json:"created_at"`
	ManifestSHA256 string           `json:"manifest_sha256"`
	Rows           map[string]int64 `json:"rows"` // by table
	CostMicros     int64            `json:"cost_micros"`
}

// A Table is what became of the rows of one table. Same + Changed + Out are the
// rows of the first version, Same + Changed + In those of the second.
type Table struct {
	Table     string `json:"table"`     // train, test, pairs or prompts
	Identical bool   `json:"identical"` // byte for byte; then nothing of it was read
	Same      int64  `json:"same"`
	In        int64  `json:"in"`
	Out       int64  `json:"out"`
	Changed   int64  `json:"changed"`
	// Why counts by reason and detail, the most frequent first; Domains and
	// Teachers by name. A changed row whose teacher changed counts as out of the
	// old and in for the new one among Teachers; of a pair the teacher is that
	// of the chosen answer.
	Why      []Tally `json:"why"`
	Domains  []Tally `json:"domains"`
	Teachers []Tally `json:"teachers"`
}

// A Tally counts rows.
type Tally struct {
	Name    string `json:"name"`
	Detail  string `json:"detail,omitempty"` // of a reason
	In      int64  `json:"in"`
	Out     int64  `json:"out"`
	Changed int64  `json:"changed"`
}

func (t *Tally) total() int64 { return t.In + t.Out + t.Changed }

// A Change is one value that differs. A or B is absent where the version has
// none.
type Change struct {
	Path string  `json:"path"`
	A    *string `json:"a,omitempty"`
	B    *string `json:"b,omitempty"`
}

// An Example is a row that came, went or changed.
type Example struct {
	Table    string `json:"table"`
	Change   string `json:"change" jsonschema:"enum=in,enum=out,enum=changed"`
	Why      string `json:"why" jsonschema:"enum=prompt,enum=prompt_filter,enum=split,enum=answer_changed,enum=teacher,enum=not_asked,enum=failed,enum=verdict,enum=filter,enum=mixture,enum=route,enum=choice,enum=fields,enum=unknown"`
	Detail   string `json:"detail,omitempty"`
	TaskID   string `json:"task_id"`
	Prompt   string `json:"prompt,omitempty"` // the beginning of its last question
	TeacherA string `json:"teacher_a,omitempty"`
	TeacherB string `json:"teacher_b,omitempty"`
	SampleA  string `json:"sample_a,omitempty"`
	SampleB  string `json:"sample_b,omitempty"`
	VerdictA string `json:"verdict_a,omitempty"`
	VerdictB string `json:"verdict_b,omitempty"`
	AnswerA  string `json:"answer_a,omitempty"` // its beginning
	AnswerB  string `json:"answer_b,omitempty"`
}

// A side is one of the versions while it is compared.
type side struct {
	version  catalog.Version
	manifest *catalog.Manifest
	teachers map[string]bool
	unsorted map[string]bool // tables that have to be sorted first
}

// Compare reads two versions and says what differs from the first to the
// second. Every file that is read is held to its digest. The error wraps the
// catalog's errors.
func Compare(ctx context.Context, c *catalog.Catalog, a, b string, opt Options) (*Report, error) {
	var sides [2]*side
	for i, ref := range []string{a, b} {
		v, m, err := c.Resolve(ctx, ref)
		if err != nil {
			return nil, err
		}
		s := &side{version: v, manifest: m, teachers: map[string]bool{}, unsorted: map[string]bool{}}
		for _, t := range m.Teachers {
			s.teachers[t.ID] = true
		}
		sides[i] = s
	}
	r := &Report{A: sides[0].describe(), B: sides[1].describe(), Notes: []string{}}
	if err := r.recipes(ctx, c, sides); err != nil {
		return nil, err
	}
	var err error
	if r.Schema, err = schemas(ctx, c, sides); err != nil {
		return nil, err
	}
	r.Teachers, r.Methods, r.Sources = teacherChanges(sides), methodChanges(sides), sourceChanges(sides)
	if err := r.compareRows(ctx, c, sides, opt); err != nil {
		return nil, fmt.Errorf("compare %s with %s: %w", r.A.Ref, r.B.Ref, err)
	}
	r.Unchanged = !slices.ContainsFunc(r.Tables, func(t Table) bool { return t.In+t.Out+t.Changed > 0 })
	return r, nil
}

func (s *side) describe() Side {
	rows := map[string]int64{}
	for _, table := range s.manifest.Tables() {
		rows[table] = s.manifest.Rows(table)
	}
	return Side{
		Ref: s.version.Ref(), Dataset: s.version.Dataset, Version: s.version.Number, BuildID: s.version.BuildID,
		CreatedAt: s.version.CreatedAt, ManifestSHA256: s.version.ManifestSHA256, Rows: rows, CostMicros: s.manifest.CostMicros,
	}
}

// compareRows compares the tables. One that turns out not to be sorted is
// sorted, and all is read again.
func (r *Report) compareRows(ctx context.Context, c *catalog.Catalog, sides [2]*side, opt Options) error {
	for {
		k := newComparison(c, sides, opt)
		err := k.run(ctx)
		var disorder *unsortedError
		if errors.As(err, &disorder) && !sides[disorder.side].unsorted[disorder.table] {
			sides[disorder.side].unsorted[disorder.table] = true
			continue
		}
		if err != nil {
			return err
		}
		r.Tables, r.Tasks, r.Examples = k.tables(), k.tasks, k.examples
		r.Notes = append(r.Notes, k.notes()...)
		return nil
	}
}

// compared are the tables whose rows are compared.
var compared = []string{datasets.TableTrain, datasets.TableTest, datasets.TablePairs, datasets.TablePrompts}

// identical reports whether a table is byte for byte the same in both versions.
func identical(sides [2]*side, table string) bool {
	of := func(s *side) (out []string) {
		for _, f := range s.manifest.TableFiles(table) {
			out = append(out, f.Split+" "+f.SHA256)
		}
		return out
	}
	return slices.Equal(of(sides[0]), of(sides[1]))
}

// schemas are the columns that differ between tables of the same name.
func schemas(ctx context.Context, c *catalog.Catalog, sides [2]*side) ([]Change, error) {
	out := []Change{}
	tables := slices.Concat(sides[0].manifest.Tables(), sides[1].manifest.Tables())
	slices.Sort(tables)
	for _, table := range slices.Compact(tables) {
		if sides[0].manifest.SchemaFingerprint[table] == sides[1].manifest.SchemaFingerprint[table] {
			continue
		}
		var columns [2]map[string]string
		for i, s := range sides {
			var err error
			if columns[i], err = columnsOf(ctx, c, s.manifest, table); err != nil {
				return nil, err
			}
		}
		if columns[0] == nil || columns[1] == nil {
			out = append(out, Change{Path: table, A: columnCount(columns[0]), B: columnCount(columns[1])})
			continue
		}
		out = append(out, changesOf(table+".", columns[0], columns[1])...)
	}
	return out, nil
}

// columnCount stands for a table that one version alone has.
func columnCount(columns map[string]string) *string {
	if columns == nil {
		return nil
	}
	text := fmt.Sprintf("%d columns", len(columns))
	return &text
}

// columnsOf are a table's columns with their types; nil where the version has
// no such table.
func columnsOf(ctx context.Context, c *catalog.Catalog, m *catalog.Manifest, table string) (map[string]string, error) {
	files := m.TableFiles(table)
	if len(files) == 0 {
		return nil, nil
	}
	columns := []parquetio.Column(nil)
	for _, t := range parquetio.Tables() {
		if t.Name == table && t.Fingerprint == m.SchemaFingerprint[table] {
			columns = t.Columns
		}
	}
	if columns == nil {
		info, err := parquetio.Inspect(objstore.NewReaderAt(ctx, c.Bucket(), files[0].Key, files[0].Bytes), files[0].Bytes)
		if err != nil {
			return nil, fmt.Errorf("read the columns of %s: %w; look closer with: stillhouse verify %s", files[0].Key, err, m.Dataset)
		}
		columns = info.Columns
	}
	out := map[string]string{}
	for _, c := range columns {
		out[c.Name] = c.Type
		if c.Nullable {
			out[c.Name] += " or null"
		}
	}
	return out, nil
}

// changesOf lists what differs between two maps, by key.
func changesOf(prefix string, a, b map[string]string) []Change {
	var keys []string
	for key := range a {
		keys = append(keys, key)
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, naturally)
	var out []Change
	for _, key := range keys {
		va, inA := a[key]
		vb, inB := b[key]
		if inA && inB && va == vb {
			continue
		}
		change := Change{Path: prefix + key}
		if inA {
			change.A = &va
		}
		if inB {
			change.B = &vb
		}
		out = append(out, change)
	}
	return out
}

// naturally orders paths so that prompts[2] comes before prompts[10].
func naturally(a, b string) int {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			if da, db := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0"); da != db {
				if len(da) != len(db) {
					return len(da) - len(db)
				}
				return strings.Compare(da, db)
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

// digits is how many digits s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
