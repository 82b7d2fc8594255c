package demo

import (
	"fmt"
	"strings"
	"time"
)

// reply is what a teacher says to one request.
type reply struct {
	reasoning  string
	content    string
	firstToken time.Duration
	stream     time.Duration
}

// answer is the teacher's reply to a prompt: rightly with the probability that
// is its skill, shifted by how hard the prompt is for everybody, else with one
// of the slips. The same words give the same reply.
func (c *character) answer(question, seed string) reply {
	d := diceOf(c.model(), question, seed)
	r := reply{
		firstToken: vary(&d, c.firstToken),
		stream:     vary(&d, c.stream),
	}
	p, known := byQuestion()[strings.TrimSpace(question)]
	if !known || p.domain != c.domain {
		r.reasoning = "This is not one of the prompts that this simulation knows."
		r.content = "I am a simulated teacher of the stillhouse demo: I know the demo's own prompts of my domain and nothing else. Point the recipe at a real endpoint to have other prompts answered."
		return r
	}
	hard := diceOf("difficulty", question)
	const spread = 0.3 // between the easiest and the hardest prompt
	skill := c.skill + spread*(hard.share()-0.5)
	if d.share() < skill {
		r.reasoning, r.content = c.think(p, p.answer, p.steps), c.say(p, p.answer, p.steps)
		return r
	}
	s := pick(&d, p.slips)
	steps := append(append([]string(nil), p.steps[:len(p.steps)-1]...), s.why)
	r.reasoning, r.content = c.think(p, s.answer, steps), c.say(p, s.answer, steps)
	return r
}

// vary is within a third of the mean.
func vary(d *dice, mean time.Duration) time.Duration {
	return time.Duration(float64(mean) * (2.0/3 + d.share()*2/3))
}

// think is the reasoning: a remark at low effort, the steps at high, and at
// max a plan, the steps and a check of each.
func (c *character) think(p *problem, answer string, steps []string) string {
	final := fmt.Sprintf("So my answer is %s.", answer)
	switch c.effort {
	case Low:
		return steps[len(steps)-1]
	case High:
		return strings.Join(steps, " ") + " " + final
	}
	var b strings.Builder
	b.WriteString("Let me restate what is asked.\n> ")
	b.WriteString(strings.ReplaceAll(p.question, "\n", "\n> "))
	b.WriteString("\n\nFirst I plan: ")
	fmt.Fprintf(&b, "there are %d steps, and I check each before I go on.\n", len(steps))
	for i, s := range steps {
		fmt.Fprintf(&b, "\nStep %d. %s\nChecking step %d against the text: I read the question again and compare every quantity in it with what I used. Nothing is left out and nothing is used twice.\n", i+1, s, i+1)
	}
	b.WriteString("\nNow once more from the end: ")
	for i := len(steps) - 1; i >= 0; i-- {
		b.WriteString(steps[i])
		b.WriteByte(' ')
	}
	b.WriteString("\nBoth ways agree. ")
	b.WriteString(final)
	return b.String()
}

// say is the answer in the teacher's style.
func (c *character) say(p *problem, answer string, steps []string) string {
	switch {
	case p.domain == Structured && p.kind == kindSchema && c.effort == High:
		return "```json\n" + answer + "\n```"
	case p.domain == Structured:
		return answer
	case p.domain == Science && c.effort == Low:
		return fmt.Sprintf("The answer is (%s).", answer)
	case p.domain == Science:
		return fmt.Sprintf("%s\n\nThe answer is (%s).", strings.Join(steps, " "), answer)
	case c.effort == Low:
		return fmt.Sprintf("The answer is %s.", answer)
	case c.effort == High:
		return fmt.Sprintf("%s\n\nA: %s", strings.Join(steps, "\n"), answer)
	}
	var b strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&b, "%d. %s\n", i+1, s)
	}
	fmt.Fprintf(&b, "\n\\boxed{%s}", strings.ReplaceAll(answer, "$", `\$`))
	return b.String()
}

// tokens is a count of the simulated kind: four bytes make one, as in English
// text they nearly do.
func tokens(text string) int { return (len(text) + 3) / 4 }

// cut keeps a reply within a token cap; 0 is no cap. Reasoning counts first,
// as it is written first.
func (r *reply) cut(limit int) (whole bool) {
	if limit <= 0 || tokens(r.reasoning)+tokens(r.content) <= limit {
		return true
	}
	r.reasoning = prefix(r.reasoning, 4*limit)
	r.content = prefix(r.content, 4*(limit-tokens(r.reasoning)))
	return false
}

// prefix is at most n bytes of s, not cut inside a character.
func prefix(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:max(n, 0)]
}
