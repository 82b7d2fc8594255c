package activities

import (
	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/merge"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// pairOptions are the recipe's; false where it asks for no pairs.
func pairOptions(r *recipe.Recipe) (merge.PairOptions, bool) {
	p := r.Pairs
	if p == nil {
		return merge.PairOptions{}, false
	}
	o := merge.PairOptions{Margin: p.Margin, Most: p.MaxPerTask, SameTeacher: p.Teachers == recipe.PairsSame}
	if p.MaxLengthRatio != nil {
		o.LengthRatio = *p.MaxLengthRatio
	}
	for i := range r.Teachers {
		o.TeacherOrder = append(o.TeacherOrder, r.Teachers[i].ID)
	}
	return o, true
}

// addPairs writes a task's preference pairs. They are of all of its candidates:
// what the merge policy or a mixture left out may well be the worse of two.
func (t *tables) addPairs(r *refinedTask) error {
	if t.rt == nil {
		return nil
	}
	o, wanted := pairOptions(t.rt.recipe)
	if !wanted {
		return nil
	}
	to := t.pairs
	if r.Task.Split == datasets.TableTest {
		to = t.testPairs
	}
	for _, p := range merge.Pairs(o, r.Candidates) {
		if err := to.add(merge.PairRow(p, len(r.Task.Prompt.All()))); err != nil {
			return err
		}
	}
	return nil
}
