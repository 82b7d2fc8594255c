package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/dedup"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// settle puts together what was found about each prompt.
func (w *filterWork) settle(ctx context.Context, plan *filterPlan) error {
	dir, err := os.MkdirTemp(w.temp, "filter-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	like := newBucketSort(dir, "like", func(f *promptFinding) string { return f.PromptID })
	defer like.close()
	alarms, err := w.duplicates(ctx, plan, dir, like)
	if err != nil {
		return err
	}
	hits, err := w.hits(ctx, plan, 0)
	if err != nil {
		return err
	}
	out, err := newStageFile[promptFinding](dir)
	if err != nil {
		return err
	}
	defer out.discard()
	for f, err := range joinFindings(hits, like.sorted()) {
		if err == nil {
			err = out.write([]promptFinding{f}, func(f *promptFinding) string { return f.PromptID })
		}
		if err != nil {
			return err
		}
	}
	text, err := json.Marshal(append(slices.Clone(plan.Notes), alarms...))
	if err != nil {
		return err
	}
	key := stageKey(w.dataset, w.buildID, stageAlarms, unitName(0), text, ".json")
	if _, err := objstore.CreateOrSame(ctx, w.bucket, key, text); err != nil {
		return fmt.Errorf("write the alarms of the filters of prompts: %w", err)
	}
	_, err = out.upload(ctx, w.bucket, w.dataset, w.buildID, stageFound, unitName(0))
	return err
}

// joinFindings makes one finding of each prompt of two lists in the order of
// prompt ids: the hits of the first, and all else of the second.
func joinFindings(hits, like iter.Seq2[promptFinding, error]) iter.Seq2[promptFinding, error] {
	return func(yield func(promptFinding, error) bool) {
		right := readFindings(like)
		defer right.close()
		head, err, more := right.next()
		for left, lerr := range hits {
			for ; err == nil && more && head.PromptID < left.PromptID; head, err, more = right.next() {
				if !yield(head, nil) {
					return
				}
			}
			if lerr != nil || err != nil {
				yield(promptFinding{}, cmp.Or(lerr, err))
				return
			}
			if more && head.PromptID == left.PromptID {
				head.Hits = left.Hits
				left = head
				head, err, more = right.next()
			}
			if !yield(left, nil) {
				return
			}
		}
		for ; err == nil && more; head, err, more = right.next() {
			if !yield(head, nil) {
				return
			}
		}
		if err != nil {
			yield(promptFinding{}, err)
		}
	}
}

// duplicates adds which prompts say what another one says, and those that stand
// for a cluster of them. It gives what looks as if it were too many.
func (w *filterWork) duplicates(ctx context.Context, plan *filterPlan, dir string, like *bucketSort[promptFinding]) ([]string, error) {
	if w.step(recipe.Duplicate) < 0 && w.step(recipe.NearDuplicate) < 0 {
		return nil, nil
	}
	t, err := newOrderTable(filepath.Join(dir, "orders"))
	if err != nil {
		return nil, err
	}
	defer t.close()
	efforts := newInterner()
	if err := w.each(ctx, plan, 0, len(plan.Parts), func(p *filterPrompt, f *promptFinding) error {
		return t.put(p.Order, orderRow{ID: p.PromptID, Efforts: efforts.number(w.effortsOf(p, f)), Source: p.Source})
	}); err != nil {
		return nil, err
	}
	if err := w.same(ctx, func(order, of uint64) error {
		return t.change(int64(order), func(r *orderRow) { r.Same = int64(of) + 1 })
	}); err != nil {
		return nil, err
	}
	if err := w.near(ctx, plan, func(m dedup.Match) error {
		return t.change(int64(m.Order), func(r *orderRow) { r.Near, r.Jaccard = int64(m.Of)+1, m.Jaccard })
	}); err != nil {
		return nil, err
	}
	lost := make([]int64, len(plan.Sources))
	if err := t.each(ctx, func(_ int64, r *orderRow) error {
		f, root, err := w.likeOf(t, r, efforts)
		if err != nil || f == nil {
			return err
		}
		lost[r.Source]++
		if err := t.change(root, func(r *orderRow) { r.Members++ }); err != nil {
			return err
		}
		return like.add(*f)
	}); err != nil {
		return nil, err
	}
	most, alarms := w.maxCluster(), w.lossAlarms(plan, lost)
	crowded := 0
	if err := t.each(ctx, func(_ int64, r *orderRow) error {
		if r.Members == 0 {
			return nil
		}
		if size := int64(r.Members) + 1; size > int64(most) {
			if crowded++; crowded <= shownAlarms {
				alarms = append(alarms, fmt.Sprintf("%d prompts say the same, as prompt %s does, more than max_cluster (%d): look at some of them before you trust that", size, r.ID, most))
			}
		}
		return like.add(promptFinding{PromptID: r.ID, Cluster: r.ID})
	}); err != nil {
		return nil, err
	}
	if crowded > shownAlarms {
		alarms = append(alarms, fmt.Sprintf("%d more clusters have more than max_cluster (%d) prompts", crowded-shownAlarms, most))
	}
	return alarms, nil
}

// shownAlarms is how many sources, and how many clusters, are named.
const shownAlarms = 5

// likeOf is what is known of a prompt's equals, and the order of the prompt that
// stands for them; nil where it has no earlier one.
func (w *filterWork) likeOf(t *orderTable, r *orderRow, efforts *interner) (*promptFinding, int64, error) {
	if r.Same == 0 && r.Near == 0 {
		return nil, 0, nil
	}
	f := &promptFinding{PromptID: r.ID}
	near, jaccard, root := r.Near-1, r.Jaccard, r.Near-1
	if r.Same > 0 {
		first, err := t.get(r.Same - 1)
		if err != nil {
			return nil, 0, err
		}
		f.Same = &likePrompt{first.ID, 1, efforts.list[first.Efforts]}
		// What resembles the first one resembles this one, which says the same.
		if near, jaccard, root = first.Near-1, first.Jaccard, r.Same-1; near >= 0 {
			root = near
		}
	}
	if near >= 0 {
		kept, err := t.get(near)
		if err != nil {
			return nil, 0, err
		}
		f.Near = &likePrompt{kept.ID, jaccard, efforts.list[kept.Efforts]}
		f.Cluster = kept.ID
	} else {
		f.Cluster = f.Same.PromptID
	}
	return f, root, nil
}

// effortsOf are the efforts of a prompt's tasks that contamination leaves in,
// sorted.
func (w *filterWork) effortsOf(p *filterPrompt, f *promptFinding) []string {
	var out []string
	for _, t := range p.Tasks {
		if !w.drops(t, f) {
			out = append(out, t.Effort)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maxCluster is the number of prompts of one cluster from which on it is told
// of.
func (w *filterWork) maxCluster() int {
	most := 0
	if i := w.step(recipe.NearDuplicate); i >= 0 {
		most = w.recipe.PromptFilter[i].NearDuplicate.MaxCluster
	}
	return cmp.Or(most, dedup.DefaultMaxCluster)
}

// lossAlarms tells of the sources of which too many prompts were found.
func (w *filterWork) lossAlarms(plan *filterPlan, lost []int64) []string {
	most := dedup.DefaultMaxSourceLoss
	if i := w.step(recipe.NearDuplicate); i >= 0 {
		if m := w.recipe.PromptFilter[i].NearDuplicate.MaxSourceLoss; m != nil {
			most = *m
		}
	}
	var out []string
	found := 0
	for i, n := range lost {
		of := plan.Sources[i]
		if of == 0 || float64(n)/float64(of) <= most {
			continue
		}
		if found++; found <= shownAlarms {
			out = append(out, fmt.Sprintf("%d of %d prompts of prompts[%d] (%s) say what an earlier prompt says, more than max_source_loss (%g): look at some of them before you trust that",
				n, of, i, clipped(w.recipe.Prompts[i].Path, resultText), most))
		}
	}
	if found > shownAlarms {
		out = append(out, fmt.Sprintf("%d more sources lose more than max_source_loss (%g)", found-shownAlarms, most))
	}
	return out
}

// An interner numbers lists of texts.
type interner struct {
	numbers map[string]int
	list    [][]string
}

func newInterner() *interner { return &interner{numbers: map[string]int{}} }

func (in *interner) number(list []string) int {
	key := strings.Join(list, "\x00")
	n, ok := in.numbers[key]
	if !ok {
		n = len(in.list)
		in.numbers[key] = n
		in.list = append(in.list, list)
	}
	return n
}
