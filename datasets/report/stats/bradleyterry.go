package stats

import (
	"errors"
	"math"
)

// ErrDisconnected says that ratings are undefined: some players, or groups of
// players, never lost against (or never met) the others, so that no finite
// difference fits best. Ford, Solution of a ranking problem from binary
// comparisons, American Mathematical Monthly 64 (1957).
var ErrDisconnected = errors.New("the comparisons do not connect all in both directions, so ratings are undefined")

// Wins counts comparisons: wins[i][j] is how often i was preferred to j, a tie
// half a win for both where the caller counts ties.
type Wins [][]float64

// Ratings are the natural-log strengths of a Bradley-Terry model, with mean 0:
// i is preferred to j with probability 1/(1+exp(r[j]-r[i])).
type Ratings struct {
	Value []float64
	// SE are the standard errors under the constraint of mean 0, from the
	// inverse of the observed information. They take comparisons for
	// independent; where several come from one task, resample the tasks.
	SE []float64
}

// BradleyTerry fits the model by maximum likelihood: Newton's method, from the
// point that Zermelo's iteration (Hunter, MM algorithms for generalized
// Bradley-Terry models, Annals of Statistics 32, 2004) gives. It fails with
// [ErrDisconnected]; nothing is added to the counts to avoid that.
func BradleyTerry(wins Wins) (*Ratings, error) {
	n := len(wins)
	if n < 2 || !wins.stronglyConnected() {
		return nil, ErrDisconnected
	}
	r := wins.zermelo(50)
	for range 100 {
		gradient, information := wins.slope(r)
		// The information is singular along (1, …, 1): a constraint on the mean
		// takes that place.
		for i := range n {
			for j := range n {
				information[i][j] += 1 / float64(n)
			}
		}
		step, ok := solve(information, gradient)
		if !ok {
			return nil, ErrDisconnected
		}
		largest := 0.0
		for i := range r {
			largest = max(largest, math.Abs(step[i]))
		}
		// A step of more than 1 is shortened: far from the best point the
		// quadratic overshoots.
		scale := 1.0
		if largest > 1 {
			scale = 1 / largest
		}
		for i := range r {
			r[i] += scale * step[i]
		}
		centre(r)
		if largest < 1e-13 {
			break
		}
	}
	_, information := wins.slope(r)
	for i := range n {
		for j := range n {
			information[i][j] += 1 / float64(n)
		}
	}
	out := &Ratings{Value: r, SE: make([]float64, n)}
	for i := range n {
		unit := make([]float64, n)
		unit[i] = 1
		column, ok := solve(information, unit)
		if !ok {
			return nil, ErrDisconnected
		}
		// The constraint adds 1/n to the variance of everyone.
		out.SE[i] = math.Sqrt(max(0, column[i]-1/float64(n)))
	}
	return out, nil
}

// A Bout is one comparison of two players: Win is 1 where I was preferred, 0
// where J was, and 0.5 for a tie.
type Bout struct {
	I, J int
	Win  float64
}

// Cluster replaces the standard errors by ones that hold where the bouts of one
// task depend on each other: the sandwich of the inverse information around the
// sum, over tasks, of the outer products of each task's gradient (Liang and
// Zeger, Biometrika 73, 1986), with n/(n-1) for n tasks. The ratings must have
// been fitted to all of the bouts together. Over one task they are NaN: it says
// nothing of how tasks differ.
func (r *Ratings) Cluster(wins Wins, tasks [][]Bout) { r.ClusterCounted(wins, tasks, nil) }

