package merge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// said are answers such as "a:4 a:4 b:5 c:": teacher and what was read, in the
// order of their samples; nothing after the colon is an answer that says
// nothing.
func said(text string) (out []*datasets.Candidate) {
	for i, f := range strings.Fields(text) {
		teacher, answer, _ := strings.Cut(f, ":")
		x := c(teacher, fmt.Sprintf("%s%d", teacher, i), datasets.Unknown, none, "thinking, and then "+f+fmt.Sprint(i))
		x.Verdicts = []datasets.Verdict{{Verifier: "math", Verdict: datasets.Unknown}}
		if answer != "" {
			x.Extracted = &answer
		}
		out = append(out, x)
	}
	return out
}

func TestVote(t *testing.T) {
	for _, tc := range []struct {
		name, answers string
		o             Options
		label         string // "" for none
		votes         string // votes/margin/voters
		rows          string
	}{
		{"a majority of teachers", "a:4 b:4 c:5", Options{}, "4", "2/1/3", "a0 b1"},
		{"two against two", "a:4 b:4 c:5 d:5", Options{}, "", "2/0/4", ""},
		{"two, one and one", "a:4 b:4 c:5 d:6", Options{}, "4", "2/1/4", "a0 b1"},
		{"all differ", "a:4 b:5 c:6", Options{}, "", "1/0/3", ""},
		{"below the share", "a:4 b:4 c:5 d:6", Options{Share: 0.6}, "", "2/1/4", ""},
		{"exactly the share", strings.Repeat("a:4 ", 11) + strings.Repeat("a:5 ", 9), Options{Share: 0.55, PerTask: 1}, "4", "11/2/20", "a0"},
		{"below the margin", "a:4 b:4 c:4 d:5 e:5", Options{Margin: 2}, "", "3/1/5", ""},
		{"all agree", "a:4 b:4", Options{Share: 1, Margin: 2}, "4", "2/2/2", "a0 b1"},
		{"a teacher with many samples has one vote", "a:5 a:5 a:5 a:5 b:4 c:4", Options{}, "4", "2/1/3", "b4 c5"},
		{"self-consistency of one teacher", "a:4 a:4 a:5", Options{}, "4", "2/1/3", "a0 a1"},
		{"one teacher that is not sure", "a:4 a:5", Options{}, "", "1/0/2", ""},
		{"a teacher torn in two has a voice and no vote", "a:4 a:5 b:4 c:4 d:6", Options{}, "4", "2/1/4", "a0 b2 c3"},
		{"what says nothing does not vote", "a:4 b: c:", Options{}, "4", "1/1/1", "a0"},
		{"nobody says anything", "a: b:", Options{}, "", "0/0/0", ""},
		{"nobody answers", "", Options{}, "", "0/0/0", ""},
		{"a cap holds on the winners", "a:4 b:4 c:4", Options{PerTask: 2}, "4", "3/3/3", "a0 b1"},
		{"white space is no difference", "a:4 b:4", Options{Class: func(x *datasets.Candidate) (string, bool) { return "same", true }}, "4", "2/2/2", "a0 b1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := New("vote", tc.o)
			if err != nil {
				t.Fatal(err)
			}
			given := said(tc.answers)
			r := p.Merge(Input{Accepted: given})
			if got := ids(r.Rows); got != tc.rows {
				t.Errorf("rows %s, want %s", got, tc.rows)
			}
			if got := fmt.Sprintf("%d/%d/%d", r.Label.Votes, r.Label.Margin, r.Label.Voters); r.Label.Answer != tc.label || got != tc.votes {
				t.Errorf("label %q by %s, want %q by %s", r.Label.Answer, got, tc.label, tc.votes)
			}
			for _, l := range r.Left {
				want := LeftOutvoted
				switch {
				case tc.label == "":
					want = LeftNoLabel
				case l.Candidate.Extracted != nil && *l.Candidate.Extracted == tc.label:
					want = LeftPerTask
				}
				if l.Reason != want {
					t.Errorf("%s is left as %s, want %s", l.Candidate.SampleID, l.Reason, want)
				}
			}
		})
	}
}

func TestAgreement(t *testing.T) {
	for _, tc := range []struct {
		answers, label, rows string
		agree                int
	}{
		{"a:4 b:4 c:5 d:6 e:7", "4", "a0 b1", 0},
		{"a:4 b:4 c:5 d:5", "", "", 0},
		{"a:4 b:4 c:4 d:5 d:5", "4", "a0 b1 c2", 3},
		{"a:4 b:4 c:5", "", "", 3},
		{"a:4 a:4 a:4", "", "", 0},
		{"a:4", "4", "a0", 1},
	} {
		p, err := New("agreement", Options{Agree: tc.agree})
		if err != nil {
			t.Fatal(err)
		}
		r := p.Merge(Input{Accepted: said(tc.answers)})
		if got := ids(r.Rows); got != tc.rows || r.Label.Answer != tc.label {
			t.Errorf("%s, %d agree: %s %q, want %s %q", tc.answers, tc.agree, got, r.Label.Answer, tc.rows, tc.label)
		}
	}
}

