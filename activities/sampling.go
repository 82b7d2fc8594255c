package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// sampling says how many answers a teacher gives to a task: at first Least, and
// while fewer than UntilPass of them pass, as many more as could make it so, up
// to Most. Which samples a task has is a function of its answers in the order of
// the samples: not of when they came, nor of what was asked at once.
type sampling struct {
	Least     int // at first
	Most      int
	UntilPass int // passes that end it
}

// samplingOf is a recipe's.
func samplingOf(r *recipe.Recipe) sampling {
	s := r.Ask.Samples
	if s.UntilPass == 0 {
		return sampling{Least: s.Max, Most: s.Max}
	}
	return sampling{Least: s.Min, Most: s.Max, UntilPass: s.UntilPass}
}

// adaptive tells whether the number of samples depends on their answers.
func (s sampling) adaptive() bool { return s.Least < s.Most }

// An outcome is what is known of one sample.
type outcome byte

const (
	untried  outcome = iota // nothing
	lost                    // it was asked and failed
	passed                  // its answer passes
	unpassed                // it does not, or nobody knows
	unjudged                // no verifier applies to its answer
)

// wanted is how many samples a task has, by the outcomes of the first of them,
// and whether that is all: where it is not, samples among these are to be asked
// first.
func (s sampling) wanted(of func(sample int) outcome) (n int, all bool) {
	n = s.Least
	for {
		passes, answered, judged := 0, 0, 0
		for i := range n {
			switch of(i) {
			case untried:
				return n, false
			case passed:
				passes++
				fallthrough
			case unpassed:
				judged++
				fallthrough
			case unjudged:
				answered++
			case lost:
			}
		}
		// Where no verifier applies, no number of answers would make one pass.
		if passes >= s.UntilPass || n >= s.Most || answered > 0 && judged == 0 {
			return n, true
		}
		n = min(n+s.UntilPass-passes, s.Most)
	}
}

// outcomeOf is what a candidate says of its sample, by the recipe's free
// verifiers and filters. It leaves the candidate as it is.
func (rt *runtime) outcomeOf(ctx context.Context, task *datasets.Task, c datasets.Candidate, known bool) (outcome, error) {
	switch {
	case !known:
		return untried, nil
	case c.Error != nil:
		return lost, nil
	}
	if err := rt.judgeOne(ctx, task, &c); err != nil {
		return untried, err
	}
	return judgedOutcome(&c), nil
}

// judgedOutcome is what a candidate that is judged says of its sample.
func judgedOutcome(c *datasets.Candidate) outcome {
	undecided := slices.ContainsFunc(c.RejectReasons, func(r string) bool { return strings.HasPrefix(r, reasonCondition) })
	switch {
	case c.Verdict == nil && c.Answer() != nil && !undecided:
		return unjudged
	case c.Verdict != nil && *c.Verdict == datasets.Pass && !rejected(c):
		return passed
	}
	return unpassed
}

// unanswered counts a teacher's samples of a refined task that have no answer,
// those among them that the answers before them would have asked for.
func (s sampling) unanswered(r *refinedTask, teacher string) (n int64) {
	outcomes := map[int]outcome{}
	answered := 0
	for i := range r.Candidates {
		c := &r.Candidates[i]
		switch {
		case c.Teacher != teacher:
		case c.Error == nil:
			outcomes[int(c.SampleIndex)] = judgedOutcome(c)
			answered++
		case *c.Error != classNotAsked:
			outcomes[int(c.SampleIndex)] = lost
		}
	}
	wanted, _ := s.wanted(func(i int) outcome { return outcomes[i] })
	return int64(max(wanted-answered, 0))
}

// rejected tells whether a filter rejects a candidate whose verdict is pass.
func rejected(c *datasets.Candidate) bool {
	return slices.ContainsFunc(c.RejectReasons, func(r string) bool { return !strings.HasPrefix(r, "verdict:") })
}

