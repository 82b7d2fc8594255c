package merge

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// union keeps every accepted answer, with its teacher. Where per_task caps it,
// each teacher gives one answer before any gives a second.
type union struct{ chooser }

func (*union) Name() string { return "union" }

func (p *union) Merge(_ *datasets.Task, accepted []*datasets.Candidate) []*datasets.Candidate {
	return p.inTurn(accepted)
}

// allPassing is union over the answers whose verdict is pass, whatever was
// accepted: rejection sampling.
type allPassing struct{ chooser }

func (*allPassing) Name() string { return "all_passing" }

func (p *allPassing) Merge(_ *datasets.Task, accepted []*datasets.Candidate) []*datasets.Candidate {
	return p.inTurn(slices.DeleteFunc(slices.Clone(accepted), func(c *datasets.Candidate) bool {
		return c.Verdict == nil || *c.Verdict != datasets.Pass
	}))
}

// bestOf keeps the best: by score (a missing one after every number), then by
// verdict (pass, unknown, none), then by teacher order, then by sample id.
// Never by length: over verdicts alone that would be a search for the shortest
// answer.
type bestOf struct{ chooser }

func (*bestOf) Name() string { return "best_of" }

func (p *bestOf) Merge(_ *datasets.Task, accepted []*datasets.Candidate) []*datasets.Candidate {
	ranked := slices.Clone(accepted)
	slices.SortFunc(ranked, func(a, b *datasets.Candidate) int {
		return cmp.Or(
			cmp.Compare(score(b), score(a)),
			cmp.Compare(verdictRank(a), verdictRank(b)),
			p.compare(a, b),
		)
	})
	return p.cap(p.distinct(ranked))
}

// score is the candidate's, or less than every number where it has none. cmp
// orders NaN below every number, which is where a score that is none belongs.
func score(c *datasets.Candidate) float64 {
	if c.Score == nil {
		return math.NaN()
	}
	return *c.Score
}

func verdictRank(c *datasets.Candidate) int {
	switch {
	case c.Verdict == nil:
		return 2
	case *c.Verdict == datasets.Pass:
		return 0
	case *c.Verdict == datasets.Unknown:
		return 1
	}
	return 3
}

// chooser is what the policies share: order, duplicates, cap.
type chooser struct {
	perTask    int
	order      map[string]int
	duplicates string
}

func newChooser(o Options) chooser {
	order := make(map[string]int, len(o.TeacherOrder))
	for i, id := range o.TeacherOrder {
		if _, ok := order[id]; !ok {
			order[id] = i
		}
	}
	return chooser{perTask: o.PerTask, order: order, duplicates: o.AnswerDuplicates}
}

// compare is the order of last resort: teacher order, teacher id, sample id.
func (p *chooser) compare(a, b *datasets.Candidate) int {
	return cmp.Or(
		cmp.Compare(p.teacher(a), p.teacher(b)),
		cmp.Compare(a.Teacher, b.Teacher),
		cmp.Compare(a.SampleID, b.SampleID),
	)
}

func (p *chooser) teacher(c *datasets.Candidate) int {
	if i, ok := p.order[c.Teacher]; ok {
		return i
	}
	return len(p.order)
}

// inTurn takes the first answer of each teacher in order, then the second of
// each, and so on.
func (p *chooser) inTurn(accepted []*datasets.Candidate) []*datasets.Candidate {
	sorted := slices.Clone(accepted)
	slices.SortFunc(sorted, p.compare)
	sorted = p.distinct(sorted)
	turn := make(map[*datasets.Candidate]int, len(sorted))
	count := make(map[string]int)
	for _, c := range sorted {
		turn[c] = count[c.Teacher]
		count[c.Teacher]++
	}
	slices.SortStableFunc(sorted, func(a, b *datasets.Candidate) int { return cmp.Compare(turn[a], turn[b]) })
	return p.cap(sorted)
}

// distinct drops every answer that equals an earlier one of its teacher (or of
// its task).
func (p *chooser) distinct(ranked []*datasets.Candidate) []*datasets.Candidate {
	if p.duplicates == DuplicatesKeep || len(ranked) < 2 {
		return ranked
	}
	seen := make(map[string]bool, len(ranked))
	return slices.DeleteFunc(ranked, func(c *datasets.Candidate) bool {
		key := answerKey(c)
		if p.duplicates == DuplicatesPerTeacher {
			key = c.Teacher + "\x00" + key
		}
		if seen[key] {
			return true
		}
		seen[key] = true
		return false
	})
}

func (p *chooser) cap(ranked []*datasets.Candidate) []*datasets.Candidate {
	if p.perTask > 0 && len(ranked) > p.perTask {
		return ranked[:p.perTask]
	}
	return ranked
}

// answerKey is the same for answers that are equal.
func answerKey(c *datasets.Candidate) string {
	m := c.Answer()
	if m == nil {
		return "\x00none\x00" + c.SampleID
	}
	var b strings.Builder
	for _, part := range []*string{m.Content, m.ReasoningContent} {
		if part != nil {
			b.WriteString(squash(*part))
		}
		b.WriteByte(0)
	}
	for i := range m.ToolCalls {
		b.WriteString(m.ToolCalls[i].Name)
		b.WriteByte(0)
		b.WriteString(m.ToolCalls[i].Arguments)
		b.WriteByte(0)
	}
	return b.String()
}

func squash(s string) string {
	return strings.Join(strings.Fields(norm.NFC.String(s)), " ")
}
