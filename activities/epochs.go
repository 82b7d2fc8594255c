package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// An ask's epoch is the recipe's, with the number of a refresh and of a probe in
// the bits above it: none of the three is ever taken for another, and all stay
// within the integers that JSON numbers hold exactly.
const (
	epochBits   = 20 // of the recipe's epoch; see its max
	refreshBits = 12
	probeBits   = 20

	mostRefreshes = 1<<refreshBits - 1
	mostProbes    = 1<<probeBits - 1
)

func epochOf(recipe, refresh, probe int) int {
	return recipe + refresh<<epochBits + probe<<(epochBits+refreshBits)
}

// Anew says what a plan asks a teacher anew.
type Anew struct {
	// Refresh is the newest refresh of the teacher: its answers are taken before
	// those of earlier ones, and those before the first answers.
	Refresh int `json:"refresh,omitempty"`
	// Asked tells that this build asks for the answers of that refresh; else the
	// newest that is there serves.
	Asked bool `json:"asked,omitempty"`
	// Probe asks some prompts once more, beside all others.
	Probe *DriftProbe `json:"probe,omitempty"`
}

// A DriftProbe is the prompts that a teacher is asked once more.
type DriftProbe struct {
	Number int       `json:"number"`
	Began  time.Time `json:"began"`
	Shard  Shard     `json:"shard"` // its tasks
}

// key is how a dataset's record of its teachers names this one.
func (t *teacher) key() catalog.TeacherKey {
	return catalog.TeacherKey{Endpoint: t.endpoint, Model: t.spec.Model, Epoch: t.spec.Epoch}
}

// epochs are the asks of a sample in every epoch that may hold its answer, the newest first.
func (t *teacher) epochs(id answers.Identity) (newest answers.Ask, older []answers.Ask) {
	for refresh := t.anew.Refresh; refresh >= 0; refresh-- {
		id.Epoch = epochOf(t.spec.Epoch, refresh, 0)
		if refresh == t.anew.Refresh {
			newest = answers.Identify(id)
			continue
		}
		older = append(older, answers.Identify(id))
	}
	return newest, older
}

// with is the runtime of a plan that asks some teachers anew.
func (rt *runtime) with(anew map[string]Anew) (*runtime, error) {
	if len(anew) == 0 {
		return rt, nil
	}
	out, err := newRuntime(rt.recipe, rt.sources)
	if err != nil {
		return nil, err
	}
	out.runner, out.checkers = rt.runner, rt.checkers
	if out.keys = rt.keys; out.keys != nil {
		out.keys(out)
	}
	for id, n := range anew {
		if t := out.teachers[id]; t != nil {
			t.anew = n
		}
	}
	return out, nil
}

// refreshList reads a build's list of teachers that it asks anew.
func refreshList(ref wire.BuildRef) []string {
	if ref.Refresh == "" {
		return nil
	}
	return strings.Split(ref.Refresh, "/")
}

// RefreshOf writes the list of teachers that a build asks anew, as a
// [wire.BuildRef] holds it. A teacher that the recipe does not have, or that
// nobody can ask, is a *[RecipeError].
func RefreshOf(r *recipe.Recipe, ids []string) (string, error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for _, id := range ids {
		i := slices.IndexFunc(r.Teachers, func(t recipe.Teacher) bool { return t.ID == id })
		switch {
		case i < 0:
			return "", invalidRecipe("--refresh %s: the recipe has no such teacher; it has %s", id, strings.Join(teacherIDs(r), ", "))
		case r.Teachers[i].API == recipe.APIRecorded:
			return "", invalidRecipe("--refresh %s: its answers are recorded, and nobody can be asked anew; change its files instead", id)
		}
	}
	return strings.Join(ids, "/"), nil
}

func teacherIDs(r *recipe.Recipe) []string {
	out := make([]string, len(r.Teachers))
	for i := range r.Teachers {
		out[i] = r.Teachers[i].ID
	}
	return out
}

