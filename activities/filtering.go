package activities

import (
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/filter"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// filterInput is what filters see of a candidate.
func filterInput(task *datasets.Task, c *datasets.Candidate, stats *filter.Stats) *filter.Input {
	return &filter.Input{Candidate: c, Task: task, Stats: stats, CountTokens: teachers.TextTokens}
}

// filtersOf makes the filters of a recipe ready.
func filtersOf(r *recipe.Recipe) ([]step, error) {
	var out []step
	for i := range r.Filter {
		f, err := filterOf(&r.Filter[i])
		path := fmt.Sprintf("filter[%d]", i)
		if err != nil {
			if at := optionIn(err, r.Filter[i].Options); at != "" {
				path += "." + r.Filter[i].Name + at
			}
			return nil, r.ErrorAt(path, err.Error(), "")
		}
		if filter.Masks(f) && r.Logprobs != nil {
			return nil, r.ErrorAt(path, "the filter pii masks answers, and the logprobs of their tokens spell out what it masks", "write action: drop, or remove logprobs")
		}
		out = append(out, step{when: r.Filter[i].When, filter: f})
	}
	return out, nil
}

func filterOf(f *recipe.FilterStep) (filter.Filter, error) {
	if f.Expr == nil {
		return filter.New(f.Name, f.Options)
	}
	keep := func(in *filter.Input) (bool, error) { return f.Expr.Match(*envOf(in.Task, in.Candidate)) }
	return filter.NewExpr(keep, f.Reason, f.Expr.Uses(recipe.VerdictWords...)), nil
}

// masked is a text that may repeat an answer, with what the recipe masks in
// answers masked.
func (rt *runtime) masked(text, domain string) string {
	for i := range rt.filters {
		text = filter.MaskText(rt.filters[i].filter, text, domain)
	}
	return text
}
