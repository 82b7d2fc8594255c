//go:build !noembed

package local

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

func TestTemporalRefusesWhoHasNoToken(t *testing.T) {
	s := start(t, openHome(t))
	for name, token := range map[string]string{"no token": "", "another token": strings.Repeat("0", 64), "a part of it": s.Endpoints.Token[:63]} {
		t.Run(name, func(t *testing.T) {
			c, err := client.Dial(clientOptions(&s.Endpoints, token))
			if err == nil {
				c.Close()
			}
			var denied *serviceerror.PermissionDenied
			if !errors.As(err, &denied) {
				t.Fatalf("got %v, want a refusal", err)
			}
			if !strings.Contains(denied.Reason, "stillhouse env") {
				t.Errorf("the reason %q doesn't say what to do", denied.Reason)
			}
		})
	}
	dial(t, &s.Endpoints)
}

// The server's parts talk to each other over loopback too; none of those ports
// may be a way around the token.
func TestTemporalHasNoOtherDoor(t *testing.T) {
	h := openHome(t)
	s := start(t, h)
	cfg := s.temporal.config
	if len(cfg.Services) != 5 {
		t.Fatalf("the server has %d parts", len(cfg.Services))
	}
	for name, service := range cfg.Services {
		address := net.JoinHostPort(loopback, strconv.Itoa(service.RPC.GRPCPort))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		conn, err := dialFrontend(address, "wrong")
		if err != nil {
			t.Fatal(err)
		}
		_, err = workflowservice.NewWorkflowServiceClient(conn).ListNamespaces(ctx, &workflowservice.ListNamespacesRequest{})
		if err == nil {
			t.Errorf("%s answers without the token", name)
		}
		conn.Close()
		cancel()
	}
}

func TestScheduleFires(t *testing.T) {
	s := start(t, openHome(t))
	c := dial(t, &s.Endpoints)
	w := worker.New(c, "pipeline", worker.Options{})
	fired := make(chan string, 100)
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		fired <- workflow.GetInfo(ctx).WorkflowExecution.ID
		return nil
	}, workflow.RegisterOptions{Name: "tick"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	handle, err := c.ScheduleClient().Create(t.Context(), client.ScheduleOptions{
		ID:     "every-second",
		Spec:   client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: time.Second}}},
		Action: &client.ScheduleWorkflowAction{ID: "tick", Workflow: "tick", TaskQueue: "pipeline"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case id := <-fired:
			if !strings.HasPrefix(id, "tick-") {
				t.Errorf("ran as %q", id)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("the schedule did not fire")
		}
	}
	if err := handle.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestNamespaceKeepsAMonthAndFindsByOurAttributes(t *testing.T) {
	s := start(t, openHome(t))
	c := dial(t, &s.Endpoints)
	got, err := c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: s.Endpoints.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	if ttl := got.Config.WorkflowExecutionRetentionTtl.AsDuration(); ttl != 30*24*time.Hour {
		t.Errorf("retention is %v", ttl)
	}
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: "build/maths/1", TaskQueue: "nobody",
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword("Dataset").ValueSet("maths"),
			temporal.NewSearchAttributeKeyKeyword("Teacher").ValueSet("k3"),
			temporal.NewSearchAttributeKeyKeyword("Phase").ValueSet("ask"),
		),
	}, "Build")
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		list, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Query: `Dataset = "maths" AND Teacher = "k3" AND Phase = "ask"`,
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Executions) == 1 && list.Executions[0].Execution.WorkflowId == run.GetID() {
			if status := list.Executions[0].Status; status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
				t.Errorf("status is %v", status)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the workflow was not found by its attributes")
		}
	}
}

func TestDatabaseOfAnotherServerIsRefused(t *testing.T) {
	h := openHome(t)
	if _, err := prepareDatabase(h); err != nil {
		t.Fatal(err)
	}
	again, err := prepareDatabase(h)
	if err != nil || again.ClusterID == "" {
		t.Fatalf("the database that this server made: %+v, %v", again, err)
	}
	again.Schema = "0.10"
	text, err := json.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stampPath(h), text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Start(t.Context(), Options{Home: h, NoUI: true})
	var schema *ErrSchema
	if !errors.As(err, &schema) || schema.Have != "0.10/0.1" {
		t.Fatalf("got %v, want a refusal of schema 0.10", err)
	}
}

func TestLostDatabaseIsNotReplacedByAnEmptyOne(t *testing.T) {
	h := openHome(t)
	if _, err := prepareDatabase(h); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(databasePath(h)); err != nil {
		t.Fatal(err)
	}
	if _, err := prepareDatabase(h); err == nil || !strings.Contains(err.Error(), "backup") {
		t.Fatalf("got %v, want a refusal that names the backup", err)
	}
}

// A first start that was cut off before the stamp begins again.
func TestHalfMadeDatabaseIsMadeAgain(t *testing.T) {
	h := openHome(t)
	if err := h.WriteFile(databasePath(h), []byte("SQLite format 3\x00 and nothing more")); err != nil {
		t.Fatal(err)
	}
	start(t, h)
}

// A newer program looks workflows up by more attributes than the one that made
// the database.
func TestNewSearchAttributesReachAnOldHome(t *testing.T) {
	h := openHome(t)
	all := searchAttributes
	searchAttributes = map[string]enumspb.IndexedValueType{"Dataset": all["Dataset"]}
	_, err := prepareDatabase(h)
	searchAttributes = all
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, h)
	c := dial(t, &s.Endpoints)
	_, err = c.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Query: `Dataset = "a" AND Phase = "ask" AND Teacher = "b"`})
	if err != nil {
		t.Fatal(err)
	}
	mark, err := prepareDatabase(h)
	if err != nil || len(mark.missingAttributes()) != 0 {
		t.Errorf("the stamp still misses %v, %v", mark.missingAttributes(), err)
	}
}
