// Package lineage tells other systems what was trained on what: OpenLineage run
// events to a server or a file, and the dataset as an input of an MLflow run.
//
// It tells names, numbers and digests, never a row. Who does not listen changes
// nothing of a training.
package lineage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
)

const (
	producer   = "https://github.com/stillhouse-data/stillhouse"
	schemaURL  = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/definitions/RunEvent"
	facetURL   = "https://openlineage.io/spec/facets/1-0-1/"
	sendWithin = 20 * time.Second
	maxAnswer  = 64 << 10
)

// Types of run events.
const (
	Start    = "START"
	Complete = "COMPLETE"
	Fail     = "FAIL"
	Abort    = "ABORT"
)

// Options say who is told. What is empty is not told.
type Options struct {
	// OpenLineage is the address of a server, whose /api/v1/lineage takes events,
	// or the absolute path of a file, to which a line is added for each.
	OpenLineage string
	// OpenLineageKey is sent as a bearer token.
	OpenLineageKey string
	// MLflow is the tracking server; MLflowToken is sent as a bearer token.
	MLflow      string
	MLflowToken string
	// Store names the store, such as s3://bucket/prefix.
	Store string
}

// A Teller tells. The zero value tells nobody.
type Teller struct {
	opt  Options
	http *http.Client
}

// New checks whom to tell. An http address may be loopback only where a token
// goes with it.
func New(o Options) (*Teller, error) {
	for _, at := range []struct{ name, address, token string }{{"OpenLineage", o.OpenLineage, o.OpenLineageKey}, {"MLflow", o.MLflow, o.MLflowToken}} {
		if at.address == "" || at.name == "OpenLineage" && filepath.IsAbs(at.address) {
			continue
		}
		u, err := url.Parse(at.address)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			return nil, fmt.Errorf("lineage: the address of %s is not http://… or https://…", at.name) // it may hold a password
		case u.User != nil:
			return nil, fmt.Errorf("lineage: the address of %s holds a password; give a token by its variable", at.name)
		case u.Scheme == "http" && at.token != "" && u.Hostname() != "localhost" && !strings.HasPrefix(u.Hostname(), "127.") && u.Hostname() != "::1":
			return nil, fmt.Errorf("lineage: the token of %s would go over %s in the clear; use https", at.name, u.Host)
		}
	}
	return &Teller{opt: o, http: &http.Client{
		Timeout:       sendWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Started tells that a launch was submitted.
func (t *Teller) Started(ctx context.Context, b *training.Bundle, at time.Time) error {
	return t.openLineage(ctx, t.event(b, Start, at, nil, ""))
}

// Ended tells how a launch ended: state is that of its record, and result what
// it said of itself, if it said anything.
func (t *Teller) Ended(ctx context.Context, b *training.Bundle, state string, at time.Time, result *training.Result, reason string) error {
	kind := Fail
	switch state {
	case training.ResultSucceeded:
		kind = Complete
	case training.ResultCancelled:
		kind = Abort
	}
	return errors.Join(t.openLineage(ctx, t.event(b, kind, at, result, reason)), t.mlflow(ctx, b, result))
}

type object = map[string]any

// RunID is the UUID of a launch: always the same one.
func RunID(launchID string) string {
	sum := sha256.Sum256([]byte("stillhouse launch " + launchID))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // version 8, of our own making
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func facet(name string, of object) object {
	of["_producer"], of["_schemaURL"] = producer, facetURL+name+".json"
	return of
}

func (t *Teller) event(b *training.Bundle, kind string, at time.Time, r *training.Result, reason string) object {
	namespace := t.opt.Store
	if namespace == "" {
		namespace = "stillhouse"
	}
	facets := object{}
	if kind == Fail || kind == Abort {
		facets["errorMessage"] = facet("ErrorMessageRunFacet", object{"message": reason, "programmingLanguage": "sh"})
	}
	outputs := []object{}
	if r != nil && kind == Complete && r.Checkpoint != "" {
		outputs = append(outputs, object{"namespace": namespace, "name": r.Checkpoint})
	}
	return object{
		"eventType": kind, "eventTime": at.UTC().Format(time.RFC3339Nano), "producer": producer, "schemaURL": schemaURL,
		"run": object{"runId": RunID(b.LaunchID), "facets": facets},
		"job": object{"namespace": "stillhouse", "name": "train/" + b.Dataset.Name + "/" + b.Trainer.Name + "/" + b.Trainer.Method},
		"inputs": []object{{
			"namespace": namespace, "name": "datasets/" + b.Dataset.Name,
			"facets":      object{"version": facet("DatasetVersionDatasetFacet", object{"datasetVersion": fmt.Sprint(b.Dataset.Version)})},
			"inputFacets": object{"dataQualityMetrics": facet("DataQualityMetricsInputDatasetFacet", object{"rowCount": b.View.Rows["train"], "columnMetrics": object{}})},
		}},
		"outputs": outputs,
	}
}

func (t *Teller) openLineage(ctx context.Context, event object) error {
	at := t.opt.OpenLineage
	if at == "" {
		return nil
	}
	text, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("lineage: %w", err)
	}
	if filepath.IsAbs(at) {
		f, err := os.OpenFile(at, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("lineage: %w", err)
		}
		_, err = f.Write(append(text, '\n'))
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("lineage: %w", err)
		}
		return nil
	}
	return t.post(ctx, strings.TrimRight(at, "/")+"/api/v1/lineage", t.opt.OpenLineageKey, text)
}

// runOf finds the id of an MLflow run in the address of its page.
var runOf = regexp.MustCompile(`/runs/([0-9a-f]{32})(?:$|[/?#])`)

// mlflow makes the dataset an input of the run that the training reported.
func (t *Teller) mlflow(ctx context.Context, b *training.Bundle, r *training.Result) error {
	if t.opt.MLflow == "" || r == nil {
		return nil
	}
	run := runOf.FindStringSubmatch(r.RunURL)
	if run == nil {
		return nil // it reported elsewhere, or nowhere
	}
	source, err := json.Marshal(object{"uri": strings.TrimRight(t.opt.Store, "/") + "/" + b.Dataset.Manifest})
	if err != nil {
		return fmt.Errorf("lineage: %w", err)
	}
	profile, err := json.Marshal(object{"num_rows": b.View.Rows["train"], "view": b.View.Name, "version": b.Dataset.Version})
	if err != nil {
		return fmt.Errorf("lineage: %w", err)
	}
	text, err := json.Marshal(object{"run_id": run[1], "datasets": []object{{
		"tags": []object{{"key": "mlflow.data.context", "value": "training"}},
		"dataset": object{
			"name": b.Dataset.Name, "digest": b.Dataset.ManifestDigest[:36], "source_type": "s3", // MLflow keeps 36 characters
			"source": string(source), "profile": string(profile),
		},
	}}})
	if err != nil {
		return fmt.Errorf("lineage: %w", err)
	}
	return t.post(ctx, strings.TrimRight(t.opt.MLflow, "/")+"/api/2.0/mlflow/runs/log-inputs", t.opt.MLflowToken, text)
}

func (t *Teller) post(ctx context.Context, at, token string, text []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("lineage: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := t.http.Do(req)
	if err != nil {
		return fmt.Errorf("lineage: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("lineage: POST %s: HTTP status %d", at, resp.StatusCode)
	}
	return nil
}
