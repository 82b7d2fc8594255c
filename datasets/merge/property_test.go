package merge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// drawn is what a policy may be given.
func drawn(t *rapid.T) Input {
	n := rapid.IntRange(0, 16).Draw(t, "n")
	in := Input{Task: &datasets.Task{Route: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID[string]).Draw(t, "route")}}
	for i := range n {
		x := c(
			rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "teacher"), fmt.Sprint(i),
			rapid.SampledFrom([]string{"", datasets.Pass, datasets.Fail, datasets.Unknown}).Draw(t, "verdict"),
			rapid.SampledFrom([]float64{none, 0, 0.5, 1, math.Inf(1)}).Draw(t, "score"),
			rapid.SampledFrom([]string{"4", "5", " 4 ", "five, and some words"}).Draw(t, "text"))
		if e := rapid.SampledFrom([]string{"", "4", "5", " 5"}).Draw(t, "extracted"); e != "" {
			x.Extracted = &e
		}
		if rapid.Bool().Draw(t, "judged") {
			v := datasets.Verdict{Verifier: "v", Verdict: datasets.Pass}
			if s := rapid.SampledFrom([]float64{none, 0.25, 1}).Draw(t, "its score"); !math.IsNaN(s) {
				v.Score = &s
			}
			x.Verdicts = append(x.Verdicts, v)
		}
		in.Accepted = append(in.Accepted, x)
	}
	for range rapid.IntRange(0, 12).Draw(t, "judgements") {
		a, b := rapid.IntRange(0, 17).Draw(t, "a"), rapid.IntRange(0, 17).Draw(t, "b")
		in.Judgements = append(in.Judgements, datasets.Judgement{
			SampleA: fmt.Sprint(a), SampleB: fmt.Sprint(b),
			Outcome: rapid.SampledFrom([]string{datasets.JudgedA, datasets.JudgedB, datasets.JudgedTie, datasets.Unknown, ""}).Draw(t, "outcome"),
		})
	}
	return in
}

// The choice depends on the sets of candidates and judgements alone; every
// candidate is a row or left with a reason; caps hold; nothing that was given
// changes.
func TestMergeIgnoresOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn(t)
		o := Options{
			PerTask: rapid.IntRange(0, 5).Draw(t, "per_task"), PerTeacher: rapid.IntRange(0, 3).Draw(t, "per_teacher"),
			TeacherOrder:     rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "x"}), 0, 4).Draw(t, "order"),
			AnswerDuplicates: rapid.SampledFrom(append(DuplicateModes(), "")).Draw(t, "duplicates"),
			Share:            rapid.SampledFrom([]float64{0, 0.5, 0.75, 1}).Draw(t, "share"),
			Margin:           rapid.IntRange(0, 3).Draw(t, "margin"), Agree: rapid.IntRange(0, 4).Draw(t, "agree"),
			Cost: func(c *datasets.Candidate) (float64, bool) { return float64(len(c.Content())), c.Teacher != "d" },
		}
		if rapid.Bool().Draw(t, "near") {
			o.Near = func(a, b *datasets.Candidate) bool { return len(a.Content()) == len(b.Content()) }
		}
		p, err := New(rapid.SampledFrom(Names()).Draw(t, "policy"), o)
		if err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(in.Accepted)
		first := p.Merge(in)
		if !slices.Equal(before, in.Accepted) {
			t.Fatal("the input was reordered")
		}
		mixed := Input{Task: in.Task, Accepted: slices.Clone(in.Accepted), Judgements: slices.Clone(in.Judgements)}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		r.Shuffle(len(mixed.Accepted), func(i, j int) {
			mixed.Accepted[i], mixed.Accepted[j] = mixed.Accepted[j], mixed.Accepted[i]
		})
		r.Shuffle(len(mixed.Judgements), func(i, j int) {
			mixed.Judgements[i], mixed.Judgements[j] = mixed.Judgements[j], mixed.Judgements[i]
		})
		if again := p.Merge(mixed); !reflect.DeepEqual(first, again) {
			t.Fatalf("%s chooses %v or %v by order", p.Name(), first, again)
		}
		seen := make(map[*datasets.Candidate]bool)
		of := make(map[string]int)
		for _, x := range first.Rows {
			of[x.Teacher]++
			seen[x] = true
			if NeedsVerdict(p.Name()) && !passes(x) {
				t.Fatalf("%s does not pass", x.SampleID)
			}
			if o.PerTeacher > 0 && of[x.Teacher] > o.PerTeacher {
				t.Fatalf("%d rows of one teacher over the cap %d", of[x.Teacher], o.PerTeacher)
			}
		}
		for _, l := range first.Left {
			if l.Reason == "" {
				t.Fatalf("%s is left without a reason", l.Candidate.SampleID)
			}
			seen[l.Candidate] = true
		}
		if len(seen) != len(in.Accepted) || len(first.Rows)+len(first.Left) != len(in.Accepted) {
			t.Fatalf("%d rows and %d left of %d", len(first.Rows), len(first.Left), len(in.Accepted))
		}
		most := o.PerTask
		if most == 0 && ChoosesOne(p.Name()) {
			most = 1
		}
		if most > 0 && len(first.Rows) > most {
			t.Fatalf("%d rows over the cap %d", len(first.Rows), most)
		}
		if l := first.Label; l != nil && (l.Votes > l.Voters || l.Margin > l.Votes || l.Won() != (len(first.Rows) > 0)) {
			t.Fatalf("label %+v of %d rows", l, len(first.Rows))
		}
	})
}
