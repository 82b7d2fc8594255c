package merge

import (
	"cmp"
	"math"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// union keeps every accepted answer, with its teacher. Where a cap holds, each
// teacher gives one answer before any gives a second.
type union struct{ chooser }

func (*union) Name() string    { return "union" }
func (*union) Version() string { return "1" }

func (p *union) Merge(in Input) Result {
	return p.finish(selection{ranked: p.inTurn(sorted(in.Accepted, p.compare))})
}

// allPassing is union over the answers whose verdict is pass, whatever was
// accepted: rejection sampling.
type allPassing struct{ chooser }

func (*allPassing) Name() string    { return "all_passing" }
func (*allPassing) Version() string { return "1" }

func (p *allPassing) Merge(in Input) Result {
	s := keep(in.Accepted, LeftPolicy, passes)
	s.ranked = p.inTurn(sorted(s.ranked, p.compare))
	return p.finish(s)
}

// bestOf keeps the best: by score (a missing one after every number), then by
// verdict (pass, unknown, none), then graded ones before others and of those the
// shorter, then by teacher order and sample id. Over verdicts alone it never looks at length:
// that would be a search for the shortest answer.
type bestOf struct{ chooser }

func (*bestOf) Name() string    { return "best_of" }
func (*bestOf) Version() string { return "3" }

func (p *bestOf) Merge(in Input) Result {
	return p.finish(selection{ranked: sorted(in.Accepted, p.better)})
}

// ownerFirst keeps the answers of the first teacher in the task's route that
// has an accepted one: the owner, or where it has none those after it. Teachers
// outside of the route, who were asked when it had failed, come last.
type ownerFirst struct{ chooser }

func (*ownerFirst) Name() string    { return "owner_first" }
func (*ownerFirst) Version() string { return "2" }

func (p *ownerFirst) Merge(in Input) Result {
	place := func(c *datasets.Candidate) int {
		if in.Task != nil {
			if i := slices.Index(in.Task.Route, c.Teacher); i >= 0 {
				return i
			}
		}
		return math.MaxInt
	}
	ranked := sorted(in.Accepted, func(a, b *datasets.Candidate) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(p.teacher(a.Teacher), p.teacher(b.Teacher)), cmp.Compare(a.Teacher, b.Teacher), p.better(a, b))
	})
	s := selection{}
	if len(ranked) > 0 {
		owner := ranked[0].Teacher
		s = keep(ranked, LeftPolicy, func(c *datasets.Candidate) bool { return c.Teacher == owner })
	}
	return p.finish(s)
}

// shortestPassing keeps the shortest of the answers that pass; of equal ones
// the preferred teacher's.
type shortestPassing struct{ chooser }

func (*shortestPassing) Name() string    { return "shortest_passing" }
func (*shortestPassing) Version() string { return "1" }

func (p *shortestPassing) Merge(in Input) Result {
	s := keep(in.Accepted, LeftPolicy, passes)
	s.ranked = sorted(s.ranked, func(a, b *datasets.Candidate) int {
		return cmp.Or(cmp.Compare(length(a), length(b)), p.compare(a, b))
	})
	return p.finish(s)
}

// cheapestPassing keeps the cheapest of the answers that pass, at list prices
// without cache; one whose price is not known comes after all others.
type cheapestPassing struct{ chooser }

func (*cheapestPassing) Name() string    { return "cheapest_passing" }
func (*cheapestPassing) Version() string { return "1" }

func (p *cheapestPassing) Merge(in Input) Result {
	s := keep(in.Accepted, LeftPolicy, passes)
	costs := make(map[*datasets.Candidate]float64, len(s.ranked))
	for _, c := range s.ranked {
		costs[c] = math.Inf(1)
		if p.Cost == nil {
			continue
		}
		if cost, ok := p.Cost(c); ok && !math.IsNaN(cost) {
			costs[c] = cost
		}
	}
	s.ranked = sorted(s.ranked, func(a, b *datasets.Candidate) int {
		return cmp.Or(cmp.Compare(costs[a], costs[b]), p.compare(a, b))
	})
	return p.finish(s)
}
