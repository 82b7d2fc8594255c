//go:build integration

package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	killPrompts  = 1000
	killTeachers = 3
	killAsks     = killPrompts * killTeachers
	killLimit    = 16 // requests at once of a teacher
	killSeed     = 20
	// settled is how long an answer must have been here to be safe from a kill:
	// journals are synced within milliseconds, but this machine may be busy.
	settled = 500 * time.Millisecond
	// handing is how much sooner than its kill an answer may have been handed
	// over and yet count as in flight: the process has it in its own hands,
	// but not on its disk.
	handing = 100 * time.Millisecond
)

// A moment is when a process is to be killed.
type moment struct {
	stage string
	// reached tells that the process has come to it.
	reached func(p *process) bool
	after   time.Duration // how much later it is killed
}

// TestKill kills the process at twenty random moments of a build, in every
// stage, and starts it again each time: the build ends, what it published is
// what an undisturbed build publishes, byte for byte, and no answer that had
// arrived was paid for again.
func TestKill(t *testing.T) {
	s := startSim(t, "-models", "one,two,three", "-ttft", "20ms", "-chunk", "400")
	w := newWitness(t, s)
	dir := t.TempDir()
	var lines, teachers strings.Builder
	for i := range killPrompts {
		fmt.Fprintf(&lines, `{"prompt":"Question %d: what does a still do?"}`+"\n", i)
	}
	write(t, filepath.Join(dir, "prompts.jsonl"), lines.String())
	for _, model := range []string{"one", "two", "three"} {
		fmt.Fprintf(&teachers, "  - {base_url: '%s', model: %s, limits: {concurrency: %d}}\n", w.url(), model, killLimit)
	}
	recipe := write(t, filepath.Join(dir, "recipe.yaml"), fmt.Sprintf(`name: killed
prompts: [{path: prompts.jsonl, fields: {prompt: prompt}}]
teachers:
%soutput: {splits: {train: 0.9, test: 0.1}, seed: 7}
`, teachers.String()))

	calm := newHouse(t)
	p := calm.start("build", recipe, "--json", "--yes")
	eventually(t, time.Minute, "the first request of the undisturbed build", func() bool { n, _ := w.counts(); return n > 0 })
	startUp := time.Since(p.started)
	if code := p.wait(commandLimit); code != 0 {
		t.Fatalf("the undisturbed build ended with %d", code)
	}
	if n, _ := w.counts(); n != killAsks {
		t.Fatalf("the undisturbed build sent %d requests, want %d", n, killAsks)
	}
	t.Logf("undisturbed: %v, of which %v to the first request", p.lasted.Round(time.Millisecond), startUp.Round(time.Millisecond))
	s.reset()
	w.reset()

	h := newHouse(t)
	r := rand.New(rand.NewPCG(killSeed, killSeed))
	var lives []life
	byStage := map[string]int{}
	for i, m := range moments(h, w, r, startUp) {
		p := h.start("build", recipe, "--json", "--yes")
		if !killAt(t, p, m) {
			t.Fatalf("kill %d: the build ended with %d before it came to %q:\n%s", i+1, p.code, m.stage, tail(p.stderr(), 2000))
		}
		at := time.Now()
		if err := syscall.Kill(p.cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-p.ended
		lives = append(lives, life{p.started, at})
		byStage[m.stage]++
		_, answered := w.counts()
		t.Logf("kill %2d, %-9s %6v after its start; %d of %d answers are here", i+1, m.stage, at.Sub(p.started).Round(time.Millisecond), answered, killAsks)
	}
	last := h.build(recipe)
	if last.Version != 1 || h.versions("killed") != 1 {
		t.Errorf("after %d kills: version %d of %d, want one", len(lives), last.Version, h.versions("killed"))
	}
	want, got := digests(calm.manifest("killed@1")), digests(h.manifest("killed@1"))
	if len(want) < 3 || !maps.Equal(want, got) {
		t.Errorf("the killed build published\n%v\nand the undisturbed one\n%v", got, want)
	}
	h.run(0, "verify", "killed")
	sum := s.total()
	if sum.UniqueCompleted != killAsks {
		t.Errorf("%d asks were answered, want %d", sum.UniqueCompleted, killAsks)
	}
	inFlight := 0
	for _, l := range lives {
		inFlight += w.inFlight(l, handing)
	}
	if sum.PaidTwice > inFlight {
		t.Errorf("%d answers were paid for twice, and %d requests were in flight at the kills", sum.PaidTwice, inFlight)
	}
	again, oldest := w.askedAgain(lives)
	if oldest > settled {
		t.Errorf("an answer was asked for again that had been here for %v when its process was killed", oldest)
	}
	t.Logf("%d kills %v; %d requests for %d asks; paid twice %d, in flight at the kills %d; %d asked again after they had been handed over, the oldest %v before its kill; digests equal: %v",
		len(lives), byStage, sum.Requests, killAsks, sum.PaidTwice, inFlight, again, oldest.Round(time.Millisecond), maps.Equal(want, got))
}

// killAt waits until the process comes to a moment; false where it ended first.
func killAt(t testing.TB, p *process, m moment) bool {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(commandLimit)
	defer limit.Stop()
	for !m.reached(p) {
		select {
		case <-p.ended:
			return false
		case <-limit.C:
			t.Fatalf("the build did not come to %q within %v:\n%s", m.stage, commandLimit, tail(p.stderr(), 2000))
		case <-tick.C:
		}
	}
	later := time.NewTimer(m.after)
	defer later.Stop()
	select {
	case <-p.ended:
		return false
	case <-later.C:
		return true
	}
}

// moments draws twenty moments: while the services start, while teachers are
// asked, while answers are checked, while tables are written and uploaded, and
// around the commit.
func moments(h *house, w *witness, r *rand.Rand, startUp time.Duration) []moment {
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	store := filepath.Join(h.dir, "store", "stillhouse", "datasets", "killed")
	var out []moment
	for range 3 {
		out = append(out, moment{"start", func(*process) bool { return true }, 300*time.Millisecond + upTo(max(startUp-300*time.Millisecond, time.Millisecond))})
	}
	for range 10 {
		// After so many requests more, whatever the machine's speed.
		more, from := 20+r.IntN(220), -1
		out = append(out, moment{"ask", func(*process) bool {
			n, _ := w.counts()
			if from < 0 {
				from = n
			}
			return n >= from+more
		}, upTo(20 * time.Millisecond)})
	}
	answered := func(*process) bool { _, n := w.counts(); return n >= killAsks }
	sealing := func(p *process) bool { return newer(filepath.Join(h.dir, "worker", "tmp", "seal-*"), p.started) }
	checking := func(p *process) bool {
		return newer(filepath.Join(store, "work", "*", "refined", "*"), p.started) || sealing(p)
	}
	out = append(out,
		moment{"check", answered, upTo(100 * time.Millisecond)}, moment{"check", checking, 0},
		moment{"write", sealing, 0}, moment{"write", sealing, upTo(20 * time.Millisecond)})
	for _, f := range []struct{ stage, glob string }{
		{"upload", "data/*/*/*.parquet"}, {"publish", "manifests/*.json"}, {"commit", "versions/*.json"},
	} {
		out = append(out, moment{f.stage, func(p *process) bool {
			found, _ := filepath.Glob(filepath.Join(store, f.glob)) // the pattern is ours
			return len(found) > 0 && (sealing(p) || f.stage == "commit")
		}, 0})
	}
	return out
}

// newer tells whether a path of the pattern is younger than a moment.
func newer(pattern string, than time.Time) bool {
	found, _ := filepath.Glob(pattern) // the pattern is ours
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(than) {
			return true
		}
	}
	return false
}
