package merge

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// candidate makes one that the recipe accepts where it passes.
func candidate(teacher, id, verdict string, score float64, text string, reasons ...string) datasets.Candidate {
	x := *c(teacher, id, verdict, score, text)
	x.RejectReasons = reasons
	x.Accepted = len(reasons) == 0
	return x
}

func shown(pairs []PairOf) string {
	var out []string
	for _, p := range pairs {
		out = append(out, p.Chosen.SampleID+">"+p.Rejected.SampleID)
	}
	return strings.Join(out, " ")
}

func TestPairs(t *testing.T) {
	cut := candidate("b", "cut", datasets.Fail, none, "cut off", "verdict:fail")
	length := "length"
	cut.FinishReason = &length
	failed := "network"
	lost := candidate("b", "lost", datasets.Fail, none, "x", "verdict:fail")
	lost.Error = &failed
	for _, tc := range []struct {
		name  string
		o     PairOptions
		given []datasets.Candidate
		want  string
	}{
		{"pass against fail", PairOptions{}, []datasets.Candidate{candidate("a", "1", datasets.Pass, none, "4"), candidate("b", "2", datasets.Fail, none, "5", "verdict:fail")}, "1>2"},
		{"unknown is no fail", PairOptions{}, []datasets.Candidate{candidate("a", "1", datasets.Pass, none, "4"), candidate("b", "2", datasets.Unknown, none, "5", "verdict:unknown")}, ""},
		{"what a filter rejects is no example", PairOptions{}, []datasets.Candidate{candidate("a", "1", datasets.Pass, none, "4"), candidate("b", "2", datasets.Fail, none, "Sorry", "refusal", "verdict:fail")}, ""},
		{"nor what was cut off, or is none", PairOptions{}, []datasets.Candidate{candidate("a", "1", datasets.Pass, none, "4"), cut, lost}, ""},
		{"by score", PairOptions{Margin: 0.1}, []datasets.Candidate{candidate("a", "1", datasets.Pass, 0.9, "x"), candidate("a", "2", datasets.Pass, 0.5, "y")}, "1>2"},
		{"by too little", PairOptions{Margin: 0.5}, []datasets.Candidate{candidate("a", "1", datasets.Pass, 0.9, "x"), candidate("a", "2", datasets.Pass, 0.5, "y")}, ""},
		{"by nothing", PairOptions{}, []datasets.Candidate{candidate("a", "1", datasets.Pass, 0.5, "x"), candidate("a", "2", datasets.Pass, 0.5, "y")}, ""},
		{"without scores", PairOptions{}, []datasets.Candidate{candidate("a", "1", datasets.Pass, none, "x"), candidate("a", "2", datasets.Pass, none, "y")}, ""},
		{"verdict against score", PairOptions{}, []datasets.Candidate{candidate("a", "1", datasets.Pass, 0.1, "x"), candidate("a", "2", datasets.Fail, 0.9, "y", "verdict:fail")}, ""},
		{"score against verdict", PairOptions{}, []datasets.Candidate{candidate("a", "1", datasets.Fail, 0.9, "x"), candidate("a", "2", datasets.Unknown, 0.1, "y")}, ""},
		{"equal texts", PairOptions{}, []datasets.Candidate{candidate("a", "1", datasets.Pass, 0.9, "x  y"), candidate("a", "2", datasets.Pass, 0.5, " x y")}, ""},
		{"too long", PairOptions{LengthRatio: 2}, []datasets.Candidate{candidate("a", "1", datasets.Pass, 0.9, "12345"), candidate("a", "2", datasets.Pass, 0.5, "12")}, ""},
		{"just not too long", PairOptions{LengthRatio: 2.5}, []datasets.Candidate{candidate("a", "1", datasets.Pass, 0.9, "12345"), candidate("a", "2", datasets.Pass, 0.5, "12")}, "1>2"},
		{"one teacher's", PairOptions{SameTeacher: true}, []datasets.Candidate{candidate("a", "1", datasets.Pass, 0.9, "x"), candidate("b", "2", datasets.Pass, 0.1, "y"), candidate("a", "3", datasets.Pass, 0.5, "z")}, "1>3"},
		{"the best against the worst", PairOptions{}, []datasets.Candidate{candidate("a", "1", datasets.Pass, 0.6, "x"), candidate("a", "2", datasets.Pass, 0.9, "y"), candidate("a", "3", datasets.Pass, 0.5, "z")}, "2>3"},
		{"a verdict before a score", PairOptions{}, []datasets.Candidate{candidate("a", "1", datasets.Pass, 0.9, "x"), candidate("a", "2", datasets.Fail, 0.5, "y", "verdict:fail"), candidate("a", "3", datasets.Pass, 0.1, "z")}, "1>2"},
		{"no answer twice before all were used", PairOptions{Most: 2}, []datasets.Candidate{
			candidate("a", "1", datasets.Pass, none, "w"), candidate("a", "2", datasets.Pass, none, "x"),
			candidate("a", "3", datasets.Fail, none, "y", "verdict:fail"), candidate("a", "4", datasets.Fail, none, "z", "verdict:fail"),
		}, "1>3 2>4"},
		{"one good answer, many bad ones", PairOptions{Most: 9}, []datasets.Candidate{
			candidate("a", "1", datasets.Pass, none, "w"), candidate("a", "3", datasets.Fail, none, "y", "verdict:fail"), candidate("a", "4", datasets.Fail, none, "z", "verdict:fail"),
		}, "1>3 1>4"},
		{"nothing", PairOptions{}, nil, ""},
	} {
		if got := shown(Pairs(tc.o, tc.given)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// Pairs do not depend on the order of the candidates, hold what was asked for,
// and are never the same two twice.
func TestPairsHoldTheirOptions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var given []datasets.Candidate
		for i := range rapid.IntRange(0, 14).Draw(t, "n") {
			x := candidate(
				rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "teacher"), fmt.Sprint(i),
				rapid.SampledFrom([]string{"", datasets.Pass, datasets.Fail, datasets.Unknown}).Draw(t, "verdict"),
				rapid.SampledFrom([]float64{none, 0, 0.25, 0.5, 1}).Draw(t, "score"),
				rapid.SampledFrom([]string{"4", "5", "five, and some words", "six"}).Draw(t, "text"))
			if rapid.Bool().Draw(t, "rejected") {
				x.Accepted, x.RejectReasons = false, []string{rapid.SampledFrom([]string{"verdict:fail", "refusal"}).Draw(t, "reason")}
			}
			given = append(given, x)
		}
		o := PairOptions{
			Margin: rapid.SampledFrom([]float64{0, 0.25, 0.5}).Draw(t, "margin"), Most: rapid.IntRange(0, 5).Draw(t, "most"),
			LengthRatio: rapid.SampledFrom([]float64{0, 1, 2}).Draw(t, "ratio"), SameTeacher: rapid.Bool().Draw(t, "same"), TeacherOrder: []string{"b", "a"},
		}
		got := Pairs(o, given)
		if len(got) > max(1, o.Most) {
			t.Fatalf("%d pairs of %d", len(got), o.Most)
		}
		seen := map[string]bool{}
		for _, p := range got {
			key := p.Chosen.SampleID + " " + p.Rejected.SampleID
			back := p.Rejected.SampleID + " " + p.Chosen.SampleID
			verdicts := passes(p.Chosen) && fails(p.Rejected)
			switch {
			case seen[key], seen[back], p.Chosen == p.Rejected:
				t.Fatalf("%s twice", key)
			case !p.Chosen.Accepted, len(p.Rejected.RejectReasons) > 0 && p.Rejected.RejectReasons[0] == "refusal":
				t.Fatalf("%s is of what was rejected", key)
			case !verdicts && (p.Margin == nil || *p.Margin < o.Margin || *p.Margin <= 0):
				t.Fatalf("%s differs in nothing", key)
			case p.Chosen.Content() == p.Rejected.Content(), o.SameTeacher && p.Chosen.Teacher != p.Rejected.Teacher:
				t.Fatalf("%s does not fit", key)
			}
			seen[key] = true
		}
		mixed := append([]datasets.Candidate{}, given...)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if x, y := shown(got), shown(Pairs(o, mixed)); x != y {
			t.Fatalf("%q or %q by order", x, y)
		}
	})
}

func TestPairRow(t *testing.T) {
	a, b := candidate("a", "1", datasets.Pass, 0.9, "better"), candidate("b", "2", datasets.Pass, 0.5, "worse")
	question := chat.Message{Role: chat.RoleUser, Content: chat.Text("2+2?")}
	for _, x := range []*datasets.Candidate{&a, &b} {
		x.Messages = append([]chat.Message{question}, x.Messages...)
		x.Split = "test"
	}
	row := PairRow(Pairs(PairOptions{}, []datasets.Candidate{a, b})[0], 1)
	if len(row.Prompt) != 1 || *row.Chosen[0].Content != "better" || *row.Rejected[0].Content != "worse" || !row.CrossTeacher ||
		row.Margin == nil || *row.Margin < 0.39 || *row.Split != "test" || *row.RejectedSampleID != "2" || *row.ChosenVerdict != datasets.Pass {
		t.Errorf("%+v", row)
	}
}
