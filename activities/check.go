package activities

import (
	"fmt"

	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// CheckRecipe checks what a recipe's own package leaves to others: the options
// of verifiers and filters, and the teachers' parameters at every effort that
// the recipe names. The error is a *[recipe.Error] at the place.
func CheckRecipe(r *recipe.Recipe) error {
	rt, err := newRuntime(r, &Sources{})
	if err != nil {
		return err
	}
	if r.Ask.Budget != nil {
		if err := CheckBudget(r); err != nil {
			return err
		}
	}
	if err := checkHandOff(r); err != nil {
		return err
	}
	for i := range r.Teachers {
		spec := &r.Teachers[i]
		t := rt.teachers[spec.ID]
		if t.config == nil {
			continue
		}
		for _, effort := range effortsOf(r, spec) {
			if _, err := teachers.NewBuilder(t.config, spec.ParamsFor(effort)); err != nil {
				return r.ErrorAt(fmt.Sprintf("teachers[%d].params", i), err.Error(), "")
			}
		}
	}
	return nil
}

// effortsOf are the efforts that the recipe names for a teacher; a column may
// hold more. Of a teacher that only judges they are those that it judges at.
func effortsOf(r *recipe.Recipe, t *recipe.Teacher) []string {
	if r.OnlyJudges(t.ID) {
		return r.JudgeEfforts(t.ID)
	}
	seen := map[string]bool{}
	var out []string
	add := func(effort string) {
		if !seen[effort] {
			seen[effort] = true
			out = append(out, effort)
		}
	}
	add(recipe.DefaultName)
	for i := range r.Prompts {
		for _, e := range r.Prompts[i].Efforts {
			add(e)
		}
	}
	for e := range t.ParamsBy.Effort {
		add(e)
	}
	for _, e := range r.JudgeEfforts(t.ID) {
		add(e)
	}
	return out
}
