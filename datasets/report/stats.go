package report

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets/report/stats"
)

// proportion is nil over nothing.
func proportion(pass, of int64) *Proportion {
	if of <= 0 {
		return nil
	}
	lo, hi := stats.Wilson(pass, of, stats.Z95)
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
