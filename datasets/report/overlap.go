package report

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets/report/stats"
)

// maxSets bounds the sets of teachers that are told: of n teachers there are 2^n.
const maxSets = 24

// A SolvedSet is the tasks that some teachers solved and all others did not.
type SolvedSet struct {
	Teachers []string `json:"teachers" jsonschema:"description=that solved them; empty for none"`
	Tasks    int64    `json:"tasks"`

	key uint64
}

// Growth is the union as teachers come in, one after the other.
type Growth struct {
	Teacher string `json:"teacher"`
	Adds    int64  `json:"adds" jsonschema:"description=tasks that it solves and none before it"`
	Union   int64  `json:"union" jsonschema:"description=tasks that it and those before it solve"`
}

// setsOf lists the sets by size; equal ones with fewer teachers first.
func setsOf(solved stats.Solved, ids []string) []SolvedSet {
	var out []SolvedSet
	for key, n := range solved {
		out = append(out, SolvedSet{Tasks: n, key: key})
	}
	slices.SortFunc(out, func(a, b SolvedSet) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(bits.OnesCount64(a.key), bits.OnesCount64(b.key)), cmp.Compare(a.key, b.key))
	})
	out = out[:min(len(out), maxSets)]
	for i := range out {
		out[i].Teachers = []string{}
		for k, id := range ids {
			if out[i].key>>k&1 == 1 {
				out[i].Teachers = append(out[i].Teachers, id)
			}
		}
	}
	return out
}

// growthOf takes, each time, the teacher that adds most; of equals the first.
func growthOf(solved stats.Solved, ids []string) []Growth {
	left := make(map[uint64]int64, len(solved)) // what nobody so far solves
	for key, n := range solved {
		if key != 0 {
			left[key] = n
		}
	}
	out := make([]Growth, 0, len(ids))
	taken := make([]bool, len(ids))
	var union int64
	for range ids {
		adds := make([]int64, len(ids))
		for key, n := range left {
			for rest := key; rest != 0; rest &= rest - 1 {
				adds[bits.TrailingZeros64(rest)] += n
			}
		}
		best := -1
		for i := range ids {
			if !taken[i] && (best < 0 || adds[i] > adds[best]) {
				best = i
			}
		}
		taken[best] = true
		union += adds[best]
		out = append(out, Growth{Teacher: ids[best], Adds: adds[best], Union: union})
		for key := range left {
			if key>>best&1 == 1 {
				delete(left, key)
			}
		}
	}
	return out
}
