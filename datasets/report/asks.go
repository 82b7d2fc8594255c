package report

import (
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// TableAsks is the name of the table that lies under a comparison.
const TableAsks = "comparison"

// An Ask is a row of the table that lies under a comparison: one sample of one
// task of one teacher, answered or not, with every number that the comparison is
// made of and no text. Columns are only added, and only nullable ones.
type Ask struct {
	Dataset string `json:"dataset" parquet:"dataset,dict"`
	Version int64  `json:"version" parquet:"version"`

	TaskID        string  `json:"task_id" parquet:"task_id"`
	PromptID      string  `json:"prompt_id" parquet:"prompt_id"`
	Domain        string  `json:"domain" parquet:"domain,dict"`
	Effort        string  `json:"effort" parquet:"effort,dict"`
	Split         string  `json:"split" parquet:"split,dict"`
	Teacher       string  `json:"teacher" parquet:"teacher,dict"`
	ModelAsked    string  `json:"model_asked" parquet:"model_asked,dict"`
	ModelAnswered *string `json:"model_answered,omitempty" parquet:"model_answered,optional,dict"`
	Fingerprint   *string `json:"system_fingerprint,omitempty" parquet:"system_fingerprint,optional,dict"`
	SampleIndex   int32   `json:"sample_index" parquet:"sample_index"`
	SampleID      string  `json:"sample_id" parquet:"sample_id"`
	AskID         string  `json:"ask_id" parquet:"ask_id"` // the same in two versions: the same answer, bought once
	// FirstHand is false where the teacher was asked because others had failed.
	// Such rows are in no rate and in no comparison.
	FirstHand bool `json:"first_hand" parquet:"first_hand"`

	Verdict       *string  `json:"verdict,omitempty" parquet:"verdict,optional,dict"` // pass, fail or unknown; null where nothing judged it
	Score         *float64 `json:"score,omitempty" parquet:"score,optional"`
	Accepted      bool     `json:"accepted" parquet:"accepted"`
	Selected      bool     `json:"selected" parquet:"selected"`
	RejectReasons []string `json:"reject_reasons,omitempty" parquet:"reject_reasons,list"`
	Flags         []string `json:"flags,omitempty" parquet:"flags,list"`
	Error         *string  `json:"error,omitempty" parquet:"error,optional,dict"` // class of the failure of an ask that failed for good
	FinishReason  *string  `json:"finish_reason,omitempty" parquet:"finish_reason,optional,dict"`
	Truncated     bool     `json:"truncated" parquet:"truncated"` // it ended at the token limit
	Refused       bool     `json:"refused" parquet:"refused"`     // a filter found a refusal

	PromptTokens     *int64 `json:"prompt_tokens,omitempty" parquet:"prompt_tokens,optional"`
	CachedTokens     *int64 `json:"cached_tokens,omitempty" parquet:"cached_tokens,optional"`         // of prompt_tokens
	CompletionTokens *int64 `json:"completion_tokens,omitempty" parquet:"completion_tokens,optional"` // reasoning included
	ReasoningTokens  *int64 `json:"reasoning_tokens,omitempty" parquet:"reasoning_tokens,optional"`   // of completion_tokens
	UsageEstimated   bool   `json:"usage_estimated" parquet:"usage_estimated"`
	CostMicros       *int64 `json:"cost_micros,omitempty" parquet:"cost_micros,optional"` // millionths of a US dollar; null: not priced
	LatencyMS        *int64 `json:"latency_ms,omitempty" parquet:"latency_ms,optional"`   // request sent to answer whole
	TTFTMS           *int64 `json:"ttft_ms,omitempty" parquet:"ttft_ms,optional"`         // request sent to first token
	Attempts         int32  `json:"attempts" parquet:"attempts"`

	AnswerChars    *int64 `json:"answer_chars,omitempty" parquet:"answer_chars,optional"`       // code points of the answer's text; null where there is no answer
	ReasoningChars *int64 `json:"reasoning_chars,omitempty" parquet:"reasoning_chars,optional"` // code points of the reasoning that is shown; null where none is
}

// AskOf is a candidate's row, of a version of a dataset.
func AskOf(dataset string, version int64, c *datasets.Candidate) Ask {
	a := Ask{
		Dataset: dataset, Version: version, TaskID: c.TaskID, PromptID: c.PromptID, Domain: c.Domain, Effort: c.Effort, Split: c.Split,
		Teacher: c.Teacher, ModelAsked: c.ModelAsked, ModelAnswered: c.ModelAnswered, Fingerprint: c.Fingerprint,
		SampleIndex: c.SampleIndex, SampleID: c.SampleID, AskID: c.AskID, FirstHand: firstHand(c),
		Verdict: c.Verdict, Score: c.Score, Accepted: c.Accepted, Selected: c.Selected, RejectReasons: c.RejectReasons, Flags: c.Flags,
		Error: c.Error, FinishReason: c.FinishReason, Truncated: c.Error == nil && truncated(c), Refused: refused(c),
		PromptTokens: c.PromptTokens, CachedTokens: c.CachedTokens, CompletionTokens: c.CompletionTokens, ReasoningTokens: c.ReasoningTokens,
		UsageEstimated: c.UsageEstimated, CostMicros: c.CostMicros, LatencyMS: c.LatencyMS, TTFTMS: c.TTFTMS, Attempts: c.Attempts,
	}
	if m := c.Answer(); m != nil {
		a.AnswerChars = ref(int64(utf8.RuneCountInString(c.Content())))
		if m.ReasoningContent != nil && *m.ReasoningContent != "" {
			a.ReasoningChars = ref(int64(utf8.RuneCountInString(*m.ReasoningContent)))
		}
	}
	return a
}
