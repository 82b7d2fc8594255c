package datasets

// TableJudgements holds what judges and reward models said, where a recipe has
// any.
const TableJudgements = "judgements"

// Kinds of judgements.
const (
	KindScore     = "score"     // a number for one answer
	KindReference = "reference" // one answer against the task's gold answer
	KindPair      = "pair"      // two answers to a task, for policy pairwise
)

// Orders in which two texts were shown.
const (
	OrderAB = "ab" // sample_a first
	OrderBA = "ba" // sample_a second
)

// FlagSameFamily marks what a model of the answer's own family judged: models
// favour what reads like themselves.
const FlagSameFamily = "judge_same_family"

// FlagAddressesJudge marks an answer that speaks to whoever grades it.
const FlagAddressesJudge = "addresses_judge"

// A JudgeRow is one question to a judge or a reward model about one answer or
// two, and a row of the judgements table. Where nobody could be asked, ask_id is
// null and why says so.
type JudgeRow struct {
	TaskID           string   `json:"task_id" parquet:"task_id"`
	PromptID         string   `json:"prompt_id" parquet:"prompt_id"`
	Domain           string   `json:"domain" parquet:"domain,dict"`
	Effort           string   `json:"effort" parquet:"effort,dict"`
	Judge            string   `json:"judge" parquet:"judge,dict"`                      // id of the teacher that judged
	JudgeModel       string   `json:"judge_model" parquet:"judge_model,dict"`          // as it was asked for
	Verifier         string   `json:"verifier" parquet:"verifier,dict"`                // judge, reward, or pairwise where the merge policy wanted it
	Version          string   `json:"version" parquet:"version,dict"`                  // of how it is asked and read
	Rubric           *string  `json:"rubric,omitempty" parquet:"rubric,optional,dict"` // hex SHA-256 of its text
	Kind             string   `json:"kind" parquet:"kind,dict"`                        // score, reference or pair
	SampleA          string   `json:"sample_a" parquet:"sample_a"`                     // the answer that is judged
	SampleB          *string  `json:"sample_b,omitempty" parquet:"sample_b,optional"`  // the other one of a pair
	TeacherA         string   `json:"teacher_a" parquet:"teacher_a,dict"`
	TeacherB         *string  `json:"teacher_b,omitempty" parquet:"teacher_b,optional,dict"`
	Order            *string  `json:"order,omitempty" parquet:"order,optional,dict"`      // ab or ba: which text was shown first
	Opinion          int32    `json:"opinion" parquet:"opinion"`                          // of several of one judge, from 0
	Outcome          *string  `json:"outcome,omitempty" parquet:"outcome,optional,dict"`  // of a comparison, in this order: a, b or tie; null: unknown
	Score            *float64 `json:"score,omitempty" parquet:"score,optional"`           // null: unknown
	Why              *string  `json:"why,omitempty" parquet:"why,optional"`               // it is unknown
	Consistent       *bool    `json:"consistent,omitempty" parquet:"consistent,optional"` // of a comparison: both orders say the same
	SameFamily       bool     `json:"same_family" parquet:"same_family"`                  // judge and answer are models of one family
	Reply            *string  `json:"reply,omitempty" parquet:"reply,optional"`           // the judge's words, bounded
	AskID            *string  `json:"ask_id,omitempty" parquet:"ask_id,optional"`
	PromptTokens     *int64   `json:"prompt_tokens,omitempty" parquet:"prompt_tokens,optional"`
	CachedTokens     *int64   `json:"cached_tokens,omitempty" parquet:"cached_tokens,optional"`
	CompletionTokens *int64   `json:"completion_tokens,omitempty" parquet:"completion_tokens,optional"`
	ReasoningTokens  *int64   `json:"reasoning_tokens,omitempty" parquet:"reasoning_tokens,optional"`
	CostMicros       *int64   `json:"cost_micros,omitempty" parquet:"cost_micros,optional"` // millionths of a US dollar; null: not priced
	LatencyMS        *int64   `json:"latency_ms,omitempty" parquet:"latency_ms,optional"`
}
