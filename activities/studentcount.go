package activities

import "github.com/stillhouse-data/stillhouse/datasets"

// countFit adds what the student would be asked about the answers to some tasks
// of one cell, if all teachers have one that is accepted: the prompt alone, and
// with each of them.
func (c *Counter) countFit(tasks []datasets.Task) {
	s := c.rt.recipe.StudentScore()
	if s == nil || len(tasks[0].Route) == 0 {
		return
	}
	if c.fit == nil {
		c.fit = map[[2]string]int{}
	}
	cell := [2]string{tasks[0].Domain, tasks[0].Effort}
	n := c.Teachers[s.Teacher]
	for i := range tasks {
		if c.fit[cell] >= s.Tasks {
			break
		}
		c.fit[cell]++
		answers := int64(len(tasks[i].Route))
		prompt := int64(promptBytes(&tasks[i].Prompt))
		bytes := prompt + answers*(prompt+assumedAnswer)
		n.JudgeAsks += 1 + answers
		n.JudgeBytes += bytes
		n.JudgeReplies += 1 + answers // one token each
		if price := c.rt.teachers[s.Teacher].price; price != nil {
			n.MostMicros += int64(float64(bytes)*price.Input + float64(1+answers)*price.Output)
			n.LargestMicros = max(n.LargestMicros, int64(float64(prompt+assumedAnswer)*price.Input+price.Output))
		}
	}
	c.Teachers[s.Teacher] = n
}
