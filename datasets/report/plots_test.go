package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// TestOverlapOfGSM8K: sets and growth agree with figures computed independently
// of this program.
func TestOverlapOfGSM8K(t *testing.T) {
	g := gsm8kCandidates(t).Report().Comparison.Scopes[0].Together
	sum, solvedBy := int64(0), make([]int64, 5)
	for _, s := range g.Sets {
		sum += s.Tasks
		solvedBy[len(s.Teachers)] += s.Tasks
	}
	// Four teachers are sixteen sets, and all are told.
	if sum != 1319 || !slices.Equal(solvedBy, []int64{432, 290, 236, 205, 156}) {
		t.Errorf("the sets hold %d tasks, by number of teachers %v", sum, solvedBy)
	}
	if !slices.IsSortedFunc(g.Sets, func(a, b SolvedSet) int { return int(b.Tasks - a.Tasks) }) {
		t.Errorf("the largest set does not come first: %+v", g.Sets)
	}
	for _, s := range g.Sets {
		if len(s.Teachers) == 1 && s.Teachers[0] == "175b_verification" && s.Tasks != 189 {
			t.Errorf("it alone solves %d, want 189", s.Tasks)
		}
	}
	// 742 by the best; the union of all is 887, of the best three 875.
	if g.Growth[0] != (Growth{"175b_verification", 742, 742}) || g.Growth[3].Union != 887 || g.Growth[2].Union != 875 {
		t.Errorf("growth %+v", g.Growth)
	}
	for i, one := range g.Growth[1:] {
		if one.Union != g.Growth[i].Union+one.Adds || one.Adds > g.Growth[i].Adds {
			t.Errorf("growth %+v: what is added does not fall", g.Growth)
		}
	}
}

// Of many teachers most of the 2^n sets are left out, and the plot says so.
func TestOverlapOfManyTeachersIsBounded(t *testing.T) {
	r := looked(t, 40, 200, 1, "", true)
	g := r.Comparison.Scopes[0].Together
	if len(g.Sets) != maxSets || len(g.Growth) != 40 {
		t.Errorf("%d sets, growth of %d", len(g.Sets), len(g.Growth))
	}
	p := g.overlap()
	if len(p.Columns) != overlapColumns || len(p.Rows) != 40 || !strings.Contains(p.Lead, "largest sets") {
		t.Errorf("%d columns, %d rows: %s", len(p.Columns), len(p.Rows), p.Lead)
	}
	for _, c := range p.Columns {
		if c.X > p.Left+p.Width || c.TextY < 0 {
			t.Errorf("a column at %g, %g is outside of the drawing", c.X, c.TextY)
		}
	}
	for _, r := range g.growth().Rows {
		if r.TextX > plotWidth || r.Had < 0 || r.Adds < 0 {
			t.Errorf("a row of the growth is outside of the drawing: %+v", r)
		}
	}
}

func TestNothingSolvedIsNotDrawn(t *testing.T) {
	g := looked(t, 3, 12, 1, "", false).Comparison.Scopes[0].Together
	if g.overlap() != nil || g.growth() != nil {
		t.Error("an overlap of nothing is drawn")
	}
	var none *Together
	if none.overlap() != nil || none.growth() != nil {
		t.Error("nothing is drawn")
	}
}

