package catalog_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// Other programs read what gc prints. Where this fails, a field was changed:
// only optional ones may be added.
func TestGCReportIsTheContract(t *testing.T) {
	const module = "github.com/stillhouse-data/stillhouse/datasets/catalog"
	r := jsonschema.Reflector{AllowAdditionalProperties: true}
	if err := r.AddGoComments(module, "./", jsonschema.WithFullComment()); err != nil {
		t.Fatal(err)
	}
	for key := range r.CommentMap { // the paths are of this folder
		if after, ok := strings.CutPrefix(key, module+"/."); ok {
			r.CommentMap[module+after] = r.CommentMap[key]
		}
	}
	schema := r.Reflect(&catalog.GCReport{})
	schema.ID = "https://github.com/stillhouse-data/stillhouse/docs/contract/gc-result.schema.json"
	schema.Title = "Result of gc"
	got, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join(testdata.Repository(t), "docs", "contract", "gc-result.schema.json")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("docs/contract/gc-result.schema.json is not what the code declares; if the change is meant, run this test with -update:\n%s", d)
	}
}
