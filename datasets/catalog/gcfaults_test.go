package catalog_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// An interruption runs something at the at-th operation of another, whose
// operations wait meanwhile; its own are not counted.
type interruption struct {
	at     int64
	run    func()
	count  atomic.Int64
	inside atomic.Bool
}

func (i *interruption) fault(string, string) error {
	if i.inside.Load() {
		return nil
	}
	if i.count.Add(1) == i.at {
		i.inside.Store(true)
		i.run()
		i.inside.Store(false)
	}
	return nil
}

// A build that starts, goes on or publishes at any moment of a collection keeps
// what it writes, also without a grace time.
func TestABuildInTheMiddleOfAGC(t *testing.T) {
	p := newPublisher(t)
	type step struct {
		name string
		run  func(t *testing.T, c *catalog.Catalog)
	}
	steps := []step{
		{"a whole build", func(t *testing.T, c *catalog.Catalog) { p.built(t, c, "new") }},
		{"the publication of a build that runs", func(t *testing.T, c *catalog.Catalog) {
			if _, err := c.Publish(t.Context(), p.draft(t, c, "running")); err != nil {
				t.Fatal(err)
			}
			finish(t, c, "maths", "running", catalog.BuildDone)
		}},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			for k := 1; ; k++ {
				b := mem.New("b")
				c := catalog.Open(b)
				p.built(t, c, "b1")
				enter(t, c, "maths", "running")
				p.draft(t, c, "running")
				p.dead(t, c, "dead")

				at := &interruption{at: int64(k), run: func() { s.run(t, catalog.Open(b)) }}
				b.Fault = at.fault
				gc(t, c, catalog.GCOptions{Remove: true})
				b.Fault = nil
				if n := at.count.Load(); n < int64(k) {
					if k < 10 {
						t.Fatalf("a collection took only %d operations", n)
					}
					return
				}
				if all := allWhole(t, c, "maths"); len(all) != 2 {
					t.Fatalf("at operation %d: %d versions", k, len(all))
				}
				for _, key := range keysIn(t, b, "datasets/maths/data/dead/") {
					t.Errorf("at operation %d: %s was left", k, key)
				}
			}
		})
	}
}

// Whatever moment a collection dies in, versions are whole and the next one
// ends the work.
func TestAGCThatDies(t *testing.T) {
	testdata.Heavy(t)
	p := newPublisher(t)
	for k := int64(1); ; k++ {
		b := mem.New("b")
		c := catalog.Open(b)
		for n := 1; n <= 3; n++ {
			p.built(t, c, fmt.Sprintf("b%d", n))
		}
		p.dead(t, c, "dead")
		f := &crasher{at: k}
		b.Fault, b.Lost = f.fault, f.lost
		opt := catalog.GCOptions{KeepLast: 1, Remove: true}
		_, err := c.GC(t.Context(), opt)
		b.Fault, b.Lost = nil, nil
		allWhole(t, c, "maths")
		gc(t, c, opt)
		allWhole(t, c, "maths")
		if keys := append(keysIn(t, b, "datasets/maths/data/"), keysIn(t, b, "datasets/maths/manifests/")...); len(keys) != 4 {
			t.Fatalf("death at operation %d: left are %v", k, keys)
		}
		if err == nil {
			if k < 20 {
				t.Fatalf("a collection took only %d operations", k)
			}
			return
		}
	}
}

func TestTwoGCsAndPublishersAtOnce(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	built(t, c, "maths", "b1")
	for i := range 8 {
		build := fmt.Sprintf("dead%d", i)
		enter(t, c, "maths", build)
		draft(t, c, "maths", build)
		finish(t, c, "maths", build, catalog.BuildFailed)
	}
	paths := []string{file(t, rows(0, 10)), file(t, rows(10, 5)), file(t, []datasets.PromptRow{{TaskID: "t"}})}
	var g errgroup.Group
	for range 2 {
		g.Go(func() error {
			for range 4 {
				if _, err := catalog.Open(b).GC(t.Context(), catalog.GCOptions{KeepLast: 2, Remove: true}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i := range 8 {
		g.Go(func() error {
			c, build := catalog.Open(b), fmt.Sprintf("new%d", i)
			if err := c.PutIntent(t.Context(), catalog.Intent{Dataset: "maths", BuildID: build}); err != nil {
				return err
			}
			m, err := tryDraft(t.Context(), c, "maths", build, paths[0], paths[1], paths[2])
			if err != nil {
				return err
			}
			if _, err := c.Publish(t.Context(), m); err != nil {
				return err
			}
			return c.FinishIntent(t.Context(), "maths", build, catalog.BuildDone, nil)
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	gc(t, c, catalog.GCOptions{KeepLast: 2, Remove: true})
	all := allWhole(t, c, "maths")
	if len(all) != 9 || all[0].Removed != nil || all[1].Removed != nil || all[2].Removed == nil {
		t.Errorf("%+v", all)
	}
	if keys := keysIn(t, b, "datasets/maths/data/"); len(keys) != 6 {
		t.Errorf("left are %v", keys)
	}
}

// A version is tagged while it is withdrawn: either the tag or the withdrawal
// gives way, and no tag ends on a version that is gone.
func TestTaggingWhileWithdrawing(t *testing.T) {
	for k := 1; ; k++ {
		b := mem.New("b")
		c := catalog.Open(b)
		for n := 1; n <= 2; n++ {
			built(t, c, "maths", fmt.Sprintf("b%d", n))
		}
		tagged := error(nil)
		at := &interruption{at: int64(k), run: func() { _, tagged = catalog.Open(b).Tag(t.Context(), "maths@1", "best") }}
		b.Fault = at.fault
		_, err := c.Withdraw(t.Context(), "maths", 1, "test")
		b.Fault = nil
		if n := at.count.Load(); n < int64(k) {
			if k < 5 {
				t.Fatalf("a withdrawal took only %d operations", n)
			}
			return
		}
		_, _, there := c.Resolve(t.Context(), "maths@best")
		switch {
		case tagged == nil && there != nil:
			t.Errorf("at operation %d: the tag was promised, and then: %v", k, there)
		case err == nil && there == nil:
			t.Errorf("at operation %d: the withdrawal was promised, and the tag finds it", k)
		}
	}
}
