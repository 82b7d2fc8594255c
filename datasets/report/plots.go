package report

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Plots are drawn in rows: names on the left, marks on the right. All lengths
// are of the drawing's own units, of which a page shows some 16 to a centimetre.
const (
	plotNames = 200.0 // width of the names
	plotWidth = 760.0
	plotRight = 40.0 // room beyond the axis
	plotRow   = 20.0
	plotTop   = 8.0
	// plotRows bounds the rows of a plot: more are a wall, and the JSON has them.
	plotRows = 60
	// plotName is how much of a name stands beside a row, in characters.
	plotName = 26
)

func plotLabel(s string) string {
	if r := []rune(s); len(r) > plotName {
		return string(r[:plotName-1]) + "…"
	}
	return s
}

// plotLeft is where a drawing begins so that its longest name has room and no
// more: some seven units a character.
func plotLeft(longest int) float64 { return max(0, plotNames-14-7*float64(longest)) }

// A boxPlot is how one measure spreads, a row for each teacher and effort.
type boxPlot struct {
	Title, Unit string
	Rows        []boxRow
	Ticks       []chartTick
	Height      float64
	Left, Wide  float64 // of what is drawn
	Axis        float64 // where the axis stands
	More        int
	Table       []boxCells
	Label       string
}

type boxRow struct {
	Name, Title                string
	Y, Low, Left, Mid, Right   float64
	High, BoxWidth, BoxTop, TY float64
}

type boxCells struct{ Cells []string }

var measureTitles = map[string][2]string{
	MeasureLength:    {"Length of answers", "code points"},
	MeasureReasoning: {"Length of reasoning", "code points"},
	MeasureTTFT:      {"Time to first token", "time"},
	MeasureLatency:   {"Time to the whole answer", "time"},
}

// boxPlots are those of all measures that were taken.
func (r *Report) boxPlots() []boxPlot {
	var out []boxPlot
	for _, measure := range measureNames {
		var list []Distribution
		efforts := map[string]bool{}
		for i := range r.Distributions {
			if d := &r.Distributions[i]; d.Measure == measure {
				list = append(list, *d)
				efforts[d.Effort] = true
			}
		}
		if len(list) > 0 {
			out = append(out, newBoxPlot(measure, list, len(efforts) > 1))
		}
	}
	return out
}

func newBoxPlot(measure string, list []Distribution, byEffort bool) boxPlot {
	p := boxPlot{Title: measureTitles[measure][0], Unit: measureTitles[measure][1]}
	text := func(v int64) string { return grouped(v) }
	if strings.HasSuffix(measure, "_ms") {
		text = func(v int64) string { return duration(&v) }
	}
	shown := list[:min(len(list), plotRows)]
	p.More = len(list) - len(shown)
	lo, hi := int64(math.MaxInt64), int64(1)
	for i := range shown {
		lo, hi = min(lo, max(1, shown[i].P5)), max(hi, shown[i].P95)
	}
	axis := newLogAxis(float64(lo), float64(hi))
	longest := 0
	for i := range shown {
		d := &shown[i]
		who := name(d.Teacher)
		if byEffort {
			who += ", " + name(d.Effort)
		}
		row := boxRow{
			Name: plotLabel(who), Y: plotTop + plotRow*(float64(i)+0.5),
			Low: axis.at(d.P5), Left: axis.at(d.P25), Mid: axis.at(d.P50), Right: axis.at(d.P75), High: axis.at(d.P95),
			Title: fmt.Sprintf("%s: half of %s answers between %s and %s, median %s, 5 %% below %s, 5 %% above %s", who, grouped(d.Count), text(d.P25), text(d.P75), text(d.P50), text(d.P5), text(d.P95)),
		}
		row.BoxWidth, row.BoxTop, row.TY = max(2, row.Right-row.Left), row.Y-6, row.Y+4
		longest = max(longest, utf8.RuneCountInString(row.Name))
		p.Rows = append(p.Rows, row)
	}
	p.Left = plotLeft(longest)
	p.Wide = plotWidth - p.Left
	for i := range list {
		d := &list[i]
		if i < shownCells {
			p.Table = append(p.Table, boxCells{[]string{name(d.Teacher), name(d.Effort), grouped(d.Count), text(d.P5), text(d.P25), text(d.P50), text(d.P75), text(d.P95)}})
		}
	}
	p.Ticks = apart(axis.ticks(text))
	p.Axis = plotTop + plotRow*float64(len(shown)) + 4
	p.Height = p.Axis + 24
	p.Label = p.Title + " by teacher" + map[bool]string{true: " and effort"}[byEffort] + "; the table below has the figures."
	return p
}

