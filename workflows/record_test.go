//go:build record

package workflows

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/stillhouse-data/stillhouse/internal/home"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// TestRecord writes the histories of every workflow that ended, and of budgets,
// which do not end, in the home of
// STILLHOUSE_HOME, where stillhouse serve runs, to testdata/replay. RECORD_AS
// names them, such as v0.1.
//
//	STILLHOUSE_HOME=… RECORD_AS=v0.1 go test -tags record -run TestRecord ./workflows
func TestRecord(t *testing.T) {
	h, err := home.Open(os.Getenv("STILLHOUSE_HOME"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	e, err := h.ReadEndpoints(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.DialContext(ctx, client.Options{HostPort: e.Temporal, Namespace: e.Namespace, HeadersProvider: token(e.Token)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: "ExecutionStatus != 'Running' OR WorkflowType = 'Budget'", PageSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, w := range list.Executions {
		kind := w.Type.Name
		switch kind {
		case wire.WorkflowBuild, wire.WorkflowTeacherStream, wire.WorkflowScheduled, wire.WorkflowHandOff, wire.WorkflowLimits, wire.WorkflowBudget:
		default:
			continue
		}
		var history historypb.History
		events := c.GetWorkflowHistory(ctx, w.Execution.WorkflowId, w.Execution.RunId, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			history.Events = append(history.Events, event)
		}
		text, err := protojson.MarshalOptions{Indent: " "}.Marshal(&history)
		if err != nil {
			t.Fatal(err)
		}
		seen[kind]++
		status := strings.ToLower(strings.TrimPrefix(w.Status.String(), "WORKFLOW_EXECUTION_STATUS_"))
		name := fmt.Sprintf("%s-%s-%s-%d.json", os.Getenv("RECORD_AS"), kind, status, seen[kind])
		if err := os.WriteFile(filepath.Join("testdata", "replay", name), append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d events", name, len(history.Events))
	}
}

type token string

func (t token) GetHeaders(context.Context) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}
