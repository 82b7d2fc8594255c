package teachers

import "github.com/stillhouse-data/stillhouse/internal/chat"

// What a request is taken to need before anything is known of a teacher.
const (
	firstBytesPerToken = 4.0 // English text
	firstAnswer        = 800 // tokens of an answer without a cap
	// estimateAfter is how many answers make a mean worth trusting.
	estimateAfter = 4
	// estimateKeeps is what is left of the mean after one more answer.
	estimateKeeps = 0.95
)

// An estimate is what one request of a teacher is expected to need of a limit on
// tokens: those of the prompt and, until some answers have come, the token cap;
// from then on the mean of the answers.
type estimate struct {
	bytesPerToken float64
	answer        float64
	seen          int
}

// of is the estimate for a request, in tokens. reserved tells that the endpoint
// counts the token cap whatever the answer.
func (e *estimate) of(r *Request, reserved bool) float64 {
	ratio := e.bytesPerToken
	if ratio == 0 {
		ratio = firstBytesPerToken
	}
	answer := e.answer
	switch {
	case r.Cap > 0 && (reserved || e.seen < estimateAfter):
		answer = float64(r.Cap)
	case e.seen < estimateAfter:
		answer = firstAnswer
	case r.Cap > 0:
		answer = min(answer, float64(r.Cap))
	}
	return float64(len(r.Body))/ratio + answer
}

// learn takes in what one request needed.
func (e *estimate) learn(r *Request, u *chat.Usage) {
	mix := func(mean *float64, v float64) {
		if *mean == 0 {
			*mean = v
		}
		*mean += max(1/float64(e.seen), 1-estimateKeeps) * (v - *mean)
	}
	e.seen++
	mix(&e.answer, float64(u.CompletionTokens))
	if u.PromptTokens > 0 {
		mix(&e.bytesPerToken, float64(len(r.Body))/float64(u.PromptTokens))
	}
}
