package merge

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/dedup"
)

// chooser is what the policies share: order, duplicates, caps.
type chooser struct {
	Options
	order map[string]int
}

func newChooser(o Options) chooser {
	order := make(map[string]int, len(o.TeacherOrder))
	for i, id := range o.TeacherOrder {
		if _, ok := order[id]; !ok {
			order[id] = i
		}
	}
	return chooser{o, order}
}

// A verdict on what was given: the ranked candidates become rows, as far as
// duplicates and caps allow; left has the others with their reasons.
type selection struct {
	ranked []*datasets.Candidate
	left   []Left
	label  *Label
}

func (s *selection) leave(c *datasets.Candidate, reason string) {
	s.left = append(s.left, Left{c, reason})
}

// keep splits given by whether a policy takes a candidate; reason is of those
// that it does not.
func keep(given []*datasets.Candidate, reason string, takes func(*datasets.Candidate) bool) selection {
	var s selection
	for _, c := range given {
		if takes(c) {
			s.ranked = append(s.ranked, c)
		} else {
			s.leave(c, reason)
		}
	}
	return s
}

// finish drops from the ranked what repeats an earlier one, then what is over
// the caps.
func (p *chooser) finish(s selection) Result {
	r := Result{Label: s.label, Left: s.left}
	seen := make(map[string]bool, len(s.ranked))
	of := make(map[string]int)
	for _, c := range s.ranked {
		reason := ""
		switch {
		case p.repeats(c, seen, r.Rows):
			reason = LeftDuplicate
		case p.PerTask > 0 && len(r.Rows) >= p.PerTask:
			reason = LeftPerTask
		case p.PerTeacher > 0 && of[c.Teacher] >= p.PerTeacher:
			reason = LeftPerTeacher
		}
		if reason != "" {
			r.Left = append(r.Left, Left{c, reason})
			continue
		}
		of[c.Teacher]++
		r.Rows = append(r.Rows, c)
	}
	slices.SortFunc(r.Left, func(a, b Left) int {
		return cmp.Or(cmp.Compare(a.Candidate.SampleID, b.Candidate.SampleID), cmp.Compare(a.Candidate.Teacher, b.Candidate.Teacher))
	})
	return r
}

// repeats tells whether an answer equals an earlier one of its teacher (or of
// its task), or is near one that is a row.
func (p *chooser) repeats(c *datasets.Candidate, seen map[string]bool, rows []*datasets.Candidate) bool {
	if p.AnswerDuplicates == DuplicatesKeep {
		return false
	}
	key := answerKey(c)
	if p.AnswerDuplicates == DuplicatesPerTeacher {
		key = c.Teacher + "\x00" + key
	}
	if seen[key] {
		return true
	}
	seen[key] = true
	if p.Near == nil {
		return false
	}
	return slices.ContainsFunc(rows, func(row *datasets.Candidate) bool {
		return (p.AnswerDuplicates == DuplicatesPerTask || row.Teacher == c.Teacher) && p.Near(row, c)
	})
}

// compare is the order of last resort: teacher order, teacher id, sample id.
func (p *chooser) compare(a, b *datasets.Candidate) int {
	return cmp.Or(
		cmp.Compare(p.teacher(a.Teacher), p.teacher(b.Teacher)),
		cmp.Compare(a.Teacher, b.Teacher),
		cmp.Compare(a.SampleID, b.SampleID),
	)
}

func (p *chooser) teacher(id string) int {
	if i, ok := p.order[id]; ok {
		return i
	}
	return len(p.order)
}

// better is the order of best_of: by score (a missing one after every number),
// then by verdict (pass, unknown, none, fail), then those that were graded before
// others, of graded ones the shorter, then the order of last resort. Were two
// graded ones compared by length and others not, three could beat each other in
// a circle, and the order in which they came would decide.
func (p *chooser) better(a, b *datasets.Candidate) int {
	by := cmp.Or(cmp.Compare(score(b), score(a)), cmp.Compare(verdictRank(a), verdictRank(b)))
	if by == 0 {
		switch x, y := graded(a), graded(b); {
		case x && y:
			by = cmp.Compare(length(a), length(b))
		case x:
			by = -1
		case y:
			by = 1
		}
	}
	return cmp.Or(by, p.compare(a, b))
}

// sorted gives the candidates in an order, without changing what was given.
func sorted(given []*datasets.Candidate, by func(a, b *datasets.Candidate) int) []*datasets.Candidate {
	out := slices.Clone(given)
	slices.SortFunc(out, by)
	return out
}

// inTurn takes the first answer of each teacher in order, then the second of
// each, and so on, so that where rows are capped each teacher gives one answer
// before any gives a second. What repeats an earlier answer of its teacher takes
// no turn.
func (p *chooser) inTurn(ranked []*datasets.Candidate) []*datasets.Candidate {
	turn := make(map[*datasets.Candidate]int, len(ranked))
	count := make(map[string]int)
	seen := make(map[string]bool, len(ranked))
	for _, c := range ranked {
		if p.repeats(c, seen, nil) {
			turn[c] = math.MaxInt
			continue
		}
		turn[c] = count[c.Teacher]
		count[c.Teacher]++
	}
	out := slices.Clone(ranked)
	slices.SortStableFunc(out, func(a, b *datasets.Candidate) int { return cmp.Compare(turn[a], turn[b]) })
	return out
}

// score is the candidate's, or less than every number where it has none. cmp
// orders NaN below every number, which is where a score that is none belongs.
func score(c *datasets.Candidate) float64 {
	if c.Score == nil {
		return math.NaN()
	}
	return *c.Score
}

// graded tells whether some verifier gave the candidate a score that says more
// than pass or fail. Among scores that do not, the shorter answer would be the
// shortest that passes.
func graded(c *datasets.Candidate) bool {
	says := func(v *float64) bool { return v != nil && *v != 0 && *v != 1 }
	if len(c.Verdicts) == 0 {
		return says(c.Score)
	}
	return slices.ContainsFunc(c.Verdicts, func(v datasets.Verdict) bool { return says(v.Score) })
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

func passes(c *datasets.Candidate) bool { return c.Verdict != nil && *c.Verdict == datasets.Pass }
func fails(c *datasets.Candidate) bool  { return c.Verdict != nil && *c.Verdict == datasets.Fail }

// length is how much a student would have to write: the characters of an
// answer's reasoning, text and tool calls. Tokens would depend on whose
// tokenizer counted them, and some endpoints do not say.
func length(c *datasets.Candidate) int {
	m := c.Answer()
	if m == nil {
		return 0
	}
	n := 0
	for _, part := range []*string{m.Content, m.ReasoningContent} {
		if part != nil {
			n += utf8.RuneCountInString(*part)
		}
	}
	for i := range m.ToolCalls {
		n += utf8.RuneCountInString(m.ToolCalls[i].Name) + utf8.RuneCountInString(m.ToolCalls[i].Arguments)
	}
	return n
}

// answerKey is the same for answers that are equal.
func answerKey(c *datasets.Candidate) string {
	key, ok := dedup.AnswerKey(c)
	if !ok {
		return "none " + c.SampleID
	}
	return key.String()
}

func squash(s string) string {
	return strings.Join(strings.Fields(norm.NFC.String(s)), " ")
}
