package merge

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// A Label is the answer on which teachers agreed, or that they did not.
type Label struct {
	// Answer is the winner's, as its first member's verifier read it; "" where
	// no answer won.
	Answer string
	// Votes are the winner's (the largest class's where none won), Margin its
	// lead over the next, Voters all votes.
	Votes, Margin, Voters int
	// Entropy of the votes over the classes, in bits: 0 where all agree.
	Entropy float64
}

// Won tells whether the task has a label.
func (l *Label) Won() bool { return l != nil && l.Answer != "" }

// Share is the winner's of the votes, 0 where nobody voted.
func (l *Label) Share() float64 {
	if l.Voters == 0 {
		return 0
	}
	return float64(l.Votes) / float64(l.Voters)
}

// maxWholeAnswer is the longest text that counts as an answer by itself where
// no verifier reads one, in bytes: longer ones agree by accident only.
const maxWholeAnswer = 256

// ClassOf is what an answer says where nobody knows better: the final answer
// that a verifier read, or a short text as a whole where no verifier applies;
// white space collapsed.
func ClassOf(c *datasets.Candidate) (string, bool) {
	text := ""
	switch {
	case c.Extracted != nil:
		text = *c.Extracted
	case len(c.Verdicts) == 0 && len(c.Content()) <= maxWholeAnswer:
		text = c.Content()
	}
	text = squash(text)
	return text, text != ""
}

// A ballot is the answers to a task by what they say.
type ballot struct {
	classes map[string][]*datasets.Candidate
	of      map[*datasets.Candidate]string
}

func (p *chooser) ballot(given []*datasets.Candidate) ballot {
	b := ballot{map[string][]*datasets.Candidate{}, map[*datasets.Candidate]string{}}
	for _, c := range given {
		if class, ok := p.Class(c); ok {
			b.classes[class] = append(b.classes[class], c)
			b.of[c] = class
		}
	}
	return b
}

// A count is votes by class.
type count map[string]int

func (n count) total() (sum int) {
	for _, v := range n {
		sum += v
	}
	return sum
}

// first is the class with the most votes, how many it has, and its lead over
// the next; where several have most, the lead is 0.
func (n count) first() (class string, votes, lead int) {
	second := 0
	for _, c := range slices.Sorted(maps.Keys(n)) {
		switch v := n[c]; {
		case v > votes:
			class, second, votes = c, votes, v
		case v > second:
			second = v
		}
	}
	return class, votes, votes - second
}

// entropy of the votes, in bits.
func (n count) entropy() (bits float64) {
	total := float64(n.total())
	for _, c := range slices.Sorted(maps.Keys(n)) { // sums of floats depend on their order
		share := float64(n[c]) / total
		bits -= float64(share * math.Log2(share))
	}
	// Rounded, so that the logarithms of two kinds of processors cannot differ;
	// and no -0.
	return math.Round(bits*1e6)/1e6 + 0
}

// byTeacher gives each teacher one vote: that of the answer which it gave more
// often than any other, and in at least share of its answers. A teacher without
// such an answer has a voice and no vote.
func (p *chooser) byTeacher(b ballot, share float64) (votes count, voters int, samples map[string]count) {
	samples = map[string]count{}
	for c, class := range b.of {
		if samples[c.Teacher] == nil {
			samples[c.Teacher] = count{}
		}
		samples[c.Teacher][class]++
	}
	votes = count{}
	for _, own := range samples {
		if class, n, lead := own.first(); lead >= 1 && reaches(n, own.total(), share) {
			votes[class]++
		}
	}
	return votes, len(samples), samples
}

// reaches tells whether n of all are a share or more. A quotient is rounded as
// the share was that the recipe says; a product is not: 0.55 × 20 is more than 11.
func reaches(n, all int, share float64) bool { return float64(n)/float64(all) >= share }

// vote keeps the members of the class that wins by share and margin:
// self-consistency (Wang et al. 2022, arXiv 2203.11171) inside a teacher, then
// one vote a teacher, since else the one with the most samples would decide. A
// teacher that is alone votes with its samples.
type vote struct{ chooser }

func (*vote) Name() string    { return "vote" }
func (*vote) Version() string { return "2" }

func (p *vote) Merge(in Input) Result {
	b := p.ballot(in.Accepted)
	votes, voters, samples := p.byTeacher(b, p.Share)
	if voters == 1 {
		for _, own := range samples {
			votes, voters = own, own.total()
		}
	}
	class, n, lead := votes.first()
	won := n > 0 && lead >= p.Margin && reaches(n, voters, p.Share)
	return p.elect(in.Accepted, b, votes, voters, class, won)
}

// agreement keeps the members of the class that at least so many teachers
// agree on, each by its own majority; a tie between two such classes is none.
type agreement struct{ chooser }

func (*agreement) Name() string    { return "agreement" }
func (*agreement) Version() string { return "1" }

func (p *agreement) Merge(in Input) Result {
	b := p.ballot(in.Accepted)
	votes, voters, _ := p.byTeacher(b, 0)
	class, n, lead := votes.first()
	return p.elect(in.Accepted, b, votes, voters, class, n >= p.Agree && lead >= 1)
}

// elect makes the result of an election.
func (p *chooser) elect(given []*datasets.Candidate, b ballot, votes count, voters int, class string, won bool) Result {
	reason := LeftOutvoted
	if !won {
		reason = LeftNoLabel
	}
	s := keep(given, reason, func(c *datasets.Candidate) bool {
		of, ok := b.of[c]
		return won && ok && of == class
	})
	s.ranked = p.inTurn(sorted(s.ranked, func(a, b *datasets.Candidate) int {
		return cmp.Or(cmp.Compare(verdictRank(a), verdictRank(b)), p.compare(a, b))
	}))
	_, n, lead := votes.first()
	s.label = &Label{Votes: n, Margin: lead, Voters: voters}
	if len(votes) > 0 {
		s.label.Entropy = votes.entropy()
	}
	if won {
		s.label.Answer = spelling(s.ranked[0], class)
	}
	return p.finish(s)
}

// spelling is how a member of a class wrote its answer.
func spelling(c *datasets.Candidate, class string) string {
	if c.Extracted != nil && strings.TrimSpace(*c.Extracted) != "" {
		return strings.TrimSpace(*c.Extracted)
	}
	return class
}
