package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// A cell is a population of tasks that samples are drawn from: each task has
// its own rate from a beta distribution with the mean, and the correlation rho
// of two samples of one task.
type cell struct {
	tasks, samples int
	mean, rho      float64
}

func (c cell) String() string {
	return fmt.Sprintf("n=%d samples=%d mean=%g rho=%g", c.tasks, c.samples, c.mean, c.rho)
}

// draw takes one sample of the population.
func (c cell) draw(random *rand.Rand) []Cluster {
	out := make([]Cluster, c.tasks)
	for i := range out {
		p := c.mean
		switch {
		case c.rho >= 1: // a task is solved always or never
			p = 0
			if random.Float64() < c.mean {
				p = 1
			}
		case c.rho > 0:
			size := 1/c.rho - 1
			a, b := gamma(random, c.mean*size), gamma(random, (1-c.mean)*size)
			p = a / (a + b)
		}
		out[i].Samples = int64(c.samples)
		for range c.samples {
			if random.Float64() < p {
				out[i].Pass++
			}
		}
	}
	return out
}

// gamma draws from a gamma distribution: Marsaglia and Tsang, A simple method
// for generating gamma variables, 2000.
func gamma(random *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(random, shape+1) * math.Pow(random.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := random.NormFloat64()
		v := 1 + c*x
		if v = v * v * v; v > 0 && math.Log(random.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// covered is how often an interval holds the mean, of so many runs.
func (c cell) covered(runs int, interval func([]Cluster, uint64) (lo, hi float64)) float64 {
	random := rand.New(rand.NewPCG(7, uint64(c.tasks*1000+c.samples)))
	hits := 0
	for run := range runs {
		if lo, hi := interval(c.draw(random), uint64(run)); lo <= c.mean && c.mean <= hi {
			hits++
		}
	}
	return float64(hits) / float64(runs)
}

// TestCoverage: of 1,000 intervals for nominal 95 % about 95 % hold what they
// are to hold, in the cells that matter: few tasks, rates near the ends, and
// samples of a task that resemble each other.
func TestCoverage(t *testing.T) {
	testdata.Heavy(t)
	cells := []cell{
		{30, 1, 0.5, 0}, {50, 1, 0.8, 0}, {200, 1, 0.7, 0}, {1000, 1, 0.9, 0},
		{30, 4, 0.5, 0.3}, {30, 4, 0.8, 0.5}, {50, 8, 0.7, 0.6}, {60, 16, 0.5, 0.4}, {80, 4, 0.9, 0.3},
		{150, 4, 0.5, 0.5}, {200, 8, 0.7, 0.3}, {300, 4, 0.85, 0.6}, {500, 2, 0.5, 0.2},
	}
	// With as many resamples as the report takes it is a minute, and covers as
	// much to within a point.
	const runs, resamples = 1000, 500
	interval := func(c []Cluster, seed uint64) (lo, hi float64) {
		lo, hi, _ = macroInterval(c, bootstrapTasks, seed, resamples)
		return lo, hi
	}
	for _, c := range cells {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			got := c.covered(runs, interval)
			t.Logf("covered %.1f %%", 100*got)
			if got < 0.93 || got > 0.97 {
				t.Errorf("covered %.1f %%, want 93 to 97", 100*got)
			}
		})
	}
}

// TestPooledSamplesCoverTooLittle is the negative control: samples of one task
// that are taken for independent give intervals that are too narrow.
func TestPooledSamplesCoverTooLittle(t *testing.T) {
	testdata.Heavy(t)
	for _, c := range []cell{{100, 8, 0.6, 0.5}, {200, 16, 0.5, 0.3}} {
		got := c.covered(1000, func(c []Cluster, _ uint64) (lo, hi float64) { return PooledWilson(c) })
		if got >= 0.85 {
			t.Errorf("%v: pooled intervals covered %.1f %%, want less than 85", c, 100*got)
		}
	}
}

// TestRatioCoverage: dollars per accepted row, where what a task costs and
// whether it is accepted have to do with each other; above 5,000 tasks too.
func TestRatioCoverage(t *testing.T) {
	testdata.Heavy(t)
	for _, c := range []struct{ tasks, runs int }{{120, 200}, {6000, 1000}} {
		random := rand.New(rand.NewPCG(11, uint64(c.tasks)))
		hits := 0
		for run := range c.runs {
			cost, accepted := make([]float64, c.tasks), make([]float64, c.tasks)
			for i := range cost {
				p := random.Float64()
				cost[i] = 1 + 2*(1-p) + random.ExpFloat64()
				for range 4 {
					if random.Float64() < p {
						accepted[i]++
					}
				}
			}
			// 1 + 2·½ + 1 dollars a task, 4·½ rows.
			if r := Ratios([][]float64{cost}, accepted, 1, uint64(run))[0]; r.Low <= 1.5 && 1.5 <= r.High {
				hits++
			}
		}
		if got := float64(hits) / float64(c.runs); got < 0.915 || got > 0.98 {
			t.Errorf("%d tasks: covered %.1f %%, want about 95", c.tasks, 100*got)
		}
	}
}

// TestDifferenceCoverage: two answerers of the same tasks, whose rates go
// together.
func TestDifferenceCoverage(t *testing.T) {
	testdata.Heavy(t)
	for _, c := range []struct {
		cell
		better float64 // what the second has more on every task's scale
	}{
		{cell{30, 4, 0.5, 0.3}, 0.1}, {cell{60, 8, 0.7, 0.4}, 0}, {cell{80, 3, 0.85, 0.3}, 0.05}, {cell{200, 4, 0.6, 0.5}, 0.1}, {cell{6000, 2, 0.5, 0.3}, 0.02},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(5, uint64(c.tasks)))
			hits := 0
			for run := range 1000 {
				a, b := make([]Cluster, c.tasks), make([]Cluster, c.tasks)
				size := 1/c.rho - 1
				for i := range a {
					x, y := gamma(random, c.mean*size), gamma(random, (1-c.mean)*size)
					p := x / (x + y)
					// Half of the tasks as the first has them, half afresh.
					q := p
					if random.IntN(2) == 0 {
						x, y = gamma(random, c.mean*size), gamma(random, (1-c.mean)*size)
						q = x / (x + y)
					}
					q = (1-c.better)*q + c.better
					a[i].Samples, b[i].Samples = int64(c.samples), int64(c.samples)
					for range c.samples {
						a[i].Pass += int64(map[bool]int{true: 1}[random.Float64() < p])
						b[i].Pass += int64(map[bool]int{true: 1}[random.Float64() < q])
					}
				}
				want := -c.better * (1 - c.mean)
				if d := macroDifference(a, b, bootstrapTasks, uint64(run), 500); d.Low <= want && want <= d.High {
					hits++
				}
			}
			t.Logf("covered %.1f %%", float64(hits)/10)
			if hits < 930 || hits > 975 {
				t.Errorf("covered %.1f %%, want about 95", float64(hits)/10)
			}
		})
	}
}
