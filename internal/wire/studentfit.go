package wire

import "time"

// ActivityStudentFit has the student score some accepted answers of a build,
// once all of its shards are refined.
const ActivityStudentFit = "ScoreStudentFit"

// A FitPlan says that the student scores answers.
type FitPlan struct {
	Queue string `json:"q"` // of the teacher that serves the student
}

// Teacher is the id of who serves the student.
func (f FitPlan) Teacher() string { return QueueTeacher(f.Queue) }

// FitInput has the student score. What comes of it is a [JudgeOutput].
type FitInput struct {
	BuildRef
	PlanKey string    `json:"plan_key"`
	Teacher string    `json:"teacher"`
	Started time.Time `json:"started"` // of the build
}