// A sampler walks through the samples of one task and teacher.
type sampler struct {
	task  *datasets.Task
	asks  []asked
	of    []outcome
	first *turn // the place that its asks have among others
}

// grow makes the asks up to n samples.
func (s *sampler) grow(t *teacher, n int) error {
	for len(s.asks) < n {
		one, err := t.ask(s.task, len(s.asks))
		if err != nil {
			return err
		}
		s.asks, s.of = append(s.asks, one), append(s.of, untried)
	}
	return nil
}

// outcome is what is known of a sample; one that was never looked at is untried.
func (s *sampler) outcome(i int) outcome {
	if i < len(s.of) {
		return s.of[i]
	}
	return untried
}

// A walker reads what is known of samples.
type walker struct {
	t    *teacher
	rule sampling
	step int // answers that are read at once
	look history
	// asking: to ask for what is missing, so that of a refresh which is being made
	// only its own answers count.
	asking bool
	// found takes what the store holds of one sample and tells its outcome.
	found func(s *sampler, sample int, h *answers.History) (outcome, error)
}

// walk looks up sample after sample, until every task has all that it wants, or
// wants what is not there.
func (w *walker) walk(ctx context.Context, list []*sampler) error {
	type place struct {
		s *sampler
		i int
	}
	for {
		var at []place
		for _, s := range list {
			from := len(s.asks)
			n, all := w.rule.wanted(s.outcome)
			if all || n <= from {
				continue
			}
			if err := s.grow(w.t, n); err != nil {
				return err
			}
			for i := from; i < n; i++ {
				at = append(at, place{s, i})
			}
		}
		if len(at) == 0 {
			return nil
		}
		for part := range slices.Chunk(at, w.step) {
			keys := make([]answers.Ask, len(part))
			for i, p := range part {
				keys[i] = p.s.asks[p.i].ask
			}
			found, err := w.look(ctx, keys)
			if err != nil {
				return fmt.Errorf("look up the answers of teacher %s: %w", w.t.spec.ID, err)
			}
			if !w.t.anew.Asked || !w.asking {
				ones := make([]*asked, len(part))
				for i, p := range part {
					ones[i] = &p.s.asks[p.i]
				}
				if err := w.older(ctx, ones, found); err != nil {
					return err
				}
			}
			for i, p := range part {
				if p.s.of[p.i], err = w.found(p.s, p.i, &found[i]); err != nil {
					return err
				}
			}
		}
	}
}

// sampled appends the candidates of one teacher to tasks: the samples that each
// has, and of those beyond the least only what was asked.
func (rt *runtime) sampled(ctx context.Context, look history, step int, t *teacher, since time.Time, out []refinedTask) error {
	rule := samplingOf(rt.recipe)
	list := make([]*sampler, len(out))
	read := map[*sampler][]*refinedTask{}
	for i := range out {
		list[i] = &sampler{task: &out[i].Task}
	}
	w := walker{t: t, rule: rule, step: step, look: look}
	w.found = func(s *sampler, i int, h *answers.History) (outcome, error) {
		one := &refinedTask{Task: *s.task}
		if err := rt.addCandidate(one, t, &s.asks[i], h, since); err != nil {
			return untried, err
		}
		s.asks[i].request = nil
		if i < rule.Least || h.Record != nil {
			read[s] = append(read[s], one)
		}
		if !rule.adaptive() {
			return lost, nil // nothing depends on it
		}
		return rt.outcomeOf(ctx, s.task, one.Candidates[0], h.Record != nil)
	}
	if err := w.walk(ctx, list); err != nil {
		return err
	}
	for i, s := range list {
		for _, one := range read[s] {
			out[i].take(one)
		}
	}
	return nil
}

// take appends another's candidates.
func (r *refinedTask) take(o *refinedTask) {
	r.Candidates = append(r.Candidates, o.Candidates...)
	r.Fresh = append(r.Fresh, o.Fresh...)
	r.Paid = append(r.Paid, o.Paid...)
	r.logprobs = append(r.logprobs, o.logprobs...)
}
