package recipe

import "fmt"

// samples checks the numbers of answers that depend on the answers.
func (c *checker) samples() {
	s := c.r.Ask.Samples
	const path = "ask.samples"
	switch {
	case s.UntilPass == 0 && s.Min < s.Max:
		c.fault(path, fmt.Sprintf("min %d and max %d, and nothing says when more than min are asked", s.Min, s.Max),
			"add until_pass: 1, or write one number")
		return
	case s.UntilPass == 0:
		return
	case s.UntilPass > s.Max:
		c.fault(path+".until_pass", fmt.Sprintf("%d is above max, %d", s.UntilPass, s.Max), "lower it or raise max")
	case !c.r.hasFreeVerifier():
		c.fault(path+".until_pass", "until answers pass, and check has no free verifier that says so", "add one under check (judges are asked after all answers have come), or write one number of samples")
	}
	if s.Min == s.Max {
		return
	}
	for i := range c.r.Teachers {
		if t := &c.r.Teachers[i]; t.API == APIOpenAIBatch || t.API == APIAnthropicBatch {
			c.fault(fmt.Sprintf("teachers[%d].api", i), "a batch's answers come together, so none of them can decide how many are asked",
				"write one number under ask.samples, or another api")
		}
	}
}
