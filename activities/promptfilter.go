package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/dedup"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// Filters of prompts run before anything is planned, in phases. Each is cut into
// units that any worker may take and that write a file each, named by unit and
// content, so that a unit which runs again writes the same:
//
//	read    the sources, once: their distinct prompts in parts, by prompt id
//	match   a slice of the evaluation sets against a group of parts
//	exact   which prompts say to the word what another says
//	sign    the signatures of a part, for near-duplicates
//	band    the pairs that one band of all signatures proposes
//	settle  which prompts are kept, and what was found about each
//
// The plan then reads what was found beside the prompts.
const (
	stageFilter  = "filter"         // what was read, and the alarms
	stagePrompts = "filter-prompts" // parts
	stageHits    = "filter-hits"    // by slice and group
	stageSame    = "filter-same"    // exact duplicates
	stageSigns   = "filter-signs"   // by part
	stagePairs   = "filter-pairs"   // by band
	stageFound   = "filter-found"
	stageAlarms  = "filter-alarms" // what looks as if the filters found too much
)

// Phases after the reading, in order.
const (
	phaseMatch  = "match"
	phaseExact  = "exact"
	phaseSign   = "sign"
	phaseBand   = "band"
	phaseSettle = "settle"
)

const (
	// partPrompts and partBytes bound a part.
	partPrompts = 50_000
	partBytes   = 48 << 20
	// maxMatchUnits bounds the units of the matching: each is an activity.
	maxMatchUnits = 256
)

// A filterWork filters the prompts of one build.
type filterWork struct {
	recipe  *recipe.Recipe
	bucket  objstore.Bucket
	dataset string
	buildID string
	temp    string // for files on their way to the store
	evals   EvalSets
	options sources.Options
	indexes *indexCache
	beat    func(string)
}

// A filterPrompt is a distinct prompt of the sources.
type filterPrompt struct {
	PromptID string       `json:"p"`
	Order    int64        `json:"o"` // of its first row in the sources: of two prompts the first stays
	Source   int          `json:"s"` // index of the recipe's prompts, of the first row
	Domain   string       `json:"d"` // of the first row; where there are several, one in which every sign counts
	Tasks    []filterTask `json:"t"`
	Prompt   chat.Prompt  `json:"m"`
}

// A filterTask is a task of such a prompt.
type filterTask struct {
	Effort string    `json:"e"`
	Marks  stepMarks `json:"m"`
}

// A filterPlan is what is read and in which units the rest is done.
type filterPlan struct {
	Parts   []filterPart  `json:"parts"`
	Prompts int64         `json:"prompts"`
	Sources []int64       `json:"sources"` // prompts by index of the recipe's prompts, of their first rows
	Slices  []filterSlice `json:"slices,omitempty"`
	Groups  int           `json:"groups,omitempty"` // of parts, that are matched at once
	Notes   []string      `json:"notes,omitempty"`
}

// A filterPart is some prompts in the order of their ids.
type filterPart struct {
	Key     string `json:"key"`
	Prompts int    `json:"prompts"`
}

// A filterSlice is some texts of the evaluation sets of one step.
type filterSlice struct {
	Step int `json:"step"`
	From int `json:"from"` // text of the step's sets
	To   int `json:"to"`   // the first one after it
}

// filterPhase is a phase and how many units it has.
type filterPhase struct {
	name  string
	units int
}

// phases lists the phases that come after the reading.
func (w *filterWork) phases(p *filterPlan) []filterPhase {
	var out []filterPhase
	if n := len(p.Slices) * p.Groups; n > 0 {
		out = append(out, filterPhase{phaseMatch, n})
	}
	if w.step(recipe.Duplicate) >= 0 {
		out = append(out, filterPhase{phaseExact, 1})
	}
	if o := nearOptions(w.recipe); o != nil {
		out = append(out, filterPhase{phaseSign, len(p.Parts)}, filterPhase{phaseBand, o.Bands})
	}
	return append(out, filterPhase{phaseSettle, 1})
}

// unit does one unit of a phase.
func (w *filterWork) unit(ctx context.Context, plan *filterPlan, phase string, unit int) error {
	switch phase {
	case phaseMatch:
		return w.match(ctx, plan, unit)
	case phaseExact:
		return w.exact(ctx, plan)
	case phaseSign:
		return w.sign(ctx, plan, unit)
	case phaseBand:
		return w.band(ctx, plan, unit)
	case phaseSettle:
		return w.settle(ctx, plan)
	}
	return fmt.Errorf("filter prompts: no phase %q", phase)
}

// read reads the prompt files of every source and writes their distinct prompts
// in parts, and what is to be done with them. It gives the key of that.
func (w *filterWork) read(ctx context.Context, files [][]sources.File) (string, *filterPlan, error) {
	dir, err := os.MkdirTemp(w.temp, "filter-*")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	p := newPlanner(w.recipe, w.options, dir, nil, w.beat)
	defer p.close()
	if p.purged, err = catalog.Open(w.bucket).PurgedPrompts(ctx, w.dataset); err != nil {
		return "", nil, err
	}
	if err := p.readAll(ctx, files); err != nil {
		return "", nil, err
	}
	out := &filterPlan{Sources: make([]int64, len(w.recipe.Prompts))}
	parts := &partWriter{work: w, dir: dir, plan: out}
	defer parts.discard()
	for i := range p.parts.list {
		items, err := p.parts.list[i].take()
		if err != nil {
			return "", nil, err
		}
		for len(items) > 0 {
			n := 1
			for n < len(items) && items[n].PromptID == items[0].PromptID {
				n++
			}
			prompt, err := w.promptOf(items[:n])
			if err == nil {
				err = parts.add(ctx, prompt)
			}
			if err != nil {
				return "", nil, err
			}
			items = items[n:]
		}
		if err := ctx.Err(); err != nil {
			return "", nil, err
		}
	}
	if err := parts.flush(ctx); err != nil {
		return "", nil, err
	}
	if err := w.cutSlices(ctx, out); err != nil {
		return "", nil, err
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", nil, err
	}
	key := stageKey(w.dataset, w.buildID, stageFilter, "prompts", text, ".json")
	if _, err := objstore.CreateOrSame(ctx, w.bucket, key, text); err != nil {
		return "", nil, fmt.Errorf("write what the filters of prompts read: %w", err)
	}
	return key, out, nil
}

