package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Wilson is the score interval of a proportion of pass in n independent trials
// at z standard deviations (1.96 for 95 %): Wilson, Probable inference, the law
// of succession, and statistical inference, JASA 22 (1927). It lies within
// [0, 1]; over no trials it is all of it.
func Wilson(pass, n int64, z float64) (lo, hi float64) {
	if n <= 0 {
		return 0, 1
	}
	lo, hi = wilson(float64(pass)/float64(n), float64(n), z)
	// At the ends the interval touches them; rounding must not hide that.
	if pass <= 0 {
		lo = 0
	}
	if pass >= n {
		hi = 1
	}
	return lo, hi
}

func wilson(p, n, z float64) (lo, hi float64) {
	z2 := z * z
	middle := (p + z2/(2*n)) / (1 + z2/n)
	half := z * math.Sqrt(max(0, p*(1-p)/n+z2/(4*n*n))) / (1 + z2/n)
	return max(0, middle-half), min(1, middle+half)
}

// A Cluster is the samples of one task: how many there were and how many
// passed.
type Cluster struct{ Pass, Samples int64 }

// rates are the clusters' own rates, those without samples left out.
func rates(clusters []Cluster) []float64 {
	out := make([]float64, 0, len(clusters))
	for _, c := range clusters {
		if c.Samples > 0 {
			out = append(out, float64(c.Pass)/float64(c.Samples))
		}
	}
	return out
}

// MacroRate is the mean over tasks of the share of a task's samples that
// passed, so that a task counts the same however often it was asked; NaN over
// nothing.
func MacroRate(clusters []Cluster) float64 { return Mean(rates(clusters)) }

const (
	// smallTasks: below it, and where the rate is so near to 0 or 1 that fewer
	// than extremeTasks tasks lie on the other side, the percentile bootstrap
	// covers too little.
	smallTasks   = 100
	extremeTasks = 20
	// bootstrapTasks: above it the normal interval over tasks is as good, and
	// needs no resampling.
	bootstrapTasks = 5000
	// Resamples of a bootstrap interval.
	Resamples = 10_000
)

// Methods that an interval was made by.
const (
	MethodWilson          = "wilson"           // one sample a task
	MethodWilsonEffective = "wilson_effective" // of the effective sample size
	MethodBootstrap       = "cluster_bootstrap"
	MethodDelta           = "cluster_delta"
	MethodMover           = "mover_wilson_effective" // of a difference
)

// MacroInterval is the 95 % interval of [MacroRate], and the method that it was
// made by. Samples of one task are never taken for independent:
//
//   - one sample for every task: Wilson's score interval;
//   - fewer than 100 tasks, or a rate that fewer than 20 tasks' worth keep from
//     0 or 1: Wilson's interval at the effective sample size p(1-p)/v, where v is
//     the variance of the mean over tasks, widened by Student's t for the degrees
//     of freedom that v has (Korn and Graubard, Survey Methodology 24, 1998, with
//     Wilson's in place of Clopper and Pearson's interval);
//   - up to 5,000 tasks: percentile bootstrap over tasks, 10,000 resamples from
//     the seed;
//   - above: normal interval with the variance over tasks.
//
// intervals is how many there are to make: where that is many, so that resampling
// all would be more than some seconds' work, fewer tasks than 5,000 are enough for
// the normal interval, but never fewer than 100.
func MacroInterval(clusters []Cluster, intervals int, seed uint64) (lo, hi float64, method string) {
	return macroInterval(clusters, resampledTasks(intervals), seed, Resamples)
}

// resampledTasks is up to how many tasks each of so many intervals is resampled:
// 2·10^9 draws in all.
func resampledTasks(intervals int) int {
	return min(bootstrapTasks, max(smallTasks, 2_000_000_000/Resamples/max(1, intervals)))
}

func macroInterval(clusters []Cluster, most int, seed uint64, resamples int) (lo, hi float64, method string) {
	r := rates(clusters)
	n := len(r)
	if n == 0 {
		return 0, 1, MethodWilson
	}
	single, pass := true, int64(0)
	for _, c := range clusters {
		single = single && c.Samples <= 1
		pass += c.Pass
	}
	if single {
		lo, hi = Wilson(pass, int64(n), Z95)
		return lo, hi, MethodWilson
	}
	p := Mean(r)
	switch near := min(p, 1-p) * float64(n); {
	case n < smallTasks || near < extremeTasks:
		lo, hi = wilsonEffective(p, r, clusters)
		return lo, hi, MethodWilsonEffective
	case n <= most:
		lo, hi = bootstrap(n, seed, resamples, func(pick []int32) float64 {
			var sum float64
			for _, i := range pick {
				sum += r[i]
			}
			return sum / float64(n)
		})
		return lo, hi, MethodBootstrap
	}
	half := Z95 * StandardError(r)
	return max(0, p-half), min(1, p+half), MethodDelta
}

