package activities

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// Two run one purge at once, as where somebody takes a long one for dead. The one
// that ends lets builds begin; the other one must leave alone what they write.
func TestPurgeThatAnotherRunHasEnded(t *testing.T) {
	for _, folder := range []string{"datasets/a/work/", "datasets/a/data/"} {
		w := newWorld(t)
		recipe, _ := canaries(t, w)
		w.judgedBuild(recipe)
		w.ended("")
		ctx := context.Background()
		p, other := w.purger(), w.purger()
		_, plan, err := p.Plan(ctx, "a", answerWith(canary))
		if err != nil {
			t.Fatal(err)
		}
		later := folder + "later/train/train-00000-" + strings.Repeat("0", 64) + ".part"
		var begun atomic.Bool
		w.bucket.Fault = func(op, key string) error {
			if op != mem.OpList || !strings.HasPrefix(key, folder) || begun.Swap(true) {
				return nil
			}
			if done, err := other.Finish(ctx, "a"); err != nil || done == nil {
				t.Errorf("the other run: %+v, %v", done, err)
			}
			if err := w.a.Catalog.PutIntent(ctx, catalog.Intent{Dataset: "a", BuildID: "later"}); err != nil {
				t.Error(err)
			}
			if _, err := objstore.PutBytes(ctx, w.bucket, later, []byte("rows"), objstore.PutOptions{}); err != nil {
				t.Error(err)
			}
			return nil
		}
		_, err = p.Erase(ctx, plan)
		w.bucket.Fault = nil
		if !errors.Is(err, catalog.ErrPurgeOver) {
			t.Errorf("%s: %v, want that another run has ended it", folder, err)
		}
		if _, err := w.bucket.Head(ctx, later); err != nil {
			t.Errorf("what a build wrote that began after the purge: %v", err)
		}
		if left := holders(t, w.bucket, canary); len(left) > 0 {
			t.Errorf("%s: left in %q", folder, left)
		}
		report, err := w.a.Catalog.Verify(ctx, "a", nil)
		if err != nil || !report.OK() {
			t.Errorf("%s: %+v, %v", folder, report, err)
		}
	}
}
