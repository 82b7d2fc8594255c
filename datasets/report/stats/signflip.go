package stats

import (
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
)

const (
	// signFlipExact bounds the multiplications of the exact distribution.
	signFlipExact = 200_000_000
	// signFlipRounds and signFlipMost are the least B of the sampled one, and
	// the one from which on a family only gets as many as it cannot do without.
	signFlipRounds = 10_000
	signFlipMost   = 200_000
)

// SignFlip is the two-sided p value of the paired sign-flip (permutation) test:
// under no difference each task's difference is as likely to have the other
// sign. diffs holds, by task, the difference in whole units, such as passes of
// A minus passes of B where both have the same number of samples; tasks of
// other numbers are brought to a common one by the caller. Fisher, The design
// of experiments, 1935, §21.
//
// It is exact, by convolution of one binomial distribution for each size that
// differences have, where that is little work; else it is (1+k)/(1+B) over B
// random flips from the seed, with B at least 10,000 and large enough that the
// smallest of family tests may still fall below 0.05 after Holm's adjustment
// (Phipson and Smyth, Statistical Applications in Genetics and Molecular Biology
// 9, 2010). exact tells which. Over no differences p is 1.
func SignFlip(diffs []int64, family int, seed uint64) (p float64, exact bool) {
	var sum, unit int64
	sizes := map[int64]int64{}
	for _, d := range diffs {
		if d != 0 {
			sum += d
			sizes[max(d, -d)]++
			unit = gcd(max(d, -d), unit)
		}
	}
	if sum == 0 {
		return 1, true
	}
	flips := make([]sameSize, 0, len(sizes))
	for _, size := range slices.Sorted(maps.Keys(sizes)) {
		flips = append(flips, sameSize{size / unit, sizes[size]})
	}
	target := max(sum, -sum) / unit
	if p, ok := signFlipTail(flips, target); ok {
		return p, true
	}
	return signFlipSampled(flips, target, signFlipRoundsFor(family), seed), false
}

// sameSize is count differences of one size, their signs apart.
type sameSize struct{ size, count int64 }

func signFlipRoundsFor(family int) int {
	family = max(1, family)
	return max(signFlipRounds, min(400*family, max(signFlipMost, 40*family)))
}

func signFlipSampled(flips []sameSize, target int64, rounds int, seed uint64) float64 {
	random := rand.New(rand.NewPCG(seed, 0x464c4950))
	beyond := 0
	for range rounds {
		var s int64
		for _, f := range flips {
			// Of so many fair coins as many fall upwards.
			var up int64
			for left := f.count; left > 0; left -= 64 {
				coins := random.Uint64()
				if left < 64 {
					coins &= 1<<left - 1
				}
				up += int64(bits.OnesCount64(coins))
			}
			s += f.size * (2*up - f.count)
		}
		if max(s, -s) >= target {
			beyond++
		}
	}
	return float64(1+beyond) / float64(1+rounds)
}

// A spread is a distribution over whole numbers: at[i] is the probability of
// from+i.
type spread struct {
	from int64
	at   []float64
}

// coins is the distribution of how many of n fair coins fall upwards, without
// what is less likely than 1e-300: from the middle outwards, and scaled to 1.
func coins(n int64) spread {
	const least = 1e-300
	middle := n / 2
	up := []float64{}
	for k, v := middle, 1.0; k <= n && v > least; k++ {
		up = append(up, v)
		v *= float64(n-k) / float64(k+1)
	}
	var down []float64
	for k, v := middle, 1.0; k > 0; k-- {
		if v *= float64(k) / float64(n-k+1); v <= least {
			break
		}
		down = append(down, v)
	}
	slices.Reverse(down)
	s := spread{middle - int64(len(down)), append(down, up...)}
	var sum float64
	for _, v := range s.at {
		sum += v
	}
	for i := range s.at {
		s.at[i] /= sum
	}
	return s
}

// signFlipTail is the probability that the sum of randomly signed differences
// is as far from 0 as target, which is above 0; false where that is much work.
func signFlipTail(flips []sameSize, target int64) (float64, bool) {
	// The positive ones sum to from+i with a probability of dist.at[i].
	dist := spread{0, []float64{1}}
	var span int64
	work := 0.0
	for _, f := range flips {
		one := coins(f.count)
		length := float64(len(dist.at)) + float64(f.size)*float64(len(one.at)-1)
		if work += float64(len(dist.at))*float64(len(one.at)) + length; work > signFlipExact {
			return 0, false
		}
		next := make([]float64, int(length))
		for i, v := range one.at {
			at := next[int64(i)*f.size:]
			for k, w := range dist.at {
				at[k] += v * w
			}
		}
		dist = spread{dist.from + f.size*one.from, next}
		span += f.size * f.count
	}
	// Positives sum to x where the sum is 2x-span. The smallest terms first.
	var tail float64
	for i, v := range dist.at {
		if 2*(dist.from+int64(i))-span > -target {
			break
		}
		tail += v
	}
	return min(1, 2*tail), true
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