// promptOf is the prompt of some items, sorted by domain, effort and place.
func (w *filterWork) promptOf(items []plannedItem) (*filterPrompt, error) {
	first := &items[0]
	for i := range items {
		if items[i].Seq < first.Seq {
			first = &items[i]
		}
	}
	out := &filterPrompt{PromptID: first.PromptID, Order: first.Row, Source: first.Source, Domain: first.Item.Domain, Prompt: first.Item.Prompt}
	for i := range items {
		it := &items[i].Item
		if dedup.StyleOf(out.Domain) == dedup.Prose && dedup.StyleOf(it.Domain) != dedup.Prose {
			out.Domain = it.Domain
		}
		if i > 0 && it.Domain == items[i-1].Item.Domain && it.Effort == items[i-1].Item.Effort {
			continue // the first row is the task
		}
		marks, err := appliesTo(w.recipe, &datasets.Task{
			Domain: it.Domain, Effort: it.Effort, Gold: it.Gold, Group: it.Group, Meta: it.Meta, Source: it.Where,
		})
		if err != nil {
			return nil, err
		}
		out.Tasks = append(out.Tasks, filterTask{it.Effort, marks})
	}
	return out, nil
}

// A partWriter cuts prompts into parts.
type partWriter struct {
	work  *filterWork
	dir   string
	plan  *filterPlan
	file  *stageFile[filterPrompt]
	rows  int
	bytes int
}

func (p *partWriter) add(ctx context.Context, prompt *filterPrompt) (err error) {
	if p.file == nil {
		if p.file, err = newStageFile[filterPrompt](p.dir); err != nil {
			return err
		}
	}
	if err := p.file.write([]filterPrompt{*prompt}, func(p *filterPrompt) string { return p.PromptID }); err != nil {
		return err
	}
	p.plan.Prompts++
	p.plan.Sources[prompt.Source]++
	p.rows++
	if p.bytes += promptBytes(&prompt.Prompt); p.rows < partPrompts && p.bytes < partBytes {
		return nil
	}
	return p.flush(ctx)
}

// flush ends the part that is open.
func (p *partWriter) flush(ctx context.Context) error {
	if p.file == nil {
		return nil
	}
	w, n := p.work, len(p.plan.Parts)
	key, err := p.file.upload(ctx, w.bucket, w.dataset, w.buildID, stagePrompts, unitName(n))
	if err != nil {
		return err
	}
	p.file.discard()
	p.plan.Parts = append(p.plan.Parts, filterPart{key, p.rows})
	p.file, p.rows, p.bytes = nil, 0, 0
	w.beat(fmt.Sprintf("filtering prompts: read %d", p.plan.Prompts))
	return nil
}

func (p *partWriter) discard() {
	if p.file != nil {
		p.file.discard()
	}
}

func unitName(unit int) string { return fmt.Sprintf("%05d", unit) }

// loadFilterPlan reads what read wrote.
func loadFilterPlan(ctx context.Context, b objstore.Bucket, key string) (*filterPlan, error) {
	text, _, err := objstore.ReadAll(ctx, b, key, maxPlan)
	if err != nil {
		return nil, fmt.Errorf("read what is to be filtered: %w", err)
	}
	var out filterPlan
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("read what is to be filtered: %w", err)
	}
	return &out, nil
}

// prompts streams the prompts of a part.
func (w *filterWork) prompts(ctx context.Context, part *filterPart) iter.Seq2[filterPrompt, error] {
	return staged[filterPrompt](ctx, w.bucket, part.Key)
}

// staged streams the values of a staged file.
func staged[T any](ctx context.Context, b objstore.Bucket, key string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		at, err := b.Head(ctx, key)
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		unstaged[T](stagedRows(ctx, b, key, at.Size))(yield)
	}
}

// units lists the files that the units of a stage wrote. A unit that ran twice
// left equal files or, where a worker of another version ran it, two; the first
// in order is as good as the other.
func (w *filterWork) units(ctx context.Context, stage string, count int) ([]string, error) {
	keys := make([]string, count)
	prefix := workPrefix(w.dataset, w.buildID, stage)
	for at, err := range w.bucket.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(at.Key, prefix), "-")
		if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < count && keys[i] == "" {
			keys[i] = at.Key
		}
	}
	if i := slices.Index(keys, ""); i >= 0 {
		return nil, fmt.Errorf("unit %d of %s was done, but its file is gone", i, prefix)
	}
	return keys, nil
}

// marksOf are the steps that apply to any task of a prompt, and to every one.
func (p *filterPrompt) marksOf() (anyTask, everyTask stepMarks) {
	everyTask = ^stepMarks(0)
	for _, t := range p.Tasks {
		anyTask |= t.Marks
		everyTask &= t.Marks
	}
	return anyTask, everyTask
}
