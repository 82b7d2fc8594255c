package stats

import (
	"cmp"
	"math"
	"slices"
)

// McNemar is the exact two-sided p value of McNemar's test over two answerers
// of the same tasks, where b tasks were solved by the first alone and c by the
// second alone: twice the smaller tail of Binomial(b+c, 1/2), at most 1, and 1
// where nothing is discordant. McNemar, Psychometrika 12 (1947).
func McNemar(b, c int64) float64 {
	n, k := b+c, min(b, c)
	if n <= 0 || k < 0 || 2*k == n {
		return 1
	}
	// From the largest term down: each is the one before it times k/(n-k+1).
	term := math.Exp(logChoose(float64(n), float64(k)) - float64(n)*math.Ln2)
	sum := 0.0
	for ; k >= 0 && term > sum*1e-18; k-- {
		sum += term
		term *= float64(k) / float64(n-k+1)
	}
	return min(1, 2*sum)
}

// Newcombe is the interval of the difference of two paired proportions at z
// standard deviations, where of a+b+c+d tasks a were solved by both, b by the
// first alone, c by the second alone and d by none: method 10 of Newcombe,
// Improved confidence intervals for the difference between binomial proportions
// based on paired data, Statistics in Medicine 17 (1998), without a continuity
// correction of phi. Over no tasks it is [-1, 1].
func Newcombe(a, b, c, d int64, z float64) (lo, hi float64) {
	n := a + b + c + d
	if n <= 0 {
		return -1, 1
	}
	p1, p2 := float64(a+b)/float64(n), float64(a+c)/float64(n)
	l1, u1 := Wilson(a+b, n, z)
	l2, u2 := Wilson(a+c, n, z)
	phi := 0.0
	if margins := float64(a+b) * float64(c+d) * float64(a+c) * float64(b+d); margins > 0 {
		phi = (float64(a)*float64(d) - float64(b)*float64(c)) / math.Sqrt(margins)
	}
	side := func(x, y float64) float64 { return math.Sqrt(max(0, x*x-2*phi*x*y+y*y)) }
	diff := float64(b-c) / float64(n)
	return max(-1, diff-side(p1-l1, u2-p2)), min(1, diff+side(u1-p1, p2-l2))
}

// Holm adjusts the p values of one family so that the chance of any false
// finding stays below the level that they are compared with. Holm, A simple
// sequentially rejective multiple test procedure, Scandinavian Journal of
// Statistics 6 (1979). The order of the values is kept. A NaN, which tests
// nothing, stays and is not counted.
func Holm(p []float64) []float64 {
	order := make([]int, 0, len(p))
	out := slices.Clone(p)
	for i, v := range p {
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	worst := 0.0
	for rank, i := range order {
		worst = max(worst, min(1, float64(len(order)-rank)*p[i]))
		out[i] = worst
	}
	return out
}

// DetectableDifference is the smallest difference of two paired rates that a
// sample of n tasks shows with the given power (0.8) in a two-sided test at
// the given level (0.05), where a share of the tasks in (0, 1] is discordant:
// the d at which Connor's sample size is n (Connor, Sample size for testing
// differences in proportions for the paired-sample design, Biometrics 43,
// 1987). No more than the discordant share can differ, so it is at most that;
// +Inf says that not even such a difference is likely to show.
func DetectableDifference(n int, discordant, level, power float64) float64 {
	if n <= 0 || discordant <= 0 {
		return math.Inf(1)
	}
	za, zb := NormalPoint(1-level), NormalPoint(2*power-1)
	shows := func(d float64) bool {
		return za*math.Sqrt(discordant)+zb*math.Sqrt(max(0, discordant-d*d)) <= d*math.Sqrt(float64(n))
	}
	if !shows(discordant) {
		return math.Inf(1)
	}
	lo, hi := 0.0, discordant
	for range 60 {
		if mid := (lo + hi) / 2; shows(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}
