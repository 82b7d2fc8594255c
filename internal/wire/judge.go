package wire

import "time"

// ActivityJudge asks a teacher what it thinks of a shard's answers.
const ActivityJudge = "JudgeShard"

// MemoQueues is the memo field of a Build that holds the task queues of its
// judges, so that workers find the queues that they have to serve.
const MemoQueues = "queues"

// MostRounds is how often the judges of a recipe take turns at most: what a build
// hands to its continuation holds all of them and stays one small payload.
const MostRounds = 6

// A JudgePlan is one round of judging: every shard goes through all rounds, in
// order, before it is refined.
type JudgePlan struct {
	Queue string `json:"q"` // of the teacher that judges
}

// Teacher is the id of who judges.
func (j JudgePlan) Teacher() string { return QueueTeacher(j.Queue) }

// JudgeInput asks one round about one shard.
type JudgeInput struct {
	BuildRef
	PlanKey string    `json:"plan_key"`
	Shard   int       `json:"shard"`
	Round   int       `json:"round"`
	Teacher string    `json:"teacher"`
	Started time.Time `json:"started"` // of the build
	// StatsKey names the measures of all answers, where a filter needs them.
	StatsKey string `json:"stats_key,omitempty"`
	// Fallbacks is how many rounds of fallbacks were asked before.
	Fallbacks int `json:"fallbacks,omitempty"`
}

// JudgeOutput is what came of it.
type JudgeOutput struct {
	Counts  AskCounts      `json:"counts"`
	Stopped *TeacherFailed `json:"stopped,omitempty"`
}

// A JudgeReport is what a build knows of one judge, over all of its rounds. Its
// keys are short because a build hands the reports of all to its continuation.
type JudgeReport struct {
	Teacher string         `json:"i"`
	Counts  AskCounts      `json:"c"`
	Stopped *TeacherFailed `json:"s,omitempty"`
}
