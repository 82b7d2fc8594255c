package datasets

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// Sources of a token count.
const (
	UsageReported  = "reported"  // the endpoint counted
	UsageEstimated = "estimated" // we guessed from the text that was sent and what arrived
)

// Outcomes of an attempt: what came of it.
const (
	OutcomeAnswer    = "answer"    // it is the answer of its candidates
	OutcomeSpare     = "spare"     // an answer beside another one that was there first
	OutcomeAnswered  = "answered"  // it failed, and another attempt brought the answer
	OutcomeUndone    = "undone"    // it failed, and so did all others so far
	OutcomeRecovered = "recovered" // it failed when it came; today's parser reads the answer in it
)

// An Attempt is one request that was sent to a teacher for an ask of this
// version's tasks, whichever build sent it, and a row of the attempts table:
// what was paid for, and what came of it. Each request is one row, also where
// several tasks share an ask.
type Attempt struct {
	AttemptID        string  `json:"attempt_id" parquet:"attempt_id"`
	PromptID         string  `json:"prompt_id" parquet:"prompt_id"`
	TaskID           string  `json:"task_id" parquet:"task_id"`     // of several tasks that share the ask, the first
	SampleID         string  `json:"sample_id" parquet:"sample_id"` // and its candidate
	AskID            string  `json:"ask_id" parquet:"ask_id"`
	Teacher          string  `json:"teacher" parquet:"teacher,dict"`
	ModelAsked       string  `json:"model_asked" parquet:"model_asked,dict"`
	Number           int32   `json:"number" parquet:"number"`                            // from 1, each time that the ask was made
	Times            int32   `json:"times" parquet:"times"`                              // requests that the row stands for: 1, but in very long runs of refusals
	StartedUS        *int64  `json:"started_us,omitempty" parquet:"started_us,optional"` // when it was sent: microseconds since 1970, UTC
	Status           *int32  `json:"status,omitempty" parquet:"status,optional"`         // HTTP status; null: no response
	Error            *string `json:"error,omitempty" parquet:"error,optional,dict"`
	ErrorText        *string `json:"error_text,omitempty" parquet:"error_text,optional"` // the endpoint's words, bounded and redacted
	LatencyMS        *int64  `json:"latency_ms,omitempty" parquet:"latency_ms,optional"`
	TTFTMS           *int64  `json:"ttft_ms,omitempty" parquet:"ttft_ms,optional"`
	Bytes            int64   `json:"bytes" parquet:"bytes"`                                              // of the response that had arrived
	PartialContent   *string `json:"partial_content,omitempty" parquet:"partial_content,optional"`       // of an answer that was cut off
	PartialReasoning *string `json:"partial_reasoning,omitempty" parquet:"partial_reasoning,optional"`   // of the same
	PromptTokens     *int64  `json:"prompt_tokens,omitempty" parquet:"prompt_tokens,optional"`           // null where nothing can be charged
	CachedTokens     *int64  `json:"cached_tokens,omitempty" parquet:"cached_tokens,optional"`           // of prompt_tokens
	CacheWriteTokens *int64  `json:"cache_write_tokens,omitempty" parquet:"cache_write_tokens,optional"` // of prompt_tokens
	CompletionTokens *int64  `json:"completion_tokens,omitempty" parquet:"completion_tokens,optional"`   // reasoning included
	ReasoningTokens  *int64  `json:"reasoning_tokens,omitempty" parquet:"reasoning_tokens,optional"`     // of completion_tokens
	UsageSource      *string `json:"usage_source,omitempty" parquet:"usage_source,optional,dict"`        // reported or estimated
	Billable         bool    `json:"billable" parquet:"billable"`                                        // the endpoint may charge for it
	CostMicros       *int64  `json:"cost_micros,omitempty" parquet:"cost_micros,optional"`               // millionths of a US dollar; 0 where it is not billable; null: not priced
	PriceID          *string `json:"price_id,omitempty" parquet:"price_id,optional,dict"`                // of the price that it was counted at
	PriceAsOf        *string `json:"price_as_of,omitempty" parquet:"price_as_of,optional,dict"`          // day of the price list
	Batch            *string `json:"batch,omitempty" parquet:"batch,optional,dict"`                      // id of the batch that it was bought in, at the batch price
	ShareUS          *int64  `json:"share_us,omitempty" parquet:"share_us,optional"`                     // microseconds of an own endpoint's time, priced by the hour
	Outcome          string  `json:"outcome" parquet:"outcome,dict"`                                     // answer, spare, answered, undone or recovered
}

// AttemptID names one request: the hex of the first 16 bytes of SHA-256 over the
// ask, when the request was sent, and its number.
func AttemptID(askID string, started time.Time, number int32) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d", askID, started.UnixMicro(), number))
	return hex.EncodeToString(sum[:16])
}
