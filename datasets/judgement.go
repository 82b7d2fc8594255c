package datasets

// Outcomes of a pairwise judgement.
const (
	JudgedA   = "a"   // the first of the two samples
	JudgedB   = "b"   // the second
	JudgedTie = "tie" // neither: said so, or each order named another one
)

// A Judgement is what one judge said of two answers to one task. The judge
// reads them twice, each of them first once; a sample wins only where it wins
// in both orders. SampleA < SampleB, so that a pair has one row a judge.
type Judgement struct {
	TaskID   string `json:"task_id" parquet:"task_id"`
	PromptID string `json:"prompt_id" parquet:"prompt_id"`
	Domain   string `json:"domain" parquet:"domain,dict"`
	Effort   string `json:"effort" parquet:"effort,dict"`
	Judge    string `json:"judge" parquet:"judge,dict"`     // id of the teacher that judged
	Version  string `json:"version" parquet:"version,dict"` // of how it is asked and read
	SampleA  string `json:"sample_a" parquet:"sample_a"`
	SampleB  string `json:"sample_b" parquet:"sample_b"`
	TeacherA string `json:"teacher_a" parquet:"teacher_a,dict"`
	TeacherB string `json:"teacher_b" parquet:"teacher_b,dict"`
	// Outcome is JudgedA, JudgedB, JudgedTie or Unknown, which is no tie: an
	// order that could not be read says nothing.
	Outcome string `json:"outcome" parquet:"outcome,dict"`
	// AFirst and BFirst are the outcomes by order, in the samples' names, never
	// by position.
	AFirst string   `json:"a_first" parquet:"a_first,dict"`
	BFirst string   `json:"b_first" parquet:"b_first,dict"`
	Reason string   `json:"reason" parquet:"reason"` // the judge's words, bounded
	Flags  []string `json:"flags,omitempty" parquet:"flags,list"`
}
