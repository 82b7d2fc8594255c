package activities

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// Versions of how judges and reward models are asked and read. They change
// whenever the same reply could become another verdict.
const (
	judgeVersion  = "1"
	rewardVersion = "1"
)

// keptReply bounds the words of a judge that a row of the judgements table
// holds, in bytes; all of them are in the answer store.
const keptReply = 8 << 10

// A paidCheck is a judge or a reward model of the recipe, ready to be asked. It
// makes the questions about an answer and reads the replies to them; who asks,
// and who only looks up, is another's business.
type paidCheck struct {
	recipe.Judging
	base   *teacher // of the recipe
	wire   *teacher // as it is asked: base, or another wire form of its endpoint
	judge  *teachers.Judge
	scorer *teachers.Scorer
	rubric string // hex SHA-256 of its text; "" for a reward model
	kind   string // of its rows
	pair   bool   // it compares answers for the merge policy
	id     int    // of its check
}

// newPaid makes a judge or a reward verifier ready.
func (rt *runtime) newPaid(c *recipe.Check) (*paidCheck, error) {
	j, err := c.Judging()
	if err != nil {
		return nil, err
	}
	p := &paidCheck{Judging: *j, kind: datasets.KindScore}
	if j.Mode == recipe.JudgePairwise {
		p.kind = datasets.KindReference
	}
	return p, p.prepare(rt)
}

// newPairJudge makes ready who compares for the merge policy; nil for nobody.
func (rt *runtime) newPairJudge(m *recipe.MergeJudge) (*paidCheck, error) {
	if m == nil {
		return nil, nil
	}
	p := &paidCheck{kind: datasets.KindPair, pair: true, Judging: recipe.Judging{
		Verifier: recipe.VerifierJudge, Teacher: m.Teacher, Effort: m.Effort, Mode: recipe.JudgePairwise, Samples: 1, Max: 1, Guard: true,
		File: m.RubricFile(),
	}}
	if p.File == "" {
		p.Rubric = m.Rubric
	}
	return p, p.prepare(rt)
}

func (p *paidCheck) prepare(rt *runtime) (err error) {
	p.base = rt.teachers[p.Teacher]
	if p.base == nil || p.base.config == nil {
		return fmt.Errorf("verifier %s: teacher %s cannot be asked what it thinks", p.Verifier, p.Teacher)
	}
	p.wire = p.base
	if p.Verifier == recipe.VerifierReward {
		if p.scorer, err = teachers.NewScorer(p.base.config, p.Form, teachers.ScorerOptions{Params: p.Params, Class: p.Class}); err != nil {
			return err
		}
		p.wire = p.base.as(p.scorer.Config)
		return nil
	}
	text := p.Rubric
	if p.File != "" {
		text = rt.sources.rubric(p.File)
	}
	sum := sha256.Sum256([]byte(text))
	p.rubric = hex.EncodeToString(sum[:])
	o := teachers.JudgeOptions{Rubric: text, Min: p.Min, Max: p.Max}
	if text == "" {
		// Its file is not here: whoever checks a recipe needs no more than that
		// the teacher can be asked.
		o.Rubric, p.rubric = p.File, ""
	}
	p.judge, err = teachers.NewJudge(p.base.config, p.base.spec.ParamsFor(p.Effort), o)
	return err
}

// as is a teacher in another wire form of its endpoint, whose answers are kept
// apart.
func (t *teacher) as(config *teachers.Config) *teacher {
	return &teacher{
		spec: t.spec, config: config, price: t.price, priceID: t.priceID, limited: t.endpoint, anew: t.anew,
		endpoint: teachers.EndpointIdentity(config.API, t.spec.BaseURL, t.spec.Identity),
		builders: map[string]*teachers.Builder{},
	}
}

// Name implements paidVerifier.
func (p *paidCheck) Name() string { return p.Verifier }

// Version implements paidVerifier. The guard is part of how a judge is asked.
func (p *paidCheck) Version() string {
	if p.judge == nil {
		return rewardVersion
	}
	return judgeVersion + "." + verify.AddressesVersion
}

