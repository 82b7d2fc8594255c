package activities

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// batchRecipe is a build over p.jsonl with one batch teacher; more is in its map.
func batchRecipe(name, api, url, more string) string {
	return askRecipe(name, url, ", api: "+api+", params: {max_tokens: 64}, price: {input: 1, output: 2}"+more)
}

// A batchRun does what a batch stream does, without a Temporal server: a clock
// of its own stands in for the timers.
type batchRun struct {
	*run
	t        testing.TB
	clock    *atomic.Int64
	counts   wire.AskCounts
	stopped  *wire.TeacherFailed
	steps    int
	tolerant bool // errors are tried again, as the activities' policy does
}

// startBatches plans a build of a batch teacher.
func (w *world) startBatches(recipe string) *batchRun {
	w.t.Helper()
	return &batchRun{run: w.start(recipe), t: w.t, clock: w.clock()}
}

// clock gives the world a clock that stands still until it is told.
func (w *world) clock() *atomic.Int64 {
	var ahead atomic.Int64
	began := time.Now()
	w.a.Now = func() time.Time { return began.Add(time.Duration(ahead.Load())) }
	return &ahead
}

// do runs one activity; with tolerance until it succeeds.
func do[T any](b *batchRun, name string, in any) T {
	b.t.Helper()
	for {
		if b.steps++; b.steps > 1000 {
			b.t.Fatalf("%s: no end after %d steps", name, b.steps)
		}
		out, err := call[T](b.w, name, in)
		if err == nil {
			return out
		}
		if !b.tolerant {
			b.t.Fatalf("%s: %v", name, err)
		}
	}
}

func (b *batchRun) in(key string) wire.BatchInput {
	return wire.BatchInput{BuildRef: b.ref, Teacher: "t", Batch: key}
}

func (b *batchRun) prepare(retry bool) wire.BatchPrepareOutput {
	b.t.Helper()
	return do[wire.BatchPrepareOutput](b, wire.ActivityBatchPrepare, wire.BatchPrepareInput{
		BuildRef: b.ref, PlanKey: b.plan.Key, Teacher: "t", Retry: retry,
	})
}

// submit submits a batch, and waits as long as it is told to.
func (b *batchRun) submit(key string) wire.BatchSubmitOutput {
	b.t.Helper()
	for {
		out := do[wire.BatchSubmitOutput](b, wire.ActivityBatchSubmit, b.in(key))
		if out.WaitMS == 0 {
			return out
		}
		b.clock.Add(int64(time.Duration(out.WaitMS) * time.Millisecond))
	}
}

func (b *batchRun) poll(keys ...string) wire.BatchPollOutput {
	b.t.Helper()
	return do[wire.BatchPollOutput](b, wire.ActivityBatchPoll, wire.BatchPollInput{BuildRef: b.ref, Teacher: "t", Batches: keys})
}

func (b *batchRun) collect(key string) wire.BatchCollectOutput {
	b.t.Helper()
	return do[wire.BatchCollectOutput](b, wire.ActivityBatchCollect, b.in(key))
}

// round submits and collects all that is open.
func (b *batchRun) round(p wire.BatchPrepareOutput) {
	b.t.Helper()
	submit, open := p.Submit, p.Open
	for len(submit)+len(open) > 0 && b.stopped == nil {
		for _, key := range submit {
			out := b.submit(key)
			if b.stopped = out.Stopped; out.Stopped != nil {
				return
			}
			if out.Submitted {
				open = append(open, key)
			}
		}
		submit = nil
		out := b.poll(open...)
		if b.stopped = out.Stopped; out.Stopped != nil {
			return
		}
		for _, key := range out.Ended {
			c := b.collect(key)
			b.counts.Add(c.Counts)
			if b.stopped == nil {
				b.stopped = c.Stopped
			}
			switch {
			case c.Foreign:
				submit = append(submit, key)
			case c.Ended == "":
				continue
			}
			open = removed(open, key)
		}
	}
}

func removed(keys []string, key string) (out []string) {
	for _, k := range keys {
		if k != key {
			out = append(out, k)
		}
	}
	return out
}

// all goes on for so many rounds, or until nothing is left.
func (b *batchRun) all(rounds int) *batchRun {
	b.t.Helper()
	for i := range rounds {
		p := b.prepare(i > 0)
		if i == 0 {
			b.counts.Asks, b.counts.Reused = p.Asks, p.Answered
		}
		if len(p.Submit)+len(p.Open) == 0 || b.stopped != nil {
			return b
		}
		b.round(p)
	}
	return b
}

// candidates are what the build made of its asks, by prompt.
func (b *batchRun) candidates() map[string]datasets.Candidate {
	b.t.Helper()
	b.refine()
	out := map[string]datasets.Candidate{}
	for _, task := range b.refined() {
		out[*task.Task.Prompt.Messages[0].Content] = task.Candidates[0]
	}
	return out
}
