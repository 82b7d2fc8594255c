package merge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// PairsVersion changes whenever the same candidates could give other pairs.
const PairsVersion = "2"

// PairOptions say which preference pairs a task has.
type PairOptions struct {
	// Margin is the least difference of the scores where the verdicts do not
	// differ; a difference of 0 is none.
	Margin float64
	// Most pairs of a task; 0 is 1.
	Most int
	// LengthRatio is how many times as long as the other the longer of the two
	// may be; 0: any length.
	LengthRatio float64
	// SameTeacher leaves out pairs of two teachers, which teach a style too.
	SameTeacher bool
	// TeacherOrder lists teacher ids, the preferred first; ties go by it.
	TeacherOrder []string
}

// pairSides bounds how many candidates are considered for each side: the best,
// and the worst.
const pairSides = 64

// A PairOf is two answers to one task, the better and the worse.
type PairOf struct {
	Chosen, Rejected *datasets.Candidate
	// Margin is the difference of their scores; nil where one has none.
	Margin *float64
}

// Pairs gives the preference pairs of a task, the clearest first.
//
// Chosen is an accepted answer. Rejected is another that is accepted too, or
// that nothing but its verdict kept from it: a refusal, a leak or an answer that
// was cut off is no example of a worse answer. Of the two the verdicts differ
// (pass against fail; unknown is neither), or else the scores do, by Margin or
// more, and never one against the other. Pairs whose texts are equal, which
// share their final text or are too different in length, are left out. No answer
// is used a second time before every other that fits was used.
func Pairs(o PairOptions, candidates []datasets.Candidate) []PairOf {
	c := newChooser(Options{TeacherOrder: o.TeacherOrder})
	var chosen, rejected []*datasets.Candidate
	for i := range candidates {
		switch x := &candidates[i]; {
		case x.Error != nil || x.Answer() == nil || truncated(x):
		case x.Accepted:
			chosen = append(chosen, x)
			rejected = append(rejected, x)
		case onlyVerdict(x):
			rejected = append(rejected, x)
		}
	}
	best := sorted(chosen, c.better)
	worst := sorted(rejected, func(a, b *datasets.Candidate) int {
		// The order of last resort is the same on both sides, so that reversing
		// the better ones does not decide by it.
		return cmp.Or(cmp.Compare(score(a), score(b)), cmp.Compare(verdictRank(b), verdictRank(a)), c.compare(a, b))
	})
	var fit []PairOf
	for _, a := range best[:min(len(best), pairSides)] {
		for _, b := range worst[:min(len(worst), pairSides)] {
			if p, ok := o.pair(a, b); ok {
				fit = append(fit, p)
			}
		}
	}
	// Stable: the best against the worst come first.
	slices.SortStableFunc(fit, func(a, b PairOf) int {
		return cmp.Or(cmp.Compare(differs(b), differs(a)), cmp.Compare(marginOf(b), marginOf(a)))
	})
	return spread(fit, max(1, o.Most))
}

// pair tells whether a is better than b, as a pair.
func (o *PairOptions) pair(a, b *datasets.Candidate) (PairOf, bool) {
	p := PairOf{Chosen: a, Rejected: b}
	if a.Score != nil && b.Score != nil {
		margin := *a.Score - *b.Score
		p.Margin = &margin
	}
	switch {
	case a == b || o.SameTeacher && a.Teacher != b.Teacher:
		return p, false
	case p.Margin != nil && !(*p.Margin >= 0): // the score says the opposite, or nothing
		return p, false
	case passes(a) && fails(b):
	case fails(a) && !fails(b) || passes(b) && !passes(a):
		return p, false // the verdict says the opposite
	case p.Margin == nil || *p.Margin <= 0 || *p.Margin < o.Margin:
		return p, false
	}
	return p, answerText(a) != answerText(b) && o.fits(length(a), length(b))
}

// fits tells whether two lengths are near enough.
func (o *PairOptions) fits(a, b int) bool {
	return o.LengthRatio == 0 || float64(max(a, b)) <= o.LengthRatio*float64(min(a, b))
}

// spread takes the first of the pairs whose answers were used least, again and
// again.
func spread(fit []PairOf, most int) []PairOf {
	var out []PairOf
	used := make(map[*datasets.Candidate]int)
	for len(out) < most && len(fit) > 0 {
		at, least := 0, -1
		for i, p := range fit {
			if n := used[p.Chosen] + used[p.Rejected]; least < 0 || n < least {
				at, least = i, n
			}
		}
		p := fit[at]
		fit = slices.Delete(fit, at, at+1)
		used[p.Chosen]++
		used[p.Rejected]++
		out = append(out, p)
	}
	return out
}

func differs(p PairOf) int {
	if passes(p.Chosen) && fails(p.Rejected) {
		return 1
	}
	return 0
}

// marginOf orders pairs without a margin after those with one.
func marginOf(p PairOf) float64 {
	if p.Margin == nil {
		return -1
	}
	return *p.Margin
}

// answerText is what a reader sees of an answer, in the form in which texts are
// compared; where two share it, they differ in their thoughts alone.
func answerText(c *datasets.Candidate) string {
	m := c.Answer()
	var b strings.Builder
	if m.Content != nil {
		b.WriteString(squash(*m.Content))
	}
	for i := range m.ToolCalls {
		b.WriteByte(0)
		b.WriteString(m.ToolCalls[i].Name)
		b.WriteByte(0)
		b.WriteString(m.ToolCalls[i].Arguments)
	}
	return b.String()
}

// onlyVerdict tells whether nothing but its verdict kept an answer from being
// accepted.
func onlyVerdict(c *datasets.Candidate) bool {
	return len(c.RejectReasons) > 0 && !slices.ContainsFunc(c.RejectReasons, func(r string) bool { return !strings.HasPrefix(r, "verdict:") })
}

// truncated tells whether an answer was cut off.
func truncated(c *datasets.Candidate) bool {
	if c.FinishReason == nil {
		return false
	}
	switch *c.FinishReason {
	case "length", "max_tokens", "model_context_window_exceeded":
		return true
	}
	return false
}

// PairRow is the row of the pairs table. The candidates' messages are the
// prompt and, last, the answer; the prompt's are prompt.
func PairRow(p PairOf, prompt int) datasets.Pair {
	a, b := p.Chosen, p.Rejected
	row := datasets.Pair{
		TaskID: a.TaskID, PromptID: a.PromptID, Domain: a.Domain, Effort: a.Effort,
		Prompt: a.Messages[:prompt:prompt], Chosen: a.Messages[prompt:], Rejected: b.Messages[prompt:],
		ChosenTeacher: a.Teacher, RejectedTeacher: b.Teacher, ChosenScore: a.Score, RejectedScore: b.Score,
		Margin: p.Margin, CrossTeacher: a.Teacher != b.Teacher,
		ChosenSampleID: &a.SampleID, RejectedSampleID: &b.SampleID, ChosenVerdict: a.Verdict, RejectedVerdict: b.Verdict,
		Tools: a.Tools, Images: a.Images,
	}
	if a.Split != "" {
		row.Split = &a.Split
	}
	return row
}
