package activities

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// An endpoint of tests has so many places and a context cache.
type cachingEndpoint struct {
	places chan struct{}
	life   time.Duration
	read   time.Duration // of a prompt, until its first text
	write  time.Duration // of the answer
	fails  func(link uint64, nth int) bool

	mu     sync.Mutex
	cached map[uint64]time.Time
	asked  map[uint64]int
	misses int
	peak   int
	active int
}

func (e *cachingEndpoint) ask(t *turn, link uint64) (answered bool) {
	e.places <- struct{}{}
	defer func() { <-e.places }()
	t.sent()
	e.mu.Lock()
	e.active++
	e.peak = max(e.peak, e.active)
	e.asked[link]++
	nth := e.asked[link]
	if at, ok := e.cached[link]; !ok || time.Since(at) > e.life {
		e.misses++
	}
	e.mu.Unlock()
	time.Sleep(e.read) // of the bubble's clock
	failed := e.fails != nil && e.fails(link, nth)
	if !failed {
		e.mu.Lock()
		e.cached[link] = time.Now()
		e.mu.Unlock()
		t.firstText()
		time.Sleep(e.write)
	}
	e.mu.Lock()
	e.active--
	e.mu.Unlock()
	return !failed
}

// run asks everything in order and tells how long it took.
func (e *cachingEndpoint) run(concurrency int, links []uint64, entered func(link uint64) chain) time.Duration {
	e.places = make(chan struct{}, concurrency)
	e.cached, e.asked = map[uint64]time.Time{}, map[uint64]int{}
	q := newTurns(concurrency)
	began := time.Now()
	var wg sync.WaitGroup
	mine := make([]*turn, len(links))
	for i, link := range links {
		mine[i] = q.enter(entered(link))
	}
	for i, link := range links {
		wg.Go(func() {
			if mine[i].wait(context.Background()) != nil {
				return
			}
			mine[i].leave(e.ask(mine[i], link))
		})
	}
	wg.Wait()
	return time.Since(began)
}

func alike(link uint64) chain   { return chain{link} }
func unknown(link uint64) chain { return nil }

// grouped is so many links of n asks each, one after the other.
func groupedLinks(links, n int) []uint64 {
	var out []uint64
	for l := range links {
		for range n {
			out = append(out, uint64(l+1))
		}
	}
	return out
}

func TestTheFirstOfAGroupGoesAloneAndNoPlaceStaysUnused(t *testing.T) {
	for _, tc := range []struct {
		name        string
		concurrency int
		read, write time.Duration
	}{
		{"quick answers", 16, 200 * time.Millisecond, 800 * time.Millisecond},
		{"slow reading", 16, 5 * time.Second, time.Second},
		{"answers of a minute", 8, 2 * time.Second, time.Minute},
		{"many places", 64, time.Second, 20 * time.Second},
		{"answers longer than the cache lives", 8, 2 * time.Second, 6 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asks := groupedLinks(50, 20)
				e := &cachingEndpoint{life: 5 * time.Minute, read: tc.read, write: tc.write}
				took := e.run(tc.concurrency, asks, alike)
				plain := &cachingEndpoint{life: 5 * time.Minute, read: tc.read, write: tc.write}
				without := plain.run(tc.concurrency, asks, unknown)
				// A perfect order misses once a document; each place may open one
				// document more than it would have to.
				if hits, perfect := len(asks)-e.misses, len(asks)-50; tc.write < e.life && float64(hits) < 0.95*float64(perfect) {
					t.Errorf("%d of %d hits", hits, perfect)
				}
				if took > without+without/50+tc.read {
					t.Errorf("it took %v, and %v in any order", took, without)
				}
				if e.peak != tc.concurrency {
					t.Errorf("%d at once, want %d", e.peak, tc.concurrency)
				}
				t.Logf("misses %d (%d without), took %v (%v)", e.misses, plain.misses, took, without)
			})
		})
	}
}

func TestWhereTheFirstFailsTheNextGoesAndThenAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &cachingEndpoint{life: time.Hour, read: time.Second, write: time.Second, fails: func(_ uint64, nth int) bool { return nth <= 2 }}
		took := e.run(16, groupedLinks(1, 12), alike)
		// Two alone, then ten at once.
		if want := 4 * time.Second; took != want {
			t.Errorf("it took %v, want %v", took, want)
		}
	})
}

func TestAFirstThatHangsIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &cachingEndpoint{life: time.Hour, read: time.Second, write: time.Second, fails: func(_ uint64, nth int) bool {
			if nth == 1 {
				time.Sleep(10 * time.Minute)
			}
			return nth == 1
		}}
		e.places = make(chan struct{}, 8)
		e.cached, e.asked = map[uint64]time.Time{}, map[uint64]int{}
		q := newTurns(8)
		began := time.Now()
		var wg, rest sync.WaitGroup
		for i, link := range groupedLinks(1, 5) {
			turn := q.enter(chain{link})
			group := &rest
			if i == 0 {
				group = &wg
			}
			group.Go(func() {
				if turn.wait(context.Background()) == nil {
					turn.leave(e.ask(turn, link))
				}
			})
		}
		rest.Wait()
		if took := time.Since(began); took != leadPatience+2*time.Second {
			t.Errorf("the rest was through after %v", took)
		}
		wg.Wait()
	})
}

func TestWhatACancelledTurnHeldGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTurns(1)
		ctx, cancel := context.WithCancel(context.Background())
		first, second := q.enter(chain{1}), q.enter(chain{1})
		third := q.enter(chain{1})
		if err := first.wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		first.sent()
		ended := make(chan error)
		go func() { ended <- second.wait(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err == nil {
			t.Fatal("the second went beside the first")
		}
		second.leave(false)
		go func() { ended <- third.wait(context.Background()) }()
		synctest.Wait()
		first.leave(true)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		third.leave(true)
	})
}

// Whatever fails, is cancelled or takes long, every ask goes or ends, none
// twice, and no permit is lost.
func TestEveryTurnComesToItsEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		n := rapid.IntRange(1, 120).Draw(rt, "asks")
		concurrency := rapid.IntRange(1, 12).Draw(rt, "concurrency")
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			q := newTurns(concurrency)
			e := &cachingEndpoint{life: time.Minute, read: time.Duration(r.IntN(90)) * time.Second, write: time.Duration(r.IntN(300)) * time.Second}
			e.fails = func(link uint64, nth int) bool { return (link*7+uint64(nth)*13+seed)%5 == 0 }
			e.places = make(chan struct{}, concurrency)
			e.cached, e.asked = map[uint64]time.Time{}, map[uint64]int{}
			var wg sync.WaitGroup
			for range n {
				c := chain{uint64(r.IntN(4)), uint64(10 + r.IntN(8)), uint64(100 + r.IntN(n))}[:r.IntN(4)]
				turn := q.enter(c)
				ctx, cancel := context.WithCancel(context.Background())
				if r.IntN(4) == 0 {
					after := time.Duration(r.IntN(200)) * time.Second
					stop := context.AfterFunc(ctx, func() {})
					timer := time.AfterFunc(after, cancel)
					defer func() { stop(); timer.Stop() }()
				}
				wg.Go(func() {
					defer cancel()
					if turn.wait(ctx) != nil {
						turn.leave(false)
						return
					}
					turn.leave(e.ask(turn, uint64(len(c))))
				})
			}
			wg.Wait()
			if q.unsent != 0 || e.active != 0 {
				t.Errorf("%d asks are with the client, %d at the endpoint", q.unsent, e.active)
			}
			for link, p := range q.known {
				if p.leader != nil {
					t.Errorf("beginning %d is led by a turn that has left", link)
				}
			}
		})
	})
}

func TestRememberedBeginningsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTurns(1)
		for i := range uint64(3 * knownPrefixes) {
			turn := q.enter(chain{i})
			if err := turn.wait(context.Background()); err != nil {
				t.Fatal(err)
			}
			turn.sent()
			turn.leave(true)
		}
		if len(q.known) > knownPrefixes+1 {
			t.Errorf("%d beginnings are remembered", len(q.known))
		}
	})
}

func BenchmarkTurns(b *testing.B) {
	for _, links := range []int{0, 5} {
		b.Run(fmt.Sprint(links, " links"), func(b *testing.B) {
			q := newTurns(64)
			c := make(chain, links)
			for i := range c {
				c[i] = uint64(i)
			}
			b.ReportAllocs()
			for b.Loop() {
				turn := q.enter(c)
				_ = turn.wait(context.Background())
				turn.sent()
				turn.firstText()
				turn.leave(true)
			}
		})
	}
}