// ClusterCounted is Cluster where each of tasks stands for so many that are
// alike, which wins counts as often; nil: each for itself.
func (r *Ratings) ClusterCounted(wins Wins, tasks [][]Bout, counts []int64) {
	n := len(r.Value)
	all := float64(len(tasks))
	if counts != nil {
		all = 0
		for _, c := range counts {
			all += float64(c)
		}
	}
	if all < 2 {
		for i := range n {
			r.SE[i] = math.NaN()
		}
		return
	}
	_, information := wins.slope(r.Value)
	for i := range n {
		for j := range n {
			information[i][j] += 1 / float64(n)
		}
	}
	inverse := make([][]float64, n) // its rows, being symmetric
	for i := range n {
		unit := make([]float64, n)
		unit[i] = 1
		row, ok := solve(information, unit)
		if !ok {
			return
		}
		inverse[i] = row
	}
	variance := make([]float64, n)
	g := make([]float64, n)
	for k, bouts := range tasks {
		clear(g)
		times := 1.0
		if counts != nil {
			times = float64(counts[k])
		}
		for _, b := range bouts {
			d := b.Win - 1/(1+math.Exp(r.Value[b.J]-r.Value[b.I]))
			g[b.I] += d
			g[b.J] -= d
		}
		for i := range n {
			var v float64
			for j := range n {
				v += inverse[i][j] * g[j]
			}
			variance[i] += times * v * v
		}
	}
	for i := range n {
		r.SE[i] = math.Sqrt(variance[i] * all / (all - 1))
	}
}

// stronglyConnected tells whether everyone beat everyone else over some chain.
func (w Wins) stronglyConnected() bool {
	return w.reaches(func(i, j int) bool { return w[i][j] > 0 }) && w.reaches(func(i, j int) bool { return w[j][i] > 0 })
}

func (w Wins) reaches(edge func(i, j int) bool) bool {
	seen := make([]bool, len(w))
	seen[0] = true
	queue := []int{0}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for j := range w {
			if !seen[j] && i != j && edge(i, j) {
				seen[j] = true
				queue = append(queue, j)
			}
		}
	}
	for _, s := range seen {
		if !s {
			return false
		}
	}
	return true
}

// zermelo is some rounds of the classical iteration.
func (w Wins) zermelo(rounds int) []float64 {
	n := len(w)
	strength := make([]float64, n)
	for i := range strength {
		strength[i] = 1
	}
	for range rounds {
		next := make([]float64, n)
		for i := range n {
			var won, met float64
			for j := range n {
				if i != j {
					won += w[i][j]
					met += (w[i][j] + w[j][i]) / (strength[i] + strength[j])
				}
			}
			next[i] = won / met
		}
		strength = next
	}
	out := make([]float64, n)
	for i, s := range strength {
		out[i] = math.Log(s)
	}
	centre(out)
	return out
}

// slope is the gradient of the log likelihood and the negative of its second
// derivatives.
func (w Wins) slope(r []float64) ([]float64, [][]float64) {
	n := len(w)
	gradient, information := make([]float64, n), make([][]float64, n)
	for i := range information {
		information[i] = make([]float64, n)
	}
	for i := range n {
		for j := i + 1; j < n; j++ {
			met := w[i][j] + w[j][i]
			if met == 0 {
				continue
			}
			p := 1 / (1 + math.Exp(r[j]-r[i]))
			gradient[i] += w[i][j] - met*p
			gradient[j] -= w[i][j] - met*p
			v := met * p * (1 - p)
			information[i][i] += v
			information[j][j] += v
			information[i][j] -= v
			information[j][i] -= v
		}
	}
	return gradient, information
}

func centre(r []float64) {
	mean := Mean(r)
	for i := range r {
		r[i] -= mean
	}
}

// solve solves a x = b by elimination with pivots; false where a is singular.
// It changes neither.
func solve(a [][]float64, b []float64) ([]float64, bool) {
	n := len(b)
	m := make([][]float64, n)
	for i := range m {
		m[i] = append(append(make([]float64, 0, n+1), a[i]...), b[i])
	}
	for i := range n {
		pivot := i
		for k := i + 1; k < n; k++ {
			if math.Abs(m[k][i]) > math.Abs(m[pivot][i]) {
				pivot = k
			}
		}
		if m[i], m[pivot] = m[pivot], m[i]; math.Abs(m[i][i]) < 1e-300 {
			return nil, false
		}
		for k := i + 1; k < n; k++ {
			f := m[k][i] / m[i][i]
			for j := i; j <= n; j++ {
				m[k][j] -= f * m[i][j]
			}
		}
	}
	x := make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		x[i] = m[i][n]
		for j := i + 1; j < n; j++ {
			x[i] -= m[i][j] * x[j]
		}
		x[i] /= m[i][i]
	}
	return x, true
}
