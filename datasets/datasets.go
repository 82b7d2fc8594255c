// Package datasets holds the records of a dataset and their meaning: the
// tables of a version, one declaration each, from which every file's schema
// comes. Nothing is inferred from data. It knows neither teachers nor Temporal
// nor S3.
//
// Its parts: verify gives verdicts, filter gives reject reasons, merge chooses
// rows, report compares teachers, parquetio reads and writes the tables,
// catalog keeps the versions, views shapes rows for trainers.
package datasets

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// Tables of a version.
const (
	TableTrain      = "train"
	TableTest       = "test"
	TablePairs      = "pairs"
	TableCandidates = "candidates"
	TablePrompts    = "prompts"
	TableAttempts   = "attempts"
)

// Verdicts. A candidate that no verifier applies to has none (nil).
const (
	Pass    = "pass"
	Fail    = "fail"
	Unknown = "unknown"
)

// FlagEscalated is the flag of a candidate whose teacher was asked because all
// before it had failed: its tasks are the hard ones, so that it is compared with
// nobody.
const FlagEscalated = "escalated"

// Errors of candidates that say nothing of their teacher: nobody was asked, or
// what was answered is gone.
const (
	ErrorNotAsked    = "not_asked"    // a budget ended first, or the teacher was given up
	ErrorNotRecorded = "not_recorded" // recorded answers have none to this task
	ErrorPurged      = "purged"
)

// Statuses of a task in the prompts table.
const (
	StatusClean      = "clean"      // in the dataset or open to it
	StatusUnanswered = "unanswered" // every teacher asked failed to answer
	StatusDuplicate  = "duplicate"  // of another prompt
	StatusDirty      = "contaminated"
)

// A Task is a prompt at a domain and an effort, with what is known of it.
type Task struct {
	TaskID   string      `json:"task_id"`
	PromptID string      `json:"prompt_id"`
	Domain   string      `json:"domain"`
	Effort   string      `json:"effort"`
	Prompt   chat.Prompt `json:"prompt"`
	Gold     *string     `json:"gold,omitempty"`
	Tests    *string     `json:"tests,omitempty"` // JSON text
	Group    string      `json:"group,omitempty"`
	Meta     string      `json:"meta,omitempty"` // JSON text, an object
	Split    string      `json:"split"`
	Route    []string    `json:"route"`     // ids of the teachers that are asked at first hand
	RouteWhy string      `json:"route_why"` // such as "all" or "domain math, effort high"
	// Fallback are ids of the teachers that are asked one after the other, each
	// where all before it failed.
	Fallback []string `json:"fallback,omitempty"`
	// Source says where the task was read first: file name and line or row.
	Source string `json:"source"`
	// Copies counts the source rows that are this same task; at least 1.
	Copies int64 `json:"copies"`
	// Findings are what the filters of prompts found; nil for nothing.
	Findings *Findings `json:"findings,omitempty"`
}

// TaskID adds domain and effort to a prompt id. Domains and efforts never hold
// a slash, so the parts can be read back.
func TaskID(promptID, domain, effort string) string {
	return promptID + "/" + domain + "/" + effort
}

