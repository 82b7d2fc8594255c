package teachers

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// An endpointSim takes so many requests at once and refuses the rest at once.
// Each round trip is one second long; the client sends as many as it may.
type endpointSim struct {
	takes func(second int) int
}

// run plays seconds round trips and returns what was sent and refused in each.
func (e endpointSim) run(c *concurrency, now time.Time, seconds int) (sent, refused []int, _ time.Time) {
	for s := range seconds {
		took, no := 0, 0
		// All that are allowed go out, one after the other; a refusal comes back
		// before the next is sent.
		for tries := 0; took < c.allowed() && tries < 2000; tries++ {
			if took < e.takes(s) {
				took++
				continue
			}
			no++
			if c.refused(now, now.Add(time.Millisecond), took, false) {
				break
			}
			if c.allowed() <= took {
				break
			}
			now = now.Add(2 * time.Millisecond)
		}
		now = now.Add(time.Second)
		full := took >= c.allowed()
		for range took {
			c.succeeded(now, full, 0)
		}
		sent, refused = append(sent, took), append(refused, no)
	}
	return sent, refused, now
}

func sumOf(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}

func TestConcurrencyIsLearned(t *testing.T) {
	for _, takes := range []int{1, 3, 12, 64, 400} {
		c := newConcurrency(0)
		sim := endpointSim{takes: func(int) int { return takes }}
		_, _, now := sim.run(c, time.Unix(1000, 0), 60)
		sent, refused, _ := sim.run(c, now, 600)
		used := float64(sumOf(sent)) / float64(600*takes)
		lost := float64(sumOf(refused)) / float64(sumOf(sent)+sumOf(refused))
		t.Logf("takes %d: %.1f %% used, %.2f %% refused", takes, 100*used, 100*lost)
		if used < 0.9 || lost > 0.02 {
			t.Errorf("takes %d: %.1f %% used, want 90; %.2f %% refused, want less than 2", takes, 100*used, 100*lost)
		}
	}
}

func TestConcurrencyFollowsAnEndpointThatChanges(t *testing.T) {
	c := newConcurrency(0)
	sim := endpointSim{takes: func(s int) int {
		if s < 200 {
			return 100
		}
		if s < 800 {
			return 10
		}
		return 100
	}}
	sent, refused, _ := sim.run(c, time.Unix(1000, 0), 1600)
	for _, part := range []struct{ from, to, takes int }{{50, 200, 100}, {230, 800, 10}, {1000, 1600, 100}} {
		n := part.to - part.from
		used := float64(sumOf(sent[part.from:part.to])) / float64(n*part.takes)
		if used < 0.85 {
			t.Errorf("seconds %d to %d: %.1f %% of %d used", part.from, part.to, 100*used, part.takes)
		}
	}
	if lost := float64(sumOf(refused)) / float64(sumOf(sent)); lost > 0.02 {
		t.Errorf("%.2f %% refused", 100*lost)
	}
}

func TestConcurrencyComesBackAfterAStorm(t *testing.T) {
	for _, declared := range []int{0, 64} {
		c := newConcurrency(declared)
		_, _, now := endpointSim{takes: func(int) int { return 64 }}.run(c, time.Unix(1000, 0), 100)
		before := c.allowed()
		for range 60 { // nearly all is refused for a minute
			for range 10 {
				c.refused(now, now.Add(time.Millisecond), c.allowed(), false)
				now = now.Add(100 * time.Millisecond)
			}
			c.succeeded(now, true, 0)
		}
		if c.allowed() > 2 {
			t.Errorf("declared %d: %d at once in a storm, want 1 or 2", declared, c.allowed())
		}
		_, _, _ = endpointSim{takes: func(int) int { return 64 }}.run(c, now, 15)
		if got := c.allowed(); got < before*9/10 {
			t.Errorf("declared %d: %d at once after 15 round trips, want about %d again", declared, got, before)
		}
	}
}

func TestConcurrencyHalvesOnceARoundTrip(t *testing.T) {
	c := newConcurrency(64)
	sent := time.Unix(1000, 0)
	for i := range 64 {
		c.refused(sent, sent.Add(time.Duration(i+1)*time.Millisecond), 63-i, false)
	}
	if c.allowed() != 32 {
		t.Errorf("%d at once after one round trip of refusals, want 32", c.allowed())
	}
	for i, want := range []int{16, 8, 4, 2, 1, 1} {
		sent = sent.Add(time.Second)
		c.refused(sent, sent.Add(time.Millisecond), 0, false)
		if c.allowed() != want {
			t.Errorf("%d at once after round trip %d, want %d", c.allowed(), i+2, want)
		}
	}
}

func TestSearchStopsWhereTheEndpointQueues(t *testing.T) {
	// A server that does 4 at a time and queues the rest.
	c, now := newConcurrency(0), time.Unix(1000, 0)
	for range 300 {
		n := c.allowed()
		for i := range n {
			first := 300*time.Millisecond + time.Duration(i/4)*2*time.Second
			c.succeeded(now.Add(first), true, first)
		}
		now = now.Add(time.Duration(n/4+1) * 2 * time.Second)
	}
	if got := c.allowed(); got > 3*DefaultConcurrency {
		t.Errorf("%d requests at once on a server that does 4 at a time", got)
	}
}

func TestConcurrencyStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		declared := rapid.IntRange(0, 300).Draw(t, "declared")
		c := newConcurrency(declared)
		most := declared
		if declared == 0 {
			most = MostConcurrency
		}
		now := time.Unix(1000, 0)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "passes")))
			sent := now.Add(-time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "took")))
			before := c.allowed()
			if rapid.Bool().Draw(t, "refused") {
				c.refused(sent, now, rapid.IntRange(0, 400).Draw(t, "in flight"), rapid.Bool().Draw(t, "known"))
				if got := c.allowed(); got > before || got < before/2 {
					t.Fatalf("%d at once after a refusal, had %d", got, before)
				}
			} else {
				c.succeeded(now, rapid.Bool().Draw(t, "full"), time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "first")))
				if got := c.allowed(); got > before+2 {
					t.Fatalf("%d at once after an answer, had %d", got, before)
				}
			}
			if got := c.allowed(); got < 1 || got > most {
				t.Fatalf("%d at once, want 1 to %d", got, most)
			}
		}
	})
}