// TestDistributions: percentiles by teacher and effort, of what was measured.
func TestDistributions(t *testing.T) {
	a := New([]TeacherInfo{{ID: "b"}, {ID: "a"}})
	add := func(teacher, effort string, n int, latency *int64) {
		text := strings.Repeat("é", n)
		a.Add(&datasets.Candidate{TaskID: fmt.Sprint(effort, n), SampleID: fmt.Sprint(effort, n), Teacher: teacher, Domain: "d", Effort: effort, LatencyMS: latency,
			Messages: []chat.Message{{Role: chat.RoleAssistant, Content: &text}}})
	}
	for n := 1; n <= 100; n++ {
		add("a", "low", n, nil)
	}
	add("a", "high", 7, ref(int64(90)))
	add("b", "low", 3, ref(int64(-5)))
	got := a.Report().Distributions
	want := []Distribution{
		{MeasureLength, "b", "low", 1, 3, 3, 3, 3, 3},
		{MeasureLength, "a", "high", 1, 7, 7, 7, 7, 7},
		{MeasureLength, "a", "low", 100, 5, 25, 50, 75, 95},
		{MeasureLatency, "b", "low", 1, 0, 0, 0, 0, 0},
		{MeasureLatency, "a", "high", 1, 90, 90, 90, 90, 90},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	plots := (&Report{Distributions: got}).boxPlots()
	if len(plots) != 2 || plots[0].Rows[1].Name != "a, high" || plots[1].Table[0].Cells[5] != "0ms" {
		t.Errorf("%+v", plots)
	}
}

// Efforts may come from a column of anything.
func TestEffortsOfDistributionsAreBounded(t *testing.T) {
	a := New(nil)
	text := "x"
	for i := range 300 {
		a.Add(&datasets.Candidate{TaskID: fmt.Sprint(i), Teacher: "t", Effort: fmt.Sprint("e", i), Messages: []chat.Message{{Role: chat.RoleAssistant, Content: &text}}})
	}
	got := a.Report().Distributions
	if len(got) != maxEfforts+1 || got[0].Effort != Other || got[0].Count != 300-maxEfforts {
		t.Errorf("%d distributions, the first %+v", len(got), got[0])
	}
}

// Every mark of a plot is within its drawing, whatever is measured.
func TestBoxPlotsStayWithinTheirDrawing(t *testing.T) {
	for _, list := range [][]Distribution{
		{{MeasureLatency, "t", "e", 1, 0, 0, 0, 0, 0}},
		{{MeasureLatency, "t", "e", 9, 1, 10, 1000, 1 << 40, 1 << 62}},
		{{MeasureLength, strings.Repeat("name ", 40), "e", 9, 5, 5, 5, 5, 5}, {MeasureLength, "u", "f", 9, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20}},
	} {
		p := (&Report{Distributions: list}).boxPlots()[0]
		for _, r := range p.Rows {
			for _, x := range []float64{r.Low, r.Left, r.Mid, r.Right, r.High} {
				if x < plotNames || x > plotWidth {
					t.Errorf("%+v: a mark at %g", list, x)
				}
			}
		}
		if len(p.Ticks) == 0 || p.Left < 0 {
			t.Errorf("%+v: ticks %+v, left %g", list, p.Ticks, p.Left)
		}
	}
	var many []Distribution
	for i := range 100 {
		many = append(many, Distribution{MeasureLength, fmt.Sprint("t", i), "e", 1, 1, 2, 3, 4, 5})
	}
	if p := (&Report{Distributions: many}).boxPlots()[0]; len(p.Rows) != plotRows || p.More != 40 || len(p.Table) != 100 {
		t.Errorf("%d rows, %d more, %d in the table", len(p.Rows), p.More, len(p.Table))
	}
}

// Names beside the points of a chart do not cover each other.
func TestNamesOfPointsKeepApart(t *testing.T) {
	for _, n := range []int{2, 9, 12} {
		c := looked(t, n, 300, 1, "", true).Comparison.Scopes[0].costChart()
		if c == nil {
			t.Fatal("no chart")
		}
		type box struct{ x0, y0, x1, y1 float64 }
		var boxes []box
		for _, p := range c.Points {
			if !p.Named {
				t.Errorf("of %d points %s has no name", n, p.Teacher)
				continue
			}
			width := 7 * float64(len(p.Teacher))
			b := box{p.X + p.DX, p.Y + p.DY - 11, p.X + p.DX + width, p.Y + p.DY + 3}
			if p.Leftish {
				b.x0, b.x1 = p.X+p.DX-width, p.X+p.DX
			}
			for _, o := range boxes {
				if b.x0 < o.x1 && o.x0 < b.x1 && b.y0 < o.y1 && o.y0 < b.y1 {
					t.Errorf("of %d points the name of %s covers another", n, p.Teacher)
				}
			}
			boxes = append(boxes, b)
		}
	}
}

// Teachers that were asked nothing in common are on one chart, but no line says
// that one of them beats another.
func TestNoFrontierAcrossTeachersWithoutCommonTasks(t *testing.T) {
	s := Scope{
		Teachers: []Standing{
			{Teacher: "a", Rate: &Estimate{Value: 0.5, Low: 0.4, High: 0.6}, USDPerAccepted: &Estimate{Value: 0.001}},
			{Teacher: "b", Rate: &Estimate{Value: 0.9, Low: 0.8, High: 0.95}, USDPerAccepted: &Estimate{Value: 0.01}},
		},
		Pairs: []Versus{{A: "a", B: "b", Common: 40, Finding: NoneShown}},
	}
	if c := s.costChart(); c.Line == "" || !c.Points[0].Frontier || !strings.Contains(c.Lead, "the line joins") {
		t.Errorf("comparable: %+v", c)
	}
	s.Pairs[0] = Versus{A: "a", B: "b", Finding: NotComparable}
	if c := s.costChart(); c.Line != "" || c.Points[0].Frontier || !strings.Contains(c.Lead, "have no common tasks") {
		t.Errorf("not comparable: %+v", c)
	}
}
