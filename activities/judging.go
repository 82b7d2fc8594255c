package activities

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/merge"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// reasonCondition is the reject reason of a candidate on which the condition of
// a verifier or a filter could not be decided, such as one whose metadata is of
// another kind: a row's fault must not end a build that is paid for.
const reasonCondition = "condition:"

// judge gives a task's candidates their verdicts and reject reasons, and
// chooses among those that are accepted.
func (rt *runtime) judge(ctx context.Context, t *refinedTask) error {
	var accepted []*datasets.Candidate
	for i := range t.Candidates {
		c := &t.Candidates[i]
		if err := rt.judgeOne(ctx, &t.Task, c); err != nil {
			return err
		}
		if c.Error == nil {
			t.Status = datasets.StatusClean
		}
		if c.Accepted {
			accepted = append(accepted, c)
		}
	}
	for _, c := range rt.policy.Merge(&t.Task, accepted) {
		c.Selected = true
	}
	return nil
}

func (rt *runtime) judgeOne(ctx context.Context, task *datasets.Task, c *datasets.Candidate) error {
	env := environment{task: task, candidate: c}
	applies := false
	for _, k := range rt.checks {
		match, err := env.match(k.when)
		if err != nil {
			c.RejectReasons = append(c.RejectReasons, reasonCondition+k.verifier.Name())
			continue
		}
		if !match {
			continue
		}
		applies = true
		if c.Answer() == nil {
			continue
		}
		v := k.verifier.Verify(ctx, verify.Input{
			Content: c.Content(), Gold: task.Gold, Tests: task.Tests, Prompt: &task.Prompt, Meta: task.Meta,
		})
		if err := ctx.Err(); err != nil {
			return err
		}
		c.Verdicts = append(c.Verdicts, v)
		if c.Extracted == nil {
			c.Extracted = v.Extracted
		}
		if v.Score != nil {
			c.Score = v.Score
		}
	}
	c.Verdict = datasets.Combine(c.Verdicts)
	env.candidateChanged()
	if slices.Contains(c.Flags, teachers.FlagSecretRedacted) {
		// It is no longer what the model wrote, whatever the recipe filters.
		c.RejectReasons = append(c.RejectReasons, teachers.FlagSecretRedacted)
	}
	for _, f := range rt.filters {
		match, err := env.match(f.when)
		if err != nil {
			c.RejectReasons = append(c.RejectReasons, reasonCondition+f.filter.Name())
			continue
		}
		if !match {
			continue
		}
		if reason := f.filter.Reject(c); reason != "" {
			c.RejectReasons = append(c.RejectReasons, reason)
		}
	}
	if c.Accepted = merge.Accept(rt.accept, c, applies); !c.Accepted && len(c.RejectReasons) == 0 {
		c.RejectReasons = []string{refusal(c)}
	}
	return nil
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
	env := &recipe.Env{
		Domain: task.Domain, Effort: task.Effort, Group: task.Group,
		Teacher: c.Teacher, Model: c.ModelAsked, Content: c.Content(), Sample: int(c.SampleIndex),
		Meta: map[string]any{},
	}
	if task.Gold != nil {
		env.Gold = *task.Gold
	}
	if task.Meta != "" {
		_ = json.Unmarshal([]byte(task.Meta), &env.Meta) // written by us; absent where it is not
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
	if c.Verdict != nil {
		env.Verdict = *c.Verdict
	}
	return env
}
