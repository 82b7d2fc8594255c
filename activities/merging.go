package activities

import (
	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/merge"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

// newPolicy makes the recipe's merge policy.
func (rt *runtime) newPolicy() (merge.Policy, error) {
	r := rt.recipe
	o := merge.Options{
		PerTask: r.Merge.PerTask, PerTeacher: r.Merge.PerTeacher, AnswerDuplicates: r.Merge.AnswerDuplicates,
		Margin: r.Merge.Margin, Agree: r.Merge.Agree, Class: rt.classOf, Cost: rt.listPrice,
	}
	if r.Merge.Share != nil {
		o.Share = *r.Merge.Share
	}
	for i := range r.Teachers {
		o.TeacherOrder = append(o.TeacherOrder, r.Teachers[i].ID)
	}
	var err error
	if rt.near, err = rt.newNearAnswers(); err != nil {
		return nil, err
	}
	if rt.near != nil {
		o.Near = rt.near.Near
	}
	policy, err := merge.New(r.Policy(), o)
	if err != nil {
		return nil, r.ErrorAt("merge", err.Error(), "")
	}
	return policy, nil
}

// listPrice is what an answer costs in millionths of a dollar at the recipe's
// prices, as if nothing had been cached or sent in a batch: the same whenever
// and however it was bought.
func (rt *runtime) listPrice(c *datasets.Candidate) (float64, bool) {
	t := rt.teachers[c.Teacher]
	if t == nil || t.price == nil || t.price.Input == 0 && t.price.Output == 0 && t.price.GPUHour > 0 || c.PromptTokens == nil || c.CompletionTokens == nil {
		return 0, false
	}
	// The conversions keep processors that fuse the two operations from
	// rounding otherwise than those that do not.
	return float64(float64(*c.PromptTokens)*t.price.Input) + float64(float64(*c.CompletionTokens)*t.price.Output), true
}

// choose lets the merge policy choose among the accepted answers to a task.
func (rt *runtime) choose(t *refinedTask) {
	rt.clusterAnswers(t)
	if rt.near != nil {
		defer rt.near.Forget()
	}
	in := merge.Input{Task: &t.Task, Judgements: t.Judgements}
	for i := range t.Candidates {
		if c := &t.Candidates[i]; c.Accepted {
			in.Accepted = append(in.Accepted, c)
		}
	}
	result := rt.policy.Merge(in)
	t.Label = result.Label
	for _, l := range result.Left {
		l.Candidate.Unselected = &l.Reason
	}
	tooFar := !rt.difficulty().Takes(rt.passes(t))
	for i, c := range result.Rows {
		if tooFar {
			c.Unselected = optional(merge.LeftDifficulty)
			continue
		}
		rank := int32(i + 1)
		c.Selected, c.Rank = true, &rank
	}
}

// passes says how hard a task is. Only the samples count that every task is
// asked for.
func (rt *runtime) passes(t *refinedTask) merge.Passes {
	return merge.PassesOf(&t.Task, t.Candidates, samplingOf(rt.recipe).Least)
}

// difficulty is the pass rates that the recipe wants; all where it says nothing.
func (rt *runtime) difficulty() merge.Difficulty {
	all := merge.Difficulty{Min: 0, Max: 1}
	if d := rt.recipe.Merge.Difficulty; d != nil {
		all.Min = d.Min
		if d.Max != nil {
			all.Max = *d.Max
		}
	}
	return all
}

// measure adds to a row of prompts how hard the task is, and what its teachers
// agreed on.
func (rt *runtime) measure(row *datasets.PromptRow, t *refinedTask) {
	if rt == nil {
		return
	}
	measured(row, rt.passes(t))
	if l := t.Label; l != nil && l.Voters > 0 {
		share, margin, voters, entropy := l.Share(), int64(l.Margin), int64(l.Voters), l.Entropy
		row.Label, row.LabelShare, row.LabelMargin, row.LabelVotes, row.LabelEntropy = optional(l.Answer), &share, &margin, &voters, &entropy
	}
}

// measured writes how hard a task is, where anything was judged.
func measured(row *datasets.PromptRow, p merge.Passes) {
	if rate, ok := p.Rate(); ok {
		row.Judged, row.Passed, row.PassRate, row.PassAt = &p.Judged, &p.Passed, &rate, p.Curve()
	}
}

// classOf is what an answer says, in the form in which answers are compared:
// equal numbers and expressions are one answer, however they are written.
func (rt *runtime) classOf(c *datasets.Candidate) (string, bool) {
	if class, ok := verify.Class(c); ok {
		return class, true
	}
	return merge.ClassOf(c)
}
