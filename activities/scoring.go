package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// calls are requests to a teacher of the recipe about answers of others: as a
// judge, a reward model or a scorer of completions. They go the way of every
// ask: the answer store is looked at first, so that nothing is paid for twice;
// the teacher's permits, leases and budget hold; what comes is durable before
// it is read, and every request is a row of the ledger.
type calls struct {
	a       *Activities
	rt      *runtime
	ref     wire.BuildRef
	teacher *teacher
}

// calls prepares calls to a teacher. config is its own, or that of another wire
// form of its endpoint, whose answers are kept apart.
func (a *Activities) calls(rt *runtime, ref wire.BuildRef, id string, config func(*teachers.Config) (*teachers.Config, error)) (*calls, error) {
	t := rt.teachers[id]
	switch {
	case t == nil:
		return nil, invalidRecipe("teacher %s is not in the recipe", id)
	case t.config == nil:
		return nil, invalidRecipe("teacher %s is recorded, and nothing can be asked of it", id)
	}
	c := &calls{a: a, rt: rt, ref: ref, teacher: t}
	if config == nil {
		return c, nil
	}
	own, err := config(t.config)
	if err != nil {
		return nil, invalidRecipe("%v", err)
	}
	c.teacher = &teacher{
		spec: t.spec, config: own, price: t.price, limited: t.endpoint,
		endpoint: teachers.EndpointIdentity(own.API, t.spec.BaseURL, t.spec.Identity),
		builders: map[string]*teachers.Builder{},
	}
	return c, nil
}

// limitsOf is the endpoint whose limits hold for a teacher: its own, also where
// it is asked in another wire form.
func (t *teacher) limitsOf() string {
	if t.limited != "" {
		return t.limited
	}
	return t.endpoint
}

// A modelCall is one request about a prompt.
type modelCall struct {
	prompt  *chat.Prompt
	request *teachers.Request
}

// ask makes the calls and gives what each brought: nil, with the reason, where
// one failed. Its error means that they have to be made again, by a later
// attempt; what has arrived by then is kept.
func (c *calls) ask(ctx context.Context, list []modelCall) ([]*teachers.Answer, []string, error) {
	asks := make([]asked, len(list))
	keys := make([]answers.Ask, len(list))
	_, limited := Limits(c.rt.recipe, c.ref.BudgetMicros)
	for i, one := range list {
		if limited && !c.bounded(one.request) {
			return nil, nil, invalidRecipe("teacher %s has no token cap where it judges, so what a call can cost has no bound and the budget cannot be kept; add max_completion_tokens (or max_tokens, where the endpoint calls it so) to its params, or build without a budget",
				c.teacher.spec.ID)
		}
		keys[i] = answers.Identify(answers.Identity{
			Endpoint: c.teacher.endpoint, Epoch: c.teacher.spec.Epoch, Body: one.request.Body, CapField: one.request.CapField, Cap: one.request.Cap,
			Headers: one.request.AnswerHeaders, Images: one.request.Images, Sample: one.request.Sample,
		})
		asks[i] = asked{ask: keys[i], request: one.request, task: &datasets.Task{Prompt: *one.prompt}}
	}
	w := &askWork{a: c.a, rt: c.rt, in: wire.AskInput{BuildRef: c.ref, Teacher: c.teacher.spec.ID}, health: c.a.healthOf(c.ref.BuildID, c.teacher.spec.ID)}
	if err := w.ask(ctx, c.teacher, unique(asks)); err != nil {
		return nil, nil, fmt.Errorf("ask teacher %s about answers: %w", c.teacher.spec.ID, err)
	}
	records, err := c.a.Answers.Lookup(ctx, keys)
	if err != nil {
		return nil, nil, fmt.Errorf("look up what teacher %s said about answers: %w", c.teacher.spec.ID, err)
	}
	out, why := make([]*teachers.Answer, len(list)), make([]string, len(list))
	for i, rec := range records {
		switch {
		case rec == nil:
			why[i] = "the teacher was not asked"
			if stop := w.health.stop(); stop != nil {
				why[i] += ": " + cmp.Or(stop.Text, stop.Class)
			}
		case !served(&answers.History{Record: rec}):
			why[i] = "the call failed: " + rec.ErrorClass
		default:
			if out[i], err = parse(rec); err != nil {
				out[i], why[i] = nil, "what came cannot be read: "+bounded(err.Error())
			}
		}
	}
	return out, why, nil
}

// bounded tells whether it is known what a call can cost at most: scoring
// endpoints write nothing.
func (c *calls) bounded(r *teachers.Request) bool {
	return c.teacher.price == nil || r.Cap > 0 || slices.Contains(teachers.Scorers(), c.teacher.config.API)
}

// unique are the asks without repeats: two questions may be one and the same.
func unique(asks []asked) []asked {
	seen := make(map[string]bool, len(asks))
	out := make([]asked, 0, len(asks))
	for _, one := range asks {
		if !seen[one.ask.ID] {
			seen[one.ask.ID] = true
			out = append(out, one)
		}
	}
	return out
}

