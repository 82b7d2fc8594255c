package merge

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// c makes an accepted candidate. verdict "" and score NaN are none.
func c(teacher, id, verdict string, score float64, text string) *datasets.Candidate {
	out := &datasets.Candidate{Teacher: teacher, SampleID: id, Messages: []chat.Message{{Role: chat.RoleAssistant, Content: &text}}}
	if verdict != "" {
		out.Verdict = &verdict
	}
	if !math.IsNaN(score) {
		out.Score = &score
	}
	return out
}

var none = math.NaN()

// rows are what a policy chooses without a task.
func rows(p Policy, accepted []*datasets.Candidate) []*datasets.Candidate {
	return p.Merge(Input{Accepted: accepted}).Rows
}

func ids(chosen []*datasets.Candidate) string {
	var out []string
	for _, x := range chosen {
		out = append(out, x.SampleID)
	}
	return strings.Join(out, " ")
}

func TestPolicies(t *testing.T) {
	order := []string{"big", "small"}
	answers := []*datasets.Candidate{
		c("small", "s2", datasets.Pass, none, "4."),
		c("other", "o1", datasets.Fail, none, "5"),
		c("small", "s1", datasets.Unknown, none, "four"),
		c("big", "b2", datasets.Pass, none, "= 4"),
		c("big", "b1", "", none, "4"),
		c("big", "b3", datasets.Pass, none, "= 4"), // b2 again
	}
	for _, tc := range []struct {
		policy string
		o      Options
		want   string
	}{
		{"union", Options{}, "b1 s1 o1 b2 s2"},
		{"union", Options{PerTask: 2}, "b1 s1"},
		{"union", Options{AnswerDuplicates: DuplicatesKeep}, "b1 s1 o1 b2 s2 b3"},
		{"all_passing", Options{}, "b2 s2"},
		{"all_passing", Options{PerTask: 1}, "b2"},
		{"best_of", Options{}, "b2"},
		{"best_of", Options{PerTask: 9}, "b2 s2 s1 b1 o1"},
	} {
		tc.o.TeacherOrder = order
		p, err := New(tc.policy, tc.o)
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(rows(p, answers)); got != tc.want {
			t.Errorf("%s %+v: %s, want %s", tc.policy, tc.o, got, tc.want)
		}
	}
}

func TestBestOfRanksByScoreFirst(t *testing.T) {
	p, err := New("best_of", Options{PerTask: 9, TeacherOrder: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	got := ids(rows(p, []*datasets.Candidate{
		c("a", "1", datasets.Pass, none, "missing score"),
		c("a", "2", datasets.Pass, -1, "negative"),
		c("b", "3", datasets.Unknown, 0.9, "best"),
		c("b", "4", datasets.Pass, 0.5, "tie, later teacher, much longer text"),
		c("a", "5", datasets.Pass, 0.5, "tie, first teacher"),
		c("a", "6", datasets.Unknown, 0.5, "tie, unknown"),
	}))
	if want := "3 5 4 6 2 1"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
}

func TestAnswerDuplicates(t *testing.T) {
	nfc, nfd := "caf\u00e9", "cafe\u0301"
	reasoned := c("a", "r", "", none, "4")
	reasoned.Messages[0].ReasoningContent = chat.Text("2+2")
	for _, tc := range []struct {
		name  string
		x, y  *datasets.Candidate
		equal bool
	}{
		{"white space", c("a", "1", "", none, "x  =\n4"), c("a", "2", "", none, " x = 4"), true},
		{"normal forms", c("a", "1", "", none, nfc), c("a", "2", "", none, nfd), true},
		{"sign", c("a", "1", "", none, "-4"), c("a", "2", "", none, "4"), false},
		{"point", c("a", "1", "", none, "3.2"), c("a", "2", "", none, "32"), false},
		{"sharp", c("a", "1", "", none, "C#"), c("a", "2", "", none, "C"), false},
		{"case", c("a", "1", "", none, "Pass"), c("a", "2", "", none, "pass"), false},
		{"reasoning", c("a", "1", "", none, "4"), reasoned, false},
		{"teachers that agree", c("a", "1", "", none, "4"), c("b", "2", "", none, "4"), false},
	} {
		p, err := New("union", Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(rows(p, []*datasets.Candidate{tc.x, tc.y})) == 1; got != tc.equal {
			t.Errorf("%s: one row %v, want %v", tc.name, got, tc.equal)
		}
	}
	p, err := New("union", Options{AnswerDuplicates: DuplicatesPerTask})
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(rows(p, []*datasets.Candidate{c("b", "2", "", none, "4"), c("a", "1", "", none, "4")})); got != "1" {
		t.Errorf("of two teachers' equal answers %q stays", got)
	}
}

func TestAccept(t *testing.T) {
	rejected, errored := c("a", "1", datasets.Pass, none, "4"), c("a", "1", datasets.Pass, none, "4")
	rejected.RejectReasons, errored.Error = []string{"truncated"}, new(string)
	for _, tc := range []struct {
		name     string
		c        *datasets.Candidate
		verifier bool
		modes    string // those that accept
	}{
		{"pass", c("a", "1", datasets.Pass, none, "4"), true, "pass pass_or_unknown any"},
		{"unknown", c("a", "1", datasets.Unknown, none, "4"), true, "pass_or_unknown any"},
		{"no verdict came", c("a", "1", "", none, "4"), true, "pass_or_unknown any"},
		{"fail", c("a", "1", datasets.Fail, none, "4"), true, "any"},
		{"no verifier applies", c("a", "1", "", none, "4"), false, "pass pass_or_unknown any"},
		{"rejected", rejected, true, ""},
		{"failed ask", errored, false, ""},
		{"no answer", &datasets.Candidate{}, false, ""},
	} {
		for _, mode := range append(AcceptModes(), "") {
			want := slices.Contains(strings.Fields(tc.modes), mode)
			if mode == "" {
				want = slices.Contains(strings.Fields(tc.modes), AcceptPass)
			}
			if got := Accept(mode, tc.c, tc.verifier); got != want {
				t.Errorf("%s, mode %q: %v, want %v", tc.name, mode, got, want)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tc := range []struct {
		policy string
		o      Options
		want   string
	}{
		{"bestof", Options{}, `did you mean "best_of"?`},
		{"union", Options{PerTask: -1}, "per_task is -1"},
		{"union", Options{AnswerDuplicates: "per_teachers"}, `did you mean "per_teacher"?`},
	} {
		if _, err := New(tc.policy, tc.o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New(%q, %+v): %v, want %s", tc.policy, tc.o, err, tc.want)
		}
	}
}

func BenchmarkBestOf(b *testing.B) {
	p, err := New("best_of", Options{TeacherOrder: []string{"a", "b"}})
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("She sells 9 eggs at $2. ", 40)
	var answers []*datasets.Candidate
	for i := range 16 {
		answers = append(answers, c([]string{"a", "b"}[i%2], fmt.Sprint(i), datasets.Pass, none, text+fmt.Sprint(i)))
	}
	for range b.N {
		p.Merge(Input{Accepted: answers})
	}
}
