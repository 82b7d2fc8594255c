package report

import (
	"maps"
	"math"
	"math/bits"
	"slices"
)

// z95 is the two-sided 95 % point of the normal distribution.
const z95 = 1.959963984540054

// Wilson is the score interval of a proportion of pass in n independent trials
// at z standard deviations (1.96 for 95 %): Wilson, Probable inference, the law
// of succession, and statistical inference, JASA 22 (1927). It lies within
// [0, 1]; over no trials it is all of it.
func Wilson(pass, n int64, z float64) (lo, hi float64) {
	if n <= 0 {
		return 0, 1
	}
	total := float64(n)
	p := float64(pass) / total
	z2 := z * z
	middle := (p + z2/(2*total)) / (1 + z2/total)
	half := z * math.Sqrt(p*(1-p)/total+z2/(4*total*total)) / (1 + z2/total)
	lo, hi = max(0, middle-half), min(1, middle+half)
	// At the ends the interval touches them; rounding must not hide that.
	if pass <= 0 {
		lo = 0
	}
	if pass >= n {
		hi = 1
	}
	return lo, hi
}

// proportion is nil over nothing.
func proportion(pass, of int64) *Proportion {
	if of <= 0 {
		return nil
	}
	lo, hi := Wilson(pass, of, z95)
	return &Proportion{Count: pass, Of: of, Value: float64(pass) / float64(of), Low: lo, High: hi}
}

// subBits: a sketch tells 2^subBits values apart exactly, and above them keeps
// subBits significant bits.
const subBits = 7

// A sketch counts values into buckets of exponential width, as HdrHistogram
// does: whole numbers only, so it is the same on every machine and in every
// order. It holds at most 2^(subBits-1) buckets for each power of two.
type sketch struct {
	buckets map[uint32]int64
	total   int64
}

func (s *sketch) add(v, n int64) {
	if s.buckets == nil {
		s.buckets = make(map[uint32]int64)
	}
	s.buckets[bucketOf(max(0, v))] += n
	s.total += n
}

func (s *sketch) merge(o *sketch) {
	for b, n := range o.buckets {
		if s.buckets == nil {
			s.buckets = make(map[uint32]int64)
		}
		s.buckets[b] += n
	}
	s.total += o.total
}

// quantile is the smallest recorded value that percent % of the values do not
// exceed (nearest rank), as its bucket's upper end: exact below 128, above at
// most 1.6 % too large. It is nil over nothing.
func (s *sketch) quantile(percent int64) *int64 {
	if s.total == 0 {
		return nil
	}
	rank := max(1, (s.total*percent+99)/100)
	for _, b := range slices.Sorted(maps.Keys(s.buckets)) {
		if rank -= s.buckets[b]; rank <= 0 {
			v := bucketTop(b)
			return &v
		}
	}
	return nil
}

func bucketOf(v int64) uint32 {
	shift := max(0, bits.Len64(uint64(v))-subBits)
	return uint32(shift)<<subBits | uint32(v>>shift)
}

func bucketTop(b uint32) int64 {
	shift := b >> subBits
	return int64(b&(1<<subBits-1)+1)<<shift - 1
}
