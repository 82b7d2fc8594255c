package datasets

// Flags of a task whose prompt a filter of prompts found and left in.
const (
	FlagDuplicate     = "duplicate"      // of an earlier prompt, to the word
	FlagNearDuplicate = "near_duplicate" // of an earlier prompt, nearly
	FlagContaminated  = "contaminated"   // by items of evaluation sets
)

// Findings are what the filters of prompts found about a task.
type Findings struct {
	// Status is [StatusDuplicate] or [StatusDirty] where that leaves the task out;
	// "" where it is asked.
	Status string `json:"status,omitempty"`
	// Of is what Status is of: the prompt id of the prompt that is kept, or the
	// item of an evaluation set, such as eval/gsm8k.jsonl#gsm8k.jsonl:419.
	Of string `json:"of,omitempty"`
	// Flags are what was found and leaves the task in.
	Flags []string `json:"flags,omitempty"`
	// Cluster is the prompt id of the prompt that stands for all that say the same
	// or nearly the same, this one among them.
	Cluster string `json:"cluster,omitempty"`
	// Jaccard is the similarity to that prompt, from 0 to 1; nil for the prompt
	// itself.
	Jaccard *float64 `json:"jaccard,omitempty"`
	// Exact tells that the two say the same to the word.
	Exact bool `json:"exact,omitempty"`
	// Contaminants are the items that the prompt holds, the largest share first.
	Contaminants []Contaminant `json:"contaminants,omitempty"`
}

// Dropped tells whether the filters of prompts leave the task out, so that no
// teacher is asked.
func (t *Task) Dropped() bool { return t.Findings != nil && t.Findings.Status != "" }

// A Contaminant is an item of an evaluation set that a prompt holds.
type Contaminant struct {
	Set  string `json:"set" parquet:"set,dict"`   // the file, as the recipe reaches it
	Item string `json:"item" parquet:"item"`      // file name and line or row
	Part string `json:"part" parquet:"part,dict"` // question or answer
	// Share is the share of the item's words that the prompt covers.
	Share float64 `json:"share" parquet:"share"`
	Words int32   `json:"words" parquet:"words"` // of the item
	Ngram int32   `json:"ngram" parquet:"ngram"` // words in a row that make a match
	Spans []Span  `json:"spans,omitempty" parquet:"spans,list"`
}

// A Span is a run of words of an item that stands in the prompt.
type Span struct {
	Start int32  `json:"start" parquet:"start"` // word of the item, from 0
	End   int32  `json:"end" parquet:"end"`     // the first one after it
	Text  string `json:"text" parquet:"text"`   // as the item writes it
}
