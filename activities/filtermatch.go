package activities

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/dedup/contamination"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// Parts of an item of an evaluation set.
const (
	partQuestion = "question"
	partAnswer   = "answer"
)

// evalTexts yields the texts of the evaluation sets of a step, in order.
func (w *filterWork) evalTexts(ctx context.Context, step int) iter.Seq2[contamination.Item, error] {
	return func(yield func(contamination.Item, error) bool) {
		fields := w.recipe.PromptFilter[step].Contamination.Fields
		for _, set := range w.evals[step] {
			for item, err := range sources.EvalItems(ctx, set.file, fields, w.options) {
				if err != nil {
					yield(contamination.Item{}, evalFault(step, err))
					return
				}
				text := contamination.Item{Set: set.name, Name: item.Where, Part: partQuestion, Text: item.Question}
				if !yield(text, nil) {
					return
				}
				if fields.Answer == "" || item.Answer == "" {
					continue
				}
				text.Part, text.Text = partAnswer, item.Answer
				if !yield(text, nil) {
					return
				}
			}
		}
	}
}

// evalFault makes what is wrong with an evaluation set's file an error that no
// retry mends.
func evalFault(step int, err error) error {
	var row *sources.RowError
	var file *sources.FileError
	if errors.As(err, &row) || errors.As(err, &file) {
		return badSource("prompt_filter[%d].contamination: %v", step, err)
	}
	return err
}

// cutSlices reads the evaluation sets and cuts them into slices, each small
// enough to be looked for at once.
func (w *filterWork) cutSlices(ctx context.Context, plan *filterPlan) error {
	for step := range w.recipe.PromptFilter {
		if w.recipe.PromptFilter[step].Contamination == nil {
			continue
		}
		slice := filterSlice{Step: step}
		words, n, empty := 0, 0, 0
		for item, err := range w.evalTexts(ctx, step) {
			if err != nil {
				return err
			}
			one := contamination.Words(item.Text)
			if one == 0 {
				empty++
			}
			if words > 0 && words+one > contamination.SliceWords {
				slice.To = n
				plan.Slices = append(plan.Slices, slice)
				slice.From, words = n, 0
			}
			words += one
			if n++; n%4096 == 0 {
				w.beat(fmt.Sprintf("filtering prompts: read %d items of evaluation sets", n))
			}
		}
		if n == empty {
			return badSource("prompt_filter[%d].contamination: the evaluation sets hold no word to look for; name other files under against, or the field under fields.question", step)
		}
		if empty > 0 {
			plan.Notes = append(plan.Notes, fmt.Sprintf("%d text(s) of the evaluation sets of prompt_filter[%d] hold no word and are looked for nowhere", empty, step))
		}
		slice.To = n
		plan.Slices = append(plan.Slices, slice)
	}
	if len(plan.Slices) > 0 {
		plan.Groups = max(1, min(len(plan.Parts), maxMatchUnits/len(plan.Slices)))
	}
	return nil
}

// partsOf are the parts of a group, which follow each other.
func (p *filterPlan) partsOf(group int) []filterPart {
	return p.Parts[group*len(p.Parts)/p.Groups : (group+1)*len(p.Parts)/p.Groups]
}

// groupOf is the group of a part.
func (p *filterPlan) groupOf(part int) int {
	group := 0
	for (group+1)*len(p.Parts)/p.Groups <= part {
		group++
	}
	return group
}

// An indexCache keeps the index that was built last: the units of a slice use
// the same.
type indexCache struct {
	mu    sync.Mutex
	key   string
	index *contamination.Index
}

// index gives the index of a slice. One is built at a time: it is large.
func (w *filterWork) index(ctx context.Context, slice filterSlice) (*contamination.Index, error) {
	c := w.indexes
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprintf("%s %s %+v", w.dataset, w.buildID, slice)
	if c.key == key {
		return c.index, nil
	}
	c.key, c.index = "", nil
	step := w.recipe.PromptFilter[slice.Step].Contamination
	b := contamination.NewBuilder(contamination.Options{N: step.Ngram, Share: step.Share})
	n := 0
	for item, err := range w.evalTexts(ctx, slice.Step) {
		if err != nil {
			return nil, err
		}
		if n >= slice.To {
			break
		}
		if n >= slice.From {
			b.Add(item)
		}
		n++
	}
	c.key, c.index = key, b.Build()
	return c.index, nil
}

// A promptHits is what a unit of the matching found in one prompt.
type promptHits struct {
	PromptID string              `json:"p"`
	Step     int                 `json:"s"`
	Hits     []contamination.Hit `json:"h"`
}

