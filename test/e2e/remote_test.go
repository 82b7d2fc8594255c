//go:build integration

package e2e

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"
)

// bearer sends a token with every call.
type bearer string

func (b bearer) GetHeaders(context.Context) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// newNamespace registers a bare namespace on a running server, as on a cluster
// that has never heard of Stillhouse.
func newNamespace(t testing.TB, vars map[string]string, name string) {
	t.Helper()
	ctx := context.Background()
	c, err := client.NewNamespaceClient(client.Options{HostPort: vars["TEMPORAL_ADDRESS"], HeadersProvider: bearer(vars["STILLHOUSE_TEMPORAL_TOKEN"])})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Register(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the namespace is known", func() bool {
		_, err := c.Describe(ctx, name)
		return err == nil
	})
}

// TestRemote runs a build on a Temporal server and a store that are not its
// own: one machine submits, another works, a third watches.
func TestRemote(t *testing.T) {
	s := startSim(t, "-models", "a", "-ttft", "50ms", "-chunk", "400")
	cluster := newHouse(t)
	cluster.serve()
	_, vars := cluster.store()
	newNamespace(t, vars, "team")
	more := append(awsVars(vars),
		"STILLHOUSE_TEMPORAL="+vars["TEMPORAL_ADDRESS"], "STILLHOUSE_STORE=s3://"+vars["STILLHOUSE_BUCKET"]+"/team",
		"TEMPORAL_NAMESPACE=team", "TEMPORAL_GRPC_META_AUTHORIZATION=Bearer "+vars["STILLHOUSE_TEMPORAL_TOKEN"])
	works, submits, watches := newHouse(t), newHouse(t), newHouse(t)
	works.more, submits.more, watches.more = more, more, more

	m := made{dir: t.TempDir(), name: "remote", teachers: teacher(s, "a", ", identity: the-sim")}
	source := filepath.Join(m.dir, "prompts.jsonl")
	prompts(t, source, map[string]int{"math": 100})
	recipe := m.write(t)

	waits := submits.start("build", recipe, "--json", "--yes")
	waits.said("no worker answers")
	worker := works.start("worker")
	worker.said("Ctrl-C drains and ends")
	if code := waits.wait(commandLimit); code != 0 {
		t.Fatalf("the first build ended with %d: %s", code, waits.stderr())
	}
	if st := s.total(); st.Requests != 100 || st.PaidTwice != 0 {
		t.Errorf("%d requests, %d paid twice; want 100 and none", st.Requests, st.PaidTwice)
	}
	r := waits.result()
	if r.Version != 1 || r.Unchanged {
		t.Errorf("the first build: %+v; want version 1", r)
	}
	if r := asked(t, submits, s, recipe, nil); r.Version != 1 || !r.Unchanged {
		t.Errorf("the second build: %+v; want version 1 unchanged", r)
	}

	// Ctrl-C leaves the build to the cluster.
	prompts(t, source, map[string]int{"math": 700})
	s.reset()
	p := submits.start("build", recipe, "--yes")
	p.said("asks ")
	eventually(t, time.Minute, "the first answers", func() bool { return s.total().Completed > 8 })
	p.interrupt()
	pressed := time.Now()
	if code := p.wait(drain); code != 130 {
		t.Errorf("Ctrl-C on a build elsewhere: exit code %d, want 130", code)
	}
	left := time.Since(pressed)
	if !strings.Contains(p.stderr(), "it goes on, and spends, on its own") {
		t.Errorf("it does not say that the build goes on: %s", tail(p.stderr(), 500))
	}
	w := watches.start("watch", "--json")
	if code := w.wait(commandLimit); code != 0 {
		t.Fatalf("watch ended with %d: %s", code, w.stderr())
	}
	if r := w.result(); r.Version != 2 || r.AnswersNew != 600 || r.AnswersReused != 100 {
		t.Errorf("the build that went on: %+v; want version 2 with 600 new answers", r)
	}
	if st := s.total(); st.Requests != 600 || st.PaidTwice != 0 {
		t.Errorf("%d requests, %d paid twice; want 600 and none", st.Requests, st.PaidTwice)
	}
	watches.run(0, "verify", "remote")

	worker.interrupt()
	if code := worker.wait(drain); code != 0 && code != 130 {
		t.Errorf("the worker ended with %d", code)
	}
	t.Logf("submitted, worked and watched from three homes; Ctrl-C let go after %v", left.Round(time.Millisecond))
}