// A logAxis runs over some powers of ten.
type logAxis struct{ lo, hi float64 }

func newLogAxis(lo, hi float64) logAxis {
	lo = max(1, lo)
	if hi < 2*lo {
		hi = 2 * lo
	}
	return logAxis{lo / 1.1, hi * 1.1}
}

func (a logAxis) at(v int64) float64 {
	x := (math.Log(max(float64(v), a.lo)) - math.Log(a.lo)) / (math.Log(a.hi) - math.Log(a.lo))
	return plotNames + 8 + min(1, x)*(plotWidth-plotNames-8-plotRight)
}

// ticks are at 1, 2 and 5 of each power of ten, or at the powers alone where
// those would be too many to read.
func (a logAxis) ticks(text func(int64) string) []chartTick {
	steps := []float64{1, 2, 5}
	if math.Log10(a.hi/a.lo) > 3 {
		steps = steps[:1]
	}
	var out []chartTick
	for power := math.Floor(math.Log10(a.lo)); power <= math.Log10(a.hi); power++ {
		for _, m := range steps {
			if v := m * math.Pow(10, power); v >= a.lo && v <= a.hi {
				out = append(out, chartTick{a.at(int64(v)), text(int64(v))})
			}
		}
	}
	return out
}

// An overlapPlot is which tasks are solved by whom: columns are sets of
// teachers, rows the teachers.
type overlapPlot struct {
	Columns       []overlapColumn
	Rows          []overlapRow
	Left          float64
	Width, Height float64
	Bars          float64 // where the bars of columns stand
	Label         string
	Lead          string
	Table         []boxCells
}

type overlapColumn struct {
	X, Top, Height, TextY float64
	Text, Title           string
	None                  bool
	From, To              float64 // of the line through its dots
	Dots                  []overlapDot
}

type overlapDot struct {
	X, Y float64
	In   bool
}

type overlapRow struct {
	Name                string
	TY, BarX, BarW      float64
	Text                string
	Odd                 bool
	Top, Height, LabelX float64
}

const (
	overlapColumns = 18
	overlapStep    = 26.0
	overlapBar     = 150.0 // height of the highest column
	overlapSide    = 110.0 // width of the longest bar of a teacher
)

// overlap is nil for fewer than two teachers or where nothing is solved.
func (t *Together) overlap() *overlapPlot {
	if t == nil || len(t.Values) < 2 || t.Union == 0 || len(t.Sets) == 0 {
		return nil
	}
	sets := t.Sets[:min(len(t.Sets), overlapColumns)]
	left := plotNames + overlapSide + 60
	p := &overlapPlot{Width: left + overlapStep*float64(len(sets)) + 20, Bars: plotTop + 18 + overlapBar}
	var most, solved int64 = 1, 1
	for i := range sets {
		most = max(most, sets[i].Tasks)
	}
	for i := range t.Values {
		solved = max(solved, t.Values[i].Solved)
	}
	rows := p.Bars + 14
	p.Height = rows + plotRow*float64(len(t.Values)) + 8
	place, longest := map[string]int{}, 0
	for i, v := range t.Values {
		longest = max(longest, utf8.RuneCountInString(plotLabel(name(v.Teacher))))
		place[v.Teacher] = i
		y := rows + plotRow*(float64(i)+0.5)
		width := overlapSide * float64(v.Solved) / float64(solved)
		p.Rows = append(p.Rows, overlapRow{
			Name: plotLabel(name(v.Teacher)), TY: y + 4, BarX: plotNames + 8, BarW: width, Text: grouped(v.Solved), LabelX: plotNames + 12 + width,
			Odd: i%2 == 1, Top: y - plotRow/2, Height: plotRow,
		})
	}
	p.Left = plotLeft(longest)
	p.Width -= p.Left
	for k := range sets {
		s := &sets[k]
		x := left + overlapStep*(float64(k)+0.5)
		height := max(1, overlapBar*float64(s.Tasks)/float64(most))
		c := overlapColumn{X: x, Top: p.Bars - height, Height: height, TextY: p.Bars - height - 4, Text: grouped(s.Tasks), None: len(s.Teachers) == 0, Title: s.words(len(t.Values))}
		in := map[int]bool{}
		for _, id := range s.Teachers {
			in[place[id]] = true
		}
		first, last := -1, -1
		for i := range t.Values {
			y := rows + plotRow*(float64(i)+0.5)
			c.Dots = append(c.Dots, overlapDot{x, y, in[i]})
			if in[i] {
				if first < 0 {
					first = i
				}
				last = i
			}
		}
		if first >= 0 {
			c.From, c.To = c.Dots[first].Y, c.Dots[last].Y
		}
		p.Columns = append(p.Columns, c)
	}
	for i := range t.Sets {
		s := &t.Sets[i]
		p.Table = append(p.Table, boxCells{[]string{s.names(len(t.Values)), grouped(s.Tasks)}})
	}
	p.Lead = "Bars stand for tasks that exactly the teachers with a dot below solved, bars on the left for all that a teacher solved."
	if len(t.Sets) > len(sets) || len(t.Sets) == maxSets {
		p.Lead += fmt.Sprintf(" The %d largest sets are shown.", len(sets))
	}
	p.Label = "Overlap of solved tasks; the table below has the figures."
	return p
}