// match looks for the items of one slice in the prompts of one group of parts.
func (w *filterWork) match(ctx context.Context, plan *filterPlan, unit int) error {
	if unit < 0 || unit >= len(plan.Slices)*plan.Groups {
		return fmt.Errorf("filter prompts: no unit %d to match", unit)
	}
	slice, group := plan.Slices[unit/plan.Groups], unit%plan.Groups
	index, err := w.index(ctx, slice)
	if err != nil {
		return err
	}
	out, err := newStageFile[promptHits](w.temp)
	if err != nil {
		return err
	}
	defer out.discard()
	scanner := index.Scanner()
	n := 0
	for _, part := range plan.partsOf(group) {
		for prompt, err := range w.prompts(ctx, &part) {
			if err == nil && n%4096 == 0 {
				err = ctx.Err()
				w.beat(fmt.Sprintf("filtering prompts: looked for items of evaluation sets in %d", n))
			}
			if err != nil {
				return err
			}
			n++
			if applies, _ := prompt.marksOf(); !applies.has(slice.Step) {
				continue
			}
			hits := scanner.Match(allText(&prompt.Prompt))
			if len(hits) == 0 {
				continue
			}
			row := promptHits{prompt.PromptID, slice.Step, hits}
			if err := out.write([]promptHits{row}, func(h *promptHits) string { return h.PromptID }); err != nil {
				return err
			}
		}
	}
	_, err = out.upload(ctx, w.bucket, w.dataset, w.buildID, stageHits, unitName(unit))
	return err
}

// allText is all that a prompt says, over all of its turns: an item that is
// split over two of them is still there.
func allText(p *chat.Prompt) string {
	var b strings.Builder
	add := func(s string) {
		if s != "" {
			b.WriteString(s)
			b.WriteByte('\n')
		}
	}
	add(p.System)
	for i := range p.Messages {
		m := &p.Messages[i]
		if m.Content != nil {
			add(*m.Content)
		}
		for j := range m.ToolCalls {
			add(m.ToolCalls[j].Arguments)
		}
	}
	return b.String()
}

// hits yields what the matching found from a part on, a prompt at a time, in the
// order of prompt ids; prompts of some parts before may be among them.
func (w *filterWork) hits(ctx context.Context, plan *filterPlan, part int) (iter.Seq2[promptFinding, error], error) {
	if len(plan.Slices) == 0 {
		return func(func(promptFinding, error) bool) {}, nil
	}
	files, err := w.units(ctx, stageHits, len(plan.Slices)*plan.Groups)
	if err != nil {
		return nil, err
	}
	return func(yield func(promptFinding, error) bool) {
		for group := plan.groupOf(part); group < plan.Groups; group++ {
			if !w.groupHits(ctx, plan, files, group, yield) {
				return
			}
		}
	}, nil
}

// groupHits yields what was found in a group of parts; false: no more is wanted.
func (w *filterWork) groupHits(ctx context.Context, plan *filterPlan, files []string, group int, yield func(promptFinding, error) bool) bool {
	var streams []iter.Seq2[promptHits, error]
	for i := range plan.Slices {
		streams = append(streams, staged[promptHits](ctx, w.bucket, files[i*plan.Groups+group]))
	}
	var rows []promptHits
	flush := func() bool {
		if len(rows) == 0 {
			return true
		}
		f := w.finding(rows)
		rows = rows[:0]
		return yield(f, nil)
	}
	for row, err := range mergeSorted(streams, func(h *promptHits) string { return h.PromptID }) {
		if err != nil {
			yield(promptFinding{}, err)
			return false
		}
		if len(rows) > 0 && rows[0].PromptID != row.PromptID && !flush() {
			return false
		}
		rows = append(rows, row)
	}
	return flush()
}

// finding puts together what the slices found in one prompt.
func (w *filterWork) finding(rows []promptHits) promptFinding {
	out := promptFinding{PromptID: rows[0].PromptID}
	bySteps := map[int][]contamination.Hit{}
	for i := range rows {
		bySteps[rows[i].Step] = append(bySteps[rows[i].Step], rows[i].Hits...)
	}
	for step := range w.recipe.PromptFilter {
		if hits := contamination.Best(bySteps[step]); len(hits) > 0 {
			out.Hits = append(out.Hits, stepHits{step, contaminants(w.recipe.PromptFilter[step].Contamination, hits)})
		}
	}
	return out
}

func contaminants(step *recipe.ContaminationStep, hits []contamination.Hit) []datasets.Contaminant {
	out := make([]datasets.Contaminant, len(hits))
	for i, h := range hits {
		out[i] = datasets.Contaminant{Set: h.Set, Item: h.Name, Part: h.Part, Share: h.Share, Words: int32(h.Words), Ngram: int32(step.Ngram)}
		for _, s := range h.Spans {
			out[i].Spans = append(out[i].Spans, datasets.Span{Start: int32(s.Start), End: int32(s.End), Text: s.Text})
		}
	}
	return out
}

// outOf tells whether contamination leaves out every task of a prompt, so that
// it is compared with no other.
func (w *filterWork) outOf(p *filterPrompt, f *promptFinding) bool {
	if f == nil {
		return false
	}
	for _, t := range p.Tasks {
		if !w.drops(t, f) {
			return false
		}
	}
	return true
}

// drops tells whether contamination leaves out a task.
func (w *filterWork) drops(t filterTask, f *promptFinding) bool {
	return f != nil && slices.ContainsFunc(f.Hits, func(h stepHits) bool {
		return t.Marks.has(h.Step) && w.recipe.PromptFilter[h.Step].Action() == recipe.ActionDrop
	})
}
