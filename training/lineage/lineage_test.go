package lineage

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
)

func bundle() *training.Bundle {
	return &training.Bundle{
		LaunchID: strings.Repeat("a", 64),
		Dataset:  training.Dataset{Name: "maths", Version: 3, Manifest: "datasets/maths/manifests/b.json", ManifestDigest: strings.Repeat("c", 64)},
		View:     training.View{Name: "messages", Rows: map[string]int64{"train": 40}},
		Trainer:  training.Trainer{Name: "trl", Method: "sft"},
	}
}

var when = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

type told struct {
	path, token string
	body        map[string]any
}

// listen is a server that notes what it is told.
func listen(t *testing.T, status int) (string, *[]told) {
	var all []told
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		one := told{path: r.URL.Path, token: r.Header.Get("Authorization")}
		if err := json.Unmarshal(text, &one.body); err != nil {
			t.Error(err)
		}
		all = append(all, one)
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s.URL, &all
}

func TestEvents(t *testing.T) {
	at, all := listen(t, http.StatusCreated)
	teller, err := New(Options{OpenLineage: at, OpenLineageKey: "key", Store: "s3://b/p"})
	if err != nil {
		t.Fatal(err)
	}
	if err := teller.Started(t.Context(), bundle(), when); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"succeeded", "failed", "cancelled", "unknown"} {
		if err := teller.Ended(t.Context(), bundle(), state, when, &training.Result{Checkpoint: "/out"}, "why"); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{Start, Complete, Fail, Abort, Fail}
	if len(*all) != len(want) {
		t.Fatalf("%d events", len(*all))
	}
	for i, one := range *all {
		run := one.body["run"].(map[string]any)
		input := one.body["inputs"].([]any)[0].(map[string]any)
		if one.path != "/api/v1/lineage" || one.token != "Bearer key" || one.body["eventType"] != want[i] || run["runId"] != RunID(bundle().LaunchID) || input["name"] != "datasets/maths" || input["namespace"] != "s3://b/p" {
			t.Errorf("event %d: %+v", i, one)
		}
		if outputs := one.body["outputs"].([]any); (len(outputs) == 1) != (want[i] == Complete) {
			t.Errorf("event %d has the outputs %v", i, outputs)
		}
		if _, failed := run["facets"].(map[string]any)["errorMessage"]; failed != (want[i] == Fail || want[i] == Abort) {
			t.Errorf("event %d: %v", i, run)
		}
	}
	if id := RunID(bundle().LaunchID); len(id) != 36 || id[14] != '8' || id == RunID(strings.Repeat("b", 64)) {
		t.Errorf("run id %s", id)
	}
}

func TestEventsToAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	teller, err := New(Options{OpenLineage: path})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := teller.Started(t.Context(), bundle(), when); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), "\n") != 2 || !json.Valid([]byte(strings.Split(string(text), "\n")[1])) {
		t.Errorf("%q %v", text, err)
	}
}

func TestMLflow(t *testing.T) {
	at, all := listen(t, http.StatusOK)
	teller, err := New(Options{MLflow: at + "/", MLflowToken: "tok", Store: "s3://b/p"})
	if err != nil {
		t.Fatal(err)
	}
	run := strings.Repeat("0a", 16)
	for _, r := range []*training.Result{nil, {}, {RunURL: "https://wandb.ai/x/runs/y"}, {RunURL: at + "/#/experiments/1/runs/" + run}} {
		if err := teller.Ended(t.Context(), bundle(), "succeeded", when, r, ""); err != nil {
			t.Fatal(err)
		}
	}
	if len(*all) != 1 {
		t.Fatalf("told %+v", *all)
	}
	one := (*all)[0]
	input := one.body["datasets"].([]any)[0].(map[string]any)["dataset"].(map[string]any)
	if one.path != "/api/2.0/mlflow/runs/log-inputs" || one.token != "Bearer tok" || one.body["run_id"] != run || input["name"] != "maths" || input["source"] != `{"uri":"s3://b/p/datasets/maths/manifests/b.json"}` {
		t.Errorf("%+v", one)
	}
}

func TestWhoRefusesIsAnErrorWithoutTheToken(t *testing.T) {
	at, _ := listen(t, http.StatusForbidden)
	teller, err := New(Options{OpenLineage: at, OpenLineageKey: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	if err := teller.Started(t.Context(), bundle(), when); err == nil || !strings.Contains(err.Error(), "403") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v", err)
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	for _, o := range []Options{
		{OpenLineage: "relative.jsonl"}, {OpenLineage: "https://user:pass@host"}, {MLflow: "/a/file"},
		{MLflow: "http://mlflow.example.com", MLflowToken: "t"}, {OpenLineage: "ftp://host"},
	} {
		if _, err := New(o); err == nil || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
