package workflows

import (
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// TestReplay runs today's workflow code over histories that were recorded when
// a build really ran. It fails where a change would break a build that is under
// way during an upgrade: guard such a change with workflow.GetVersion and keep
// the old histories. New ones are recorded with go test -tags record.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/replay/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 4 {
		t.Fatalf("%d recorded histories, want one of each workflow at least", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			r := worker.NewWorkflowReplayer()
			Register(replayer{r})
			if err := r.ReplayWorkflowHistoryFromJSONFile(nil, file); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// replayer is a replayer as a Registry.
type replayer struct{ worker.WorkflowReplayer }

func (r replayer) RegisterWorkflowWithOptions(w any, o workflow.RegisterOptions) {
	r.WorkflowReplayer.RegisterWorkflowWithOptions(w, o)
}
