package verify

import (
	"context"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// A Scorer has a model judge answers: a judge with a rubric, a reward model, a
// cross-encoder. Verifiers and policies that need a model take one; whoever
// gives it sees to limits, to what is paid, and to asking nothing twice.
type Scorer interface {
	// Score gives the scores of some answers, in their order. Its error is not
	// an answer's: it says that nothing can be scored now.
	Score(ctx context.Context, questions []Question) ([]Scored, error)
}

// A Question is one answer to be scored.
type Question struct {
	Prompt *chat.Prompt
	Answer *chat.Message
	Gold   *string // what is known to be right; nil for nothing
	Sample int     // of several opinions on one answer; 0 is the first
}

// Scored is what a Scorer says of one answer.
type Scored struct {
	// Value is on the scorer's own scale; nil where it is unknown, which is
	// never a low score.
	Value *float64
	Why   string // it is unknown; "" where it is not
}
