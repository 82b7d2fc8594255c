package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

func TestSummariesTellOfProbes(t *testing.T) {
	var b bytes.Buffer
	summarize(&b, &activities.BuildResult{Dataset: "d", Drift: map[string]activities.DriftResult{
		"b": {Probe: 3, Asked: 50, Answered: 49, Changed: true, Why: "48 answers are of model \x1b[2Jq, the first ones of m"},
		"a": {Probe: 1, Asked: 50, Answered: 50},
	}}, "")
	text := b.String()
	if !strings.Contains(text, "probe 1 of teacher a: 50 of 50 prompts answered once more; no change shown\n  probe 3 of teacher b: 49 of 50 prompts answered once more; IT CHANGED: 48 answers") || strings.ContainsRune(text, 0x1b) {
		t.Errorf("%q", text)
	}
}

// show tells of the newest probe, once.
func TestShowTellsOfTheNewestProbe(t *testing.T) {
	c := catalog.Open(mem.New("t"))
	shown := report.CompareDrift("k3", 2, time.Date(2026, 12, 7, 0, 0, 0, 0, time.UTC), nil)
	text, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	key := catalog.TeacherKey{Endpoint: "e", Model: "m"}
	if err := c.ChangeEpochs(context.Background(), "d", func(e *catalog.Epochs) bool {
		one := e.Add(key, "k3")
		one.Probes, one.Drift = 2, text
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		report *report.Report
		told   bool
	}{
		{"without a comparison", nil, true},
		{"an older probe", &report.Report{Drift: []report.Drift{{Teacher: "k3", Probe: 1}}}, true},
		{"this probe", &report.Report{Drift: []report.Drift{{Teacher: "k3", Probe: 2}}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b bytes.Buffer
			d := description{version: catalog.Version{Dataset: "d"}, report: tc.report, out: &b, manifest: &catalog.Manifest{
				Teachers: []catalog.ManifestTeacher{{ID: "k3", Model: "m", Identity: "e"}, {ID: "other", Model: "o", Identity: "e"}},
			}}
			if err := d.drift(context.Background(), c); err != nil {
				t.Fatal(err)
			}
			if told := strings.Contains(b.String(), "probe 2 of 2026-12-07"); told != tc.told {
				t.Errorf("%q", b.String())
			}
		})
	}
}

func TestRefreshIsChecked(t *testing.T) {
	r, err := recipe.Parse("r.yaml", []byte("name: d\nprompts: [{path: p.jsonl}]\nteachers: [{id: k3, model: m, base_url: http://localhost/v1}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := refreshOf(r, []string{"k3"}); got != "k3" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if _, err := refreshOf(r, []string{"k4"}); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "no such teacher; it has k3") {
		t.Errorf("%v", err)
	}
	running := &run{buildID: "b1"}
	if err := sameRefresh(running, ""); err != nil {
		t.Error(err)
	}
	if err := sameRefresh(running, "k3"); err == nil || !strings.Contains(err.Error(), "stillhouse cancel b1") {
		t.Errorf("%v", err)
	}
	running.Refresh = "a/k3"
	if err := sameRefresh(running, "k3"); err != nil {
		t.Error(err)
	}
	if days(168*time.Hour) != "7d" || days(36*time.Hour) != "36h0m0s" {
		t.Error(days(168*time.Hour), days(36*time.Hour))
	}
}