// A modelScorer is a verify.Scorer of a teacher.
type modelScorer struct {
	calls *calls
	// inquire makes the request about an answer, and says how what comes is read.
	inquire func(verify.Question) (*teachers.Request, func(*teachers.Answer) teachers.Score, error)
}

// Score implements verify.Scorer.
func (m *modelScorer) Score(ctx context.Context, questions []verify.Question) ([]verify.Scored, error) {
	list := make([]modelCall, len(questions))
	read := make([]func(*teachers.Answer) teachers.Score, len(questions))
	for i, q := range questions {
		r, how, err := m.inquire(q)
		if err != nil {
			return nil, invalidRecipe("%v", err)
		}
		list[i], read[i] = modelCall{prompt: q.Prompt, request: r}, how
	}
	said, why, err := m.calls.ask(ctx, list)
	if err != nil {
		return nil, err
	}
	out := make([]verify.Scored, len(questions))
	for i := range out {
		if said[i] == nil {
			out[i].Why = why[i]
			continue
		}
		s := read[i](said[i])
		out[i] = verify.Scored{Value: s.Value, Why: s.Why}
	}
	return out, nil
}

// judge has a teacher of the recipe score answers by a rubric.
func (a *Activities) judge(rt *runtime, ref wire.BuildRef, id, effort string, o teachers.JudgeOptions) (verify.Scorer, error) {
	c, err := a.calls(rt, ref, id, nil)
	if err != nil {
		return nil, err
	}
	j, err := teachers.NewJudge(c.teacher.config, c.teacher.spec.ParamsFor(effort), o)
	if err != nil {
		return nil, invalidRecipe("%v", err)
	}
	return &modelScorer{calls: c, inquire: func(q verify.Question) (*teachers.Request, func(*teachers.Answer) teachers.Score, error) {
		asked, err := j.Score(teachers.Judged{Prompt: q.Prompt, Gold: q.Gold}, q.Answer, q.Sample)
		if err != nil {
			return nil, nil, err
		}
		return asked.Request, func(a *teachers.Answer) teachers.Score { return j.ReadScore(asked, a) }, nil
	}}, nil
}

// rewarder has a reward model or a cross-encoder of the recipe score answers.
func (a *Activities) rewarder(rt *runtime, ref wire.BuildRef, id, form string, o teachers.ScorerOptions) (verify.Scorer, error) {
	var s *teachers.Scorer
	c, err := a.calls(rt, ref, id, func(own *teachers.Config) (_ *teachers.Config, err error) {
		if s, err = teachers.NewScorer(own, form, o); err != nil {
			return nil, err
		}
		return s.Config, nil
	})
	if err != nil {
		return nil, err
	}
	return &modelScorer{calls: c, inquire: func(q verify.Question) (*teachers.Request, func(*teachers.Answer) teachers.Score, error) {
		r, err := s.Request(q.Prompt, q.Answer)
		return r, s.Read, err
	}}, nil
}

// A completionScorer has a teacher score given completions, token by token.
type completionScorer struct {
	calls  *calls
	scorer *teachers.CompletionScorer
}

func (a *Activities) completions(rt *runtime, ref wire.BuildRef, id string, params map[string]any, top int) (*completionScorer, error) {
	s := &completionScorer{}
	var err error
	s.calls, err = a.calls(rt, ref, id, func(own *teachers.Config) (_ *teachers.Config, err error) {
		if s.scorer, err = teachers.NewCompletionScorer(own, params, top); err != nil {
			return nil, err
		}
		return s.scorer.Config, nil
	})
	return s, err
}

// score gives the logprobs of completions of one prompt, in their order: nil,
// with the reason, where they are not known.
func (s *completionScorer) score(ctx context.Context, prompt *chat.Prompt, completions [][]chat.Message) ([]*teachers.Logprobs, []string, error) {
	head, err := s.scorer.PromptRequest(prompt)
	if err != nil {
		return nil, nil, invalidRecipe("%v", err)
	}
	list := []modelCall{{prompt, head}}
	for _, completion := range completions {
		r, err := s.scorer.Request(prompt, completion)
		if err != nil {
			return nil, nil, invalidRecipe("%v", err)
		}
		list = append(list, modelCall{prompt, r})
	}
	said, why, err := s.calls.ask(ctx, list)
	if err != nil {
		return nil, nil, err
	}
	out, reasons := make([]*teachers.Logprobs, len(completions)), make([]string, len(completions))
	for i := range completions {
		switch {
		case said[0] == nil:
			reasons[i] = why[0]
		case said[i+1] == nil:
			reasons[i] = why[i+1]
		default:
			if out[i], err = s.scorer.Read(said[i+1], said[0]); err != nil {
				reasons[i] = err.Error()
			}
		}
	}
	return out, reasons, nil
}
