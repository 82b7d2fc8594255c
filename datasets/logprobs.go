package datasets

// TableLogprobs holds the log probabilities of the answers' tokens; a version
// has it where its recipe asks for them.
const TableLogprobs = "logprobs"

// Sources of a LogprobRow.
const (
	LogprobsGenerated = "generated" // told by the teacher with its own answer
	LogprobsScored    = "scored"    // of a given text, which the teacher scored
)

// A LogprobRow is the log probabilities of one sample's tokens. Its lists are
// flat: those of alternatives hold TopK entries for each token, those of token
// i from i*TopK on, filled up with nulls where a token has fewer. What the
// endpoint did not tell, or told as a sentinel or as no finite number, is null.
// Tokens are of the teacher's own vocabulary: ids of two tokenizers never mean
// the same.
type LogprobRow struct {
	SampleID     string `json:"sample_id" parquet:"sample_id"` // as in candidates, train and test
	TaskID       string `json:"task_id" parquet:"task_id"`
	PromptID     string `json:"prompt_id" parquet:"prompt_id"`
	Domain       string `json:"domain" parquet:"domain,dict"`
	Effort       string `json:"effort" parquet:"effort,dict"`
	Split        string `json:"split" parquet:"split,dict"`
	Teacher      string `json:"teacher" parquet:"teacher,dict"`
	TeacherModel string `json:"teacher_model" parquet:"teacher_model,dict"`
	Source       string `json:"source" parquet:"source,dict"` // LogprobsGenerated or LogprobsScored
	Accepted     bool   `json:"accepted" parquet:"accepted"`
	Selected     bool   `json:"selected" parquet:"selected"` // entered train or test
	Tokens       int32  `json:"tokens" parquet:"tokens"`     // with an entry in the lists
	Gaps         int32  `json:"gaps" parquet:"gaps"`         // of them without a logprob
	// Complete: no flag of the answer says that tokens or logprobs are missing.
	Complete   bool       `json:"complete" parquet:"complete"`
	TokenIDs   []*int32   `json:"token_ids" parquet:"token_ids,list"`
	TokenBytes []*[]byte  `json:"token_bytes" parquet:"token_bytes,list"` // where a character is in two tokens, a part of it
	Logprobs   []*float32 `json:"logprobs" parquet:"logprobs,list" parquet-element:",split"`
	TopK       int32      `json:"top_k" parquet:"top_k"` // alternatives per token; 0 for none
	// TopTokenIDs is empty where no alternative's id is known, and TopTokenBytes
	// where none's bytes are.
	TopTokenIDs   []*int32   `json:"top_token_ids" parquet:"top_token_ids,list"`
	TopTokenBytes []*[]byte  `json:"top_token_bytes" parquet:"top_token_bytes,list"`
	TopLogprobs   []*float32 `json:"top_logprobs" parquet:"top_logprobs,list" parquet-element:",split"`
	// TailLogmass is log(1 - sum of p over the token's alternatives), at least
	// log(2^-24), below which sums of 32-bit logprobs say nothing; null where
	// there is no alternative or one has no logprob. It is what distillation
	// losses with a tail bucket take (TRL's server distillation: loss_add_tail).
	TailLogmass []*float32 `json:"tail_logmass" parquet:"tail_logmass,list" parquet-element:",split"`
	// Tokenizer names the vocabulary that the ids are of: the teacher's weights
	// where the recipe names them.
	Tokenizer          *string `json:"tokenizer,omitempty" parquet:"tokenizer,optional,dict"`
	TokenizerSHA256    *string `json:"tokenizer_sha256,omitempty" parquet:"tokenizer_sha256,optional,dict"`
	ChatTemplateSHA256 *string `json:"chat_template_sha256,omitempty" parquet:"chat_template_sha256,optional,dict"`
	// PromptTokenIDs are the ids of the prompt's tokens, as the teacher's chat
	// template renders it; null where the endpoint does not tell them.
	PromptTokenIDs []int32 `json:"prompt_token_ids,omitempty" parquet:"prompt_token_ids,list,optional"`
}
