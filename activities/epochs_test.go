package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// No recipe's epoch, no refresh and no probe is ever taken for another, and all
// are integers that JSON holds exactly.
func TestEpochsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (recipe, refresh, probe int) {
			return rapid.IntRange(0, 999_999).Draw(t, name+" epoch"), rapid.IntRange(0, mostRefreshes).Draw(t, name+" refresh"), rapid.IntRange(0, mostProbes).Draw(t, name+" probe")
		}
		a1, a2, a3 := draw("a")
		b1, b2, b3 := draw("b")
		if same := a1 == b1 && a2 == b2 && a3 == b3; (epochOf(a1, a2, a3) == epochOf(b1, b2, b3)) != same {
			t.Fatal("two epochs are one")
		}
		if epochOf(a1, a2, a3) >= 1<<53 {
			t.Fatal("no exact JSON number")
		}
	})
	if epochOf(7, 0, 0) != 7 {
		t.Error("a recipe's epoch is another than it was")
	}
}

// refresh is a build that asks a teacher anew.
func (w *world) refresh(recipe, list string) *run {
	w.t.Helper()
	return w.startAs(recipe, func(ref *wire.BuildRef) { ref.Refresh = list })
}

// A version answers with the number of times that it was changed.
func versioned(version *atomic.Int64) func(teacherstest.Request) teacherstest.Reply {
	return func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: fmt.Sprintf("version %d of %s", version.Load(), r.Prompt)}
	}
}

// contents are the texts of train.
func (w *world) contents(dataset string) []string {
	w.t.Helper()
	var out []string
	for _, row := range rows[datasets.Row](w, dataset, datasets.TableTrain) {
		out = append(out, *row.Messages[len(row.Messages)-1].Content)
	}
	slices.Sort(out)
	return out
}

func TestARefreshAsksAnewOnce(t *testing.T) {
	var version atomic.Int64
	server := teacherstest.New(t, versioned(&version))
	w := newWorld(t)
	w.file("p.jsonl", sums(10))
	recipe := askRecipe("a", server.URL, "")
	w.build(recipe)
	version.Store(1)

	fresh := w.refresh(recipe, "t").ask()
	if c := fresh.counts["t"]; c.New != 10 || c.Reused != 0 {
		t.Errorf("%+v", c)
	}
	fresh.refine()
	out, result := fresh.seal()
	if out.Version != 2 || result.AnswersNew != 10 {
		t.Errorf("%+v %+v", out, result)
	}
	for _, text := range w.contents("a") {
		if !strings.HasPrefix(text, "version 1") {
			t.Errorf("a refreshed version holds %q", text)
		}
	}

	// Without the flag the newest answers serve, and nobody pays again; one row
	// more costs one ask.
	version.Store(2)
	later := w.start(recipe).ask()
	if c := later.counts["t"]; c.New != 0 || c.Reused != 10 {
		t.Errorf("%+v", c)
	}
	later.refine()
	if out, _ := later.seal(); !out.Unchanged || out.Version != 2 {
		t.Errorf("%+v", out)
	}
	w.file("p.jsonl", sums(11))
	if c := w.start(recipe).ask().counts["t"]; c.New != 1 {
		t.Errorf("%+v", c)
	}
	w.file("p.jsonl", sums(10))

	// Another dataset has not asked anew, and pays for nothing either.
	other := w.start(strings.Replace(recipe, "name: a", "name: b", 1)).ask()
	if c := other.counts["t"]; c.New != 0 || c.Reused != 10 {
		t.Errorf("%+v", c)
	}

	// Again means again.
	if c := w.refresh(recipe, "t").ask().counts["t"]; c.New != 10 {
		t.Errorf("%+v", c)
	}
	// An epoch of the recipe is another thing.
	if c := w.start(askRecipe("a", server.URL, ", epoch: 1")).ask().counts["t"]; c.New != 10 {
		t.Errorf("%+v", c)
	}
}

