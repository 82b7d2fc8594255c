package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

var errCrash = errors.New("power cut")

// A crasher lets some operations pass and then none: everything after the k-th
// fails, as for a process that died there. With effect set the k-th still
// happens.
type crasher struct {
	at     int64
	effect bool
	count  atomic.Int64
}

func (f *crasher) fault(string, string) error {
	n := f.count.Add(1)
	if n > f.at || n == f.at && !f.effect {
		return errCrash
	}
	return nil
}

func (f *crasher) lost(string, string) error {
	if f.count.Load() >= f.at {
		return errCrash
	}
	return nil
}

// Wherever a build dies while it stages and publishes, readers see the version
// before or the one after, and running it again ends with exactly one more
// version.
func TestCrashAtEveryStep(t *testing.T) {
	train0, train1 := file(t, rows(0, 10)), file(t, rows(10, 5))
	prompts := file(t, []datasets.PromptRow{{TaskID: "t"}})
	build := func(c *catalog.Catalog) (catalog.Version, error) {
		m, err := tryDraft(t.Context(), c, "maths", "b2", train0, train1, prompts)
		if err != nil {
			return catalog.Version{}, err
		}
		return c.Publish(t.Context(), m)
	}
	for _, effect := range []bool{false, true} {
		for k := int64(1); ; k++ {
			b := mem.New("b")
			publish(t, catalog.Open(b), "maths", "b1")
			f := &crasher{at: k, effect: effect}
			b.Fault, b.Lost = f.fault, f.lost
			_, crashErr := build(catalog.Open(b))
			b.Fault, b.Lost = nil, nil

			whole := readersSee(t, catalog.Open(b))
			v, err := build(catalog.Open(b))
			if err != nil || v.Number != 2 {
				t.Fatalf("crash at operation %d (effect %t): again: version %d, %v", k, effect, v.Number, err)
			}
			if after := readersSee(t, catalog.Open(b)); after != 2 {
				t.Fatalf("crash at operation %d (effect %t): there are %d versions", k, effect, after)
			}
			if crashErr == nil && whole != 2 {
				t.Fatalf("crash at operation %d (effect %t): success was reported and readers see version %d", k, effect, whole)
			}
			if f.count.Load() < k { // the build ended before operation k
				if k < 10 {
					t.Fatalf("only %d operations: the test does not reach the commit", k)
				}
				break
			}
		}
	}
}

// readersSee is the latest version, all of which must be whole.
func readersSee(t *testing.T, c *catalog.Catalog) int64 {
	t.Helper()
	all, err := c.Versions(t.Context(), "maths")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		r, err := c.Verify(t.Context(), v.Ref(), nil)
		if err != nil || !r.OK() {
			t.Fatalf("%s is not whole: %v %+v", v.Ref(), err, r)
		}
	}
	return all[0].Number
}

// The answer to the commit is lost: nobody may publish twice for it.
func TestALostAnswerToTheCommit(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	publish(t, c, "maths", "b1")
	m := draft(t, c, "maths", "b2")
	var once sync.Once
	b.Lost = func(op, key string) error {
		var err error
		if op == mem.OpPut && key == "datasets/maths/versions/00000000000000000002.json" {
			once.Do(func() { err = errCrash })
		}
		return err
	}
	v, err := c.Publish(t.Context(), m)
	if err != nil || v.Number != 2 {
		t.Fatalf("version %d, %v", v.Number, err)
	}
	for range 3 { // as an activity that is tried again does
		if v, err = c.Publish(t.Context(), m); err != nil || v.Number != 2 {
			t.Fatalf("again: version %d, %v", v.Number, err)
		}
	}
	publish(t, c, "maths", "b3")
	if v, err = c.Publish(t.Context(), m); err != nil || v.Number != 2 {
		t.Errorf("after another's version: %d, %v; want the 2 that it has", v.Number, err)
	}
}

// The commit fails without effect, and another build takes the number before
// it is tried again.
func TestAFailedCommitIsNotClaimed(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	m := draft(t, c, "maths", "b1")
	b.Fault = func(op, key string) error {
		if op == mem.OpPut && key == "datasets/maths/versions/00000000000000000001.json" {
			return errCrash
		}
		return nil
	}
	if _, err := c.Publish(t.Context(), m); !errors.Is(err, errCrash) {
		t.Fatalf("got %v, want the store's error", err)
	}
	b.Fault = nil
	publish(t, c, "maths", "b2")
	v, err := c.Publish(t.Context(), m)
	if err != nil || v.Number != 2 || v.Parent != 1 {
		t.Errorf("version %d after %d, %v; want 2 after 1", v.Number, v.Parent, err)
	}
}

