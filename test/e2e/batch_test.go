//go:build integration

package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

const (
	batchPrompts = 300
	batchKills   = 24
	batchSeed    = 11
)

// TestBatchKill builds with a teacher behind each batch API, whose endpoint
// loses answers, lets a batch expire and cuts a file of results, while the
// process is killed at random moments. What is published is what an undisturbed
// build publishes, byte for byte, and no row is submitted twice: what is
// submitted twice is paid for twice.
func TestBatchKill(t *testing.T) {
	t.Parallel() // it waits more than it works
	for _, api := range []string{"openai-batch", "anthropic-batch"} {
		t.Run(api, func(t *testing.T) { batchKill(t, api) })
	}
}

func batchKill(t *testing.T, api string) {
	dir := t.TempDir()
	var lines strings.Builder
	for i := range batchPrompts {
		fmt.Fprintf(&lines, `{"prompt":"Question %d: what does a still do?"}`+"\n", i)
	}
	write(t, filepath.Join(dir, "prompts.jsonl"), lines.String())
	answer := func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: "It distils. " + r.Prompt, Reasoning: "A still, then."}
	}
	recipe := func(url string) string {
		return write(t, filepath.Join(dir, "recipe.yaml"), fmt.Sprintf(`name: batched
prompts: [{path: prompts.jsonl, fields: {prompt: prompt}}]
teachers:
  - id: cheap
    api: %s
    base_url: '%s'
    identity: cheap
    model: m
    params: {max_tokens: 256}
    price: {input: 1, output: 2}
    batch: {rows: 64, poll: 100ms, settle: 1s}
output: {splits: {train: 0.9, test: 0.1}, seed: 7}
`, api, url))
	}

	calm := newHouse(t)
	quiet := teacherstest.NewBatch(t, answer, teacherstest.BatchOptions{})
	first := calm.build(recipe(quiet.URL))
	if s := quiet.Stats(); s.Submitted != 5 || s.Rows != batchPrompts || s.SubmittedTwice != 0 {
		t.Fatalf("the undisturbed build: %+v", s)
	}
	if first.CostUSD <= 0 || first.AnswersNew != batchPrompts {
		t.Fatalf("%+v", first)
	}

	// Each kind of call goes wrong now and then, by a seed.
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(batchSeed, batchSeed))
	faults := map[string]int{}
	server := teacherstest.NewBatch(t, answer, teacherstest.BatchOptions{
		Polls: 3,
		End: func(j teacherstest.BatchJob) teacherstest.Outcome {
			if j.Round == 1 {
				return teacherstest.Outcome{State: "expired", Done: j.Rows / 2}
			}
			return teacherstest.Outcome{}
		},
		Fault: func(op string, n int) teacherstest.BatchFault {
			mu.Lock()
			defer mu.Unlock()
			f := teacherstest.BatchFault{}
			switch x := r.Float64(); {
			case x < 0.05:
				f.Status = 503
			case x < 0.10:
				f.Before = true
			case x < 0.25 && op == teacherstest.OpSubmit || x < 0.12:
				f.After = true
			case x < 0.25 && op == teacherstest.OpResult:
				f.Cut = 0.5
			default:
				return f
			}
			faults[op]++
			return f
		},
	})
	path := recipe(server.URL)
	h := newHouse(t)
	kills := map[string]int{}
	done := false
	for i := 0; i < batchKills && !done; i++ {
		p := h.start("build", path, "--json", "--yes")
		what := killBatch(t, p, server, r, &mu, i)
		kills[what]++
		done = what == "ended"
	}
	if !done {
		h.build(path)
	}
	s := server.Stats()
	want, got := digests(calm.manifest("batched@1")), digests(h.manifest("batched@1"))
	if len(want) < 3 || !maps.Equal(want, got) {
		t.Errorf("the killed build published\n%v\nand the undisturbed one\n%v", got, want)
	}
	if s.SubmittedTwice != 0 || s.Answered != batchPrompts || s.Unique != batchPrompts {
		t.Errorf("%+v", s)
	}
	if h.versions("batched") != 1 {
		t.Errorf("%d versions, want one", h.versions("batched"))
	}
	h.run(0, "verify", "batched")
	t.Logf("%s: kills %v; %d batches of %d rows for %d asks; submitted twice %d; faults %v; calls %v",
		api, kills, s.Submitted, s.Rows, batchPrompts, s.SubmittedTwice, faults, s.Calls)

	// The online form of the same family finds every answer bought.
	online := write(t, filepath.Join(dir, "online.yaml"), strings.Replace(readText(path), "api: "+api, "api: "+strings.TrimSuffix(api, "-batch"), 1))
	text := strings.Replace(readText(online), "    batch: {rows: 64, poll: 100ms, settle: 1s}\n", "", 1)
	again := h.build(write(t, online, text))
	if again.AnswersNew != 0 || again.AnswersReused != batchPrompts {
		t.Errorf("online: %d new, %d reused", again.AnswersNew, again.AnswersReused)
	}
}

// killBatch kills a build some calls from now, and tells during which. Every
// second time it waits for a call that moves money or answers.
func killBatch(t *testing.T, p *process, server *teacherstest.BatchServer, r *rand.Rand, mu *sync.Mutex, i int) string {
	t.Helper()
	dear := []string{teacherstest.OpUpload, teacherstest.OpSubmit, teacherstest.OpList, teacherstest.OpResult}
	calls := func() (sum int) {
		for op, n := range server.Stats().Calls {
			if i%2 == 1 || slices.Contains(dear, op) {
				sum += n
			}
		}
		return sum
	}
	mu.Lock()
	more, later := 1+r.IntN(4), time.Duration(r.Int64N(int64(30*time.Millisecond)))
	mu.Unlock()
	from := calls()
	before := server.Stats().Calls
	eventually(t, commandLimit, "some calls to the endpoint, or the end", func() bool {
		return !p.running() || calls() >= from+more
	})
	if !p.running() {
		if p.code != 0 {
			t.Fatalf("kill %d: the build ended with %d:\n%s", i, p.code, tail(p.stderr(), 3000))
		}
		return "ended"
	}
	wait := time.NewTimer(later)
	<-wait.C
	p.kill()
	after := server.Stats().Calls
	for _, op := range append(dear, teacherstest.OpFiles, teacherstest.OpDelete, teacherstest.OpStatus) {
		if after[op] > before[op] {
			return op
		}
	}
	return "idle"
}
