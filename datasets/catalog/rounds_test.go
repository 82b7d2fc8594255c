package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// rounds is how many builds die or meet faults in the tests below.
const rounds = 200

// A publisher runs builds of one dataset over files that are made once.
type publisher struct{ train0, train1, prompts string }

func newPublisher(t testing.TB) *publisher {
	return &publisher{file(t, rows(0, 10)), file(t, rows(10, 5)), file(t, []datasets.PromptRow{{TaskID: "t", PromptID: "p"}})}
}

// build does what a build does, from its entry to its end.
func (p *publisher) build(ctx context.Context, c *catalog.Catalog, build string) (catalog.Version, error) {
	if err := c.PutIntent(ctx, catalog.Intent{Dataset: "maths", BuildID: build}); err != nil {
		return catalog.Version{}, err
	}
	m, err := tryDraft(ctx, c, "maths", build, p.train0, p.train1, p.prompts)
	if err != nil {
		return catalog.Version{}, err
	}
	v, err := c.Publish(ctx, m)
	if err != nil {
		return catalog.Version{}, err
	}
	return v, c.FinishIntent(ctx, "maths", build, catalog.BuildDone, func(in *catalog.Intent) { in.Version = v.Number })
}

// built runs a build that must not fail.
func (p *publisher) built(t testing.TB, c *catalog.Catalog, build string) {
	t.Helper()
	if _, err := p.build(t.Context(), c, build); err != nil {
		t.Fatal(err)
	}
}

// draft stages a build's files.
func (p *publisher) draft(t testing.TB, c *catalog.Catalog, build string) catalog.Manifest {
	t.Helper()
	m, err := tryDraft(t.Context(), c, "maths", build, p.train0, p.train1, p.prompts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// dead leaves what a build that failed leaves.
func (p *publisher) dead(t testing.TB, c *catalog.Catalog, build string) {
	t.Helper()
	enter(t, c, "maths", build)
	p.draft(t, c, build)
	finish(t, c, "maths", build, catalog.BuildFailed)
}

// A store that dies for a build at a random operation, or breaks now and then
// while it goes on; builds that are run again or never; and after all of it
// every version that was promised is there and whole, none is half, and a
// collection leaves nothing that no version names.
func TestTwoHundredRoundsOfFaults(t *testing.T) {
	testdata.Heavy(t)
	rng := rand.New(rand.NewPCG(7, 9))
	b, p, at := mem.New("b"), newPublisher(t), new(clock)
	promised := map[int64]string{}
	var highest int64
	for round := range rounds {
		build := fmt.Sprintf("b%03d", round)
		again := rng.IntN(2) == 0
		for try := 0; ; try++ {
			if try == 0 {
				f := &crasher{at: 1 + rng.Int64N(24), effect: rng.IntN(2) == 0}
				b.Fault, b.Lost = f.fault, f.lost
			} else {
				b.Fault, b.Lost = flaky(rng, 0.02, try)
			}
			v, err := p.build(t.Context(), at.open(b), build)
			b.Fault, b.Lost = nil, nil
			if err == nil {
				if other := promised[v.Number]; other != "" {
					t.Fatalf("round %d: version %d was promised to %s and to %s", round, v.Number, other, build)
				}
				promised[v.Number] = build
			}
			if err == nil || !again {
				break
			}
			if try == 50 {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		v, m, err := catalog.Open(b).Latest(t.Context(), "maths")
		if errors.Is(err, catalog.ErrUnknown) {
			continue
		}
		if err != nil || v.Number < highest {
			t.Fatalf("round %d: readers see version %d after %d, %v", round, v.Number, highest, err)
		}
		highest = v.Number
		n := 0
		for _, err := range catalog.ReadTable[datasets.Row](t.Context(), catalog.Open(b), m, "train") {
			if err != nil {
				t.Fatalf("round %d: half of version %d: %v", round, v.Number, err)
			}
			n++
		}
		if n != 15 {
			t.Fatalf("round %d: version %d has %d rows", round, v.Number, n)
		}
	}
	at.pass(40 * day)
	sweepAll(t, at.open(b), b, promised)
}

// flaky breaks operations with a chance, before or after they take effect.
func flaky(rng *rand.Rand, chance float64, seed int) (fault, lost func(string, string) error) {
	var mu sync.Mutex
	own := rand.New(rand.NewPCG(rng.Uint64(), uint64(seed)))
	throw := func(string, string) error {
		mu.Lock()
		defer mu.Unlock()
		if own.Float64() < chance {
			return errCrash
		}
		return nil
	}
	return throw, throw
}

// sweepAll collects without a grace time, builds that died included, and holds
// the store to its promises.
func sweepAll(t testing.TB, c *catalog.Catalog, b *mem.Bucket, promised map[int64]string) {
	t.Helper()
	gc(t, c, catalog.GCOptions{Abandoned: 30 * day, Remove: true})
	all := allWhole(t, c, "maths")
	named := map[string]bool{}
	builds := map[string]int64{}
	for i, v := range all {
		if v.Number != int64(len(all)-i) {
			t.Errorf("version %d is in the place of %d", v.Number, len(all)-i)
		}
		if builds[v.BuildID] > 0 {
			t.Errorf("build %s has the versions %d and %d", v.BuildID, v.Number, builds[v.BuildID])
		}
		builds[v.BuildID] = v.Number
		_, m, err := c.Resolve(t.Context(), v.Ref())
		if err != nil {
			t.Fatal(err)
		}
		named[v.Manifest] = true
		for _, f := range m.Files {
			named[f.Key] = true
		}
	}
	for n, build := range promised {
		if builds[build] != n {
			t.Errorf("build %s was promised version %d and has %d", build, n, builds[build])
		}
	}
	for _, key := range slices.Concat(keysIn(t, b, "datasets/maths/data/"), keysIn(t, b, "datasets/maths/manifests/"), keysIn(t, b, "datasets/maths/work/")) {
		if !named[key] {
			t.Errorf("%s is an orphan", key)
		}
		delete(named, key)
	}
	for key := range named {
		t.Errorf("%s is gone", key)
	}
}

// Sixteen builds at once over a store that breaks now and then and is slow in a
// random order: sixteen versions, one after the other.
func TestSixteenPublishersOverAFlakyStore(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 3 {
		b, p, at := mem.New("b"), newPublisher(t), new(clock)
		b.Fault, b.Lost = flaky(rng, 0.02, 0)
		var mu sync.Mutex
		promised := map[int64]string{}
		var g errgroup.Group
		for i := range 16 {
			g.Go(func() error {
				build := fmt.Sprintf("b%02d", i)
				for {
					v, err := p.build(t.Context(), at.open(b), build)
					if errors.Is(err, errCrash) {
						continue // run again
					}
					if err != nil {
						return err
					}
					mu.Lock()
					defer mu.Unlock()
					promised[v.Number] = build
					return nil
				}
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		b.Fault, b.Lost = nil, nil
		if len(promised) != 16 || promised[1] == "" || promised[16] == "" {
			t.Errorf("versions %v", promised)
		}
		sweepAll(t, at.open(b), b, promised)
	}
}