// wilsonEffective is Wilson's interval at the effective sample size.
func wilsonEffective(p float64, r []float64, clusters []Cluster) (lo, hi float64) {
	n := float64(len(r))
	var samples float64
	for _, c := range clusters {
		samples += float64(c.Samples)
	}
	if n < 2 {
		return wilson(p, 1, Z95)
	}
	// Where every task has the same rate the tasks say nothing of how much
	// samples are worth beyond the first.
	size := n
	if v := Variance(r) / n; v > 0 {
		size = min(samples, p*(1-p)/v)
	}
	t := Z95 / studentPoint(0.95, n-1)
	return wilson(p, max(1, size*t*t), Z95)
}

// MacroDifference is the difference of the [MacroRate]s of two answerers of the
// same tasks, a[i] and b[i] being the samples of one task, with its 95 %
// interval: below 100 tasks, and where fewer than 20 differ from what most tasks
// show, the method of variance estimates recovery (Zou and Donner, Statistics in
// Medicine 27, 2008) from the two rates' intervals and the correlation of the
// tasks' rates, which is Newcombe's method 10 for samples that are several; else percentile bootstrap over tasks up to 5,000, and the
// normal interval. It is [-1, 1] over nothing. A task without samples of either
// is left out. intervals is as for [MacroInterval].
func MacroDifference(a, b []Cluster, intervals int, seed uint64) Interval {
	return macroDifference(a, b, resampledTasks(intervals), seed, Resamples)
}

func macroDifference(a, b []Cluster, most int, seed uint64, resamples int) Interval {
	var x, y, d []float64
	var ca, cb []Cluster
	for i := range a {
		if a[i].Samples > 0 && b[i].Samples > 0 {
			ca, cb = append(ca, a[i]), append(cb, b[i])
			p, q := float64(a[i].Pass)/float64(a[i].Samples), float64(b[i].Pass)/float64(b[i].Samples)
			x, y, d = append(x, p), append(y, q), append(d, p-q)
		}
	}
	n := len(d)
	if n == 0 {
		return Interval{math.NaN(), -1, 1, MethodMover}
	}
	value := Mean(d)
	switch {
	case n < smallTasks || unlikeMost(d) < extremeTasks:
		p, q := Mean(x), Mean(y)
		l1, u1 := wilsonEffective(p, x, ca)
		l2, u2 := wilsonEffective(q, y, cb)
		r := correlation(x, y)
		side := func(a, b float64) float64 { return math.Sqrt(max(0, a*a-2*r*a*b+b*b)) }
		return Interval{value, max(-1, value-side(p-l1, u2-q)), min(1, value+side(u1-p, q-l2)), MethodMover}
	case n <= most:
		lo, hi := bootstrap(n, seed, resamples, func(pick []int32) float64 {
			var sum float64
			for _, i := range pick {
				sum += d[i]
			}
			return sum / float64(n)
		})
		return Interval{value, lo, hi, MethodBootstrap}
	}
	half := Z95 * StandardError(d)
	return Interval{value, value - half, value + half, MethodDelta}
}

// unlikeMost is how many values are not the most frequent one. Where they are
// few, resampling sees next to no variance.
func unlikeMost(values []float64) int {
	counts, most := map[float64]int{}, 0
	for _, v := range values {
		counts[v]++
		most = max(most, counts[v])
	}
	return len(values) - most
}

