package activities

import (
	"context"
	"maps"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/answers"
)

// findUntold finds what was answered to purged prompts and is in no table: to
// probes, and to builds of the versions' recipes that published nothing. The
// recipes say under which keys it is kept.
func (w *purging) findUntold(ctx context.Context, versions []versionToPurge, keys *foundKeys) error {
	if w.plan.Scope != catalog.PurgePrompts {
		return nil
	}
	known, err := w.Catalog.Epochs(ctx, w.version.Dataset)
	if err != nil {
		return err
	}
	of := map[string]map[answers.Key]bool{} // by endpoint
	for _, v := range versions {
		rt, err := w.runtimeOf(ctx, v)
		if err != nil {
			if v.m.RecipeDigest != "" {
				w.addNote("the recipe of %s can't be read any more, so answers to these prompts that are in none of its tables are not looked for", v.v.Ref())
			}
			continue
		}
		w.note("looking for answers to the prompts that no table of %s has", v.v.Ref())
		for row, err := range catalog.ReadTable[datasets.PromptRow](ctx, w.Catalog, v.m, datasets.TablePrompts) {
			if err == nil && w.prompts[row.PromptID] {
				var task datasets.Task
				if task, err = taskOfRow(&row); err == nil {
					rt.everyKey(&task, known, of)
				}
			}
			if err != nil {
				return err
			}
		}
	}
	for _, endpoint := range slices.Sorted(maps.Keys(of)) {
		ids, err := w.Eraser.IDs(ctx, endpoint, slices.Collect(maps.Keys(of[endpoint])))
		if err != nil {
			return err
		}
		for id, key := range ids {
			keys.add(endpoint, id, key)
			w.asks[id] = true
		}
	}
	return nil
}

// everyKey adds the keys of all asks that a recipe's teachers may have been asked
// of a task: every sample of every refresh, and every probe.
func (rt *runtime) everyKey(task *datasets.Task, known *catalog.Epochs, of map[string]map[answers.Key]bool) {
	add := func(a answers.Ask) {
		if of[a.Endpoint] == nil {
			of[a.Endpoint] = map[answers.Key]bool{}
		}
		of[a.Endpoint][a.Key] = true
	}
	for _, t := range rt.teachers {
		if t.config == nil {
			continue // recorded answers are the user's
		}
		one := known.Of(t.key())
		if one == nil {
			one = &catalog.TeacherEpoch{}
		}
		before := t.anew
		t.anew = Anew{Refresh: max(before.Refresh, one.Refreshes)}
		for sample := range samplingOf(rt.recipe).Most {
			ask, err := t.ask(task, sample)
			if err != nil {
				break // it can't be put to this teacher, so it never was
			}
			for _, a := range append([]answers.Ask{ask.ask}, ask.older...) {
				add(a)
			}
		}
		for refresh := range one.Refreshes + 1 {
			for probe := range one.Probes {
				t.anew = Anew{Refresh: refresh, Probe: &DriftProbe{Number: probe + 1}}
				ask, err := t.probeAsk(task)
				if err != nil {
					break
				}
				add(ask.ask)
			}
		}
		t.anew = before
	}
}
