package catalog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func TestWhole(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	v := publish(t, c, "maths", "b1")
	_, m, err := c.Resolve(t.Context(), v.Ref())
	if err != nil {
		t.Fatal(err)
	}
	whole := func() bool {
		t.Helper()
		ok, err := c.Whole(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !whole() {
		t.Error("what was just published is not whole")
	}
	if _, err := objstore.PutBytes(t.Context(), b, m.Files[1].Key, []byte("short"), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if whole() {
		t.Error("a file of another size passes")
	}
	if err := b.Delete(t.Context(), m.Files[1].Key); err != nil {
		t.Fatal(err)
	}
	if whole() {
		t.Error("a missing file passes")
	}
}

// What is not there is answered with what is.
func TestUnknownVersionsAndDatasets(t *testing.T) {
	c := catalog.Open(mem.New("b"))
	publish(t, c, "maths", "b1")
	publish(t, c, "maths", "b2")
	for ref, want := range map[string]string{
		"maths@9":   "the newest is maths@2; stillhouse list maths shows its versions and tags",
		"maths@new": "the newest is maths@2; stillhouse list maths",
		"moths":     "datasets there: maths",
	} {
		if _, _, err := c.Resolve(t.Context(), ref); !errors.Is(err, catalog.ErrUnknown) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", ref, err, want)
		}
	}
	if _, err := c.GC(t.Context(), catalog.GCOptions{Datasets: []string{"moths"}}); !errors.Is(err, catalog.ErrUnknown) {
		t.Errorf("gc of a dataset that is not there: %v", err)
	}
}
