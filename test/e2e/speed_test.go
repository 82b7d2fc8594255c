//go:build integration

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Speed of a whole build against a bare loop, in one run on one machine:
//
//	go test -tags integration -run '^$' -bench BenchmarkBuild -benchtime 1x ./test/e2e
//
// STILLHOUSE_BENCH_PROMPTS sets the number of prompts (default 20,000).
const (
	speedConcurrency = 64
	// speedRatio is the least part of a bare loop's answers per second that a
	// build is to sustain while it asks.
	speedRatio = 0.5
	// speedMemory is the most that one process may hold, in MiB.
	speedMemory = 500
)

// BenchmarkBuild measures, three times, answers a second of a build and of a bare net/http
// loop that sends the same bodies with the same concurrency, and the most
// memory of the build's processes.
func BenchmarkBuild(b *testing.B) {
	n := 20_000
	if s := os.Getenv("STILLHOUSE_BENCH_PROMPTS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	var ratios []float64
	for b.Loop() {
		ratios = append(ratios, speedOnce(b, n), speedOnce(b, n), speedOnce(b, n))
	}
	// Machines are noisy, and one slow second is a third of a run: the median
	// counts.
	slices.Sort(ratios)
	if median := ratios[len(ratios)/2]; median < speedRatio {
		b.Errorf("builds reached %.2f of the bare loop's speed (%.2f), less than %.2f", median, ratios, speedRatio)
	}
}

// speedOnce runs one build and one bare loop, and gives the part of the loop's
// speed that the build reached while it asked.
func speedOnce(b *testing.B, n int) float64 {
	bodies := filepath.Join(b.TempDir(), "requests.jsonl")
	s := startSim(b, "-models", "synth", "-chunk", "4096", "-request-log", bodies)
	h := newHouse(b)
	var prompts strings.Builder
	for i := range n {
		fmt.Fprintf(&prompts, `{"prompt":"Question %d: what is %d times %d, and how do you know? Explain each step so that a student can follow it."}`+"\n", i, i, i%97)
	}
	dir := b.TempDir()
	write(b, filepath.Join(dir, "prompts.jsonl"), prompts.String())
	recipe := write(b, filepath.Join(dir, "recipe.yaml"), fmt.Sprintf(`
apiVersion: stillhouse/v1
name: speed
prompts: [{path: prompts.jsonl}]
teachers: [{id: synth, base_url: "%s", model: synth, identity: sim, limits: {concurrency: %d}}]
`, s.url(), speedConcurrency))

	p := h.start("build", recipe, "--json", "--quiet")
	span, memory := watchSpeed(p, s, n)
	if code := p.wait(10 * time.Minute); code != 0 {
		b.Fatalf("exit code %d\n%s", code, tail(p.stderr(), 2000))
	}
	build := p.result()
	asking := float64(n) * 0.9 / span.Seconds()

	s.reset()
	bare := bareLoop(b, s.url()+"/chat/completions", bodies, n)
	b.ReportMetric(bare, "bare/s")
	b.ReportMetric(asking, "asking/s")
	b.ReportMetric(float64(n)/build.DurationS, "build/s")
	b.ReportMetric(asking/bare, "asking/bare")
	b.ReportMetric(float64(n)/build.DurationS/bare, "build/bare")
	b.ReportMetric(float64(memory)/1024, "MiB")
	b.Logf("%d prompts: bare loop %.0f answers/s; build %.0f answers/s while it asks (%.2f of it), %.0f over the whole %.1f s (%.2f); at most %d MiB a process",
		n, bare, asking, asking/bare, float64(n)/build.DurationS, build.DurationS, float64(n)/build.DurationS/bare, memory/1024)
	if memory/1024 > speedMemory {
		b.Errorf("a process held %d MiB, more than %d", memory/1024, speedMemory)
	}
	return asking / bare
}

// watchSpeed measures on the server's side: the time from the first 5 % of the
// answers to the first 95 %, and the largest resident set of the build's
// processes, in KiB.
func watchSpeed(p *process, s *sim, n int) (span time.Duration, memory int64) {
	var first, last time.Time
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for p.running() {
		<-tick.C
		memory = max(memory, resident(p.cmd.Process.Pid))
		if !last.IsZero() {
			continue
		}
		done := s.total().Completed
		if first.IsZero() && done >= n/20 {
			first = time.Now()
		}
		if done >= n-n/20 {
			last = time.Now()
		}
	}
	return last.Sub(first), memory
}

var residentLine = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB`)

// resident is the largest resident set that a process and its children have
// had, in KiB; the largest of them.
func resident(pid int) int64 {
	most := int64(0)
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, id := range append(strings.Fields(string(children)), strconv.Itoa(pid)) {
		status, err := os.ReadFile("/proc/" + id + "/status")
		if err != nil {
			continue
		}
		if m := residentLine.FindSubmatch(status); m != nil {
			kib, _ := strconv.ParseInt(string(m[1]), 10, 64)
			most = max(most, kib)
		}
	}
	return most
}

// bareLoop sends the logged bodies with net/http and reads the answers, and
// nothing else: the most that this machine's client and server can do.
func bareLoop(b *testing.B, url, log string, n int) float64 {
	text, err := os.ReadFile(log)
	if err != nil {
		b.Fatal(err)
	}
	var bodies []json.RawMessage
	for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		bodies = append(bodies, line)
	}
	if len(bodies) < n {
		b.Fatalf("%d bodies logged, want %d", len(bodies), n)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: speedConcurrency, MaxConnsPerHost: speedConcurrency}}
	defer client.CloseIdleConnections()
	work := make(chan json.RawMessage)
	var wg sync.WaitGroup
	start := time.Now()
	for range speedConcurrency {
		wg.Go(func() {
			for body := range work {
				resp, err := client.Post(url, "application/json", bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	for _, body := range bodies[:n] {
		work <- body
	}
	close(work)
	wg.Wait()
	return float64(n) / time.Since(start).Seconds()
}
