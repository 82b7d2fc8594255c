package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	goruntime "runtime"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// filterWork is the filtering of a build's prompts.
func (a *Activities) filterWork(ctx context.Context, ref wire.BuildRef, beat func(string)) (*filterWork, *runtime, error) {
	rt, err := a.runtime(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	evals, err := a.evalSets(ctx, rt)
	if err != nil {
		return nil, nil, err
	}
	options, err := a.readOptions(ctx, rt)
	if err != nil {
		return nil, nil, err
	}
	return &filterWork{
		recipe: rt.recipe, bucket: a.Bucket, dataset: ref.Dataset, buildID: ref.BuildID, temp: a.TempDir,
		evals: evals, options: options, indexes: &a.indexes, beat: beat,
	}, rt, nil
}

// beginFilters reads the prompts of a build whose recipe filters them, and says
// which units are to be done before they are planned.
func (a *Activities) beginFilters(ctx context.Context, ref wire.BuildRef, beat func(string)) (*wire.PlanOutput, error) {
	w, rt, err := a.filterWork(ctx, ref, beat)
	if err != nil {
		return nil, err
	}
	files, err := a.promptFiles(ctx, rt)
	if err != nil {
		return nil, err
	}
	key, plan, err := w.read(ctx, files)
	if err != nil {
		return nil, err
	}
	out := &wire.PlanOutput{Prompts: plan.Prompts, Filter: &wire.FilterPlan{Key: key}}
	for _, p := range w.phases(plan) {
		out.Filter.Phases = append(out.Filter.Phases, wire.FilterPhase{Name: p.name, Units: p.units})
	}
	return out, nil
}

// FilterPrompts does one unit of the filters of prompts.
func (a *Activities) FilterPrompts(ctx context.Context, in wire.FilterInput) error {
	var note noter
	defer heartbeat(ctx, beatEvery, note.get)()
	err := a.filterPrompts(ctx, in, note.set)
	return final(err)
}

func (a *Activities) filterPrompts(ctx context.Context, in wire.FilterInput, beat func(string)) error {
	w, _, err := a.filterWork(ctx, in.BuildRef, beat)
	if err != nil {
		return err
	}
	plan, err := loadFilterPlan(ctx, a.Bucket, in.Key)
	if err != nil {
		return err
	}
	return w.unit(ctx, plan, in.Phase, in.Unit)
}

// PlanFiltered is Plan where the filters of prompts have run.
func (a *Activities) PlanFiltered(ctx context.Context, in wire.PlanFilteredInput) (*wire.PlanOutput, error) {
	var note noter
	defer heartbeat(ctx, beatEvery, note.get)()
	out, err := a.planFiltered(ctx, in, note.set)
	return out, final(err)
}

func (a *Activities) planFiltered(ctx context.Context, in wire.PlanFilteredInput, beat func(string)) (*wire.PlanOutput, error) {
	w, _, err := a.filterWork(ctx, in.BuildRef, beat)
	if err != nil {
		return nil, err
	}
	found, err := w.found(ctx)
	if err != nil {
		return nil, err
	}
	return a.plan(ctx, in.BuildRef, found, beat)
}

// A foundPrompts is what settling wrote.
type foundPrompts struct {
	work *filterWork
	key  string
	said []string
}

// found opens what the filters found.
func (w *filterWork) found(ctx context.Context) (*foundPrompts, error) {
	keys, err := w.units(ctx, stageFound, 1)
	if err != nil {
		return nil, err
	}
	alarms, err := w.units(ctx, stageAlarms, 1)
	if err != nil {
		return nil, err
	}
	text, _, err := objstore.ReadAll(ctx, w.bucket, alarms[0], maxPlan)
	if err != nil {
		return nil, fmt.Errorf("read the alarms of the filters of prompts: %w", err)
	}
	out := &foundPrompts{work: w, key: keys[0]}
	if err := json.Unmarshal(text, &out.said); err != nil {
		return nil, fmt.Errorf("read the alarms of the filters of prompts: %w", err)
	}
	return out, nil
}

func (f *foundPrompts) findings(ctx context.Context) (iter.Seq2[promptFinding, error], error) {
	return staged[promptFinding](ctx, f.work.bucket, f.key), nil
}

func (f *foundPrompts) warnings() []string { return f.said }

// FilterHere runs the filters of prompts of a recipe on this machine alone, with
// a folder for what is too large for memory, as a build would: for the plan, or
// nil where the recipe has none.
func FilterHere(ctx context.Context, r *recipe.Recipe, files [][]sources.File, evals EvalSets, options sources.Options, dir string, beat func(string)) (FindingSource, error) {
	if len(r.PromptFilter) == 0 {
		return nil, nil
	}
	bucket, err := newScratch(dir)
	if err != nil {
		return nil, err
	}
	if evals == nil {
		evals = make(EvalSets, len(r.PromptFilter))
	}
	w := &filterWork{
		recipe: r, bucket: bucket, dataset: r.Name, buildID: "here", temp: dir,
		evals: evals, options: options, indexes: &indexCache{}, beat: beat,
	}
	_, plan, err := w.read(ctx, files)
	if err != nil {
		return nil, err
	}
	for _, phase := range w.phases(plan) {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(goruntime.GOMAXPROCS(0))
		for unit := range phase.units {
			group.Go(func() error { return w.unit(ctx, plan, phase.name, unit) })
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
	}
	return w.found(ctx)
}
