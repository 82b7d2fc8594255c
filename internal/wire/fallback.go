package wire

import "time"

// ActivityFallback asks a teacher for the tasks that all before it failed.
const ActivityFallback = "AskFallback"

// A FallbackPlan is a teacher that tasks may go on to.
type FallbackPlan struct {
	Teacher  string `json:"teacher"`
	Queue    string `json:"queue"`
	Recorded bool   `json:"recorded,omitempty"`
}

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
