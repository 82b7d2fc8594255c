package activities

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// TestCompareAsksEverybody: each of two teachers owns a domain, so that a build
// could not compare them; a bake-off asks both about all of its sample, and
// publishes nothing.
func TestCompareAsksEverybody(t *testing.T) {
	owners := strings.NewReplacer("content: a}}", "content: a}, serves: [{domain: math}]}", "content: b}}", "content: b}, serves: [{domain: sums}]}").Replace(recordedSumsRecipe)
	w := newWorld(t)
	recordedSums(w, 60)
	ref := w.submit(owners)
	ref.Preview, ref.Compare = 40, true
	r := &run{w: w, ref: ref, started: time.Now(), reports: map[string]*wire.StreamSummary{}, counts: map[string]wire.AskCounts{}}
	r.plan = must[wire.PlanOutput](w, wire.ActivityPlan, ref)
	r.ask()
	r.refine()
	out := must[wire.BuildOutput](w, wire.ActivitySeal, r.sealInput())
	text, _, err := objstore.ReadAll(context.Background(), w.bucket, out.Preview, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	tasks := fromJSON[[]PreviewTask](t, text)
	rec, err := recipe.Parse("sums.yaml", []byte(owners))
	if err != nil {
		t.Fatal(err)
	}
	rep, err := Comparison(rec, tasks)
	if err != nil {
		t.Fatal(err)
	}
	all := rep.Comparison.Scopes[0]
	if len(tasks) != 40 || all.Tasks != 40 || all.Pairs[0].Common != 40 || all.Together.Tasks != 40 {
		t.Errorf("%d tasks; the comparison is of %d, %d in common", len(tasks), all.Tasks, all.Pairs[0].Common)
	}
	if n := len(rep.Comparison.Recommend()); n != 4 {
		t.Errorf("%d recommendations, want one for each of two domains at two efforts", n)
	}
	if w.versions("sums") != 0 {
		t.Error("a version was published")
	}

	// The same worker takes the same recipe by its own route when it is built.
	built := w.start(owners).ask()
	built.refine()
	if _, result := built.seal(); result.Teachers["a"].Asks != 60 || result.Teachers["b"].Asks != 60 {
		t.Errorf("the build asked %d and %d, want 60 of each: its domain at two efforts", result.Teachers["a"].Asks, result.Teachers["b"].Asks)
	}
}

// TestWhatTheVerifierWouldPrefer: where one answer of a judged pair passes and
// the other fails, the report can say how far the judge agrees with that.
func TestWhatTheVerifierWouldPrefer(t *testing.T) {
	pass, fail, unknown := datasets.Pass, datasets.Fail, datasets.Unknown
	tasks := []struct {
		a, b    *string
		outcome string
	}{
		{&pass, &fail, datasets.JudgedA}, {&pass, &fail, datasets.JudgedB}, {&fail, &pass, datasets.JudgedB},
		{&pass, &pass, datasets.JudgedA}, {&pass, &unknown, datasets.JudgedA}, {nil, nil, datasets.JudgedTie}, {&pass, &fail, datasets.Unknown},
	}
	a := report.New([]report.TeacherInfo{{ID: "x"}, {ID: "y"}})
	for i, task := range tasks {
		id := string(rune('0' + i))
		candidates := []datasets.Candidate{
			{TaskID: id, SampleID: id + "a", Teacher: "x", Verdict: task.a}, {TaskID: id, SampleID: id + "b", Teacher: "y", Verdict: task.b},
			{TaskID: id, SampleID: id + "c", Teacher: "z", Verdict: &pass, Flags: []string{datasets.FlagEscalated}},
		}
		judged := []datasets.Judgement{
			{TaskID: id, Judge: "j", TeacherA: "x", TeacherB: "y", SampleA: id + "a", SampleB: id + "b", Outcome: task.outcome},
			{TaskID: id, Judge: "j", TeacherA: "x", TeacherB: "z", SampleA: id + "a", SampleB: id + "c", Outcome: datasets.JudgedA},
		}
		if err := compareTask(a, candidates, judged); err != nil {
			t.Fatal(err)
		}
	}
	p := a.Report().Preferences
	if len(p.Judges) != 1 || p.Judges[0].Comparisons != 6 || len(p.Judges[0].Matches) != 1 {
		t.Fatalf("%+v, want one judge and six comparisons of one pair: nobody of the second round, and no outcome that is unknown", p.Judges)
	}
	if g := p.Agreement[0]; g.B != report.Verifier || g.Comparisons != 3 || g.Agreed != 2.0/3 {
		t.Errorf("%+v, want three in common, two alike", g)
	}
}
