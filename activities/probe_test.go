package activities

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/secrets"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

func TestProbeSchemaIsInTheContract(t *testing.T) {
	got, err := ProbeSchema()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(testdata.Repository(t), "docs", "contract", "probe-result.schema.json")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the code declares; run make contract and read the difference", path)
	}
}

func TestProbeOfARecipe(t *testing.T) {
	good := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return teacherstest.Reply{Content: "42"} })
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(bad.Close)
	r := parsed(t, `
name: d
prompts: [{path: p.jsonl, efforts: [high]}]
teachers:
  - {id: good, base_url: "`+good.URL+`", model: m, api_key_env: K, price: {input: 3, output: 15}, params_by: {effort: {high: {reasoning_effort: high}}}}
  - {id: bad, base_url: "`+bad.URL+`", model: m}
  - {id: old, api: recorded, path: x.jsonl, fields: {content: a}}
`)
	ring := secrets.New(secrets.Options{Lookup: func(string) (string, bool) { return "key-0123456789abcdef", true }})
	p, err := NewProbe(r, nil, ring)
	if err != nil {
		t.Fatal(err)
	}
	most, unpriced := p.MostUSD()
	if p.Teachers() != 2 || most <= 0 || most > 0.1 || unpriced != 1 {
		t.Errorf("%d teachers, at most $%g, %d unpriced", p.Teachers(), most, unpriced)
	}
	var done []string
	report := p.Run(t.Context(), func(r *teachers.ProbeResult) { done = append(done, r.Teacher) })
	if len(done) != 2 || len(report.Teachers) != 2 || report.Teachers[0].Teacher != "good" || report.Teachers[1].Teacher != "bad" {
		t.Fatalf("%v, %+v", done, report)
	}
	if report.Teachers[0].State != teachers.ProbeOK || report.Teachers[1].State != teachers.ProbeUnusable || report.MostUSD != most || report.CostUSD <= 0 || report.CostUSD > most {
		t.Errorf("%+v %+v", report.Teachers[0], report.Teachers[1])
	}
	one, err := NewProbe(r, []string{"good"}, ring)
	if err != nil || one.Teachers() != 1 {
		t.Errorf("%v: %d teachers", err, one.Teachers())
	}
	if known := strings.Join(ring.Known(), ""); known != "key-0123456789abcdef" {
		t.Errorf("the key was read from %q", known)
	}
}
