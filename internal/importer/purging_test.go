package importer_test

import (
	"errors"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/importer"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// An import that a purge turns away ends, so that it holds up no later purge.
func TestImportBesideAPurge(t *testing.T) {
	dir := write(t, map[string]string{"x.jsonl": `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}` + "\n"})
	p, err := prepare(t, dir, importer.Choice{}, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := catalog.Open(mem.New("store"))
	purge := catalog.Purge{ID: "p1", Dataset: "old"}
	if err := c.BeginPurge(t.Context(), purge, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Publish(t.Context(), c); !errors.Is(err, catalog.ErrPurging) {
		t.Fatalf("beside a purge: %v", err)
	}
	if err := c.EndPurge(t.Context(), &purge); err != nil {
		t.Fatal(err)
	}
	purge.ID = "p2"
	if err := c.BeginPurge(t.Context(), purge, []byte("{}")); err != nil {
		t.Errorf("a purge after an import that was turned away: %v", err)
	}
}
