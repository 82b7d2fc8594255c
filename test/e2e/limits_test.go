//go:build integration

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A fleet is some workers of one cluster, each with a home of its own, and the
// house that submits.
type fleet struct {
	submits *house
	homes   []*house
	workers []*process
}

// newFleet starts the services and n workers on them, in a namespace of the
// given name.
func newFleet(t *testing.T, n int, name string) *fleet {
	t.Helper()
	cluster := newHouse(t)
	cluster.serve()
	_, vars := cluster.store()
	newNamespace(t, vars, name)
	more := append(awsVars(vars),
		"STILLHOUSE_TEMPORAL="+vars["TEMPORAL_ADDRESS"], "STILLHOUSE_STORE=s3://"+vars["STILLHOUSE_BUCKET"]+"/"+name,
		"TEMPORAL_NAMESPACE="+name, "TEMPORAL_GRPC_META_AUTHORIZATION=Bearer "+vars["STILLHOUSE_TEMPORAL_TOKEN"])
	f := &fleet{submits: newHouse(t)}
	f.submits.more = more
	for range n {
		h := newHouse(t)
		h.more = more
		f.homes = append(f.homes, h)
		f.workers = append(f.workers, nil)
		f.work(len(f.homes) - 1)
	}
	return f
}

// work starts the i-th worker.
func (f *fleet) work(i int) {
	f.workers[i] = f.homes[i].start("worker")
	f.workers[i].said("Ctrl-C drains and ends")
}

// spread makes a recipe of n asks over several teachers of one model at one
// endpoint, so that all workers have something to do at any time.
func spread(t *testing.T, s *sim, name, limits string, n int) string {
	t.Helper()
	const teachers = 4
	m := made{dir: t.TempDir(), name: name, rest: "ask: {route: all}\n"}
	for i := range teachers {
		m.teachers += fmt.Sprintf("  - {id: t%d, base_url: '%s', model: a, identity: sim-%s, params: {top_k: %d}%s}\n", i, s.url(), name, 10+i, limits)
	}
	prompts(t, filepath.Join(m.dir, "prompts.jsonl"), map[string]int{"math": n / teachers})
	return m.write(t)
}

// A reading is what an endpoint counted by some time.
type reading struct {
	at time.Time
	simStats
}

// watch reads a sim's accounts until stop is closed, and once more then: the
// last of them tells of everything.
func (s *sim) watch(stop <-chan struct{}) []reading {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var out []reading
	for ended := false; ; {
		if st := s.stats()["a"]; st.Requests > 0 {
			out = append(out, reading{time.Now(), st})
		}
		if ended {
			return out
		}
		select {
		case <-stop:
			ended = true
		case <-tick.C:
		}
	}
}

// rate is the answers, or their tokens, a minute from some time after the first request until
// nine tenths of all have come: after that workers run out of asks.
func rate(readings []reading, after time.Duration, all int, tokens bool) float64 {
	var from, to reading
	for _, r := range readings {
		if from.at.IsZero() && r.at.Sub(readings[0].at) >= after {
			from = r
		}
		if r.Completed <= all*9/10 {
			to = r
		}
	}
	if from.at.IsZero() || !to.at.After(from.at) {
		return 0
	}
	n := to.Completed - from.Completed
	if tokens {
		n = to.PromptTokens + to.CompletionTokens - from.PromptTokens - from.CompletionTokens
	}
	return float64(n) / to.at.Sub(from.at).Minutes()
}

// late are the requests and the refusals after some time.
func late(readings []reading, after time.Duration) (requests, refused int) {
	last := readings[len(readings)-1]
	for _, r := range readings {
		if r.at.Sub(readings[0].at) >= after {
			return last.Requests - r.Requests, last.RateLimited - r.RateLimited
		}
	}
	return 0, 0
}

