package activities

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

var update = flag.Bool("update", false, "write golden files anew")

func TestResultSchemasAreInTheContract(t *testing.T) {
	for name, make := range map[string]func() ([]byte, error){"build-result": ResultSchema, "reparse-result": ReparseSchema, "purge-result": PurgeSchema, "notice": NoticeSchema} {
		got, err := make()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(testdata.Repository(t), "docs", "contract", name+".schema.json")
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
}
