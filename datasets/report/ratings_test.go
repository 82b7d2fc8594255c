package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stillhouse-data/stillhouse/datasets/report/stats"
)

// TestRatingsOfGSM8K: figures that choix gives for the four recorded teachers,
// by both conventions for ties, once as what they solve and once as what a
// judge says who prefers the right one.
func TestRatingsOfGSM8K(t *testing.T) {
	half := []float64{.3763269974, .0223929168, -.0654421467, -.3332777674}
	dropped := []float64{1.3608764232, .1168289025, -.1979698815, -1.2797354442}
	a := gsm8kCandidates(t)
	ids := []string{"175b_verification", "6b_verification", "175b_finetuning", "6b_finetuning"}
	passed := map[uint64][4]bool{}
	order := make([]int, len(a.gridTeachers))
	for i, id := range ids {
		order[a.gridTeachers[id]] = i
	}
	for _, row := range a.grid.cells[cellName{"math", "default"}].rows {
		one := passed[row.task]
		one[order[row.teacher]] = row.pass > 0
		passed[row.task] = one
	}
	for task, one := range passed {
		for i := range ids {
			for j := range i { // named the other way round, which decides nothing
				win := 0.5
				if one[i] != one[j] {
					win = map[bool]float64{true: 1, false: 0}[one[i]]
				}
				if err := a.AddPreference(Preference{Task: fmt.Sprint(task), Judge: "right", A: ids[i], B: ids[j], Win: win}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	r := a.Report()
	judge, solved := &r.Preferences.Judges[0], r.Comparison.Scopes[0].Together.Ratings
	for _, one := range []struct {
		what        string
		got, judged []Rating
		want        []float64
	}{{"ties half", solved.TiesHalf, judge.Ratings, half}, {"ties dropped", solved.TiesDropped, judge.RatingsNoTies, dropped}} {
		for i, id := range ids {
			got, judged := one.got[i], one.judged[i]
			if got.Teacher != id || math.Abs(got.Value-one.want[i]) > 1e-6 || !(got.Low < got.Value && got.Value < got.High) {
				t.Errorf("%s: %+v, want %v", one.what, got, one.want[i])
			}
			// The same comparisons, and so the same intervals, though these come task by task.
			if judged.Teacher != id || math.Abs(judged.Value-got.Value)+math.Abs(judged.Low-got.Low)+math.Abs(judged.High-got.High) > 1e-9 {
				t.Errorf("%s: the judge %+v, what is solved %+v", one.what, judged, got)
			}
		}
	}
	lines := strings.Join(judge.Lines(), "\n")
	for _, want := range []string{"a tie half a win of each: 175b_verification +0.38 (", "without the ties: 175b_verification +1.36 ("} {
		if !strings.Contains(lines, want) {
			t.Errorf("no line says %q:\n%s", want, lines)
		}
	}
}

// TestRatingsThatOneConventionHas: x and y win and lose against each other once
// each, z only ever ties: with ties as halves all are connected, without them z
// has met nobody.
func TestRatingsThatOneConventionHas(t *testing.T) {
	a := New(nil)
	for i, p := range []Preference{{A: "x", B: "y", Win: 1}, {A: "x", B: "y", Win: 0}, {A: "x", B: "z", Win: 0.5}, {A: "y", B: "z", Win: 0.5}} {
		p.Task, p.Judge = fmt.Sprint(i), "j"
		if err := a.AddPreference(p); err != nil {
			t.Fatal(err)
		}
	}
	j := a.Report().Preferences.Judges[0]
	if len(j.Ratings) != 3 || j.Undefined != "" || len(j.RatingsNoTies) != 0 || j.UndefinedNoTies != stats.ErrDisconnected.Error() {
		t.Errorf("with ties %+v (%s), without %+v (%s)", j.Ratings, j.Undefined, j.RatingsNoTies, j.UndefinedNoTies)
	}
	want := "No Bradley-Terry ratings without the ties: " + stats.ErrDisconnected.Error() + "."
	if lines := j.Lines(); !strings.Contains(strings.Join(lines, "\n"), want) {
		t.Errorf("no line says %q: %q", want, lines)
	}
	// Nobody ever lost: both are undefined, and both say so.
	if diff := cmp.Diff(&SolvedRatings{Undefined: stats.ErrDisconnected.Error(), NoneLeft: stats.ErrDisconnected.Error()},
		solvedRatings(stats.Solved{1: 5}, []string{"x", "y"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