func TestSixteenPublishersEndOneAfterTheOther(t *testing.T) {
	b := mem.New("b")
	const n = 16
	manifests := make([]catalog.Manifest, n)
	for i := range manifests {
		manifests[i] = draft(t, catalog.Open(b), "maths", fmt.Sprintf("b%02d", i))
	}
	numbers := make([]int64, 2*n)
	var g errgroup.Group
	for i := range numbers { // each build twice, as when two workers believe in it
		g.Go(func() error {
			v, err := catalog.Open(b).Publish(t.Context(), manifests[i%n])
			numbers[i] = v.Number
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	seen := map[int64]int{}
	for i := range n {
		if numbers[i] != numbers[i+n] {
			t.Errorf("build %d has the versions %d and %d", i, numbers[i], numbers[i+n])
		}
		seen[numbers[i]]++
	}
	for i := int64(1); i <= n; i++ {
		if seen[i] != 1 {
			t.Errorf("version %d belongs to %d builds", i, seen[i])
		}
	}
	if last := readersSee(t, catalog.Open(b)); last != n {
		t.Errorf("the latest version is %d, want %d", last, n)
	}
}

func TestPublishWantsItsFilesThere(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	m := draft(t, c, "maths", "b1")
	if err := b.Delete(t.Context(), m.Files[2].Key); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(t.Context(), m); !errors.Is(err, catalog.ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
	if _, _, err := c.Latest(t.Context(), "maths"); !errors.Is(err, catalog.ErrUnknown) {
		t.Errorf("something was published: %v", err)
	}
}

func TestPublishEndsWithItsContext(t *testing.T) {
	c := catalog.Open(mem.New("b"))
	m := draft(t, c, "maths", "b1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Publish(ctx, m); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestBuilds(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	ctx := t.Context()
	if err := c.Heartbeat(ctx, "maths", "b1", nil); !errors.Is(err, catalog.ErrUnknown) {
		t.Errorf("a heartbeat of nothing: %v", err)
	}
	if err := c.PutIntent(ctx, catalog.Intent{Dataset: "maths", BuildID: "b1", Workflow: "w"}); err != nil {
		t.Fatal(err)
	}
	first, err := c.Build(ctx, "maths", "b1")
	if err != nil || !first.Live() || first.Started.IsZero() {
		t.Fatalf("%+v, %v", first, err)
	}
	if err := c.Heartbeat(ctx, "maths", "b1", json.RawMessage(`{"done":3}`)); err != nil {
		t.Fatal(err)
	}
	// A build that goes on after a crash enters itself again.
	if err := c.PutIntent(ctx, catalog.Intent{Dataset: "maths", BuildID: "b1", Workflow: "w"}); err != nil {
		t.Fatal(err)
	}
	again, err := c.Build(ctx, "maths", "b1")
	if err != nil || !again.Started.Equal(first.Started) || string(again.Progress) != `{"done":3}` {
		t.Errorf("%+v, %v", again, err)
	}
	if err := c.FinishIntent(ctx, "maths", "b1", catalog.BuildDone, func(in *catalog.Intent) { in.Version = 4 }); err != nil {
		t.Fatal(err)
	}
	// What comes late does not wake it.
	if err := c.Heartbeat(ctx, "maths", "b1", json.RawMessage(`{"done":2}`)); err != nil {
		t.Fatal(err)
	}
	if err := c.PutIntent(ctx, catalog.Intent{Dataset: "maths", BuildID: "b1"}); err != nil {
		t.Fatal(err)
	}
	done, err := c.Build(ctx, "maths", "b1")
	if err != nil || done.State != catalog.BuildDone || done.Version != 4 || done.Finished == nil || string(done.Progress) != `{"done":3}` {
		t.Errorf("%+v, %v", done, err)
	}
	if err := c.PutIntent(ctx, catalog.Intent{Dataset: "maths", BuildID: "b2", Started: first.Started.AddDate(0, 0, 1)}); err != nil {
		t.Fatal(err)
	}
	list, err := c.Builds(ctx, "maths")
	if err != nil || len(list) != 2 || list[0].BuildID != "b2" || list[1].BuildID != "b1" {
		t.Errorf("%+v, %v", list, err)
	}
}

// Heartbeats of two workers at once lose nothing of each other.
func TestUpdatesOfABuildDoNotOverwriteEachOther(t *testing.T) {
	c := catalog.Open(mem.New("b"))
	if err := c.PutIntent(t.Context(), catalog.Intent{Dataset: "maths", BuildID: "b1"}); err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			return c.UpdateIntent(t.Context(), "maths", "b1", func(in *catalog.Intent) { in.Version++ })
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	in, err := c.Build(t.Context(), "maths", "b1")
	if err != nil || in.Version != 8 {
		t.Errorf("%d of 8 updates are there, %v", in.Version, err)
	}
}
