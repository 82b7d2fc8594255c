package activities

import (
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// A JudgedResult counts what judges and reward models were asked about the
// answers of a build, whichever build bought it.
type JudgedResult struct {
	Asks    int64   `json:"asks" jsonschema:"description=questions about answers"`
	New     int64   `json:"new" jsonschema:"description=of these: bought by this build"`
	Reused  int64   `json:"reused" jsonschema:"description=of these: were there already"`
	Unknown int64   `json:"unknown" jsonschema:"description=of these: brought no judgement that can be read; or nobody could be asked"`
	Flipped int64   `json:"flipped,omitempty" jsonschema:"description=comparisons whose two orders name different winners"`
	Orders  int64   `json:"comparisons,omitempty" jsonschema:"description=comparisons of which both orders were read"`
	CostUSD float64 `json:"cost_usd" jsonschema:"description=what the answers of judges cost at the recipe's prices"`

	micros int64
}

// tallyJudged counts what judges were asked about a task's answers. Several of
// its candidates may share a question.
func (s *seal) tallyJudged(r *refinedTask) {
	if len(r.Judged) == 0 {
		return
	}
	if s.result.Judged == nil {
		s.result.Judged = &JudgedResult{}
	}
	sum := s.result.Judged
	seen := map[string]bool{}
	for i := range r.Judged {
		j := &r.Judged[i]
		row := &j.Row
		if row.Consistent != nil && row.Order != nil && *row.Order == datasets.OrderAB {
			sum.Orders++
			if !*row.Consistent {
				sum.Flipped++
			}
		}
		if row.AskID == nil {
			sum.Unknown++
			continue
		}
		if seen[*row.AskID] {
			continue
		}
		seen[*row.AskID] = true
		t := s.result.Teachers[row.Judge]
		sum.Asks++
		t.Asks++
		if row.Why != nil {
			sum.Unknown++
		}
		switch {
		case row.CompletionTokens == nil: // no answer
			if s.stopped[row.Judge] == classBudget {
				s.missing[row.Judge]++
			}
			s.whyJudgeStopped(j)
		case j.Fresh:
			sum.New++
			t.Answers++
			if row.CostMicros == nil {
				s.result.UnpricedAsks++
			}
		default:
			sum.Reused++
			t.Answers++
		}
		t.PromptTokens += number(row.PromptTokens)
		t.CachedTokens += number(row.CachedTokens)
		t.CompletionTokens += number(row.CompletionTokens)
		t.ReasoningTokens += number(row.ReasoningTokens)
		t.micros += number(row.CostMicros)
		sum.micros += number(row.CostMicros)
		s.result.Teachers[row.Judge] = t
	}
	sum.CostUSD = float64(sum.micros) / microsPerUSD
}

// whyJudgeStopped takes the words with which a judge was given up from the first
// of its failures that holds them.
func (s *seal) whyJudgeStopped(j *judgedAsk) {
	id := j.Row.Judge
	class, ok := s.stopped[id]
	if !ok || j.Failed == "" || j.Row.Why == nil || s.result.Stopped[id] != class {
		return
	}
	if strings.HasSuffix(*j.Row.Why, ": "+class) || class == classUnreachable {
		s.result.Stopped[id] = j.Failed
	}
}

// addJudged counts the requests to judges about a task, and gives each to visit.
func (a *accounts) addJudged(r *refinedTask, visit func(datasets.Attempt) error) error {
	for i := range r.Judged {
		j := &r.Judged[i]
		if j.Row.AskID == nil || a.asks[*j.Row.AskID] {
			continue
		}
		a.asks[*j.Row.AskID] = true
		t := a.of(j.Row.Judge)
		for n := range j.Paid {
			a.count(t, &j.Paid[n])
			if err := visit(j.Paid[n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// addJudgements writes what judges said about a task's answers.
func (t *tables) addJudgements(r *refinedTask) error {
	for i := range r.Judged {
		if err := t.judgements.add(r.Judged[i].Row); err != nil {
			return err
		}
	}
	return nil
}
