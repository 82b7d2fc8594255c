package stats

import (
	"math"
	"math/rand/v2"
)

// Scored is what a model said of the answers to one task: the sum of their
// negative log-likelihoods, in nats, over so many tokens.
type Scored struct {
	NLL    float64
	Tokens int64
}

// MeanNLL is the mean negative log-likelihood per token, the sum of all over
// the tokens of all, with its 95 % interval: answers to one task and tokens of
// one answer depend on each other, so that tasks are what varies. The variance
// is Taylor's linearisation of the ratio over tasks (Cochran, Sampling
// techniques, 1977, §6.3), the point Student's with one degree of freedom less
// than there are tasks. Tasks without tokens are left out; over none all is NaN,
// over one the ends alone.
func MeanNLL(tasks []Scored) Interval {
	kept := withTokens(tasks)
	ratio, e := linearised(kept)
	return around(ratio, e)
}

// NLLDifference is the [MeanNLL] of a minus that of b on the same tasks, a[i]
// and b[i] being of one task, with its 95 % interval by the same method, and a
// two-sided p value. It is that of a permutation test (exchange is true): under
// no difference what a said of a task might as well be what b said. It is
// (1+k)/(1+B) over B random exchanges from the seed, with B as for [SignFlip].
// Where the tests of the family would be more than 10^9 exchanges of tasks, it is
// that of Student's t with the interval's variance, and below 20 tasks, where
// that is not to be trusted, of fewer exchanges, at least 10,000: which may be too
// few for a small family's level, and never shows too much. Tasks without tokens
// of either are left out. Over no tasks the value is NaN and p is 1.
func NLLDifference(a, b []Scored, family int, seed uint64) (d Interval, p float64, exchange bool) {
	var x, y []Scored
	for i := range a {
		if a[i].Tokens > 0 && b[i].Tokens > 0 {
			x, y = append(x, a[i]), append(y, b[i])
		}
	}
	rx, ex := linearised(x)
	ry, ey := linearised(y)
	for i := range ex {
		ex[i] -= ey[i]
	}
	d = around(rx-ry, ex)
	rounds, n := signFlipRoundsFor(family), len(x)
	if work := float64(rounds) * float64(n) * float64(max(1, family)); work > exchangeMost {
		if n >= exchangeLeast {
			return d, studentP(rx-ry, ex), false
		}
		rounds = max(signFlipRounds, int(float64(rounds)*exchangeMost/work))
	}
	return d, exchanged(x, y, math.Abs(rx-ry), rounds, seed), true
}

const (
	// exchangeMost bounds the tasks that all tests of a family exchange: some
	// seconds.
	exchangeMost = 1e9
	// exchangeLeast is from how many tasks on Student's t may take their place.
	exchangeLeast = 20
)

// studentP is the two-sided p value of a mean whose deviations by task are e. No
// exchange of n tasks says less than 2 to the 1-n.
func studentP(value float64, e []float64) float64 {
	n := float64(len(e))
	t, df := value/StandardError(e), n-1
	if value == 0 {
		return 1
	}
	return max(betaRegular(df/(df+t*t), df/2, 0.5), math.Ldexp(1, 1-len(e)))
}

func withTokens(tasks []Scored) []Scored {
	var out []Scored
	for _, t := range tasks {
		if t.Tokens > 0 {
			out = append(out, t)
		}
	}
	return out
}

// linearised is the ratio and, by task, how far it pulls the ratio off.
func linearised(tasks []Scored) (ratio float64, e []float64) {
	var nll, tokens float64
	for _, t := range tasks {
		nll += t.NLL
		tokens += float64(t.Tokens)
	}
	ratio = nll / tokens
	e = make([]float64, len(tasks))
	for i, t := range tasks {
		e[i] = (t.NLL - ratio*float64(t.Tokens)) * float64(len(tasks)) / tokens
	}
	return ratio, e
}

func around(value float64, e []float64) Interval {
	out := Interval{value, math.NaN(), math.NaN(), MethodDelta}
	if len(e) > 1 {
		half := studentPoint(0.95, float64(len(e)-1)) * StandardError(e)
		out.Low, out.High = value-half, value+half
	}
	return out
}

// exchanged is the permutation test.
func exchanged(x, y []Scored, target float64, rounds int, seed uint64) float64 {
	if len(x) == 0 || !(target > 0) {
		return 1
	}
	random := rand.New(rand.NewPCG(seed, 0x4e4c4c))
	var nll, tokens float64
	for i := range x {
		nll += x[i].NLL + y[i].NLL
		tokens += float64(x[i].Tokens + y[i].Tokens)
	}
	beyond := 0
	for range rounds {
		var n, t float64
		var coins uint64
		for i := range x {
			if i%64 == 0 {
				coins = random.Uint64()
			}
			one := &x[i]
			if coins&1 == 1 {
				one = &y[i]
			}
			coins >>= 1
			n += one.NLL
			t += float64(one.Tokens)
		}
		// The same sums in another order differ in the last digits.
		if math.Abs(n/t-(nll-n)/(tokens-t)) >= target*(1-1e-9) {
			beyond++
		}
	}
	return float64(1+beyond) / float64(1+rounds)
}
