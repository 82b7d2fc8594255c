package activities

import (
	"context"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/filter"
	"github.com/stillhouse-data/stillhouse/datasets/merge"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// reasonCondition is the reject reason of a candidate on which the condition of
// a verifier or a filter could not be decided, such as one whose metadata is of
// another kind: a row's fault must not end a build that is paid for.
const reasonCondition = "condition:"

// A judging is one candidate on its way through the stages.
type judging struct {
	rt    *runtime
	stats *filter.Stats // of all answers of the build; nil: not known
	task  *datasets.Task
	c     *datasets.Candidate
	env   environment
	said  []said // by check
	pays  bool   // opinions can be had

	changes []filter.Changer // that keep it
}

// said is what became of one check of a candidate.
type said struct {
	applies bool
	late    bool // its condition looks at the verdict of the free verifiers
	given   bool // the verdict is known
	verdict datasets.Verdict
}

func (rt *runtime) judging(task *datasets.Task, c *datasets.Candidate) *judging {
	return &judging{rt: rt, stats: rt.stats, task: task, c: c, env: environment{task: task, candidate: c}}
}

func (j *judging) reject(reason string) { j.c.RejectReasons = append(j.c.RejectReasons, reason) }

// screen applies the filters that do not look at the verdict.
func (j *judging) screen() {
	if slices.Contains(j.c.Flags, teachers.FlagSecretRedacted) {
		// It is no longer what the model wrote, whatever the recipe filters.
		j.reject(teachers.FlagSecretRedacted)
	}
	j.filter(false)
}

// lateFilters applies those that do.
func (j *judging) lateFilters() { j.filter(true) }

func (j *judging) filter(late bool) {
	for i := range j.rt.filters {
		f := &j.rt.filters[i]
		if f.late() != late {
			continue
		}
		match, err := j.env.match(f.when)
		if err != nil {
			j.reject(reasonCondition + f.filter.Name())
			continue
		}
		if !match {
			continue
		}
		if reason := f.filter.Reject(filterInput(j.task, j.c, j.stats)); reason != "" {
			j.reject(reason)
		} else if ch, ok := f.filter.(filter.Changer); ok {
			j.changes = append(j.changes, ch)
		}
	}
}

// change lets those filters change the candidate that keep it and mask or flag.
func (j *judging) change() {
	for _, f := range j.changes {
		f.Change(filterInput(j.task, j.c, j.stats))
	}
}

// verifyFree has the free verifiers judge the answer, rejected or not: pass
// rates are of all answers.
func (j *judging) verifyFree(ctx context.Context) error {
	j.said = make([]said, j.rt.checkCount)
	return j.visit(ctx, j.rt.check)
}

// visit decides which checks apply, and asks the free ones.
func (j *judging) visit(ctx context.Context, k *check) error {
	s := &j.said[k.id]
	if k.paid != nil && k.when.Uses(recipe.VerdictWords...) {
		s.late = true
		return nil
	}
	if s.applies = j.applies(k); !s.applies {
		return nil
	}
	if k.verifier != nil && j.c.Answer() != nil {
		in := verify.Input{
			Content: j.c.Content(), Gold: j.task.Gold, Tests: j.task.Tests, Prompt: &j.task.Prompt, Meta: j.task.Meta,
			Answer: j.c.Answer(),
		}
		if err := j.rt.lendCheckers(ctx, k.verifier, &in); err != nil {
			return err
		}
		if verify.RunsCode(k.verifier.Name()) {
			var err error
			if in.Runner, err = j.rt.runner.runner(ctx); err != nil {
				return err
			}
		}
		s.verdict = k.verifier.Verify(ctx, in)
		s.given = true
		return ctx.Err()
	}
	for _, m := range k.members {
		if err := j.visit(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// applies tells whether the condition of a check holds.
func (j *judging) applies(k *check) bool {
	match, err := j.env.match(k.when)
	if err != nil {
		j.reject(reasonCondition + k.name())
	}
	return match && err == nil
}

// decideLate decides the conditions that look at what the free verifiers said.
func (j *judging) decideLate() {
	if !slices.ContainsFunc(j.said, func(s said) bool { return s.late }) {
		return
	}
	pays := j.pays
	j.pays = false
	j.combine()
	j.pays = pays
	for _, k := range j.rt.check.all() {
		if s := &j.said[k.id]; s.late {
			s.applies = j.applies(k)
		}
	}
}

// open is the paid verifier whose opinion is wanted next; nil where none is: the
// answer is rejected already, or what is known decides.
func (j *judging) open() *check {
	if len(j.c.RejectReasons) > 0 || j.c.Answer() == nil {
		return nil
	}
	_, open, _ := j.part(j.rt.check)
	return open
}

// part is what a check says, and the paid verifier that is to be asked before it
// can say it. ok is false where it says nothing: it does not apply, there is no
// answer, or no opinion can be had.
func (j *judging) part(k *check) (p verify.Part, open *check, ok bool) {
	s := &j.said[k.id]
	if !s.applies || j.c.Answer() == nil {
		return p, nil, false
	}
	p.Weight = k.weight
	p.Low, p.High = k.scale()
	switch {
	case s.given:
		p.Verdict = s.verdict
		return p, nil, true
	case k.paid != nil:
		p.Open = true
		return p, k, j.pays
	}
	var parts []verify.Part
	var opens []*check
	for _, m := range k.members {
		if p, open, ok := j.part(m); ok {
			parts = append(parts, p)
			opens = append(opens, open)
		}
	}
	if len(parts) == 0 {
		return p, nil, false
	}
	all := k.rule.Combine(parts)
	if all.Next >= 0 {
		p.Open, open = true, opens[all.Next]
	}
	p.Verdict = all.Verdict
	return p, open, true
}

// combine makes one verdict of all that the verifiers said.
func (j *judging) combine() {
	c := j.c
	c.Verdict, c.Score, c.Extracted, c.Verdicts = nil, nil, nil, nil
	if p, _, ok := j.part(j.rt.check); ok {
		c.Verdict, c.Score, c.Extracted = &p.Verdict.Verdict, p.Verdict.Score, p.Verdict.Extracted
	}
	for _, k := range j.rt.check.all() {
		if s := &j.said[k.id]; s.given {
			c.Verdicts = append(c.Verdicts, s.verdict)
		} else if p, _, ok := j.part(k); ok && !p.Open && k != j.rt.check {
			c.Verdicts = append(c.Verdicts, p.Verdict)
		}
	}
	j.env.candidateChanged()
}

// accept decides whether the candidate may enter the merge.
func (j *judging) accept() {
	c := j.c
	applies := slices.ContainsFunc(j.rt.check.all(), func(k *check) bool { return (k.verifier != nil || k.paid != nil) && j.said[k.id].applies })
	if c.Accepted = merge.Accept(j.rt.accept, c, applies); !c.Accepted && len(c.RejectReasons) == 0 {
		c.RejectReasons = []string{refusal(c)}
	}
}

// refusal says why a candidate that no filter rejected is not accepted.
func refusal(c *datasets.Candidate) string {
	switch {
	case c.Error != nil:
		return "error:" + *c.Error
	case c.Answer() == nil:
		return "empty"
	case c.Verdict == nil:
		return "verdict:none"
	}
	return "verdict:" + *c.Verdict
}

// An environment gives a condition what it sees, made once and only if asked.
type environment struct {
	task      *datasets.Task
	candidate *datasets.Candidate
	env       *recipe.Env
}

func (e *environment) match(w *recipe.When) (bool, error) {
	if w == nil {
		return true, nil
	}
	if e.env == nil {
		e.env = envOf(e.task, e.candidate)
	}
	return w.Match(*e.env)
}

// candidateChanged makes conditions see the verdict that was given since.
func (e *environment) candidateChanged() { e.env = nil }

func envOf(task *datasets.Task, c *datasets.Candidate) *recipe.Env {
	env := taskEnv(task)
	env.Teacher, env.Model, env.Content, env.Sample = c.Teacher, c.ModelAsked, c.Content(), int(c.SampleIndex)
	env.Flags = c.Flags
	if m := c.Answer(); m != nil {
		env.ToolCalls = len(m.ToolCalls)
	}
	if m := c.Answer(); m != nil && m.ReasoningContent != nil {
		env.Reasoning = *m.ReasoningContent
	}
	if c.FinishReason != nil {
		env.Finish = *c.FinishReason
	}
	if c.CompletionTokens != nil {
		env.CompletionTokens = int(*c.CompletionTokens)
	}
	if c.ReasoningTokens != nil {
		env.ReasoningTokens = int(*c.ReasoningTokens)
	}
	if c.ArgsValid != nil {
		env.ArgsValid = *c.ArgsValid
	}
	if c.Verdict != nil {
		env.Verdict = *c.Verdict
	}
	if c.Score != nil {
		env.Score = *c.Score
	}
	if c.Extracted != nil {
		env.Extracted = *c.Extracted
	}
	return env
}
