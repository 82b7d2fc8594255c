package parquetio_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

var update = flag.Bool("update", false, "write docs/contract/tables.json anew from the declarations")

// Other programs rely on the columns. Where this fails, a column was changed:
// only nullable ones may be added.
func TestTablesAreTheContract(t *testing.T) {
	path := filepath.Join(testdata.Repository(t), "docs", "contract", "tables.json")
	got, err := json.MarshalIndent(map[string]any{"schema_version": parquetio.SchemaVersion, "tables": parquetio.Tables()}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/contract/tables.json is not what the code declares; if the change is meant, run this test with -update:\n%s", diff)
	}
}
