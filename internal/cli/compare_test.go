package cli

import (
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// The route that a comparison recommends is one that the recipe takes.
func TestRecommendedRouteIsARoute(t *testing.T) {
	const text = `name: d
prompts: [{path: p.jsonl, domain: math, efforts: [low, high]}]
teachers:
  - {id: a, base_url: "https://a.example/v1", model: m}
  - {id: b, base_url: "https://b.example/v1", model: m}
`
	r, err := recipe.Parse("r.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	lines := report.RecipeLines([]report.Recommendation{
		{Domain: "math", Effort: "low", Why: report.RecommendLead, Teacher: "a", Tasks: 50},
		{Domain: "a'\x1b[2J\u202e", Effort: "low", Why: report.RecommendCheapest, Teacher: "b", Tied: []string{"a", "b"}, Tasks: 50},
		{Domain: "math", Effort: "high", Why: report.RecommendUndecided, Tasks: 3},
	}, askedTeachers(r))
	if r, err = recipe.Parse("r.yaml", []byte(text+lines)); err != nil {
		t.Fatalf("%v\n%s", err, lines)
	}
	if rules := r.Ask.Route.Rules; len(rules) != 3 || rules[0].Teachers[0] != "a" || len(rules[2].Teachers) != 2 {
		t.Errorf("%+v, want a for math at low, both for what is left", rules)
	}
}
