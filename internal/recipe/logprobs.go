package recipe

import "fmt"

// logprobsMaxBytes is the largest answer where the recipe asks for logprobs and
// says nothing else: 30,000 tokens with 20 alternatives each are 80 MB of JSON.
const logprobsMaxBytes = maxAnswer

// makeRoomForLogprobs raises limits.max_bytes where the recipe asks for
// logprobs and does not set it: a larger answer would be paid for and thrown
// away.
func (r *Recipe) makeRoomForLogprobs() {
	if r.Logprobs == nil {
		return
	}
	for i := range r.Teachers {
		if _, given := r.places[fmt.Sprintf("teachers[%d].limits.max_bytes", i)]; !given {
			r.Teachers[i].Limits.MaxBytes = logprobsMaxBytes
		}
	}
}
