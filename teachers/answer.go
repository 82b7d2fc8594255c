package teachers

import (
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// Formats of a raw response, for Parse.
const (
	FormatOpenAIStream = "openai-chat-sse"  // chat.completion.chunk events
	FormatOpenAIJSON   = "openai-chat-json" // one chat.completion object
)

// A Reply is one whole response of an endpoint, as it came.
type Reply struct {
	Format  string // how Raw reads
	Raw     []byte // the response body after decompression
	Status  int
	Headers map[string]string // lower-case names; only what is worth keeping, such as x-request-id
	Started time.Time         // when the request that succeeded was sent
	TTFT    time.Duration     // from there to the first text
	Latency time.Duration     // from there to the last byte
	// Attempts are the requests of this ask in order, the successful one last.
	Attempts []Attempt

	answer *Answer
}

// Parse reads the answer: what Parse(r.Format, r.Raw) gives, without the work
// where the client has done it already while the response came in. Make Raw
// durable first.
func (r *Reply) Parse() (*Answer, error) {
	if r.answer != nil {
		return r.answer, nil
	}
	return Parse(r.Format, r.Raw)
}

// An Attempt is a request that was sent, or a run of equal ones in a row.
type Attempt struct {
	Times   int // how many equal ones in a row; at least 1
	Started time.Time
	Latency time.Duration // of the last of them
	Status  int           // 0 where there was no response
	Class   string        // "" for success
	Bytes   int           // of an answer that had arrived: a failed attempt may be charged
	Charged int64         // micro-dollars that it cost, or may have cost at most (Price.Charge); 0 without a price
}

// Requests counts the requests of all attempts.
func Requests(attempts []Attempt) int {
	n := 0
	for _, a := range attempts {
		n += a.Times
	}
	return n
}

// Flags of an Answer.
const (
	FlagControlTokens     = "control_tokens"     // chat-template markers leaked into the text
	FlagThinkTags         = "think_tags"         // think tags left in the content
	FlagBadUTF8           = "bad_utf8"           // bytes that are no UTF-8 were replaced by U+FFFD
	FlagReasoningConflict = "reasoning_conflict" // two reasoning fields with different texts; the longer is kept
	FlagExtraChoices      = "extra_choices"      // more than one choice came back; the first is kept
	FlagErrorAfterFinish  = "error_after_finish" // the answer was whole, then the endpoint reported an error
	FlagLogprobGap        = "logprob_gap"        // a logprob was null, a sentinel or no number; it stays null
	FlagPromptTruncated   = "prompt_truncated"   // see PromptTruncated; set by whoever knows the prompt
	FlagModelDrift        = "model_drift"        // another model answered; set by whoever knows what was asked
)

// An Answer is what a response says.
type Answer struct {
	Message     chat.Message
	Finish      string      // the finish reason as the endpoint spells it
	Usage       *chat.Usage // nil: the endpoint sent none
	Model       string      // the model that answered
	Fingerprint string      // system_fingerprint
	// ReasoningField is where the reasoning came from: reasoning,
	// reasoning_content, reasoning_details, thinking (content parts) or
	// inline (think tags); "" for none.
	ReasoningField string
	// ArgsValid tells whether all tool arguments are JSON; nil without tool calls.
	ArgsValid *bool
	Flags     []string // sorted
	Refusal   string
	// Logprobs of the tokens, nil where the endpoint sent none.
	Logprobs *Logprobs
}

// Kinds of reasoning, for chat.Message.ReasoningKind.
const (
	ReasoningFull    = "full"    // the model's own reasoning text
	ReasoningSummary = "summary" // a summary that the vendor shows instead
)
