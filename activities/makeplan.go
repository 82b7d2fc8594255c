package activities

import (
	"context"

	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// MakePlan reads the prompt files of every source and plans their tasks. Bad
// rows above a source's limit are an error that spells the first ones out.
func MakePlan(ctx context.Context, r *recipe.Recipe, files [][]sources.File, options sources.Options, dir string, sink ShardSink, beat func(string)) (*Plan, error) {
	return MakeFilteredPlan(ctx, r, files, options, nil, dir, sink, beat)
}

// MakeFilteredPlan is MakePlan over what the filters of prompts found; nil:
// there are none.
func MakeFilteredPlan(ctx context.Context, r *recipe.Recipe, files [][]sources.File, options sources.Options, found FindingSource, dir string, sink ShardSink, beat func(string)) (*Plan, error) {
	p := newPlanner(r, options, dir, sink, beat)
	defer p.close()
	if found != nil {
		p.filteredBy(found)
	}
	return p.make(ctx, files)
}

// MakeSample is MakePlan for n tasks, taken from all cells in turn.
func MakeSample(ctx context.Context, n int, r *recipe.Recipe, files [][]sources.File, options sources.Options, dir string, sink ShardSink, beat func(string)) (*Plan, error) {
	return MakeFilteredSample(ctx, n, r, files, options, nil, dir, sink, beat)
}

// MakeFilteredSample is MakeSample over what the filters of prompts found; nil:
// there are none.
func MakeFilteredSample(ctx context.Context, n int, r *recipe.Recipe, files [][]sources.File, options sources.Options, found FindingSource, dir string, sink ShardSink, beat func(string)) (*Plan, error) {
	p := newPlanner(r, options, dir, sink, beat)
	p.sample = n
	defer p.close()
	if found != nil {
		p.filteredBy(found)
	}
	return p.make(ctx, files)
}
