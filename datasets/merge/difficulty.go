package merge

import (
	"math"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// Passes says how hard a task is: how many of its judged answers passed.
// Unknown verdicts and asks that failed are in neither count.
type Passes struct {
	Passed int64 `json:"passed"`
	Judged int64 `json:"judged"` // passed or failed
}

// PassesOf counts the answers of a task that every task is asked for: the first
// samples of each teacher of its route. Further samples are asked because
// earlier ones failed, and further teachers because all of the route did, so
// that a rate over those too would make a task look as hard as it was unlucky.
func PassesOf(task *datasets.Task, candidates []datasets.Candidate, samples int) Passes {
	var p Passes
	for i := range candidates {
		c := &candidates[i]
		if c.Error != nil || int(c.SampleIndex) >= samples || !slices.Contains(task.Route, c.Teacher) || slices.Contains(c.Flags, datasets.FlagEscalated) {
			continue
		}
		if passes(c) {
			p.Passed++
			p.Judged++
		} else if fails(c) {
			p.Judged++
		}
	}
	return p
}

// Rate is the share that passed, and whether anything was judged.
func (p Passes) Rate() (float64, bool) {
	if p.Judged == 0 {
		return 0, false
	}
	return float64(p.Passed) / float64(p.Judged), true
}

// At is pass@k, the chance that at least one of k answers passes: 1 −
// C(n−c, k) / C(n, k) over n judged of which c passed, which has no bias (Chen
// et al. 2021, arXiv 2107.03374, section 2.1). k is from 1 to Judged.
func (p Passes) At(k int64) float64 {
	none := 1.0
	for i := range k {
		left := p.Judged - p.Passed - i
		if left <= 0 {
			return 1
		}
		none = float64(none * float64(float64(left)/float64(p.Judged-i)))
	}
	return math.Round(1e9*float64(1-none)) / 1e9 // 0.2 is said as 0.2
}

// Curve is pass@k for k = 1, 2, 4, … up to all judged.
func (p Passes) Curve() []datasets.PassAt {
	var out []datasets.PassAt
	for k := int64(1); k <= p.Judged; k *= 2 {
		out = append(out, datasets.PassAt{K: int32(k), Value: p.At(k)})
	}
	return out
}

// A Difficulty is the pass rates of the tasks that enter the dataset, both ends
// included.
type Difficulty struct{ Min, Max float64 }

// Takes tells whether a task is neither too hard nor too easy. One of which
// nothing was judged has no rate, and is taken.
func (d Difficulty) Takes(p Passes) bool {
	rate, ok := p.Rate()
	return !ok || rate >= d.Min && rate <= d.Max
}
