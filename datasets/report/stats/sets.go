package stats

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// MaxTeachers is how many answerers a [Solved] tells apart.
const MaxTeachers = 64

// Solved counts tasks by who solved them: bit i of the key is the i-th teacher.
// Only tasks that all were asked belong in it.
type Solved map[uint64]int64

// Tasks is how many tasks are counted.
func (s Solved) Tasks() int64 {
	var n int64
	for _, count := range s {
		n += count
	}
	return n
}

// By is how many tasks at least one of the teachers in set solved: the oracle
// pass count of the set.
func (s Solved) By(set uint64) int64 {
	var n int64
	for key, count := range s {
		if key&set != 0 {
			n += count
		}
	}
	return n
}

// Exactly is how many tasks were solved by so many teachers, from none to all
// n of them.
func (s Solved) Exactly(n int) []int64 {
	out := make([]int64, n+1)
	for key, count := range s {
		out[bits.OnesCount64(key)] += count
	}
	return out
}

// Unique is how many tasks the i-th teacher solved alone.
func (s Solved) Unique(i int) int64 { return s[1<<i] }

// Both is the table of two teachers: tasks that both solved, the first alone,
// the second alone, and neither.
func (s Solved) Both(i, j int) (both, first, second, neither int64) {
	for key, count := range s {
		switch a, b := key>>i&1, key>>j&1; {
		case a == 1 && b == 1:
			both += count
		case a == 1:
			first += count
		case b == 1:
			second += count
		default:
			neither += count
		}
	}
	return both, first, second, neither
}

// exactSets bounds the teachers whose every set is looked at.
const exactSets = 16

// A TeacherSet is some teachers, what they solve together and what they cost.
type TeacherSet struct {
	Set    uint64
	Solved int64
	Cost   float64
}

// Cheapest is the cheapest set of the first n teachers that together solve at
// least share of what all n solve, by the cost of each; among sets of one cost
// the one that solves more, then the one with fewer teachers, then the one whose
// teachers come first. Up to 16 teachers every set is looked at; of more, exact
// is false and the set is found by adding, as often as needed, the teacher with
// the most new tasks a dollar. A cost that is NaN or negative counts as
// infinite. ok is false over no solved task.
func (s Solved) Cheapest(n int, costs []float64, share float64) (best TeacherSet, exact, ok bool) {
	all := uint64(1)<<n - 1
	if n >= 64 {
		all = math.MaxUint64
	}
	union := s.By(all)
	if union == 0 || n == 0 {
		return best, true, false
	}
	need := int64(math.Ceil(share*float64(union) - 1e-9))
	if n > exactSets {
		return s.greedy(n, costs, need), false, true
	}
	solved := s.unions(n)
	for set := uint64(1); set <= all; set++ {
		one := TeacherSet{Set: set, Solved: solved[set], Cost: costOf(set, costs)}
		if one.Solved >= need && (!ok || one.before(best)) {
			best, ok = one, true
		}
	}
	return best, true, ok
}

// unions is [Solved.By] of every set of the first n teachers, at once: what a set
// does not solve is what only others solve, summed over subsets a teacher at a
// time.
func (s Solved) unions(n int) []int64 {
	all := uint64(1)<<n - 1
	within := make([]int64, all+1) // tasks that nobody outside of the set solves
	var tasks int64
	for key, count := range s {
		within[key&all] += count
		tasks += count
	}
	for i := range n {
		for set := range within {
			if set>>i&1 == 1 {
				within[set] += within[set&^(1<<i)]
			}
		}
	}
	out := make([]int64, all+1)
	for set := range out {
		out[set] = tasks - within[all&^uint64(set)]
	}
	return out
}

func (t TeacherSet) before(o TeacherSet) bool {
	return cmp.Or(
		cmp.Compare(t.Cost, o.Cost), cmp.Compare(o.Solved, t.Solved),
		cmp.Compare(bits.OnesCount64(t.Set), bits.OnesCount64(o.Set)),
		cmp.Compare(bits.Reverse64(o.Set), bits.Reverse64(t.Set)),
	) < 0
}

// Keeping lists every set of the first n teachers, at most 16, that solves at
// least share of what all solve and of which no teacher can be left out, by the
// number of teachers, then by what they solve.
func (s Solved) Keeping(n int, share float64) []TeacherSet {
	if n > exactSets {
		return nil
	}
	all := uint64(1)<<n - 1
	need := int64(math.Ceil(share*float64(s.By(all)) - 1e-9))
	var out []TeacherSet
	for set := uint64(1); set <= all; set++ {
		solved := s.By(set)
		if solved < need {
			continue
		}
		minimal := true
		for i := range n {
			minimal = minimal && (set>>i&1 == 0 || s.By(set&^(1<<i)) < need)
		}
		if minimal {
			out = append(out, TeacherSet{Set: set, Solved: solved})
		}
	}
	slices.SortStableFunc(out, func(a, b TeacherSet) int {
		return cmp.Or(cmp.Compare(bits.OnesCount64(a.Set), bits.OnesCount64(b.Set)), cmp.Compare(b.Solved, a.Solved))
	})
	return out
}

func costOf(set uint64, costs []float64) float64 {
	var sum float64
	for i, c := range costs {
		if set>>i&1 == 1 {
			if c < 0 || math.IsNaN(c) {
				c = math.Inf(1)
			}
			sum += c
		}
	}
	return sum
}

func (s Solved) greedy(n int, costs []float64, need int64) TeacherSet {
	var best TeacherSet
	for best.Solved < need {
		pick, worth := -1, 0.0
		for i := range n {
			more := s.By(best.Set|1<<i) - best.Solved
			if best.Set>>i&1 == 1 || more == 0 {
				continue
			}
			if w := float64(more) / max(costOf(1<<i, costs), 1e-12); pick < 0 || w > worth {
				pick, worth = i, w
			}
		}
		best.Set |= 1 << pick
		best.Solved = s.By(best.Set)
	}
	best.Cost = costOf(best.Set, costs)
	return best
}