// correlation is Pearson's; 0 where one of them does not vary.
func correlation(x, y []float64) float64 {
	mx, my := Mean(x), Mean(y)
	var xx, yy, xy float64
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		yy += (y[i] - my) * (y[i] - my)
		xy += (x[i] - mx) * (y[i] - my)
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

// PooledWilson is Wilson's interval over all samples as if they were
// independent. It covers too little wherever samples of a task resemble each
// other, and is here to show how much.
func PooledWilson(clusters []Cluster) (lo, hi float64) {
	var pass, n int64
	for _, c := range clusters {
		pass += c.Pass
		n += c.Samples
	}
	return Wilson(pass, n, Z95)
}

// bootstrap is the 95 % percentile interval of a statistic over n tasks:
// resamples times n tasks are drawn with replacement and the statistic is
// taken of the drawn places, which it must not keep. Results that are NaN or
// infinite, such as a ratio over nothing, are left out; where all are, the
// ends are NaN. Efron and Tibshirani, An introduction to the bootstrap, 1993,
// chapter 13.
func bootstrap(n int, seed uint64, resamples int, statistic func(pick []int32) float64) (lo, hi float64) {
	if n <= 0 {
		return math.NaN(), math.NaN()
	}
	random := rand.New(rand.NewPCG(seed, 0x5741544348))
	pick := make([]int32, n)
	values := make([]float64, 0, resamples)
	for range resamples {
		for i := range pick {
			pick[i] = random.Int32N(int32(n))
		}
		if v := statistic(pick); !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return quantile(values, 0.025), quantile(values, 0.975)
}

// quantile is the linearly interpolated quantile of sorted values (type 7 of
// Hyndman and Fan); NaN over nothing.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// An Interval is a figure with its 95 % interval and the method of that.
type Interval struct {
	Value, Low, High float64
	Method           string
}

// Ratios are sums of several quantities over the sum of one other, all by task:
// nums[k][i] is the k-th quantity of task i, such as its cost, and den[i] what
// it is divided by, such as its accepted rows. The 95 % intervals over tasks are
// percentile bootstraps of one set of resamples up to 5,000 tasks, and Taylor's
// linearisation (the delta method) above. Where den sums to nothing all are NaN;
// the ends alone are NaN where they cannot be told: over one task, and where den
// is 0 for so many that more than 2.5 % of the resamples have nothing to divide by.
// intervals is as for [MacroInterval]; where den is above 0 for fewer than 20
// tasks it decides nothing.
func Ratios(nums [][]float64, den []float64, intervals int, seed uint64) []Interval {
	n, most := len(den), resampledTasks(intervals)
	var total float64
	above := 0
	for _, d := range den {
		total += d
		if d > 0 {
			above++
		}
	}
	if above < extremeTasks {
		most = bootstrapTasks
	}
	out := make([]Interval, len(nums))
	for k, num := range nums {
		var sum float64
		for _, v := range num {
			sum += v
		}
		out[k] = Interval{sum / total, math.NaN(), math.NaN(), MethodBootstrap}
		if !(total > 0) {
			out[k].Value = math.NaN()
		}
	}
	switch {
	case !(total > 0) || n < 2:
	case n > most:
		residuals := make([]float64, n)
		for k, num := range nums {
			for i := range den {
				residuals[i] = num[i] - out[k].Value*den[i]
			}
			half := Z95 * StandardError(residuals) * float64(n) / total
			out[k].Low, out[k].High, out[k].Method = max(0, out[k].Value-half), out[k].Value+half, MethodDelta
		}
	default:
		resampledRatios(nums, den, seed, out)
	}
	return out
}

func resampledRatios(nums [][]float64, den []float64, seed uint64, out []Interval) {
	n, width := len(den), len(nums)+1
	// By task, so that one draw finds all of its numbers beside each other.
	rows := make([]float64, 0, n*width)
	for i := range den {
		rows = append(rows, den[i])
		for _, num := range nums {
			rows = append(rows, num[i])
		}
	}
	random := rand.New(rand.NewPCG(seed, 0x5241544f))
	values := make([][]float64, len(nums))
	sums := make([]float64, width)
	for range Resamples {
		clear(sums)
		for range n {
			at := int(random.Int32N(int32(n))) * width
			for k, v := range rows[at : at+width] {
				sums[k] += v
			}
		}
		for k := range values {
			v := math.Inf(1)
			if sums[0] > 0 {
				v = sums[k+1] / sums[0]
			}
			values[k] = append(values[k], v)
		}
	}
	for k := range values {
		slices.Sort(values[k])
		if lo, hi := quantile(values[k], 0.025), quantile(values[k], 0.975); !math.IsInf(hi, 0) && !math.IsNaN(hi) {
			out[k].Low, out[k].High = lo, hi
		}
	}
}
