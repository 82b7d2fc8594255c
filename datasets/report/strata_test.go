package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/report/stats"
)

// TestStrataAreWeighted is worked out by hand: a is right in 3 of 4 maths tasks,
// of which there are 900, and in 1 of 4 of chat, of which there are 100.
func TestStrataAreWeighted(t *testing.T) {
	a := New([]TeacherInfo{{ID: "a"}, {ID: "b"}, {ID: "half"}})
	for _, cell := range []struct {
		domain string
		right  int
	}{{"math", 30}, {"chat", 10}} {
		for i := range 40 {
			id := fmt.Sprintf("%s%02d", cell.domain, i)
			verdict := datasets.Fail
			if i < cell.right {
				verdict = datasets.Pass
			}
			a.Add(&datasets.Candidate{TaskID: id, SampleID: id + "a", Domain: cell.domain, Effort: "high", Teacher: "a", Verdict: &verdict})
			a.Add(&datasets.Candidate{TaskID: id, SampleID: id + "b", Domain: cell.domain, Effort: "high", Teacher: "b", Verdict: ref(datasets.Pass)})
			if cell.domain == "math" {
				a.Add(&datasets.Candidate{TaskID: id, SampleID: id + "h", Domain: cell.domain, Effort: "high", Teacher: "half", Verdict: ref(datasets.Pass)})
			}
		}
	}
	r := a.Report()
	r.SetStrata([]Stratum{NewStratum("math", "high", 900, 40), NewStratum("chat", "high", 100, 40)})
	s := r.Stratification
	if len(s.Strata) != 2 || s.Strata[0].Domain != "chat" || len(s.Teachers) != 2 || s.Teachers[0].Teacher != "a" {
		t.Fatalf("%+v, want two strata by name, and the two teachers that were asked in both", s)
	}
	one := s.Teachers[0]
	lm, hm := stats.Wilson(30, 40, stats.Z95)
	lc, hc := stats.Wilson(10, 40, stats.Z95)
	side := func(w, m, c float64) float64 { return math.Sqrt(w*w*m*m + (1-w)*(1-w)*c*c) }
	for _, c := range []struct {
		what string
		got  *Estimate
		w    float64 // of maths
	}{{"weighted", one.Weighted, 0.9}, {"macro", one.Macro, 0.5}} {
		value := c.w*0.75 + (1-c.w)*0.25
		low, high := value-side(c.w, 0.75-lm, 0.25-lc), value+side(c.w, hm-0.75, hc-0.25)
		if e := c.got; math.Abs(e.Value-value)+math.Abs(e.Low-low)+math.Abs(e.High-high) > 1e-12 || e.Method != MethodStrata {
			t.Errorf("%s: %+v, want %v (%v to %v)", c.what, e, value, low, high)
		}
	}
	// As many differ as did: 30 of chat, of which only so much can be shown.
	want := stats.DetectableDifference(40, 0.75, 0.05, 0.8)
	if got := s.Strata[0].Shows; got == nil || math.Abs(*got-want) > 1e-12 {
		t.Errorf("shows from %v, want %v", got, want)
	}
	few, many := stats.DetectableDifference(40, 0.2, 0.05, 0.8), stats.DetectableDifference(40, 0.5, 0.05, 0.8)
	if g := s.Strata[1]; g.ShowsIfFew == nil || math.Abs(*g.ShowsIfFew-few) > 1e-12 || math.Abs(*g.ShowsIfMany-many) > 1e-12 {
		t.Errorf("%+v, want %v and %v", g, few, many)
	}
	// Three tasks can show nothing, whatever comes of them.
	if g := NewStratum("d", "e", 10, 3); g.ShowsIfFew != nil || g.ShowsIfMany != nil {
		t.Errorf("%+v", g)
	}
	for form, write := range map[string]func(*bytes.Buffer) error{
		"table": func(b *bytes.Buffer) error { return r.Table(b, 120) }, "markdown": func(b *bytes.Buffer) error { return r.Markdown(b) }, "page": func(b *bytes.Buffer) error { return r.HTML(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(b.String()), " ")
		for _, words := range []string{"he sample", "900", "70.0 % (", "50.0 % (", "The sample is stratified"} {
			if !strings.Contains(text, words) {
				t.Errorf("%s does not say %q", form, words)
			}
		}
	}
}
