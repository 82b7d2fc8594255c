package datasets

// TableStudentFit holds what the student said of some accepted answers; a
// version has it only where its recipe has a student score.
const TableStudentFit = "student_fit"

// A FitRow is how likely one accepted answer is to the student before it is
// trained, and a row of the student_fit table. Where that is not known, nll and
// tokens are null and why says so.
type FitRow struct {
	TaskID   string   `json:"task_id" parquet:"task_id"`
	PromptID string   `json:"prompt_id" parquet:"prompt_id"`
	SampleID string   `json:"sample_id" parquet:"sample_id"`
	Domain   string   `json:"domain" parquet:"domain,dict"`
	Effort   string   `json:"effort" parquet:"effort,dict"`
	Teacher  string   `json:"teacher" parquet:"teacher,dict"` // whose answer it is
	Student  string   `json:"student" parquet:"student,dict"` // model that scored
	Scorer   string   `json:"scorer" parquet:"scorer,dict"`   // id of the teacher that serves it
	NLL      *float64 `json:"nll,omitempty" parquet:"nll,optional"`
	Tokens   *int64   `json:"tokens,omitempty" parquet:"tokens,optional"` // of the student's tokenizer, the end of the turn included
	Why      *string  `json:"why,omitempty" parquet:"why,optional"`       // it is unknown
	AskID    *string  `json:"ask_id,omitempty" parquet:"ask_id,optional"`
}
