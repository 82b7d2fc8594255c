package teachers

import (
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// Formats of a raw response, for Parse.
const (
	FormatOpenAIStream    = "openai-chat-sse"         // chat.completion.chunk events
	FormatOpenAIJSON      = "openai-chat-json"        // one chat.completion object
	FormatAnthropicStream = "anthropic-messages-sse"  // message_start … message_stop events
	FormatAnthropicJSON   = "anthropic-messages-json" // one message object
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
	// Share is the endpoint's time that the request took up beside others; 0
	// where it is not measured. See [Price.GPUHour].
	Share time.Duration

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

// Flags of an Answer.
const (
	FlagControlTokens     = "control_tokens"     // chat-template markers leaked into the text
	FlagThinkTags         = "think_tags"         // think tags left in the content
	FlagBadUTF8           = "bad_utf8"           // bytes that are no UTF-8 were replaced by U+FFFD
	FlagReasoningConflict = "reasoning_conflict" // two reasoning fields with different texts; the longer is kept
	FlagExtraChoices      = "extra_choices"      // more than one choice came back; the first is kept
	FlagErrorAfterFinish  = "error_after_finish" // the answer was whole, then the endpoint reported an error
	FlagLogprobGap        = "logprob_gap"        // a logprob was null, a sentinel or no number; it stays null
	FlagReasoningHidden   = "reasoning_hidden"   // some of the reasoning came encrypted; the raw response keeps it
	FlagOtherBlocks       = "other_blocks"       // content blocks of other kinds came, such as a server's own tools; the raw response keeps them
	FlagPromptTruncated   = "prompt_truncated"   // see PromptSize.Truncated; set by whoever knows the prompt
	FlagPromptInflated    = "prompt_inflated"    // see PromptSize.Inflated; set by whoever knows the prompt
	FlagModelDrift        = "model_drift"        // see ModelDrifted; set by whoever knows what was asked
)

// An Answer is what a response says.
type Answer struct {
	Message chat.Message
	// Before are the turns between the prompt and the message, where a whole
	// trajectory was recorded; an endpoint's answer has none.
	Before      []chat.Message
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
	// Scores are the numbers of a scoring answer, as they came; NaN for what is
	// no finite number. See Scorer.Read.
	Scores []float64
	// Prompt holds the logprobs of the prompt's tokens, where they were asked
	// for; nil for none. See CompletionScorer.
	Prompt *Logprobs
}

// Kinds of reasoning, for chat.Message.ReasoningKind.
const (
	ReasoningFull    = "full"    // the model's own reasoning text
	ReasoningSummary = "summary" // a summary that the vendor shows instead
)
