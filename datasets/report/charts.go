package report

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// A point of the chart of cost against quality.
type chartPoint struct {
	Teacher           string
	X, Y, Low, High   float64 // on the chart's 640 × 320
	Label             string  // for who cannot see it
	Frontier, Leftish bool
	DX, DY            float64 // of the name
	Named             bool    // there is room for the name
}

// A chart of cost against quality: dollars per accepted row to the right, in
// powers of ten where they differ much; rate upwards.
type chart struct {
	Points []chartPoint
	Line   string // the frontier: nobody is both cheaper and better
	Ticks  []chartTick
	Top    string // rates at the axis's top and middle
	Middle string
	Lead   string
}

type chartTick struct {
	At   float64
	Text string
}

const chartLeft, chartRight, chartTop, chartBottom = 60.0, 620.0, 16.0, 280.0

// costChart is nil where fewer than two teachers have a price and a rate.
func (s *Scope) costChart() *chart {
	type one struct {
		t    *Standing
		cost float64
	}
	var list []one
	lo, hi := math.Inf(1), 0.0
	for i := range s.Teachers {
		t := &s.Teachers[i]
		if t.USDPerAccepted == nil || t.Rate == nil || !(t.USDPerAccepted.Value > 0) {
			continue
		}
		list = append(list, one{t, t.USDPerAccepted.Value})
		lo, hi = min(lo, t.USDPerAccepted.Value), max(hi, t.USDPerAccepted.Value)
	}
	if len(list) < 2 {
		return nil
	}
	lo, hi = lo/1.3, hi*1.3
	x := func(v float64) float64 {
		return chartLeft + (math.Log(v)-math.Log(lo))/(math.Log(hi)-math.Log(lo))*(chartRight-chartLeft)
	}
	top := 0.1
	for _, o := range list {
		top = max(top, math.Ceil(10*o.t.Rate.High)/10)
	}
	y := func(rate float64) float64 { return chartBottom - rate/top*(chartBottom-chartTop) }
	slices.SortStableFunc(list, func(a, b one) int {
		switch {
		case a.cost != b.cost && a.cost < b.cost:
			return -1
		case a.cost != b.cost:
			return 1
		}
		return 0
	})
	c := &chart{Top: fmt.Sprintf("%.0f %%", 100*top), Middle: fmt.Sprintf("%.0f %%", 50*top), Lead: "Up is right more often, left is cheaper; the line joins those that nobody beats in both."}
	frontier := s.allComparable()
	if !frontier {
		c.Lead = "Up is right more often, left is cheaper. Some of these teachers have no common tasks: how they lie to each other says nothing, and no line joins the best. Look at each domain and effort."
	}
	best := -1.0
	for _, o := range list {
		p := chartPoint{
			Teacher: o.t.Teacher, X: x(o.cost), Y: y(o.t.Rate.Value), Low: y(o.t.Rate.Low), High: y(o.t.Rate.High),
			Label: fmt.Sprintf("%s: %s %% at $%.5f an accepted row", name(o.t.Teacher), percent(o.t.Rate.Value), o.cost),
		}
		if frontier && o.t.Rate.Value > best {
			best, p.Frontier = o.t.Rate.Value, true
			c.Line += fmt.Sprintf("%.1f,%.1f ", p.X, p.Y)
		}
		c.Points = append(c.Points, p)
	}
	placeNames(c.Points)
	for power := math.Floor(math.Log10(lo)); power <= math.Ceil(math.Log10(hi)); power++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, power); v >= lo && v <= hi {
				c.Ticks = append(c.Ticks, chartTick{x(v), fmt.Sprintf("$%g", roundTo(v, 2))})
			}
		}
	}
	return c
}

// allComparable reports whether every two teachers have common tasks.
func (s *Scope) allComparable() bool {
	return !slices.ContainsFunc(s.Pairs, func(v Versus) bool { return v.Finding == NotComparable })
}

// crowded is from how many points on a name without room is left out: pointing
// at a point tells it, and the table has it.
const crowded = 12

// placeNames gives each point's name a place where it meets no other name and no
// point; where there is none, the place where it meets the least.
func placeNames(points []chartPoint) {
	type box struct{ x0, y0, x1, y1 float64 }
	meet := func(a, b box) bool { return a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1 }
	var taken []box
	for _, p := range points {
		taken = append(taken, box{p.X - 6, p.Y - 6, p.X + 6, p.Y + 6}, box{p.X - 3, min(p.Low, p.High), p.X + 3, max(p.Low, p.High)})
	}
	for i := range points {
		p := &points[i]
		width := 7 * float64(utf8.RuneCountInString(plotLabel(name(p.Teacher))))
		best, least := box{}, math.Inf(1)
		for _, dy := range []float64{-8, 16, 4, -22, 30, -36, 44} {
			for _, leftish := range []bool{false, true} {
				b := box{p.X + 9, p.Y + dy - 11, p.X + 9 + width, p.Y + dy + 3}
				if leftish {
					b.x0, b.x1 = p.X-9-width, p.X-9
				}
				bad := 0.0
				for _, other := range taken {
					if meet(b, other) {
						bad++
					}
				}
				if b.x0 < chartLeft || b.x1 > chartRight+20 {
					bad += 2
				}
				if b.y0 < 0 || b.y1 > chartBottom {
					bad += 2
				}
				if bad < least {
					least, best = bad, b
					p.Leftish, p.DX, p.DY = leftish, 9, dy
					if leftish {
						p.DX = -9
					}
				}
			}
		}
		if p.Named = least < 1 || len(points) <= crowded; p.Named {
			taken = append(taken, best)
		}
	}
}

// roundTo keeps so many significant digits.
func roundTo(v float64, digits int) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, float64(digits)-math.Ceil(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// A winCell is a pair in the matrix of who leads whom.
type winCell struct{ Class, Text, Label string }

// winMatrix is, by row and column, how far the row's teacher is ahead.
func (s *Scope) winMatrix() [][]winCell {
	n := len(s.Teachers)
	if n < 3 {
		return nil
	}
	place := map[string]int{}
	out := make([][]winCell, n)
	for i := range s.Teachers {
		place[s.Teachers[i].Teacher] = i
		out[i] = make([]winCell, n)
	}
	for i := range s.Pairs {
		v := &s.Pairs[i]
		a, b := place[v.A], place[v.B]
		if v.Difference == nil {
			out[a][b] = winCell{"none", "·", name(v.A) + " and " + name(v.B) + " have no common tasks"}
			out[b][a] = out[a][b]
			continue
		}
		classA, classB := "tie", "tie"
		switch v.Finding {
		case FavoursA:
			classA, classB = "ahead", "behind"
		case FavoursB:
			classA, classB = "behind", "ahead"
		}
		label := fmt.Sprintf("%s minus %s: %s points; %s", name(v.A), name(v.B), points(v.Difference.Value), v.words())
		out[a][b] = winCell{classA, points(v.Difference.Value), label}
		out[b][a] = winCell{classB, points(-v.Difference.Value), label}
	}
	return out
}
