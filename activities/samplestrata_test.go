package activities

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// TestSampleKnowsItsPopulation: 50 tasks are easy and 7 hard; of 20 that are
// taken both give as many as they have, and the plan says of how many.
func TestSampleKnowsItsPopulation(t *testing.T) {
	var rows strings.Builder
	for i := range 57 {
		domain := "easy"
		if i < 7 {
			domain = "hard"
		}
		fmt.Fprintf(&rows, `{"q":"what is %d?","d":"%s"}`+"\n", i, domain)
	}
	w := newWorld(t)
	w.file("p.jsonl", rows.String())
	r, err := recipe.Parse("r.yaml", []byte(`name: d
prompts: [{path: p.jsonl, fields: {prompt: q, domain: d}}]
teachers:
  - {id: a, base_url: "https://a.example/v1", model: m, serves: [{domain: easy}]}
  - {id: b, base_url: "https://b.example/v1", model: m, serves: [{domain: hard}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	r.Dir = w.dir
	files, _, err := FindSources(context.Background(), r, sources.Finder{Dir: w.dir})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := MakeSample(context.Background(), 20, CompareRecipe(r), files, ReadOptions(), t.TempDir(),
		func(_ context.Context, s Shard, _ []datasets.Task) (Shard, error) { return s, nil }, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	strata := SampleStrata(plan)
	if len(strata) != 2 {
		t.Fatalf("%+v", strata)
	}
	if s := strata[0]; s.Domain != "easy" || s.Population != 50 || s.Sampled != 13 {
		t.Errorf("%+v, want 13 of 50 easy ones", s)
	}
	if s := strata[1]; s.Domain != "hard" || s.Population != 7 || s.Sampled != 7 {
		t.Errorf("%+v, want all 7 hard ones", s)
	}
	if r.Ask.Route.Kind == recipe.RouteAll {
		t.Error("the recipe itself was changed")
	}
}
