package activities

import (
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// Assumptions of how much a judge reads and writes, where nothing is known yet.
const (
	// assumedAnswer is how long an answer is that a judge reads, in bytes: 800
	// tokens, as plans take answers to have.
	assumedAnswer = 3200
	// judgeFrame is what stands around what is judged, in bytes.
	judgeFrame = 1500
)

// countJudges adds what judges would be asked about the answers to some tasks of
// one cell, if nothing that is free rejected any.
func (c *Counter) countJudges(tasks []datasets.Task) {
	samples := int64(samplingOf(c.rt.recipe).Most)
	answers := samples * int64(len(tasks[0].Route))
	// Where all teachers fail, what the fallback says is judged as well.
	further := samples * int64(len(tasks[0].Fallback))
	for i := range tasks {
		env := &environment{task: &tasks[i], candidate: &datasets.Candidate{}}
		for _, p := range c.rt.asksAbout(c.rt.check, env) {
			c.judged(p, &tasks[i], answers*p.each(), further*p.each())
		}
		if p := c.rt.pairJudge; p != nil {
			n := min(answers, int64(c.rt.recipe.Merge.Judge.Most))
			c.judged(p, &tasks[i], n*(n-1), 0)
		}
	}
}

// each is how many questions a verifier has about one answer.
func (p *paidCheck) each() int64 {
	n := int64(p.Samples)
	if p.kind != datasets.KindScore {
		n *= 2
	}
	return n
}

// candidateWords are the words of a condition that only an answer tells.
var candidateWords = slices.Concat(recipe.VerdictWords, []string{
	"teacher", "model", "content", "reasoning", "finish", "completion_tokens", "reasoning_tokens", "sample", "flags", "args_valid",
})

// asksAbout are the paid verifiers that may be asked about a task's answers, as
// far as the task tells.
func (rt *runtime) asksAbout(k *check, env *environment) []*paidCheck {
	if !k.when.Uses(candidateWords...) {
		if match, err := env.match(k.when); err != nil || !match {
			return nil
		}
	}
	if p, ok := k.paid.(*paidCheck); ok {
		return []*paidCheck{p}
	}
	var out []*paidCheck
	for _, m := range k.members {
		out = append(out, rt.asksAbout(m, env)...)
	}
	return out
}

// judged counts questions of one judge about a task; of further ones, which may
// follow, only what they cost at most.
func (c *Counter) judged(p *paidCheck, task *datasets.Task, asks, further int64) {
	if asks == 0 {
		return
	}
	bytes := int64(promptBytes(&task.Prompt)-400) + assumedAnswer
	var cap int64
	if p.judge != nil {
		bytes += judgeFrame + int64(len(p.Rubric)+len(c.rt.sources.rubric(p.File))+textBytes(task.Gold))
		if p.pair {
			bytes += assumedAnswer
		}
		cap = p.cap()
	}
	n := c.Teachers[p.Teacher]
	n.JudgeAsks += asks
	n.JudgeBytes += asks * bytes
	n.JudgeCaps += asks * cap
	n.JudgeReplies += asks * min(cap, assumedReply)
	switch {
	case p.scorer != nil:
	case cap == 0:
		n.JudgeReplies += asks * assumedReply
		n.Caps = -1
	}
	if price := p.base.price; price != nil {
		most := int64(float64(bytes)*price.Input + float64(cap)*price.Output)
		n.MostMicros += (asks + further) * most
		n.LargestMicros = max(n.LargestMicros, most)
	}
	c.Teachers[p.Teacher] = n
}

// assumedReply is how long a judge's reply is, in tokens.
const assumedReply = 300

// cap is the token cap of a judge's replies; 0 where it has none.
func (p *paidCheck) cap() int64 {
	text := "?"
	q, err := p.judge.Score(teachers.Judged{Prompt: &chat.Prompt{}}, &chat.Message{Role: chat.RoleAssistant, Content: &text}, 0)
	if err != nil {
		return 0
	}
	return q.Request.Cap
}
