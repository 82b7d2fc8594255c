package recipe

import "slices"

// drift checks that there is somebody to probe.
func (c *checker) drift() {
	if c.r.Drift == nil {
		return
	}
	if !slices.ContainsFunc(c.r.Teachers, func(t Teacher) bool {
		return t.API != APIRecorded && t.API != APIOpenAIBatch && t.API != APIAnthropicBatch
	}) {
		c.fault("drift", "no teacher can be probed: recorded answers do not change, and batches are not asked a few prompts", "remove it")
	}
}
