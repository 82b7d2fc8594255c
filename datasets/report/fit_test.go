package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// fitted is a comparison in which near says 1 nat a token and far 2, of twenty
// tasks each, ten of them in common with a third that nobody knows much of.
func fitted(t *testing.T, reverse bool) *Report {
	t.Helper()
	a := New([]TeacherInfo{{ID: "near"}, {ID: "far"}, {ID: "once"}})
	for i := range 20 {
		for _, id := range []string{"near", "far"} {
			a.Add(&datasets.Candidate{TaskID: fmt.Sprint(i), SampleID: fmt.Sprint(i, id), Teacher: id, Domain: []string{"math", "chat"}[i%2], Effort: "high", Verdict: ref(datasets.Pass), Accepted: true})
		}
	}
	a.SetStudent("student-1b", "an endpoint")
	var list []FitAnswer
	for i := range 20 {
		one := FitAnswer{Task: fmt.Sprint(i), Domain: []string{"math", "chat"}[i%2], Effort: "high", Tokens: int64(10 + i)}
		for _, who := range []struct {
			teacher string
			nats    float64
		}{{"near", 1}, {"far", 2}} {
			one.Teacher, one.Sample, one.NLL = who.teacher, fmt.Sprint(i, who.teacher), who.nats*float64(one.Tokens)
			list = append(list, one)
		}
	}
	list = append(list, FitAnswer{Task: "0", Teacher: "once", Domain: "math", Effort: "high", Sample: "o", NLL: 3, Tokens: 2}, FitAnswer{Teacher: "near", Why: "it lies"}, FitAnswer{Teacher: "near", Why: "it lies"})
	for i := range list {
		if reverse {
			i = len(list) - 1 - i
		}
		if err := a.AddFit(list[i]); err != nil {
			t.Fatal(err)
		}
	}
	return a.Report()
}

func TestStudentFit(t *testing.T) {
	r := fitted(t, false)
	f := r.StudentFit
	if diff := cmp.Diff(f, fitted(t, true).StudentFit); diff != "" {
		t.Errorf("it depends on the order:\n%s", diff)
	}
	if f.Student != "student-1b" || len(f.Scopes) != 3 || f.Scopes[1].Domain != "chat" || f.Unknown["it lies"] != 2 {
		t.Fatalf("%+v", f)
	}
	all := f.Scopes[0]
	near, far, once := all.Teachers[0], all.Teachers[1], all.Teachers[2]
	if near.Tasks != 20 || near.Tokens != 390 || near.NLL.Value != 1 || math.Abs(*near.Perplexity-math.E) > 1e-12 || far.NLL.Value != 2 {
		t.Errorf("%+v %+v", near, far)
	}
	if once.NLL != nil || *once.Perplexity != math.Exp(1.5) {
		t.Errorf("%+v: over one task there is no interval, and so no figure", once)
	}
	if len(all.Pairs) != 3 || all.Family != 1 {
		t.Fatalf("%+v", all)
	}
	if p := all.Pairs[0]; p.Common != 20 || p.Difference.Value != -1 || p.Finding != FavoursA || *p.P > 0.001 || *p.PHolm != *p.P {
		t.Errorf("%+v", p)
	}
	if p := all.Pairs[1]; p.Common != 1 || p.P != nil || p.Finding != NotComparable {
		t.Errorf("%+v: one task shows nothing", p)
	}
	if f.Scopes[1].Family != 2 || f.Scopes[2].Family != 2 || *f.Scopes[1].Pairs[0].PHolm <= *f.Scopes[1].Pairs[0].P {
		t.Errorf("the cells are a family of their own: %+v", f.Scopes[1:])
	}
	for form, write := range map[string]func(*bytes.Buffer) error{
		"table": func(b *bytes.Buffer) error { return r.Table(b, 160) }, "markdown": func(b *bytes.Buffer) error { return r.Markdown(b) },
		"page": func(b *bytes.Buffer) error { return r.HTML(b) }, "json": func(b *bytes.Buffer) error { return r.JSON(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(b.String()), " ")
		want := []string{"student-1b", "near is closer to the student than far", "2 answers could not be scored", "1.000", "2.72"}
		if form == "json" {
			want = []string{`"student_fit"`, `"perplexity"`, "not always the best one to learn from"}
		}
		for _, words := range want {
			text := strings.ReplaceAll(text, "&#58;", ":")
			if !strings.Contains(text, words) {
				t.Errorf("%s does not say %q", form, words)
			}
		}
		if form == "table" && !strings.Contains(text, "cached % nll") {
			t.Errorf("the table of teachers has no column of its own:\n%s", b.String())
		}
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "arXiv:2506.04178") {
		t.Error("no note says why the strongest teacher is not always the best")
	}
}

// TestFitThatNoModelSays is refused, with the reason.
func TestFitThatNoModelSays(t *testing.T) {
	for _, one := range []struct {
		nll    float64
		tokens int64
		want   string
	}{
		{math.NaN(), 1, "no number"}, {math.Inf(1), 1, "no number"}, {-0.1, 1, "negative"}, {1, 0, "tokens 0"}, {1, -5, "tokens -5"}, {2001, 2, "more than 1000 nats"},
	} {
		if err := New(nil).AddFit(FitAnswer{NLL: one.nll, Tokens: one.tokens}); err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%v over %d tokens: %v, want %q", one.nll, one.tokens, err, one.want)
		}
	}
	a := New(nil)
	if err := a.AddFit(FitAnswer{Sample: "s", NLL: 1, Tokens: 1}); err != nil {
		t.Fatal(err)
	}
	if err := a.AddFit(FitAnswer{Sample: "s", NLL: 1, Tokens: 1}); err == nil || !strings.Contains(err.Error(), "scored twice") {
		t.Errorf("%v", err)
	}
	if a.Report().StudentFit != nil {
		t.Error("a fit of nobody")
	}
}

// A fit that is put into a stored report says what it is once.
func TestSetStudentFit(t *testing.T) {
	r := New([]TeacherInfo{{ID: "a"}}).Report()
	for range 2 {
		if err := r.SetStudentFit("s", "fit.jsonl", []FitAnswer{{Task: "1", Teacher: "a", NLL: 1, Tokens: 2}, {Task: "2", Teacher: "a", NLL: 3, Tokens: 2}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(strings.Join(r.Notes, "\n"), "Student fit is"); n != 1 || r.StudentFit.Scopes[0].Teachers[0].NLL.Value != 1 {
		t.Errorf("%d notes, %+v", n, r.StudentFit)
	}
}
