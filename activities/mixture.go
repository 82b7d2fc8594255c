package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/merge"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// A mixture decides which of the rows that the merge policy chose enter the
// dataset. It sees all tasks twice, in the same order: see counts them, settle
// decides, and apply carries that out. In memory it has a byte a row, and what
// there is of each kind; all else is on disk.
type mixture struct {
	spec *recipe.Mix
	draw merge.Mix
	seed int64
	dir  string

	kinds  numbers
	caps   []string // dimensions, in the order of Values
	values []numbers
	sort   mixSort
	seen   int64
	prompt string // of the rows that wait for their ranks
	wait   []merge.Row

	verdicts []byte // by row
	applied  int64
	left     *leftRows // where somebody has to know which rows were left out
	result   report.Mix
}

// newMixture makes the recipe's; nil where it has none. Whoever writes logprobs
// has to know which rows were left.
func newMixture(r *recipe.Recipe, dir string, logprobs bool) (*mixture, error) {
	spec := r.Mix
	if spec == nil {
		return nil, nil
	}
	m := &mixture{spec: spec, seed: r.Output.Seed, dir: dir, sort: mixSort{dir: dir, chunk: mixChunk}}
	m.draw = merge.Mix{Weights: spec.Weights, Most: int64(spec.Most), Alpha: 1, Total: int64(spec.Total)}
	if spec.Alpha != nil {
		m.draw.Alpha = *spec.Alpha
	}
	for _, of := range recipe.CapWords() { // in one order, whatever a map gives
		if share, ok := spec.Caps[of]; ok {
			m.caps = append(m.caps, of)
			m.draw.Caps = append(m.draw.Caps, share)
		}
	}
	m.values = make([]numbers, len(m.caps))
	if logprobs {
		var err error
		if m.left, err = newLeftRows(dir); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *mixture) close() error {
	if m == nil {
		return nil
	}
	return errors.Join(m.sort.close(), m.left.close())
}

// dimension is a candidate's value of one.
func dimension(of string, t *datasets.Task, c *datasets.Candidate) string {
	switch of {
	case "domain":
		return t.Domain
	case "effort":
		return t.Effort
	case "teacher":
		return c.Teacher
	case "source":
		return sourceFile(t.Source)
	}
	return ""
}

// see counts a task's chosen rows.
func (m *mixture) see(r *refinedTask) error {
	if r.Task.PromptID != m.prompt {
		if err := m.flush(); err != nil {
			return err
		}
		m.prompt = r.Task.PromptID
	}
	for i := range r.Candidates {
		c := &r.Candidates[i]
		if !c.Selected {
			continue
		}
		row := merge.Row{Key: mixKey(m.seed, c.SampleID), Index: m.seen}
		m.seen++
		kind, err := m.kinds.add(dimension(m.spec.By, &r.Task, c), m.spec.By)
		if err != nil {
			return err
		}
		row.Kind = kind
		for i, of := range m.caps {
			if of == capPrompt {
				continue // ranked by flush
			}
			if row.Values[i], err = m.values[i].add(dimension(of, &r.Task, c), of); err != nil {
				return err
			}
		}
		m.wait = append(m.wait, row)
	}
	return nil
}

// capPrompt has as many values as there are prompts, so that it is kept by
// ranks: the tasks of a prompt follow each other.
const capPrompt = "prompt"

// flush ranks the rows of a prompt and lets them go.
func (m *mixture) flush() error {
	if i := slices.Index(m.caps, capPrompt); i >= 0 {
		rank(m.wait, i)
	}
	for _, row := range m.wait {
		if err := m.sort.add(row); err != nil {
			return err
		}
	}
	m.wait = m.wait[:0]
	return nil
}

// settle decides, once every row was seen.
func (m *mixture) settle() error {
	if err := errors.Join(m.flush(), m.sort.finish()); err != nil {
		return err
	}
	rows := map[string]int64{}
	for i, name := range m.kinds.list {
		rows[name] = m.kinds.rows[i]
	}
	sorted, err := m.draw.Kinds(rows)
	if err != nil {
		return invalidRecipe("%v", err)
	}
	// Rows name kinds by the numbers that these had when they came; kinds that
	// only the recipe names come after them.
	kinds := make([]merge.Kind, len(m.kinds.list))
	for _, k := range sorted {
		if i, ok := m.kinds.of[k.Name]; ok {
			kinds[i] = k
		} else {
			kinds = append(kinds, k)
		}
	}
	d := merge.Draw{Kinds: kinds, Caps: m.draw.Caps, Ranked: make([]bool, len(m.caps))}
	for i, of := range m.caps {
		d.Ranked[i] = of == capPrompt
	}
	base, err := d.Base(m.sort.all())
	if err != nil {
		return err
	}
	m.verdicts = make([]byte, m.seen)
	over := make([]int64, len(m.caps))
	taken, err := d.Once(m.sort.all(), base, func(r *merge.Row, what int) {
		m.verdicts[r.Index] = byte(what)
		if what == merge.OverKind && kinds[r.Kind].Share == 0 {
			m.verdicts[r.Index] = noWeight
		}
		if what >= merge.OverCap {
			over[what-merge.OverCap]++
		}
	})
	if err != nil {
		return err
	}
	m.report(kinds, taken, over, base)
	return nil
}

// noWeight is the verdict on a row whose kind the mixture does not want.
const noWeight = 255

// reason says why a row was left; "" where it was not.
func (m *mixture) reason(verdict byte) string {
	switch {
	case verdict == merge.Taken:
		return ""
	case verdict == noWeight:
		return merge.LeftMixWeight
	case verdict == merge.OverKind:
		return merge.LeftMix
	}
	return merge.LeftCapPrefix + m.caps[verdict-merge.OverCap]
}

// apply takes those of a task's rows out that the mixture left. Tasks come as
// they came to see.
func (m *mixture) apply(r *refinedTask) error {
	if m == nil {
		return nil
	}
	for i := range r.Candidates {
		c := &r.Candidates[i]
		if !c.Selected {
			continue
		}
		if m.applied >= m.seen {
			return fmt.Errorf("mix: task %s has rows that it had not when they were counted", r.Task.TaskID)
		}
		reason := m.reason(m.verdicts[m.applied])
		m.applied++
		if reason == "" {
			continue
		}
		c.Selected, c.Unselected = false, &reason
		if err := m.left.add(r.Task.TaskID, c.SampleID); err != nil {
			return err
		}
	}
	return nil
}

// Bounds of what a report says of a mixture.
const reportKinds = 1000

// report sums up what was taken.
func (m *mixture) report(kinds []merge.Kind, taken, over []int64, base int64) {
	r := report.Mix{By: m.spec.By, Chosen: m.seen, Kinds: []report.MixKind{}}
	for i, k := range kinds {
		r.Target += k.Target
		r.Rows += taken[i]
		r.Kinds = append(r.Kinds, report.MixKind{Name: k.Name, Chosen: k.Rows, Share: k.Share, Target: k.Target, Rows: taken[i]})
	}
	r.Short = r.Target - r.Rows
	r.Kinds = fewKinds(r.Kinds, reportKinds)
	for i, of := range m.caps {
		d := merge.Draw{Caps: m.draw.Caps[i : i+1]}
		r.Caps = append(r.Caps, report.MixCap{Of: of, Share: m.draw.Caps[i], Most: d.Limit(0, base), Left: over[i]})
	}
	m.result = r
}

// fewKinds are the kinds by name, of many those that miss most.
func fewKinds(kinds []report.MixKind, most int) []report.MixKind {
	kinds = slices.Clone(kinds)
	byName := func(a, b report.MixKind) int { return cmp.Compare(a.Name, b.Name) }
	if len(kinds) > most {
		slices.SortFunc(kinds, func(a, b report.MixKind) int {
			return cmp.Or(cmp.Compare(b.Short(), a.Short()), cmp.Compare(b.Target, a.Target), byName(a, b))
		})
		kinds = kinds[:most]
	}
	slices.SortFunc(kinds, byName)
	return kinds
}

// mixed lets the recipe's mixture see all tasks and decide; nil where the recipe
// has none.
func (s *seal) mixed(ctx context.Context, dir string, tasks iter.Seq2[refinedTask, error]) (*mixture, error) {
	m, err := newMixture(s.rt.recipe, dir, s.rt.recipe.Logprobs != nil)
	if m == nil || err != nil {
		return nil, err
	}
	n := 0
	for r, err := range tasks {
		if n++; n%4096 == 0 {
			s.note(fmt.Sprintf("mixing: counted the rows of %d of %d tasks", n, s.plan.Tasks))
			err = errors.Join(err, ctx.Err())
		}
		if err == nil {
			err = m.see(&r)
		}
		if err != nil {
			return nil, errors.Join(err, m.close())
		}
	}
	if err := m.settle(); err != nil {
		return nil, errors.Join(err, m.close())
	}
	s.mixIs(m)
	return m, nil
}

// mixIs takes a mixture's result into the build's and the report.
func (s *seal) mixIs(m *mixture) {
	s.report.SetMix(&m.result)
	short := m.result
	short.Kinds = fewKinds(short.Kinds, resultKinds)
	for i := range short.Kinds {
		short.Kinds[i].Name = clipped(short.Kinds[i].Name, resultName)
	}
	s.result.Mix = &short
}

// Bounds of a mixture in a build's result: kinds, and the bytes of a name, which
// may be a file's.
const (
	resultKinds = 50
	resultName  = 160
)

// leftRows are the samples that a mixture left out, on disk, in the order of
// their tasks.
type leftRows struct {
	file *os.File
	w    *parquetio.Writer[stagedRow]
}

func newLeftRows(dir string) (*leftRows, error) {
	f, err := os.CreateTemp(dir, "left-*.parquet")
	if err != nil {
		return nil, err
	}
	w, err := parquetio.NewWriter[stagedRow](f, stageGroup)
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &leftRows{f, w}, nil
}

func (l *leftRows) add(task, sample string) error {
	if l == nil {
		return nil
	}
	return l.w.Write([]stagedRow{{TaskID: task, Data: sample}})
}

func (l *leftRows) close() error {
	if l == nil {
		return nil
	}
	_ = l.file.Close() // it is closed already where it was read
	return os.Remove(l.file.Name())
}

// from takes the samples that were left out of the rows of logprobs, which come
// in the order of their tasks.
func (l *leftRows) from(rows logprobStream) (logprobStream, error) {
	if l == nil {
		return rows, nil
	}
	if err := errors.Join(l.w.Close(), l.file.Close()); err != nil {
		return nil, err
	}
	return func(yield func(datasets.LogprobRow, error) bool) {
		next, stop := iter.Pull2(localRows[stagedRow](l.file.Name()))
		defer stop()
		left, err, more := next()
		var task string
		var samples []string // of that task
		for row, rowErr := range rows {
			if err := errors.Join(rowErr, err); err != nil {
				yield(row, err)
				return
			}
			if row.TaskID != task {
				task, samples = row.TaskID, samples[:0]
			}
			for more && err == nil && left.TaskID <= task {
				if left.TaskID == task {
					samples = append(samples, left.Data)
				}
				left, err, more = next()
			}
			row.Selected = row.Selected && !slices.Contains(samples, row.SampleID)
			if !yield(row, nil) {
				return
			}
		}
	}, nil
}
