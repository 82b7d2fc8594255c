package teachers

import (
	"context"
	"errors"

	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// A Purse is money that requests are paid from. The most that a request can
// cost is reserved before it is sent and settled with what it did cost when it
// is over; what is reserved and never settled, because the process died, stays
// spent. All amounts are micro-dollars. A Purse is safe for concurrent use and
// is one build's for one teacher.
//
// Whoever sends something that costs money goes through one: the client for
// each attempt, batches for each row before it is uploaded, judges and scorers
// for each call.
type Purse interface {
	// TryReserve reserves at once, or not at all.
	TryReserve(micros int64) bool
	// Reserve waits until the amount fits, because others have settled for less
	// than they had reserved. It fails once nothing is under way and the amount
	// still does not fit ([budget.ErrOver]), with ctx's error, or because money
	// cannot be accounted for here.
	Reserve(ctx context.Context, micros int64) error
	// Spend waits as Reserve does and counts the amount as spent at once, not as
	// under way: that of a batch, which runs on whatever becomes of this process.
	// Settle gives back what it did not cost, in whatever process that is known,
	// on the purse of the same build and teacher.
	Spend(ctx context.Context, micros int64) error
	// Settle ends a reservation: reserved is what TryReserve, Reserve or Spend
	// took, cost what was spent of it; 0 where nothing was sent. It is called once
	// for each amount, or for each of the parts that it is made of.
	Settle(reserved, cost int64)
}

const (
	// templateTokens are what a chat template may add to the bytes of a request:
	// markers of turns and a default system text.
	templateTokens = 64
	// imageTokens is above what any endpoint makes of one image (16,384 in
	// Qwen-VL's default configuration; OpenAI and Anthropic stay below 5,000).
	imageTokens = 16384
)

// MostPromptTokens is an upper bound of the tokens that an endpoint counts for
// a request: no tokenizer makes more tokens than there are bytes, and an image
// counts as imageTokens whatever its size.
func (r *Request) MostPromptTokens() int64 {
	return int64(len(r.Body)+len(r.transport)) + templateTokens + int64(len(r.Images))*imageTokens
}

// Most is the most that a prompt and an answer of so many tokens can cost, in
// micro-dollars: nothing of the prompt is read from a cache, unless reading or
// writing one costs more than not using it.
func (p *Price) Most(promptTokens, completionTokens int64) int64 {
	plain := chat.Usage{PromptTokens: promptTokens, CompletionTokens: completionTokens}
	cached, written, thought := plain, plain, plain
	cached.CachedTokens = promptTokens
	written.CacheWriteTokens = promptTokens
	thought.ReasoningTokens = completionTokens
	return max(p.Cost(plain), p.Cost(cached), p.Cost(written), p.Cost(thought))
}

// MostCost is the most that one request can cost, in micro-dollars. It is 0
// without a price. A request without a token cap has no such bound: recipes with
// a budget refuse it.
func (r *Request) MostCost() int64 {
	if r.Price == nil {
		return 0
	}
	return r.Price.Most(r.MostPromptTokens(), r.Cap)
}

// Charge is what a request is charged to a budget once it is over, in
// micro-dollars, where most is the most that it can have cost: its cost where
// the endpoint counted it; 0 where it was not billed; and most where it may
// have been and nobody can know, as after a connection that was lost in the
// middle of an answer, or an answer without usage.
func (p *Price) Charge(most int64, reply *Reply, e *Error) int64 {
	if p == nil {
		return 0
	}
	if e != nil {
		if e.MayBeBilled() {
			return most
		}
		return 0
	}
	answer, err := reply.Parse()
	if err != nil || answer.Usage == nil || answer.Usage.Estimated {
		return most
	}
	return p.Cost(*answer.Usage)
}

// MayBeBilled tells whether the endpoint may charge for the request that ended
// in this error: it was sent, and was not refused.
func (e *Error) MayBeBilled() bool {
	switch {
	case !e.sent:
		return false
	case e.Status == 0, e.Status >= 200 && e.Status <= 299:
		return true
	}
	// A gateway that lost patience does not tell the endpoint to stop.
	switch e.Status {
	case 408, 499, 502, 504, 520, 522, 524:
		return true
	}
	return false
}

// pay reserves the cost of the attempt that is about to start. Where it has to
// wait it gives its place back, which other builds may use.
func (a *asking) pay(admit context.Context) *Error {
	purse := a.request.Purse
	if purse == nil || purse.TryReserve(a.most) {
		return nil
	}
	a.turn.release()
	if err := purse.Reserve(admit, a.most); err != nil {
		return a.unpaid(admit, err)
	}
	if err := a.turn.start(admit); err != nil {
		purse.Settle(a.most, 0)
		return a.client.cancelled(admit)
	}
	return nil
}

// unpaid is the end of an ask that could not be paid for.
func (a *asking) unpaid(admit context.Context, err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
	case admit.Err() != nil:
		e = a.client.cancelled(admit)
	case errors.Is(err, budget.ErrOver):
		e = &Error{Class: ClassBudget, Excerpt: err.Error(), cause: err}
	default:
		e = &Error{Class: ClassCancelled, Excerpt: err.Error(), cause: err}
	}
	return e
}

// settle ends the reservation of an attempt.
func (a *asking) settle(reply *Reply, e *Error) {
	a.charged = a.request.Price.Charge(a.most, reply, e)
	if purse := a.request.Purse; purse != nil {
		purse.Settle(a.most, a.charged)
	}
}
