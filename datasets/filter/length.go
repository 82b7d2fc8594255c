package filter

import (
	"math"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// Reasons of the length filter.
const (
	ReasonLong  = "length:long"
	ReasonShort = "length:short"
)

// leastForMedian is how many answers make a median that others are judged by.
// Below it, the ratio to the median rejects nothing.
const leastForMedian = 8

// length keeps answers of some length in tokens, reasoning included: as the
// endpoint counted them, else guessed. The ratio is to the median of all whole
// answers to the tasks of the same domain and effort.
type length struct {
	min, max           int64
	minRatio, maxRatio float64
	least              int64
}

func newLength(o *options.Set) Filter {
	f := &length{
		min: o.Int("min_tokens", 0), max: o.Int("max_tokens", 0),
		minRatio: o.Float("min_ratio", 0), maxRatio: o.Float("max_ratio", 0), least: o.Int("min_answers", leastForMedian),
	}
	if f.min < 0 {
		o.Fail("min_tokens", "is %d, and must be 0 or more", f.min)
	}
	if f.max < 0 || f.max > 0 && f.max < f.min {
		o.Fail("max_tokens", "is %d, and must be min_tokens (%d) or more", f.max, f.min)
	}
	if f.minRatio < 0 || f.minRatio >= 1 && f.minRatio != 0 {
		o.Fail("min_ratio", "is %g, and must be from 0 to below 1, such as 0.1", f.minRatio)
	}
	if f.maxRatio != 0 && f.maxRatio <= 1 {
		o.Fail("max_ratio", "is %g, and must be above 1, such as 4", f.maxRatio)
	}
	if f.least < 1 {
		o.Fail("min_answers", "is %d, and must be 1 or more", f.least)
	}
	if *f == (length{least: f.least}) {
		o.Fail("max_tokens", "no limit is given; name one of min_tokens, max_tokens, min_ratio and max_ratio")
	}
	return f
}

func (*length) Name() string    { return "length" }
func (*length) Version() string { return "1" }

func (f *length) needsStats() bool { return f.minRatio > 0 || f.maxRatio > 0 }

func (f *length) Reject(in *Input) string {
	if in.Candidate.Answer() == nil {
		return ""
	}
	n := in.tokens()
	least, most := float64(f.min), math.Inf(1)
	if f.max > 0 {
		most = float64(f.max)
	}
	if f.needsStats() {
		if median, of := in.Stats.Median(in.Candidate.Domain, in.Candidate.Effort); of >= f.least {
			least = max(least, f.minRatio*float64(median))
			if f.maxRatio > 0 {
				most = min(most, f.maxRatio*float64(median))
			}
		}
	}
	switch {
	case float64(n) > most:
		return ReasonLong
	case float64(n) < least:
		return ReasonShort
	}
	return ""
}
