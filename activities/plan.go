package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// ReadOptions are how prompt files are read, everywhere.
func ReadOptions() sources.Options { return sources.Options{OpenParquet: parquetio.Maps} }

// Plan reads the sources, makes tasks of them and writes them in shards. Over
// the same recipe and sources it writes the same keys.
func (a *Activities) Plan(ctx context.Context, ref wire.BuildRef) (*wire.PlanOutput, error) {
	var note noter
	defer heartbeat(ctx, beatEvery, note.get)()
	out, err := a.plan(ctx, ref, nil, note.set)
	return out, final(err)
}

// plan plans a build. Where its recipe filters prompts, found is what the
// filters found; nil: they have not run, and all that comes is what they have to
// do.
func (a *Activities) plan(ctx context.Context, ref wire.BuildRef, found *foundPrompts, beat func(string)) (*wire.PlanOutput, error) {
	rt, err := a.runtime(ctx, ref)
	if err != nil {
		return nil, err
	}
	if n := len(rt.recipe.Teachers); n > wire.MaxTeachers {
		return nil, invalidRecipe("%d teachers: a build takes at most %d; split the recipe by domain", n, wire.MaxTeachers)
	} else if f := len(rt.recipe.Fallbacks()); n+max(0, f-wire.MostFallbacks) > wire.MaxTeachers {
		return nil, invalidRecipe("%d teachers, of which %d are fallbacks: together with those beyond %d a build takes at most %d; name fewer as a fallback, or split the recipe by domain",
			n, f, wire.MostFallbacks, wire.MaxTeachers)
	}
	if err := a.needCheckers(rt); err != nil {
		return nil, err
	}
	sandboxed, err := a.needSandbox(ctx, rt)
	if err != nil {
		return nil, err
	}
	if err := a.enter(ctx, ref); err != nil {
		return nil, err
	}
	if len(rt.recipe.PromptFilter) > 0 && found == nil {
		return a.beginFilters(ctx, ref, beat)
	}
	files, err := a.promptFiles(ctx, rt)
	if err != nil {
		return nil, err
	}
	options, err := a.readOptions(ctx, rt)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(a.TempDir, "plan-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	choice := newProbeChoice(rt.recipe)
	sink := func(ctx context.Context, s Shard, tasks []datasets.Task) (Shard, error) {
		choice.see(tasks)
		name := fmt.Sprintf("%04d-%07d", s.Cell, s.Seq)
		out, err := newStageFile[datasets.Task](dir)
		if err != nil {
			return s, err
		}
		defer out.discard()
		if err := out.write(tasks, func(t *datasets.Task) string { return t.TaskID }); err != nil {
			return s, err
		}
		s.Key, err = out.upload(ctx, a.Bucket, ref.Dataset, ref.BuildID, stageTasks, name)
		return s, err
	}
	now := time.Now().UTC()
	anew, err := a.refreshed(ctx, ref, rt, now)
	if err != nil {
		return nil, err
	}
	if rt, err = rt.with(anew); err != nil {
		return nil, err
	}
	p := newPlanner(rt.recipe, options, dir, sink, beat)
	defer p.close()
	p.sample = ref.Preview
	if p.purged, err = a.Catalog.PurgedPrompts(ctx, ref.Dataset); err != nil {
		return nil, err
	}
	if found != nil {
		p.filteredBy(found)
	}
	plan, err := p.make(ctx, files)
	if err != nil {
		return nil, err
	}
	if err := rt.checkParams(plan); err != nil {
		return nil, err
	}
	if err := a.planProbes(ctx, ref, rt, choice, anew, dir, now); err != nil {
		return nil, err
	}
	if len(anew) > 0 {
		plan.Anew = anew
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	key := stageKey(ref.Dataset, ref.BuildID, stagePlan, "plan", text, ".json")
	if _, err := objstore.CreateOrSame(ctx, a.Bucket, key, text); err != nil {
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	limited, err := a.openBudget(ctx, ref, rt, plan)
	if err != nil {
		return nil, err
	}
	out := &wire.PlanOutput{
		Budget: limited, Sandbox: sandboxed,
		Key: key, Tasks: plan.Tasks, Prompts: plan.Prompts, Duplicates: plan.Duplicates,
		BadRows: plan.BadRows, Shards: len(plan.Shards), Dropped: plan.Filtered.Dropped(),
		Measure: rt.needsStats(), Judges: rt.judgePlans(), Fallbacks: rt.fallbackPlans(), Fit: rt.fitPlan(),
	}
	for i := range rt.recipe.Teachers {
		t := rt.teachers[rt.recipe.Teachers[i].ID]
		tp := teacherPlan(t, plan)
		if ref.Preview > 0 && t.spec.Batch.Folder == "" {
			tp.Batch = nil // a look at a few answers does not wait for a day
		}
		if a.Serve != nil {
			a.Serve(tp.Queue)
		}
		out.Teachers = append(out.Teachers, tp)
	}
	return out, nil
}

// checkParams makes sure that every teacher can be asked at every effort that
// it is asked at, before anything is paid for.
func (rt *runtime) checkParams(plan *Plan) error {
	for _, c := range plan.Cells {
		for _, id := range slices.Concat(c.Teachers, c.Fallback) {
			if t := rt.teachers[id]; t.config != nil {
				if _, err := t.builder(c.Effort); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// enter notes in the catalog that the build has begun. A preview leaves no
// trace there.
func (a *Activities) enter(ctx context.Context, ref wire.BuildRef) error {
	if ref.Preview > 0 {
		return nil
	}
	return a.Catalog.PutIntent(ctx, catalog.Intent{
		Dataset: ref.Dataset, BuildID: ref.BuildID, Recipe: ref.RecipeDigest,
		Workflow: wire.BuildWorkflowID(ref.Dataset, ref.RecipeDigest, ref.SourcesDigest),
	})
}

// teacherPlan sizes a teacher's window: two rounds of the requests that may be
// in flight, and some, so that they never wait for a batch to be begun. The
// stream lets it grow where the endpoint is fast.
func teacherPlan(t *teacher, plan *Plan) wire.TeacherPlan {
	tp := wire.TeacherPlan{
		ID: t.spec.ID, Queue: wire.TeacherQueue(t.spec.ID, t.endpoint),
		Batches: len(plan.batches(t.spec.ID)), Asks: plan.asks(t.spec.ID), Recorded: t.config == nil,
	}
	concurrency := 256 // recorded answers are only looked up
	if t.config != nil {
		concurrency = t.spec.Limits.AtOnce()
	}
	perBatch := plan.BatchTasks[t.spec.ID] * plan.Samples
	tp.Window = min(2*concurrency/perBatch+5, MostBatches)
	if t.spec.IsBatch() {
		tp.Batch = &wire.BatchPlan{PollMS: t.spec.Batch.Poll.Milliseconds()}
	}
	return tp
}

// MostBatches bounds a teacher's batches in flight.
const MostBatches = 100

// promptFiles opens a build's prompt files from the store.
func (a *Activities) promptFiles(ctx context.Context, rt *runtime) ([][]sources.File, error) {
	out := make([][]sources.File, len(rt.sources.Prompts))
	for i, list := range rt.sources.Prompts {
		files, err := a.openSources(ctx, list)
		if err != nil {
			return nil, err
		}
		out[i] = files
	}
	return out, nil
}

func (a *Activities) openSources(ctx context.Context, list []SourceFile) ([]sources.File, error) {
	var out []sources.File
	for _, f := range list {
		if f.URL == "" {
			out = append(out, StoredFile(a.Bucket, f.Key, f.Name, f.Size, f.SHA256))
			continue
		}
		if a.Remote == nil {
			return nil, badSource("%s: this worker reads no other stores", f.URL)
		}
		found, err := a.Remote(ctx, f.URL)
		if err != nil {
			return nil, err
		}
		if len(found) != 1 || found[0].Size != f.Size || found[0].SHA256 != f.SHA256 {
			return nil, badSource("%s changed since the build was started; start the build again to read it as it is now", f.URL)
		}
		out = append(out, found[0])
	}
	return out, nil
}