// A refresh that was cut short goes on where it was; until then the newest
// answer that each prompt has serves.
func TestARefreshThatIsCutShortGoesOn(t *testing.T) {
	var version, left atomic.Int64
	answer := versioned(&version)
	left.Store(1 << 30)
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		if left.Add(-1) < 0 {
			return teacherstest.Reply{Status: 401, Message: "no credit"}
		}
		return answer(r)
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(200))
	recipe := askRecipe("a", server.URL, ", limits: {concurrency: 1}")
	w.build(recipe)
	version.Store(1)
	left.Store(50)
	cut := w.refresh(recipe, "t").ask()
	if c := cut.counts["t"]; c.New != 50 {
		t.Fatalf("%+v", c)
	}
	cut.refine()
	if out, _ := cut.seal(); out.Version != 2 || len(out.Stopped) != 1 {
		t.Errorf("%+v", out)
	}
	renewed := 0
	for _, text := range w.contents("a") {
		if strings.HasPrefix(text, "version 1") {
			renewed++
		}
	}
	if renewed != 50 || len(w.contents("a")) != 200 {
		t.Errorf("%d of %d answers are renewed, want 50 of 200", renewed, len(w.contents("a")))
	}

	left.Store(1 << 30)
	w.a.Close() // a client remembers for a while that the teacher has no credit
	if c := w.start(recipe).ask().counts["t"]; c.New != 0 || c.Reused != 200 {
		t.Errorf("without the flag %+v", c)
	}
	again := w.refresh(recipe, "t").ask()
	if c := again.counts["t"]; c.New != 150 || c.Reused != 50 {
		t.Errorf("with it %+v", c)
	}
	again.refine()
	again.seal()
	for _, text := range w.contents("a") {
		if !strings.HasPrefix(text, "version 1") {
			t.Errorf("%q is left of before", text)
		}
	}
	if c := w.refresh(recipe, "t").ask().counts["t"]; c.New != 200 {
		t.Errorf("the next refresh %+v", c)
	}
}

// What fails when it is asked anew keeps its older answer.
func TestWhatCannotBeAskedAnewKeepsItsAnswer(t *testing.T) {
	var version atomic.Int64
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		if version.Load() == 1 && strings.HasPrefix(r.Prompt, "3+") {
			return teacherstest.Reply{Status: 400, Message: "not today"}
		}
		return versioned(&version)(r)
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(5))
	recipe := askRecipe("a", server.URL, ", price: {input: 1, output: 1}")
	w.build(recipe)
	version.Store(1)
	r := w.refresh(recipe, "t").ask()
	r.refine()
	_, result := r.seal()
	if result.Rows["train"] != 5 || !slices.Contains(w.contents("a"), "version 0 of 3+4=") {
		t.Errorf("%v", w.contents("a"))
	}
	if result.AnswersNew != 4 || result.AnswersReused != 1 {
		t.Errorf("%+v", result)
	}
}

func TestRefreshesOfSampledTasks(t *testing.T) {
	m := &marker{asked: map[string]int{}}
	server := teacherstest.New(t, m.reply)
	w := newWorld(t)
	w.file("p.jsonl", sums(40))
	first := w.start(sampledRecipe("a", server.URL)).ask().counts["t"]
	anew := w.refresh(sampledRecipe("a", server.URL), "t").ask()
	if c := anew.counts["t"]; c.New != first.New || c.Reused != 0 {
		t.Errorf("%+v, want %d new", c, first.New)
	}
	anew.refine()
	anew.seal()
	if c := w.start(sampledRecipe("a", server.URL)).ask().counts["t"]; c.New != 0 || c.Reused != first.New {
		t.Errorf("%+v", c)
	}
}

func TestRefreshOfNobody(t *testing.T) {
	r := parsed(t, "name: a\nprompts: [{path: p.jsonl}]\nteachers:\n  - {id: t, model: m, base_url: http://localhost/v1}\n  - {id: old, api: recorded, model: m, path: x.jsonl, fields: {content: a}}\n")
	if got, err := RefreshOf(r, []string{"t", "t"}); got != "t" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	for id, want := range map[string]string{"k3": "no such teacher; it has t, old", "old": "recorded"} {
		_, err := RefreshOf(r, []string{id})
		var fault *RecipeError
		if !errors.As(err, &fault) || !strings.Contains(fault.Text, want) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// A plan that is made again, as after a crash, is the same one: the refresh is
// recorded once.
func TestARefreshIsRecordedOnce(t *testing.T) {
	server := teacherstest.New(t, answers42)
	w := newWorld(t)
	w.file("p.jsonl", sums(3))
	r := w.refresh(askRecipe("a", server.URL, ""), "t")
	if again := must[wire.PlanOutput](w, wire.ActivityPlan, r.ref); again.Key != r.plan.Key {
		t.Errorf("%s, then %s", r.plan.Key, again.Key)
	}
	known, err := w.a.Catalog.Epochs(context.Background(), "a")
	if err != nil || len(known.Teachers) != 1 || known.Teachers[0].Refreshes != 1 || known.Teachers[0].Refreshing != r.ref.BuildID {
		t.Errorf("%+v %v", known, err)
	}
}
