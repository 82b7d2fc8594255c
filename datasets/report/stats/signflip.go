package stats

import "math/rand/v2"

const (
	// signFlipExact bounds the work of the exact distribution: sum of absolute
	// differences times tasks.
	signFlipExact = 50_000_000
	// signFlipRounds is the least B of the sampled one.
	signFlipRounds = 10_000
)

// SignFlip is the two-sided p value of the paired sign-flip (permutation) test:
// under no difference each task's difference is as likely to have the other
// sign. diffs holds, by task, the difference in whole units, such as passes of
// A minus passes of B where both have the same number of samples; tasks of
// other numbers are brought to a common one by the caller. Fisher, The design
// of experiments, 1935, §21.
//
// It is exact, by convolution, where that is little work; else it is
// (1+k)/(1+B) over B random flips from the seed, with B at least 10,000 and
// large enough that the smallest of family tests may still fall below 0.05
// after Holm's adjustment (Phipson and Smyth, Statistical Applications in
// Genetics and Molecular Biology 9, 2010). exact tells which. Over no
// differences p is 1.
func SignFlip(diffs []int64, family int, seed uint64) (p float64, exact bool) {
	var sum, span int64
	var moved []int64
	for _, d := range diffs {
		if d != 0 {
			sum += d
			moved = append(moved, max(d, -d))
			span += max(d, -d)
		}
	}
	if len(moved) == 0 {
		return 1, true
	}
	if float64(span)*float64(len(moved)) <= signFlipExact {
		return signFlipTail(moved, span, sum), true
	}
	rounds := max(signFlipRounds, 20*max(1, family)*20)
	random := rand.New(rand.NewPCG(seed, 0x464c4950))
	target := max(sum, -sum)
	beyond := 0
	for range rounds {
		var s int64
		var bits uint64
		for i, d := range moved {
			if i%64 == 0 {
				bits = random.Uint64()
			}
			if bits&1 == 1 {
				s += d
			} else {
				s -= d
			}
			bits >>= 1
		}
		if max(s, -s) >= target {
			beyond++
		}
	}
	return float64(1+beyond) / float64(1+rounds), false
}

// signFlipTail is the probability that the sum of randomly signed moved is as
// far from 0 as sum.
func signFlipTail(moved []int64, span, sum int64) float64 {
	// dist[i] is the probability that the positive ones sum to i.
	dist := make([]float64, span+1)
	dist[0] = 1
	var reach int64
	for _, d := range moved {
		reach += d
		for i := reach; i >= 0; i-- {
			v := dist[i] / 2
			if i >= d {
				v += dist[i-d] / 2
			}
			dist[i] = v
		}
	}
	target := max(sum, -sum)
	// Positives sum to i where the sum is 2i-span. The smallest terms first.
	var tail float64
	for i := int64(0); 2*i-span <= -target; i++ {
		tail += dist[i]
	}
	if target == 0 {
		return 1
	}
	return min(1, 2*tail)
}

// Scale is the least common multiple of the numbers of samples that occur, and
// false where it is above a million.
func Scale(samples []int64) (int64, bool) {
	scale := int64(1)
	for _, n := range samples {
		if n <= 0 {
			return 0, false
		}
		scale = scale / gcd(scale, n) * n
		if scale > 1_000_000 {
			return 0, false
		}
	}
	return scale, true
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
