package report

import (
	"math"

	"github.com/stillhouse-data/stillhouse/datasets/report/stats"
)

// keptShare is how much of what all teachers solve the cheapest set keeps.
const keptShare = 0.95

// Together is what teachers solve between them, on the tasks that all of them
// were asked. A task is solved where any sample passes.
type Together struct {
	Teachers []string `json:"teachers"`
	Tasks    int64    `json:"tasks"`
	Union    int64    `json:"union" jsonschema:"description=tasks that at least one teacher solved: what an oracle that picks the teacher could pass"`
	SolvedBy []int64  `json:"solved_by" jsonschema:"description=tasks by how many teachers solved them; from none to all"`

	Sets   []SolvedSet `json:"sets,omitempty" jsonschema:"description=tasks by exactly which teachers solved them; the largest sets first and at most 24"`
	Growth []Growth    `json:"growth,omitempty" jsonschema:"description=what each teacher adds to those before it; each time the one that adds most"`

	Values []Value `json:"values" jsonschema:"description=what each teacher adds; in the order of teachers"`
	// ErrorOverlap[i][j] is the share of the tasks that i did not solve that j
	// did not solve either.
	ErrorOverlap [][]float64 `json:"error_overlap" jsonschema:"description=share of the tasks not solved by the teacher of the row that the teacher of the column did not solve either; 1 on the diagonal"`

	Cheapest *CheapestSet   `json:"cheapest,omitempty" jsonschema:"description=cheapest teachers that keep 95 % of the union; absent where a teacher is not priced or nothing is solved"`
	Ratings  *SolvedRatings `json:"ratings,omitempty" jsonschema:"description=Bradley-Terry ratings by who solves what another does not; by both conventions for ties"`
	// Once and Repeated compare asking all of them once with asking one as often.
	Once     float64    `json:"once" jsonschema:"description=share of the tasks that the first samples of all teachers solve"`
	Repeated []PassRate `json:"repeated,omitempty" jsonschema:"description=pass@n of each teacher where n is the number of teachers and it has so many samples; in the order of teachers; tasks 0 where it has not"`
}

// A Value is what one teacher adds to the others.
type Value struct {
	Teacher string `json:"teacher"`
	Solved  int64  `json:"solved"`
	Unique  int64  `json:"unique" jsonschema:"description=tasks that it alone solved"`
	Without int64  `json:"without" jsonschema:"description=tasks that the others solve between them"`
	// USDPerExtra is what it costs for each task that the others do not solve.
	USD         *float64 `json:"usd,omitempty" jsonschema:"description=all that was spent for its answers to these tasks"`
	USDPerExtra *float64 `json:"usd_per_extra,omitempty" jsonschema:"description=usd/unique; absent where it is not priced or solves nothing alone"`
}

// A CheapestSet is teachers that are enough.
type CheapestSet struct {
	Teachers []string `json:"teachers"`
	Solved   int64    `json:"solved"`
	USD      float64  `json:"usd"`
	Exact    bool     `json:"exact" jsonschema:"description=every set was looked at; else it was found step by step and may not be the cheapest"`
}

func (s *scoped) together() *Together {
	n := len(s.ids)
	if n < 2 || n > stats.MaxTeachers || len(s.everyone) == 0 {
		return nil
	}
	solved := stats.Solved{}
	var once int64
	costs, priced := make([]float64, n), true
	for _, group := range s.everyone {
		var key uint64
		first := false
		for i, row := range group {
			if row.solved {
				key |= 1 << i
			}
			first = first || row.first
			costs[i] += float64(row.micros) / 1e6
			if row.unpriced {
				costs[i] = math.NaN()
			}
		}
		solved[key]++
		if first {
			once++
		}
	}
	all := ^uint64(0) >> (64 - n)
	t := &Together{
		Teachers: s.ids, Tasks: int64(len(s.everyone)), Union: solved.By(all), SolvedBy: solved.Exactly(n),
		Once: float64(once) / float64(len(s.everyone)),
	}
	for i, id := range s.ids {
		v := Value{Teacher: id, Solved: solved.By(1 << i), Unique: solved.Unique(i), Without: solved.By(all &^ (1 << i))}
		if s.infos[i].Priced && !math.IsNaN(costs[i]) {
			v.USD = ref(costs[i])
			if v.Unique > 0 {
				v.USDPerExtra = ref(costs[i] / float64(v.Unique))
			}
		} else {
			priced = false
		}
		t.Values = append(t.Values, v)
		row := make([]float64, n)
		for j := range n {
			_, _, other, neither := solved.Both(i, j)
			if wrong := other + neither; wrong > 0 {
				row[j] = float64(neither) / float64(wrong)
			}
		}
		row[i] = 1
		t.ErrorOverlap = append(t.ErrorOverlap, row)
	}
	if set, exact, ok := solved.Cheapest(n, costs, keptShare); ok && priced {
		t.Cheapest = &CheapestSet{Teachers: s.named(set.Set), Solved: set.Solved, USD: set.Cost, Exact: exact}
	}
	t.Sets, t.Growth = setsOf(solved, s.ids), growthOf(solved, s.ids)
	t.Repeated, t.Ratings = s.repeated(n), solvedRatings(solved, s.ids)
	return t
}

// repeated is pass@n of every teacher; nil where none has n samples.
func (s *scoped) repeated(n int) []PassRate {
	out, any := make([]PassRate, n), false
	for i := range n {
		out[i].K = n
		for _, group := range s.everyone {
			if r := group[i]; int(r.samples) >= n {
				out[i].Value += stats.PassAtK(int(r.samples), int(r.pass), n)
				out[i].Tasks++
			}
		}
		if out[i].Tasks > 0 {
			out[i].Value /= float64(out[i].Tasks)
			any = true
		}
	}
	if !any {
		return nil
	}
	return out
}

func (s *scoped) named(set uint64) []string {
	var out []string
	for i, id := range s.ids {
		if set>>i&1 == 1 {
			out = append(out, id)
		}
	}
	return out
}
