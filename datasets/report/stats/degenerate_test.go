package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// TestIntervalsWithoutVariance: tasks that all look alike are no proof that the
// next one will, so that no interval is a point.
func TestIntervalsWithoutVariance(t *testing.T) {
	same := func(n int, pass int64) []Cluster {
		out := make([]Cluster, n)
		for i := range out {
			out[i] = Cluster{pass, 2}
		}
		return out
	}
	for _, n := range []int{1, 2, 99, 100, 6000} {
		for _, pass := range []int64{0, 2} {
			if lo, hi, _ := MacroInterval(same(n, pass), 1, 1); !(lo < hi) {
				t.Errorf("%d tasks of %d passes in 2: [%v, %v]", n, pass, lo, hi)
			}
			if d := MacroDifference(same(n, pass), same(n, 0), 1, 1); !(d.Low < d.High) || d.Value < d.Low || d.Value > d.High {
				t.Errorf("%d tasks of %d against 0 passes in 2: %+v", n, pass, d)
			}
		}
	}
}

// TestRatiosThatCannotBeTold: what one or two rows cost is known, and what the
// next ones will is not.
func TestRatiosThatCannotBeTold(t *testing.T) {
	cost := [][]float64{make([]float64, 40)}
	for i := range cost[0] {
		cost[0][i] = 1
	}
	for accepted, told := range map[int]bool{1: false, 2: false, 3: false, 6: true} {
		den := make([]float64, 40)
		for i := range accepted {
			den[i] = 1
		}
		r := Ratios(cost, den, 1, 1)[0]
		if r.Value != 40/float64(accepted) || math.IsNaN(r.High) == told || math.IsNaN(r.Low) == told {
			t.Errorf("%d of 40 accepted: %+v", accepted, r)
		}
	}
	if r := Ratios([][]float64{{3}}, []float64{1}, 1, 1)[0]; r.Value != 3 || !math.IsNaN(r.Low) || !math.IsNaN(r.High) {
		t.Errorf("one task: %+v", r)
	}
}

func TestRatingsOfOneTask(t *testing.T) {
	wins := Wins{{0, 2}, {1, 0}}
	r, err := BradleyTerry(wins)
	if err != nil {
		t.Fatal(err)
	}
	r.Cluster(wins, [][]Bout{{{0, 1, 1}, {0, 1, 1}, {0, 1, 0}}})
	if !math.IsNaN(r.SE[0]) {
		t.Errorf("errors %v, want none to be told", r.SE)
	}
	if _, err := BradleyTerry(Wins{{0, 2}, {0, 0}}); !errors.Is(err, ErrDisconnected) {
		t.Errorf("nobody beat the first: %v", err)
	}
}

// TestAllTiesAreNoInterval: a model of ties alone has no residuals.
func TestAllTiesAreNoInterval(t *testing.T) {
	matches := make([]Match, 20)
	for i := range matches {
		matches[i] = Match{0.5, float64(i)}
	}
	if rate, lo, hi, ok := LengthControlled(matches); ok {
		t.Errorf("%v [%v, %v] from ties alone", rate, lo, hi)
	}
}

// TestUnionsAreThoseOfEachSet: counted at once and one by one.
func TestUnionsAreThoseOfEachSet(t *testing.T) {
	s := Solved{0: 7, 0b1: 3, 0b1010: 5, 0b11111: 2, 0b10100: 11}
	for set, got := range s.unions(5) {
		if want := s.By(uint64(set)); got != want {
			t.Errorf("set %b solves %d, want %d", set, got, want)
		}
	}
}

// Where many intervals are to be made fewer tasks are resampled: 2·10^9 draws in
// all, and both kinds of interval nearly agree from there on. What is near 0, or
// divides by little, is never left to the normal interval.
func TestManyIntervals(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var a, b []Cluster
	var cost, accepted []float64
	for range 700 {
		p := random.Float64()
		var x, y Cluster
		for range 4 {
			x.Samples, y.Samples = x.Samples+1, y.Samples+1
			if random.Float64() < p {
				x.Pass++
			}
			if random.Float64() < p/2 {
				y.Pass++
			}
		}
		a, b, cost, accepted = append(a, x), append(b, y), append(cost, 4+random.Float64()), append(accepted, float64(x.Pass))
	}
	near := func(name string, few, many Interval) {
		t.Helper()
		tolerance := 0.05 * (few.High - few.Low)
		if few.Method != MethodBootstrap || many.Method != MethodDelta || few.Value != many.Value || math.Abs(few.Low-many.Low) > tolerance || math.Abs(few.High-many.High) > tolerance {
			t.Errorf("%s: %+v where few are made, %+v where many are", name, few, many)
		}
	}
	of := func(intervals int) Interval {
		lo, hi, method := MacroInterval(a, intervals, 7)
		return Interval{MacroRate(a), lo, hi, method}
	}
	near("rate", of(1), of(324))
	near("difference", MacroDifference(a, b, 1, 7), MacroDifference(a, b, 324, 7))
	near("ratio", Ratios([][]float64{cost}, accepted, 1, 7)[0], Ratios([][]float64{cost}, accepted, 324, 7)[0])
	if d := MacroDifference(a[:99], b[:99], 1_000_000, 7); d.Method != MethodMover {
		t.Errorf("of 99 tasks %+v", d)
	}
	clear(accepted[19:])
	if r := Ratios([][]float64{cost}, accepted, 1_000_000, 7)[0]; r.Method != MethodBootstrap {
		t.Errorf("of %+v, with few accepted rows", r)
	}
}