func TestLabelOfAVote(t *testing.T) {
	p, err := New("vote", Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := p.Merge(Input{Accepted: said("a:4 b:4 c:5 d:6")}).Label
	if l.Share() != 0.5 || l.Entropy != 1.5 {
		t.Errorf("share %v, entropy %v, want 0.5 and 1.5", l.Share(), l.Entropy)
	}
	if l := p.Merge(Input{Accepted: said("a:4 b:4")}).Label; l.Entropy != 0 || !l.Won() {
		t.Errorf("%+v", l)
	}
}

func TestClassOf(t *testing.T) {
	text := func(s string) *string { return &s }
	long := strings.Repeat("words ", 100)
	for _, tc := range []struct {
		name string
		c    *datasets.Candidate
		want string
	}{
		{"what a verifier read", &datasets.Candidate{Extracted: text(" x =\n 4 "), Verdicts: []datasets.Verdict{{}}}, "x = 4"},
		{"a verifier read nothing", func() *datasets.Candidate {
			x := c("a", "1", datasets.Unknown, none, "4")
			x.Verdicts = []datasets.Verdict{{}}
			return x
		}(), ""},
		{"a short text without a verifier", c("a", "1", "", none, " Yes. "), "Yes."},
		{"a long text", c("a", "1", "", none, long), ""},
		{"an empty text", c("a", "1", "", none, " "), ""},
	} {
		if got, ok := ClassOf(tc.c); got != tc.want || ok != (tc.want != "") {
			t.Errorf("%s: %q %v, want %q", tc.name, got, ok, tc.want)
		}
	}
}

func TestPairwise(t *testing.T) {
	given := []*datasets.Candidate{c("b", "1", "", none, "one"), c("a", "2", "", none, "two"), c("a", "3", "", none, "three")}
	j := func(a, b, outcome string) datasets.Judgement {
		return datasets.Judgement{SampleA: a, SampleB: b, Outcome: outcome}
	}
	for _, tc := range []struct {
		name   string
		judged []datasets.Judgement
		rows   string
	}{
		{"one wins both", []datasets.Judgement{j("1", "2", "a"), j("1", "3", "a"), j("2", "3", "b")}, "1 3 2"},
		{"a circle goes by teacher order and id", []datasets.Judgement{j("1", "2", "a"), j("2", "3", "a"), j("1", "3", "b")}, "2 3 1"},
		{"ties are half a point", []datasets.Judgement{j("1", "2", "tie"), j("1", "3", "a")}, "1 2 3"},
		{"unknown is no game", []datasets.Judgement{j("1", "2", "unknown"), j("2", "3", "b")}, "3 2"},
		{"the share counts, not the number", []datasets.Judgement{j("1", "2", "a"), j("1", "2", "a"), j("1", "2", "b"), j("2", "3", "b")}, "3 1 2"},
		{"of somebody else", []datasets.Judgement{j("1", "9", "a"), j("8", "9", "a"), j("1", "1", "a")}, ""},
		{"nobody was asked", nil, ""},
	} {
		p, err := New("pairwise", Options{PerTask: 9, TeacherOrder: []string{"a", "b"}})
		if err != nil {
			t.Fatal(err)
		}
		r := p.Merge(Input{Accepted: given, Judgements: tc.judged})
		if got := ids(r.Rows); got != tc.rows {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.rows)
		}
		for _, l := range r.Left {
			if l.Reason != LeftNotJudged {
				t.Errorf("%s: %s is left as %s", tc.name, l.Candidate.SampleID, l.Reason)
			}
		}
	}
	p, err := New("pairwise", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(p.Merge(Input{Accepted: given[:1]}).Rows); got != "1" {
		t.Errorf("an answer that stands alone: %q", got)
	}
	if got := p.Merge(Input{Accepted: given, Judgements: []datasets.Judgement{j("1", "2", "b"), j("2", "3", "a")}}); ids(got.Rows) != "2" || got.Left[0].Reason != LeftPerTask {
		t.Errorf("the winner is %q", ids(got.Rows))
	}
}

func TestPoliciesThatChooseByVerdict(t *testing.T) {
	withCost := func(x *datasets.Candidate, cost float64) *datasets.Candidate {
		x.CompletionTokens = new(int64)
		*x.CompletionTokens = int64(cost)
		return x
	}
	reasoned := c("b", "b1", datasets.Pass, none, "4")
	thought := strings.Repeat("hm ", 40)
	reasoned.Messages[0].ReasoningContent = &thought
	given := []*datasets.Candidate{
		withCost(c("a", "a1", datasets.Pass, none, "the answer is 4"), 5), withCost(c("a", "a2", datasets.Fail, none, "5"), 1), reasoned,
		withCost(c("c", "c1", datasets.Pass, none, "it is four, 4"), 2), withCost(c("d", "d1", datasets.Pass, none, "it is 4: four"), 2),
	}
	o := Options{PerTask: 9, TeacherOrder: []string{"d", "c", "b", "a"}, Cost: func(x *datasets.Candidate) (float64, bool) {
		if x.CompletionTokens == nil {
			return 0, false
		}
		return float64(*x.CompletionTokens), true
	}}
	for policy, want := range map[string]string{"shortest_passing": "d1 c1 a1 b1", "cheapest_passing": "d1 c1 a1 b1"} {
		p, err := New(policy, o)
		if err != nil {
			t.Fatal(err)
		}
		r := p.Merge(Input{Accepted: given})
		if got := ids(r.Rows); got != want {
			t.Errorf("%s: %s, want %s", policy, got, want)
		}
		if len(r.Left) != 1 || r.Left[0].Reason != LeftPolicy {
			t.Errorf("%s leaves %v", policy, r.Left)
		}
	}
}

func TestOwnerFirst(t *testing.T) {
	task := &datasets.Task{Route: []string{"owner", "deputy"}}
	owner, deputy, late := c("owner", "o", "", 0.1, "x"), c("deputy", "d", "", 0.9, "y"), c("late", "l", "", 1, "z")
	second := c("deputy", "e", "", 0.95, "w")
	for _, tc := range []struct {
		given []*datasets.Candidate
		want  string
	}{
		{[]*datasets.Candidate{late, deputy, owner}, "o"},
		{[]*datasets.Candidate{late, deputy, second}, "e"},
		{[]*datasets.Candidate{late}, "l"},
		{nil, ""},
	} {
		p, err := New("owner_first", Options{TeacherOrder: []string{"late", "deputy", "owner"}})
		if err != nil {
			t.Fatal(err)
		}
		r := p.Merge(Input{Task: task, Accepted: tc.given})
		if got := ids(r.Rows); got != tc.want {
			t.Errorf("%s, want %s", got, tc.want)
		}
	}
}

// Where a verifier grades, the shorter of two with one score is better; where
// it only passes, never.
func TestBestOfLooksAtLengthOnlyWhereAnswersAreGraded(t *testing.T) {
	for _, tc := range []struct {
		score float64
		want  string
	}{{0.5, "b"}, {1, "a"}, {0, "a"}, {none, "a"}} {
		p, err := New("best_of", Options{TeacherOrder: []string{"first", "second"}})
		if err != nil {
			t.Fatal(err)
		}
		got := ids(rows(p, []*datasets.Candidate{c("second", "b", datasets.Pass, tc.score, "short"), c("first", "a", datasets.Pass, tc.score, "much longer")}))
		if got != tc.want {
			t.Errorf("score %v: %s, want %s", tc.score, got, tc.want)
		}
	}
	// What is weighted together of verdicts is a score, and grades nothing.
	weighted := func(teacher, id, text string) *datasets.Candidate {
		x := c(teacher, id, datasets.Pass, 0.7, text)
		x.Verdicts = []datasets.Verdict{{Verifier: "exact", Verdict: datasets.Pass}}
		return x
	}
	p, err := New("best_of", Options{TeacherOrder: []string{"first", "second"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(rows(p, []*datasets.Candidate{weighted("second", "b", "short"), weighted("first", "a", "much longer")})); got != "a" {
		t.Errorf("weighted verdicts: %s", got)
	}
}

func TestPerTeacher(t *testing.T) {
	p, err := New("union", Options{PerTeacher: 1, AnswerDuplicates: DuplicatesKeep})
	if err != nil {
		t.Fatal(err)
	}
	r := p.Merge(Input{Accepted: []*datasets.Candidate{c("a", "1", "", none, "x"), c("a", "2", "", none, "y"), c("b", "3", "", none, "z")}})
	if ids(r.Rows) != "1 3" || len(r.Left) != 1 || r.Left[0].Reason != LeftPerTeacher {
		t.Errorf("%s, %v", ids(r.Rows), r.Left)
	}
}

func TestNearDuplicates(t *testing.T) {
	near := func(a, b *datasets.Candidate) bool { return a.Content()[0] == b.Content()[0] }
	given := []*datasets.Candidate{c("a", "1", "", none, "x1"), c("a", "2", "", none, "x2"), c("b", "3", "", none, "x3"), c("b", "4", "", none, "y")}
	for mode, want := range map[string]string{"": "1 3 4", DuplicatesPerTask: "1 4", DuplicatesKeep: "1 3 2 4"} {
		p, err := New("union", Options{Near: near, AnswerDuplicates: mode})
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(rows(p, given)); got != want {
			t.Errorf("%q: %s, want %s", mode, got, want)
		}
	}
}
