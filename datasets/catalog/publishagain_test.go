package catalog_test

import (
	"sync/atomic"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// A store that refuses the commit again and again: no try is longer than those
// before it, although each leaves a manifest, or a store that fails every so many
// requests would never let one through.
func TestTriesToPublishDoNotGetLonger(t *testing.T) {
	b, at := mem.New("b"), new(clock)
	publish(t, at.open(b), "maths", "b1")
	publish(t, at.open(b), "maths", "b2")
	m := draft(t, at.open(b), "maths", "b3")
	var n atomic.Int64
	refuse := true
	b.Fault = func(op, key string) error {
		n.Add(1)
		if refuse && op == mem.OpPut && key == "datasets/maths/versions/00000000000000000003.json" {
			return errCrash
		}
		return nil
	}
	var longest, last int64
	for try := range 40 {
		n.Store(0)
		at.pass(1)
		if _, err := at.open(b).Publish(t.Context(), m); err == nil {
			t.Fatal("it was published")
		}
		last = n.Load()
		if try < 5 {
			longest = max(longest, last)
		}
	}
	if last > longest {
		t.Errorf("the last try made %d requests, the first ones at most %d", last, longest)
	}
	refuse = false
	if v, err := catalog.Open(b).Publish(t.Context(), m); err != nil || v.Number != 3 {
		t.Errorf("version %d, %v", v.Number, err)
	}
}