// refreshed finds what a build of the dataset asks anew by refreshes: those that
// it is told to make, which are recorded before anything is asked, and those
// that were made before. A refresh that did not end is gone on with.
func (a *Activities) refreshed(ctx context.Context, ref wire.BuildRef, rt *runtime, now time.Time) (map[string]Anew, error) {
	list := refreshList(ref)
	if ref.Preview > 0 {
		list = nil
	}
	if len(list) > 0 {
		full := ""
		err := a.Catalog.ChangeEpochs(ctx, ref.Dataset, func(e *catalog.Epochs) (changed bool) {
			for _, id := range list {
				t := rt.teachers[id]
				if t == nil {
					continue
				}
				one := e.Add(t.key(), id)
				switch {
				case one.Refreshing != "": // it goes on
				case one.Refreshes >= mostRefreshes:
					full = id
				default:
					one.Refreshes, one.Refreshing, one.RefreshedAt, changed = one.Refreshes+1, ref.BuildID, &now, true
				}
			}
			return changed
		})
		if err != nil {
			return nil, err
		}
		if full != "" {
			return nil, invalidRecipe("teacher %s was refreshed %d times; raise its epoch instead", full, mostRefreshes)
		}
	}
	known, err := a.Catalog.Epochs(ctx, ref.Dataset)
	if err != nil {
		return nil, err
	}
	return anewOf(rt, known, list), nil
}

// anewOf is what a plan asks anew by refreshes, by what is recorded of them.
func anewOf(rt *runtime, known *catalog.Epochs, list []string) map[string]Anew {
	out := map[string]Anew{}
	for id, t := range rt.teachers {
		if one := known.Of(t.key()); one != nil && one.Refreshes > 0 {
			out[id] = Anew{Refresh: one.Refreshes, Asked: slices.Contains(list, id)}
		}
	}
	return out
}

// endRefreshes records that the refreshes of a build are through: the next one
// asks anew again. One whose teacher was given up goes on.
func (s *seal) endRefreshes(ctx context.Context) error {
	list := slices.DeleteFunc(refreshList(s.in.BuildRef), func(id string) bool { return s.stopped[id] != "" || s.rt.teachers[id] == nil })
	if len(list) == 0 {
		return nil
	}
	return s.a.Catalog.ChangeEpochs(ctx, s.in.Dataset, func(e *catalog.Epochs) (changed bool) {
		for _, id := range list {
			t := s.rt.teachers[id]
			if one := e.Of(t.key()); one != nil && one.Refreshes == t.anew.Refresh && one.Refreshing != "" {
				one.Refreshing, changed = "", true
			}
		}
		return changed
	})
}

// older completes what was found of asks by answers of earlier epochs: of each
// ask that nothing answers the newest that there is. What its own epoch cost is
// kept beside it.
func (w *walker) older(ctx context.Context, asks []*asked, found []answers.History) error {
	for depth := 0; ; depth++ {
		var keys []answers.Ask
		var places []int
		for i, one := range asks {
			if depth < len(one.older) && !served(&found[i]) {
				keys, places = append(keys, one.older[depth]), append(places, i)
			}
		}
		if len(keys) == 0 {
			return nil
		}
		before, err := w.look(ctx, keys)
		if err != nil {
			return fmt.Errorf("look up the earlier answers of teacher %s: %w", w.t.spec.ID, err)
		}
		for n, i := range places {
			if !served(&before[n]) {
				continue
			}
			if rec := found[i].Record; rec != nil {
				before[n].Others = append(slices.Clone(before[n].Others), append(slices.Clone(found[i].Others), rec)...)
			}
			found[i], asks[i].ask = before[n], keys[n]
		}
	}
}

// answeredBefore marks the asks that an earlier epoch answers, unless the build
// asks them anew.
func (a *Activities) answeredBefore(ctx context.Context, t *teacher, asks []asked, known []bool) error {
	return answeredBefore(ctx, a.answered, t, asks, known)
}

func answeredBefore(ctx context.Context, answered func(context.Context, []answers.Ask) ([]bool, error), t *teacher, asks []asked, known []bool) error {
	if t.anew.Asked {
		return nil
	}
	for depth := range t.anew.Refresh {
		var keys []answers.Ask
		var places []int
		for i := range asks {
			if !known[i] && depth < len(asks[i].older) {
				keys, places = append(keys, asks[i].older[depth]), append(places, i)
			}
		}
		if len(keys) == 0 {
			continue
		}
		before, err := answered(ctx, keys)
		if err != nil {
			return fmt.Errorf("look up earlier answers: %w", err)
		}
		for n, i := range places {
			known[i] = before[n]
		}
	}
	return nil
}

func served(h *answers.History) bool {
	return h.Record != nil && (h.Record.Complete || revived(h.Record) != nil)
}
