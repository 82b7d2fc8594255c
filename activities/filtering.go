package activities

import (
	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/filter"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// filterInput is what filters see of a candidate.
func filterInput(task *datasets.Task, c *datasets.Candidate, stats *filter.Stats) *filter.Input {
	return &filter.Input{Candidate: c, Task: task, Stats: stats, CountTokens: teachers.TextTokens}
}
