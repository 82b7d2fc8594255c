//go:build integration

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore/dir"
)

// catalog opens the plain files of the embedded store.
func (h *house) catalog() *catalog.Catalog {
	h.t.Helper()
	b, err := dir.Open(filepath.Join(h.dir, "store", "stillhouse"), "the store of "+h.dir)
	if err != nil {
		h.t.Fatal(err)
	}
	return catalog.Open(b)
}

// manifest reads the manifest of a version.
func (h *house) manifest(ref string) *catalog.Manifest {
	h.t.Helper()
	_, m, err := h.catalog().Resolve(context.Background(), ref)
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

// versions counts the versions of a dataset.
func (h *house) versions(name string) int {
	h.t.Helper()
	v, err := h.catalog().Versions(context.Background(), name)
	if err != nil {
		h.t.Fatal(err)
	}
	return len(v)
}

// rows reads a table of a version.
func rows[T any](h *house, ref, table string) []T {
	h.t.Helper()
	c := h.catalog()
	ctx := context.Background()
	_, m, err := c.Resolve(ctx, ref)
	if err != nil {
		h.t.Fatal(err)
	}
	var out []T
	for row, err := range catalog.ReadTable[T](ctx, c, m, table) {
		if err != nil {
			h.t.Fatal(err)
		}
		out = append(out, row)
	}
	return out
}

// candidates reads every answer of a version.
func (h *house) candidates(ref string) []datasets.Candidate {
	h.t.Helper()
	return rows[datasets.Candidate](h, ref, datasets.TableCandidates)
}

// digests are the SHA-256 of the files of those tables that depend on nothing
// but recipe, answers and program, by table and place.
func digests(m *catalog.Manifest) map[string]string {
	out := map[string]string{}
	for _, f := range m.Files {
		switch f.Table {
		case datasets.TableTrain, datasets.TableTest, datasets.TablePrompts:
			out[f.Table+"/"+f.Split+" "+filepath.Base(f.Key)[:len(filepath.Base(f.Key))-len(f.SHA256+".parquet")]] = f.SHA256
		}
	}
	return out
}

// write puts a file in a folder of the test and gives its path.
func write(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
