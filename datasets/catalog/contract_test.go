package catalog_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

var update = flag.Bool("update", false, "write docs/contract/manifest.schema.json anew from the declarations")

func contractPath(t *testing.T) string {
	return filepath.Join(testdata.Repository(t), "docs", "contract", "manifest.schema.json")
}

// Other programs read manifests. Where this fails, a field was changed: only
// optional ones may be added.
func TestManifestIsTheContract(t *testing.T) {
	r := jsonschema.Reflector{AllowAdditionalProperties: true}
	if err := r.AddGoComments("github.com/stillhouse-data/stillhouse/datasets/catalog", "./", jsonschema.WithFullComment()); err != nil {
		t.Fatal(err)
	}
	for key := range r.CommentMap { // the paths are of this folder
		if after, ok := strings.CutPrefix(key, "github.com/stillhouse-data/stillhouse/datasets/catalog/."); ok {
			r.CommentMap["github.com/stillhouse-data/stillhouse/datasets/catalog"+after] = r.CommentMap[key]
		}
	}
	schema := r.Reflect(&catalog.Manifest{})
	schema.ID = "https://github.com/stillhouse-data/stillhouse/docs/contract/manifest.schema.json"
	schema.Title = "Manifest of a version"
	got, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(contractPath(t), got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(contractPath(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/contract/manifest.schema.json is not what the code declares; if the change is meant, run this test with -update:\n%s", diff)
	}
}

// What Publish writes passes the schema.
func TestPublishedManifestsPassTheirSchema(t *testing.T) {
	f, err := os.Open(contractPath(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc, err := validator.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	compiler := validator.NewCompiler()
	if err := compiler.AddResource("manifest.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("manifest.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	b := mem.New("b")
	c := catalog.Open(b)
	m := draft(t, c, "maths", "b1")
	m.Teachers = []catalog.ManifestTeacher{{ID: "k3", Params: json.RawMessage(`{"temperature":1}`), Terms: catalog.Terms{Training: catalog.TrainingAllowed}}}
	m.Sources = []catalog.Source{{Path: "a.jsonl"}}
	v, err := c.Publish(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	instance, err := validator.UnmarshalJSON(strings.NewReader(string(get(t, b, v.Manifest))))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(instance); err != nil {
		t.Error(err)
	}
	delete(instance.(map[string]any), "files")
	if schema.Validate(instance) == nil {
		t.Error("a manifest without files passes the schema")
	}
}
