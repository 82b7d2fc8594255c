package wire

import "time"

// ActivityFallback asks a teacher for the tasks that all before it failed.
const ActivityFallback = "AskFallback"

// MostFallbacks is how many teachers may be fallbacks in a recipe of MaxTeachers;
// each further one takes the place of a teacher. What a build hands to its
// continuation holds all of them and stays one small payload.
const MostFallbacks = 8

// A FallbackPlan is a teacher that tasks may go on to.
type FallbackPlan struct {
	Queue    string `json:"q"` // of the teacher
	Recorded bool   `json:"r,omitempty"`
}

// Teacher is the id of who is asked.
func (f FallbackPlan) Teacher() string { return QueueTeacher(f.Queue) }

// FallbackInput asks a teacher for the tasks of one shard that go on to it after
// so many rounds.
type FallbackInput struct {
	BuildRef
	PlanKey  string    `json:"plan_key"`
	StatsKey string    `json:"stats_key,omitempty"`
	Shard    int       `json:"shard"`
	Round    int       `json:"round"` // teachers of the tasks' fallback that were asked before
	Teacher  string    `json:"teacher"`
	Started  time.Time `json:"started"` // of the build
}