// SampleID names one candidate: the hex of the first 16 bytes of SHA-256 over
// task, teacher and ask identity, each ended by a zero byte. It depends on
// nothing that changes between two runs over the same answers.
func SampleID(taskID, teacher, askID string) string {
	h := sha256.New()
	for _, s := range []string{taskID, teacher, askID} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// A Verdict is what one verifier said of one candidate.
type Verdict struct {
	Verifier  string   `json:"verifier" parquet:"verifier,dict"`
	Version   string   `json:"version" parquet:"version,dict"`
	Verdict   string   `json:"verdict" parquet:"verdict,dict"`
	Reason    string   `json:"reason" parquet:"reason,dict"`
	Extracted *string  `json:"extracted,omitempty" parquet:"extracted,optional"`
	Score     *float64 `json:"score,omitempty" parquet:"score,optional"`
}

// An Image of a row, by the digest of its bytes.
type Image struct {
	Digest    string `json:"digest" parquet:"digest"`
	MediaType string `json:"media_type" parquet:"media_type,dict"`
	Key       string `json:"key" parquet:"key"`
}

// A Candidate is an answer to a task with all that is known of it, and a row
// of the candidates table. A failed ask is a candidate too: Error is set and
// there is no answer message.
type Candidate struct {
	SampleID         string         `json:"sample_id" parquet:"sample_id"`
	TaskID           string         `json:"task_id" parquet:"task_id"`
	PromptID         string         `json:"prompt_id" parquet:"prompt_id"`
	Domain           string         `json:"domain" parquet:"domain,dict"`
	Effort           string         `json:"effort" parquet:"effort,dict"`
	Split            string         `json:"split" parquet:"split,dict"`
	Teacher          string         `json:"teacher" parquet:"teacher,dict"`
	ModelAsked       string         `json:"model_asked" parquet:"model_asked,dict"`
	ModelAnswered    *string        `json:"model_answered,omitempty" parquet:"model_answered,optional,dict"`
	Fingerprint      *string        `json:"system_fingerprint,omitempty" parquet:"system_fingerprint,optional,dict"` // of the backend that answered, as the endpoint calls it
	AskID            string         `json:"ask_id" parquet:"ask_id"`
	SampleIndex      int32          `json:"sample_index" parquet:"sample_index"`
	ParamsAsked      string         `json:"params_asked" parquet:"params_asked,dict"`                            // JSON text
	ParamsEffective  *string        `json:"params_effective,omitempty" parquet:"params_effective,optional,dict"` // JSON text, what the endpoint says it used
	Messages         []chat.Message `json:"messages" parquet:"messages,list"`                                    // the prompt and, last, the answer
	Tools            *string        `json:"tools,omitempty" parquet:"tools,optional"`                            // JSON text
	Images           []Image        `json:"images,omitempty" parquet:"images,list"`
	ReasoningField   *string        `json:"reasoning_field,omitempty" parquet:"reasoning_field,optional,dict"` // the field that the reasoning came from
	ArgsValid        *bool          `json:"args_valid,omitempty" parquet:"args_valid,optional"`                // all tool arguments are JSON
	FinishReason     *string        `json:"finish_reason,omitempty" parquet:"finish_reason,optional,dict"`     // as the endpoint said
	Error            *string        `json:"error,omitempty" parquet:"error,optional,dict"`                     // class of the failure
	ErrorText        *string        `json:"error_text,omitempty" parquet:"error_text,optional"`                // the endpoint's words, bounded and redacted
	PromptTokens     *int64         `json:"prompt_tokens,omitempty" parquet:"prompt_tokens,optional"`
	CachedTokens     *int64         `json:"cached_tokens,omitempty" parquet:"cached_tokens,optional"`           // of prompt_tokens
	CacheWriteTokens *int64         `json:"cache_write_tokens,omitempty" parquet:"cache_write_tokens,optional"` // of prompt_tokens
	CompletionTokens *int64         `json:"completion_tokens,omitempty" parquet:"completion_tokens,optional"`   // reasoning included
	ReasoningTokens  *int64         `json:"reasoning_tokens,omitempty" parquet:"reasoning_tokens,optional"`     // of completion_tokens
	UsageEstimated   bool           `json:"usage_estimated" parquet:"usage_estimated"`
	CostMicros       *int64         `json:"cost_micros,omitempty" parquet:"cost_micros,optional"` // millionths of a US dollar; null: not priced
	PriceID          *string        `json:"price_id,omitempty" parquet:"price_id,optional,dict"`
	PriceAsOf        *string        `json:"price_as_of,omitempty" parquet:"price_as_of,optional,dict"` // day of the price list
	LatencyMS        *int64         `json:"latency_ms,omitempty" parquet:"latency_ms,optional"`        // request sent to answer whole
	TTFTMS           *int64         `json:"ttft_ms,omitempty" parquet:"ttft_ms,optional"`              // request sent to first token
	Attempts         int32          `json:"attempts" parquet:"attempts"`
	Flags            []string       `json:"flags,omitempty" parquet:"flags,list"`
	Verdict          *string        `json:"verdict,omitempty" parquet:"verdict,optional,dict"` // of all verifiers that applied; see Combine
	Score            *float64       `json:"score,omitempty" parquet:"score,optional"`
	Extracted        *string        `json:"extracted,omitempty" parquet:"extracted,optional"` // the final answer that the deciding verifier read
	Verdicts         []Verdict      `json:"verdicts,omitempty" parquet:"verdicts,list"`
	Gold             *string        `json:"gold,omitempty" parquet:"gold,optional"`
	PromptCluster    *string        `json:"prompt_cluster,omitempty" parquet:"prompt_cluster,optional"`
	AnswerCluster    *string        `json:"answer_cluster,omitempty" parquet:"answer_cluster,optional"`
	Accepted         bool           `json:"accepted" parquet:"accepted"`
	Selected         bool           `json:"selected" parquet:"selected"`                             // entered train or test
	Rank             *int32         `json:"rank,omitempty" parquet:"rank,optional"`                  // among the rows that the merge policy chose for the task, from 1
	Unselected       *string        `json:"unselected,omitempty" parquet:"unselected,optional,dict"` // why an accepted candidate entered neither
	RejectReasons    []string       `json:"reject_reasons,omitempty" parquet:"reject_reasons,list"`
	Meta             *string        `json:"meta,omitempty" parquet:"meta,optional"`            // JSON text
	Licence          *string        `json:"licence,omitempty" parquet:"licence,optional,dict"` // the teacher's terms
	Parser           *string        `json:"parser,omitempty" parquet:"parser,optional,dict"`   // version of the parser that read the answer
}

// Answer is the last message if the candidate has an answer, else nil.
func (c *Candidate) Answer() *chat.Message {
	if c.Error != nil || len(c.Messages) == 0 {
		return nil
	}
	if m := &c.Messages[len(c.Messages)-1]; m.Role == chat.RoleAssistant {
		return m
	}
	return nil
}

// Content is the text of the answer, "" where there is none.
func (c *Candidate) Content() string {
	if m := c.Answer(); m != nil && m.Content != nil {
		return *m.Content
	}
	return ""
}

// Combine gives the verdict of all verifiers that applied: fail where one
// failed, else unknown where one does not know, else pass; nil for none.
func Combine(verdicts []Verdict) *string {
	if len(verdicts) == 0 {
		return nil
	}
	worst := Pass
	for _, v := range verdicts {
		switch {
		case v.Verdict == Fail:
			worst = Fail
		case v.Verdict == Unknown && worst == Pass:
			worst = Unknown
		}
	}
	return &worst
}

// A Row of train or test: what a trainer reads, with its lineage.
type Row struct {
	TaskID           string         `json:"task_id" parquet:"task_id"`
	PromptID         string         `json:"prompt_id" parquet:"prompt_id"`
	SampleID         string         `json:"sample_id" parquet:"sample_id"`
	Domain           string         `json:"domain" parquet:"domain,dict"`
	Effort           string         `json:"effort" parquet:"effort,dict"`
	Teacher          string         `json:"teacher" parquet:"teacher,dict"`
	TeacherModel     string         `json:"teacher_model" parquet:"teacher_model,dict"`
	Messages         []chat.Message `json:"messages" parquet:"messages,list"`
	Tools            *string        `json:"tools,omitempty" parquet:"tools,optional"`
	Images           []Image        `json:"images,omitempty" parquet:"images,list"`
	Verdict          *string        `json:"verdict,omitempty" parquet:"verdict,optional,dict"`
	Score            *float64       `json:"score,omitempty" parquet:"score,optional"`
	CompletionTokens *int64         `json:"completion_tokens,omitempty" parquet:"completion_tokens,optional"`
	Licence          *string        `json:"licence,omitempty" parquet:"licence,optional,dict"`
	Meta             *string        `json:"meta,omitempty" parquet:"meta,optional"`
}

// RowOf is the train or test row of a selected candidate.
func RowOf(c *Candidate) Row {
	return Row{
		TaskID: c.TaskID, PromptID: c.PromptID, SampleID: c.SampleID,
		Domain: c.Domain, Effort: c.Effort, Teacher: c.Teacher, TeacherModel: c.ModelAsked,
		Messages: c.Messages, Tools: c.Tools, Images: c.Images,
		Verdict: c.Verdict, Score: c.Score, CompletionTokens: c.CompletionTokens,
		Licence: c.Licence, Meta: c.Meta,
	}
}

// A PromptRow is a task in the prompts table, answered or not.
type PromptRow struct {
	TaskID         string         `json:"task_id" parquet:"task_id"`
	PromptID       string         `json:"prompt_id" parquet:"prompt_id"`
	Domain         string         `json:"domain" parquet:"domain,dict"`
	Effort         string         `json:"effort" parquet:"effort,dict"`
	Split          string         `json:"split" parquet:"split,dict"`
	Status         string         `json:"status" parquet:"status,dict"`
	StatusOf       *string        `json:"status_of,omitempty" parquet:"status_of,optional"` // duplicate of, contaminated by
	Route          []string       `json:"route" parquet:"route,list"`
	RouteReason    string         `json:"route_reason" parquet:"route_reason,dict"`
	Fallback       []string       `json:"fallback,omitempty" parquet:"fallback,list"`   // teachers to ask where those of route fail, in order
	Escalated      []string       `json:"escalated,omitempty" parquet:"escalated,list"` // of them those that the task went on to
	Messages       []chat.Message `json:"messages" parquet:"messages,list"`             // as sent: system first
	Tools          *string        `json:"tools,omitempty" parquet:"tools,optional"`
	Images         []Image        `json:"images,omitempty" parquet:"images,list"`
	Gold           *string        `json:"gold,omitempty" parquet:"gold,optional"`
	Tests          *string        `json:"tests,omitempty" parquet:"tests,optional"`
	Group          *string        `json:"group,omitempty" parquet:"group,optional"`
	Meta           *string        `json:"meta,omitempty" parquet:"meta,optional"`
	Source         string         `json:"source" parquet:"source"`
	Copies         int64          `json:"copies" parquet:"copies"`
	Flags          []string       `json:"flags,omitempty" parquet:"flags,list"`                     // duplicate, near_duplicate, contaminated: found and asked nevertheless
	Cluster        *string        `json:"cluster,omitempty" parquet:"cluster,optional"`             // prompt id of the prompt that stands for all that say the same
	Jaccard        *float64       `json:"jaccard,omitempty" parquet:"jaccard,optional"`             // similarity to that prompt; 1 where they say the same
	ContaminatedBy []Contaminant  `json:"contaminated_by,omitempty" parquet:"contaminated_by,list"` // items of evaluation sets that the prompt holds

	// How hard the task is: of the answers that every task is asked for, how
	// many were judged (passed or failed), how many of them passed, and the
	// chance that one of k passes. Null where nothing was judged.
	Judged   *int64   `json:"judged,omitempty" parquet:"judged,optional"`
	Passed   *int64   `json:"passed,omitempty" parquet:"passed,optional"`
	PassRate *float64 `json:"pass_rate,omitempty" parquet:"pass_rate,optional"`
	PassAt   []PassAt `json:"pass_at,omitempty" parquet:"pass_at,list"`
	// What the teachers agreed on, where the merge policy compares answers:
	// the answer, null where none won, its share of the votes, its lead over
	// the next, all votes, and their entropy in bits.
	Label        *string  `json:"label,omitempty" parquet:"label,optional"`
	LabelShare   *float64 `json:"label_share,omitempty" parquet:"label_share,optional"`
	LabelMargin  *int64   `json:"label_margin,omitempty" parquet:"label_margin,optional"`
	LabelVotes   *int64   `json:"label_votes,omitempty" parquet:"label_votes,optional"`
	LabelEntropy *float64 `json:"label_entropy,omitempty" parquet:"label_entropy,optional"`
}

// A PassAt is the chance that at least one of k answers passes.
type PassAt struct {
	K     int32   `json:"k" parquet:"k"`
	Value float64 `json:"value" parquet:"value"`
}

// A Pair is a preference pair of one task.
type Pair struct {
	TaskID          string         `json:"task_id" parquet:"task_id"`
	PromptID        string         `json:"prompt_id" parquet:"prompt_id"`
	Domain          string         `json:"domain" parquet:"domain,dict"`
	Effort          string         `json:"effort" parquet:"effort,dict"`
	Prompt          []chat.Message `json:"prompt" parquet:"prompt,list"`
	Chosen          []chat.Message `json:"chosen" parquet:"chosen,list"`
	Rejected        []chat.Message `json:"rejected" parquet:"rejected,list"`
	ChosenTeacher   string         `json:"chosen_teacher" parquet:"chosen_teacher,dict"`
	RejectedTeacher string         `json:"rejected_teacher" parquet:"rejected_teacher,dict"`
	ChosenScore     *float64       `json:"chosen_score,omitempty" parquet:"chosen_score,optional"`
	RejectedScore   *float64       `json:"rejected_score,omitempty" parquet:"rejected_score,optional"`
	Margin          *float64       `json:"margin,omitempty" parquet:"margin,optional"`
	CrossTeacher    bool           `json:"cross_teacher" parquet:"cross_teacher"`

	Split            *string `json:"split,omitempty" parquet:"split,optional,dict"` // of the task
	ChosenSampleID   *string `json:"chosen_sample_id,omitempty" parquet:"chosen_sample_id,optional"`
	RejectedSampleID *string `json:"rejected_sample_id,omitempty" parquet:"rejected_sample_id,optional"`
	ChosenVerdict    *string `json:"chosen_verdict,omitempty" parquet:"chosen_verdict,optional,dict"`
	RejectedVerdict  *string `json:"rejected_verdict,omitempty" parquet:"rejected_verdict,optional,dict"`
	Tools            *string `json:"tools,omitempty" parquet:"tools,optional"` // JSON text, of the prompt
	Images           []Image `json:"images,omitempty" parquet:"images,list"`   // of the prompt
}