// Scale implements paidVerifier.
func (p *paidCheck) Scale() (low, high float64) { return p.Min, p.Max }

// mayAsk says why nobody is asked about an answer; "" where somebody is.
func (p *paidCheck) mayAsk(task *datasets.Task, c *datasets.Candidate) (why, flag string) {
	if p.kind == datasets.KindReference && (task.Gold == nil || strings.TrimSpace(*task.Gold) == "") {
		return "the task has no gold answer to compare with", ""
	}
	if p.judge != nil && p.Guard {
		if how := verify.AddressesJudge(c.Content()); how != "" {
			return "the answer speaks to its judge: " + how, datasets.FlagAddressesJudge
		}
	}
	return "", ""
}

// A question is one request to a judge or a reward model about an answer or two.
type question struct {
	check *paidCheck
	asked asked
	order string // of a comparison
	nth   int    // opinion
	read  func(*teachers.Answer) reading
}

// A reading is what a reply says.
type reading struct {
	score   *float64
	outcome string // of a comparison: a, b or tie
	why     string // it is unknown
}

// questions are what is asked about one answer, or about two.
func (p *paidCheck) questions(task *datasets.Task, a, b *datasets.Candidate) ([]question, error) {
	var out []question
	for n := range p.Samples {
		switch {
		case p.scorer != nil:
			q, err := p.rewardQuestion(task, a)
			if err != nil {
				return nil, err
			}
			return append(out, q), nil
		case p.kind == datasets.KindScore:
			inquiry, err := p.judge.Score(teachers.Judged{Prompt: &task.Prompt, Gold: task.Gold}, a.Answer(), n)
			if err != nil {
				return nil, invalidRecipe("%v", err)
			}
			out = append(out, p.question(task, inquiry.Request, inquiry.Prompt, "", n, func(said *teachers.Answer) reading {
				return readingOf(p.judge.ReadScore(inquiry, said))
			}))
		default:
			other := chat.Message{Role: chat.RoleAssistant, Content: task.Gold}
			if b != nil {
				other = *b.Answer()
			}
			for _, order := range []string{datasets.OrderAB, datasets.OrderBA} {
				q, err := p.comparison(task, a.Answer(), &other, order, n)
				if err != nil {
					return nil, err
				}
				out = append(out, q)
			}
		}
	}
	return out, nil
}

func readingOf(s teachers.Score) reading { return reading{score: s.Value, why: s.Why} }

func (p *paidCheck) rewardQuestion(task *datasets.Task, c *datasets.Candidate) (question, error) {
	r, err := p.scorer.Request(&task.Prompt, c.Answer())
	if err != nil {
		return question{}, invalidRecipe("%v", err)
	}
	prompt := task.Prompt
	prompt.Messages = append(slices.Clone(prompt.Messages), *c.Answer())
	return p.question(task, r, &prompt, "", 0, func(said *teachers.Answer) reading { return readingOf(p.scorer.Read(said)) }), nil
}

// comparison asks which of two texts is better, the second one first in order ba.
func (p *paidCheck) comparison(task *datasets.Task, a, b *chat.Message, order string, n int) (question, error) {
	won := map[string]string{teachers.ChoiceA: datasets.JudgedA, teachers.ChoiceB: datasets.JudgedB, teachers.ChoiceTie: datasets.JudgedTie}
	if order == datasets.OrderBA {
		a, b = b, a
		won[teachers.ChoiceA], won[teachers.ChoiceB] = datasets.JudgedB, datasets.JudgedA
	}
	shown := teachers.Judged{Prompt: &task.Prompt}
	if p.pair {
		shown.Gold = task.Gold
	}
	inquiry, err := p.judge.Compare(shown, a, b, n)
	if err != nil {
		return question{}, invalidRecipe("%v", err)
	}
	return p.question(task, inquiry.Request, inquiry.Prompt, order, n, func(said *teachers.Answer) reading {
		choice := p.judge.ReadChoice(inquiry, said)
		return reading{outcome: won[choice.Winner], why: choice.Why}
	}), nil
}

