package cli

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

func TestHistoryKeysComeByVariableOrFile(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		variables map[string]string
		seals     bool
		fault     string
	}{
		"none":     {},
		"variable": {map[string]string{historyKeyEnv: key}, true, ""},
		"file":     {map[string]string{historyKeyFile: file}, true, ""},
		"both":     {map[string]string{historyKeyEnv: key, historyKeyFile: file}, false, "leave one out"},
		"empty":    {map[string]string{historyKeyEnv: ""}, false, "holds no key"},
		"wrong":    {map[string]string{historyKeyEnv: "c2hvcnQ="}, false, "key 1 is not base64 of 32 bytes"},
		"absent":   {map[string]string{historyKeyFile: file + ".no"}, false, "no such file"},
		"no file":  {map[string]string{historyKeyFile: filepath.Dir(file)}, false, "is no file of keys"},
	} {
		a, _, _ := newApp(t, c.variables)
		err := a.loadHistoryKeys()
		switch {
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault) || exitCode(err) != exitUsage):
			t.Errorf("%s: %v, want %q", name, err, c.fault)
		case c.fault == "" && (err != nil || a.history.Seals() != c.seals):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What clients and workers write is sealed, messages of failures too, and is read
// where people look: errors, memos, what a batch waits for.
func TestWhatIsWrittenIsSealed(t *testing.T) {
	a, _, _ := newApp(t, map[string]string{historyKeyEnv: base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))})
	if err := a.loadHistoryKeys(); err != nil {
		t.Fatal(err)
	}
	var o client.Options
	a.encrypt(&o)
	failure := o.FailureConverter.ErrorToFailure(temporal.NewApplicationError("teacher k3 at https://inside.example: 401", "AuthFailed"))
	if failure.GetMessage() != "Encoded failure" || strings.Contains(failure.String(), "inside.example") {
		t.Errorf("a failure shows %v", failure)
	}
	if err := o.FailureConverter.FailureToError(failure); !strings.Contains(err.Error(), "inside.example") {
		t.Errorf("the failure is read as %v", err)
	}
	waiting := &failurepb.Failure{Message: "Encoded failure", EncodedAttributes: failure.GetEncodedAttributes()}
	converter.DecodeCommonFailureAttributes(a.payloads(), waiting)
	if !strings.Contains(waiting.Message, "inside.example") {
		t.Errorf("a batch waits for %q", waiting.Message)
	}

	memo, err := o.DataConverter.ToPayload("teacher.k3.0123")
	if err != nil {
		t.Fatal(err)
	}
	of := &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: "build/maths/1"},
		Memo:      &commonpb.Memo{Fields: map[string]*commonpb.Payload{wire.MemoQueue: memo}},
	}
	w := &workers{session: &session{app: a}}
	var queue string
	if !w.memo(of, wire.MemoQueue, &queue) || queue != "teacher.k3.0123" || w.memo(of, wire.MemoQueues, &queue) {
		t.Errorf("the memo is read as %q", queue)
	}

	// Without the key one line says which, and of what.
	b, _, talk := newApp(t, nil)
	if err := b.loadHistoryKeys(); err != nil {
		t.Fatal(err)
	}
	w = &workers{session: &session{app: b}}
	for range 3 {
		if w.memo(of, wire.MemoQueue, &queue) {
			t.Error("a sealed memo was read without its key")
		}
	}
	if said := talk.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "build/maths/1: ") || !strings.Contains(said, historyKeyEnv) {
		t.Errorf("a worker without the key says %q", said)
	}
}
