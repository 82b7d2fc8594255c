package merge

import (
	"cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// pairwise keeps the winner of the judgements: the answer with the largest
// share of points, where a win is one point and a tie half a point for each. A
// win is a win in both orders, which the judgement holds already. Shares that
// are equal, as in a circle, go by teacher order and sample id.
//
// An answer that stands alone wins. Where no judgement of the task says
// anything, nobody does.
type pairwise struct{ chooser }

func (*pairwise) Name() string    { return "pairwise" }
func (*pairwise) Version() string { return "1" }

// A standing is what an answer has won: half points of so many comparisons.
type standing struct{ halves, games int }

// compare orders standings, the better first, without a division: an answer
// that was not compared comes last.
func (s standing) compare(o standing) int {
	if s.games == 0 || o.games == 0 {
		return cmp.Compare(o.games, s.games)
	}
	return cmp.Compare(o.halves*s.games, s.halves*o.games)
}

func (p *pairwise) Merge(in Input) Result {
	standings := make(map[string]*standing, len(in.Accepted))
	for _, c := range in.Accepted {
		standings[c.SampleID] = &standing{}
	}
	compared := false
	for i := range in.Judgements {
		j := &in.Judgements[i]
		a, b := standings[j.SampleA], standings[j.SampleB]
		if a == nil || b == nil || a == b {
			continue // of a candidate that is not accepted
		}
		switch j.Outcome {
		case datasets.JudgedA:
			a.halves += 2
		case datasets.JudgedB:
			b.halves += 2
		case datasets.JudgedTie:
			a.halves++
			b.halves++
		default:
			continue
		}
		a.games++
		b.games++
		compared = true
	}
	if !compared && len(in.Accepted) > 1 {
		return p.finish(keep(in.Accepted, LeftNotJudged, func(*datasets.Candidate) bool { return false }))
	}
	s := keep(in.Accepted, LeftNotJudged, func(c *datasets.Candidate) bool {
		return len(in.Accepted) == 1 || standings[c.SampleID].games > 0
	})
	s.ranked = sorted(s.ranked, func(a, b *datasets.Candidate) int {
		return cmp.Or(standings[a.SampleID].compare(*standings[b.SampleID]), p.compare(a, b))
	})
	return p.finish(s)
}