// refusals says when requests were refused, after the first one of all.
func refusals(readings []reading) string {
	var b strings.Builder
	before := 0
	for _, r := range readings {
		if r.RateLimited > before {
			fmt.Fprintf(&b, " %d at %s", r.RateLimited-before, r.at.Sub(readings[0].at).Round(time.Second/4))
			before = r.RateLimited
		}
	}
	return b.String()
}

// TestLimitsHoldOverAllWorkers runs three workers against endpoints that count.
// What is declared is never passed; what is not declared is learned; and nearly all of it is used.
func TestLimitsHoldOverAllWorkers(t *testing.T) {
	cases := []limitCase{
		{name: "requests", sim: []string{"-rpm", "900", "-max-concurrent", "24"}, limits: ", limits: {rpm: 900, concurrency: 24}", asks: 1600, allowed: 900, learning: 15 * time.Second},
		{name: "tokens", sim: []string{"-tpm", "100000"}, limits: ", limits: {tpm: 100000, concurrency: 64}", asks: 1500, allowed: 100_000, tokens: true, learning: 15 * time.Second},
		{name: "places", sim: []string{"-max-concurrent", "12", "-ttft", "2s"}, limits: ", limits: {concurrency: 12}", asks: 700, allowed: 12 * 60 / 2, learning: 15 * time.Second},
		{name: "learned requests", sim: []string{"-rpm", "900"}, asks: 2400, allowed: 900, learning: time.Minute, refused: 0.02},
		{name: "learned tokens", sim: []string{"-tpm", "100000"}, asks: 2200, allowed: 100_000, tokens: true, learning: time.Minute, refused: 0.02},
		{name: "learned places", sim: []string{"-max-concurrent", "12", "-ttft", "2s"}, asks: 1000, allowed: 12 * 60 / 2, learning: time.Minute, refused: 0.02},
	}
	f := newFleet(t, 3, "limits")
	lags := measureLags(t)
	var wg sync.WaitGroup
	for i, c := range cases {
		wg.Go(func() {
			for try := range limitTries {
				// Of what is learned is less used where the machine stops for some
				// seconds meanwhile; that does not happen every time.
				last := c.refused == 0 || try == limitTries-1
				if f.holds(t, fmt.Sprintf("limits-%d-%d", i, try), c, lags, last) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// limitTries is how often a limit that is learned may be used too little.
const limitTries = 3

// A limitCase is an endpoint's limits and what must be reached under them.
type limitCase struct {
	name     string
	sim      []string
	limits   string
	asks     int
	allowed  float64       // a minute
	tokens   bool          // of tokens, not answers
	learning time.Duration // before the rate counts
	refused  float64       // share of requests that may be refused
}

// holds builds once and tells whether enough of the rate was used; whatever
// else is wrong is an error, and too little is one in the last try.
func (f *fleet) holds(t *testing.T, name string, c limitCase, lags *lagMeter, last bool) bool {
	s := startSim(t, append([]string{"-models", "a", "-ttft", "300ms", "-chunk", "4096", "-synthetic-tokens", "100"}, c.sim...)...)
	recipe := spread(t, s, name, c.limits, c.asks)
	stop := make(chan struct{})
	var readings []reading
	var watch sync.WaitGroup
	watch.Go(func() { readings = s.watch(stop) })
	p := f.submits.start("build", recipe, "--json", "--yes")
	code := p.wait(2 * commandLimit)
	close(stop)
	watch.Wait()
	if code != 0 {
		t.Errorf("%s: the build ended with %d: %s", c.name, code, tail(p.stderr(), 2000))
		return true
	}
	st := readings[len(readings)-1].simStats
	used := rate(readings, c.learning, c.asks, c.tokens) / c.allowed
	t.Logf("%s: %d answers, %d requests, %d refused, %d paid twice, %d early, peak %d, %.1f %% of the allowed rate used;%s", c.name,
		st.UniqueCompleted, st.Requests, st.RateLimited, st.PaidTwice, st.EarlyRetries, st.PeakConcurrency, 100*used, refusals(readings))
	if st.UniqueCompleted != c.asks || st.PaidTwice > 0 {
		t.Errorf("%s: %d answers, %d paid twice; want %d and none", c.name, st.UniqueCompleted, st.PaidTwice, c.asks)
	}
	requests, refused := st.Requests, st.RateLimited
	if c.refused > 0 { // what it takes to learn is not counted
		requests, refused = late(readings, c.learning)
	}
	if refused > int(c.refused*float64(requests)) {
		t.Errorf("%s: %d of %d requests were refused, want at most %g %%", c.name, refused, requests, 100*c.refused)
	}
	// What is learned is learned from answers in time: a machine that
	// is busy with other things teaches that the endpoint is slow.
	want := 0.9
	if lag := lags.most(); c.refused > 0 && lag > busyLag {
		want = 0.75
		t.Logf("%s: this machine was busy (timers came %v late); 75 %% of the rate is enough", c.name, lag)
	}
	if used < want && last {
		t.Errorf("%s: %.1f %% of the allowed rate was used, want %g", c.name, 100*used, 100*want)
	}
	return used >= want
}

// TestLimitsHoldWhenAWorkerIsKilled kills one of two workers in the middle, and
// starts it again: what it may have had goes to nobody before its lease is over.
func TestLimitsHoldWhenAWorkerIsKilled(t *testing.T) {
	t.Parallel() // it waits more than it works
	const asks, rpm = 900, 600
	s := startSim(t, "-models", "a", "-ttft", "1s", "-chunk", "4096", "-rpm", fmt.Sprint(rpm), "-max-concurrent", "16")
	f := newFleet(t, 2, "killed")
	recipe := spread(t, s, "killed", fmt.Sprintf(", limits: {rpm: %d, concurrency: 16}", rpm), asks)
	p := f.submits.start("build", recipe, "--json", "--yes")
	for i, at := range []int{100, 250} {
		eventually(t, commandLimit, "answers", func() bool { return s.total().Completed > at })
		f.workers[i].kill()
		if i == 0 {
			f.work(i)
		}
	}
	f.work(1)
	if code := p.wait(2 * commandLimit); code != 0 {
		t.Fatalf("the build ended with %d: %s", code, tail(p.stderr(), 2000))
	}
	st := s.total()
	t.Logf("%d answers, %d requests, %d refused, %d paid twice, peak %d", st.UniqueCompleted, st.Requests, st.RateLimited, st.PaidTwice, st.PeakConcurrency)
	if st.UniqueCompleted != asks || st.PaidTwice > 2*16 {
		t.Errorf("%d answers, %d paid twice; want %d and no more than were in flight", st.UniqueCompleted, st.PaidTwice, asks)
	}
	if st.RateLimited > 0 {
		t.Errorf("%d requests were refused, want none", st.RateLimited)
	}
}

// busyLag is how late timers come, one in twenty of a second's, on a machine
// that is not this test's alone.
const busyLag = 5 * time.Millisecond

// A lagMeter measures how late timers come.
type lagMeter struct {
	mu    sync.Mutex
	worst []time.Duration // of each second, the second latest of twenty
}

// measureLags measures until the test ends.
func measureLags(t *testing.T) *lagMeter {
	m := &lagMeter{}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		const every = 50 * time.Millisecond
		var second []time.Duration
		for {
			due := time.Now().Add(every)
			select {
			case <-stop:
				return
			case <-time.After(every):
			}
			if second = append(second, time.Since(due)); len(second) == 20 {
				slices.Sort(second)
				m.mu.Lock()
				m.worst = append(m.worst, second[18])
				m.mu.Unlock()
				second = second[:0]
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		wg.Wait()
	})
	return m
}

// most is the lag that one second in ten passed.
func (m *lagMeter) most() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.worst) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(m.worst))
	return sorted[len(sorted)*9/10]
}