// question names a request by what it asks, like every ask.
func (p *paidCheck) question(task *datasets.Task, r *teachers.Request, prompt *chat.Prompt, order string, n int, read func(*teachers.Answer) reading) question {
	shown := *task
	shown.Prompt = *prompt
	one := asked{request: r, task: &shown}
	id := identityOf(p.wire, r)
	one.ask, one.older = p.base.epochs(id)
	return question{check: p, asked: one, order: order, nth: n, read: read}
}

// verdict makes one of what was said about an answer.
func (p *paidCheck) verdict(said []reading) datasets.Verdict {
	v := datasets.Verdict{Verifier: p.Name(), Version: p.Version(), Verdict: datasets.Unknown}
	if p.kind == datasets.KindReference {
		p.compared(&v, said)
		return v
	}
	sum, known, why := 0.0, 0, ""
	for _, r := range said {
		if r.score == nil {
			why = r.why
			continue
		}
		sum += *r.score
		known++
	}
	if 2*known < len(said) || known == 0 {
		if v.Reason = why; len(said) > 1 {
			v.Reason = fmt.Sprintf("%d of %d opinions are unknown: %s", len(said)-known, len(said), why)
		}
		return v
	}
	mean := sum / float64(known)
	v.Score = &mean
	least, declared := p.Threshold()
	v.Verdict, v.Reason = datasets.Fail, fmt.Sprintf("score %.4g, below %.4g", mean, least)
	switch {
	case !declared:
		v.Verdict, v.Reason = datasets.Pass, fmt.Sprintf("score %.4g; no pass_at is declared", mean)
	case mean >= least-1e-9:
		v.Verdict, v.Reason = datasets.Pass, fmt.Sprintf("score %.4g, at least %.4g", mean, least)
	}
	return v
}

// compared counts the opinions of a comparison with the reference, each from
// both orders, and takes the one that most have.
func (p *paidCheck) compared(v *datasets.Verdict, said []reading) {
	count, why := map[string]int{}, ""
	for i := 0; i+1 < len(said); i += 2 {
		outcome, reason := bothOrders(said[i], said[i+1])
		count[outcome]++
		if reason != "" {
			why = reason
		}
	}
	opinions := len(said) / 2
	score := 0.5
	switch win, lose, tie := count[datasets.JudgedA], count[datasets.JudgedB], count[datasets.JudgedTie]; {
	case 2*win > opinions:
		score = 1
		v.Verdict, v.Reason = datasets.Pass, "better than the gold answer in both orders"
	case 2*lose > opinions:
		score = 0
		v.Verdict, v.Reason = datasets.Fail, "worse than the gold answer in both orders"
	case 2*tie > opinions && why == "":
		v.Verdict, v.Reason = p.Ties, "as good as the gold answer in both orders"
	case 2*(win+lose+tie) > opinions:
		if why == "" {
			why = "the opinions differ"
		}
		v.Reason = why
	default:
		v.Reason = why
		return
	}
	v.Score = &score
}

// ordersDiffer is why a comparison is a tie that nobody called one.
const ordersDiffer = "each order names another winner"

// bothOrders is what both orders of a comparison say together: a win only where
// both agree, else a tie, and unknown where one of them cannot be read.
func bothOrders(ab, ba reading) (outcome, why string) {
	switch {
	case ab.outcome == "":
		return datasets.Unknown, ab.why
	case ba.outcome == "":
		return datasets.Unknown, ba.why
	case ab.outcome == ba.outcome:
		return ab.outcome, ""
	}
	return datasets.JudgedTie, ordersDiffer
}

// sameFamily tells whether a judge would judge a model of its own family.
func (rt *runtime) sameFamily(judge, teacher string) bool {
	return teachers.SameFamily(rt.families(judge), rt.families(teacher))
}

// families of a teacher: the recipe's word, or what its model's name tells.
func (rt *runtime) families(id string) []string {
	t := rt.teachers[id]
	switch {
	case t == nil:
		return nil
	case t.spec.Family != "":
		return []string{t.spec.Family}
	}
	return teachers.Families(t.spec.Model)
}