// names lists a set's teachers.
func (s *SolvedSet) names(all int) string {
	switch len(s.Teachers) {
	case 0:
		return "nobody"
	case all:
		return "all"
	}
	names := make([]string, len(s.Teachers))
	for i, id := range s.Teachers {
		names[i] = name(id)
	}
	return strings.Join(names, ", ")
}

func (s *SolvedSet) words(all int) string {
	who := s.names(all)
	if n := len(s.Teachers); n > 0 && n < all {
		who = "only " + who
	}
	return fmt.Sprintf("%s tasks: %s", grouped(s.Tasks), who)
}

// A growthPlot is the union as teachers come in.
type growthPlot struct {
	Rows   []growthRow
	Left   float64
	Wide   float64
	Height float64
	Axis   float64
	Ticks  []chartTick
	Label  string
}

type growthRow struct {
	Name, Text, Title     string
	Top, TY, X, Had, Adds float64
	AddX, TextX           float64
}

// growth is nil where there is nothing to see.
func (t *Together) growth() *growthPlot {
	if t == nil || len(t.Growth) < 2 || t.Union == 0 || t.Tasks == 0 {
		return nil
	}
	p := &growthPlot{}
	const left = plotNames + 8
	scale := (plotWidth - left - 130) / float64(t.Tasks)
	shown := t.Growth[:min(len(t.Growth), plotRows)]
	for i, g := range shown {
		y := plotTop + plotRow*float64(i)
		had := float64(g.Union-g.Adds) * scale
		row := growthRow{
			Name: plotLabel(name(g.Teacher)), Top: y + 4, TY: y + 14, X: left, Had: had, Adds: float64(g.Adds) * scale, AddX: left + had,
			Text: fmt.Sprintf("+%s, %s %%", grouped(g.Adds), percent(float64(g.Union)/float64(t.Tasks))),
		}
		row.TextX = row.AddX + row.Adds + 6
		row.Title = fmt.Sprintf("%s adds %s tasks: %s of %s together", name(g.Teacher), grouped(g.Adds), grouped(g.Union), grouped(t.Tasks))
		p.Rows = append(p.Rows, row)
	}
	p.Axis = plotTop + plotRow*float64(len(shown)) + 4
	p.Height = p.Axis + 24
	longest := 0
	for i := range p.Rows {
		longest = max(longest, utf8.RuneCountInString(p.Rows[i].Name))
	}
	p.Left = plotLeft(longest)
	p.Wide = plotWidth - p.Left
	for k := range 5 {
		share := float64(k) / 4
		p.Ticks = append(p.Ticks, chartTick{left + share*float64(t.Tasks)*scale, fmt.Sprintf("%.0f %%", 100*share)})
	}
	titles := make([]string, len(shown))
	for i := range p.Rows {
		titles[i] = p.Rows[i].Title
	}
	p.Label = "Tasks solved as teachers come in. " + strings.Join(titles[:min(len(titles), 12)], ". ") + "."
	return p
}

// apart leaves out ticks that stand too near to the one before them.
func apart(ticks []chartTick) []chartTick {
	var out []chartTick
	for _, t := range ticks {
		if len(out) == 0 || t.At-out[len(out)-1].At >= 44 {
			out = append(out, t)
		}
	}
	return out
}
