package activities

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/batches"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
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

var bothBatchAPIs = []string{teachers.APIOpenAIBatch, teachers.APIAnthropicBatch}

func TestBatchesAnswerEverythingAtHalfPrice(t *testing.T) {
	for _, api := range bothBatchAPIs {
		t.Run(api, func(t *testing.T) {
			server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{})
			w := newWorld(t)
			w.file("p.jsonl", sums(100))
			b := w.startBatches(batchRecipe("a", api, server.URL, ", batch: {rows: 30}")).all(3)
			s := server.Stats()
			if s.Submitted != 4 || s.Rows != 100 || s.SubmittedTwice != 0 || b.counts.New != 100 {
				t.Errorf("%+v %+v", s, b.counts)
			}
			if online := b.counts.PromptTokens + 2*b.counts.CompletionTokens; b.counts.CostMicros < online/2 || b.counts.CostMicros > online/2+100 {
				t.Errorf("%d micro-dollars, and %d online", b.counts.CostMicros, online)
			}
			for prompt, c := range b.candidates() {
				if c.Error != nil || c.Content() != "42" || c.CostMicros == nil || *c.CostMicros > (*c.PromptTokens+2*(*c.CompletionTokens)+1)/2 {
					t.Errorf("%s: %+v", prompt, c)
				}
			}
			// Nothing is left of it but the records.
			if left := w.objects("batches/"); strings.Contains(left, "jsonl.zst") || strings.Count(left, "state.json") != 4 {
				t.Errorf("%s", left)
			}
			// What was bought in batch serves online, and the other way round.
			online := strings.TrimSuffix(api, "-batch")
			again := w.start(batchRecipe("b", online, server.URL, "")).ask().counts["t"]
			if again.Reused != 100 || again.New != 0 || again.Failed != 0 {
				t.Errorf("%+v", again)
			}
		})
	}
}

func TestOnlineAnswersServeBatches(t *testing.T) {
	online := teacherstest.New(t, answers42)
	w := newWorld(t)
	w.file("p.jsonl", sums(10))
	w.start(batchRecipe("a", "openai", online.URL, ", identity: x")).ask()
	w.file("p.jsonl", sums(12))
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{})
	b := w.startBatches(batchRecipe("b", teachers.APIOpenAIBatch, server.URL, ", identity: x")).all(3)
	if s := server.Stats(); b.counts.Reused != 10 || b.counts.New != 2 || s.Rows != 2 {
		t.Errorf("%+v %+v", b.counts, s)
	}
}

// An expired batch keeps what it finished, and only the rest is sent again.
func TestExpiredBatchesSendOnlyTheRest(t *testing.T) {
	for _, api := range bothBatchAPIs {
		for _, state := range []string{"expired", "cancelled"} {
			t.Run(api+" "+state, func(t *testing.T) {
				server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{End: func(j teacherstest.BatchJob) teacherstest.Outcome {
					if j.Round == 0 {
						return teacherstest.Outcome{State: state, Done: 60}
					}
					return teacherstest.Outcome{}
				}})
				w := newWorld(t)
				w.file("p.jsonl", sums(100))
				b := w.startBatches(batchRecipe("a", api, server.URL, "")).all(3)
				jobs := server.Jobs()
				if len(jobs) != 2 || jobs[1].Rows != 40 || b.counts.New != 100 {
					t.Errorf("%+v %+v", jobs, b.counts)
				}
				if s := server.Stats(); s.Answered != 100 || s.Unique != 100 || s.SubmittedTwice != 0 {
					t.Errorf("%+v", s)
				}
				for prompt, c := range b.candidates() {
					if c.Error != nil {
						t.Errorf("%s: %s", prompt, *c.Error)
					}
				}
			})
		}
	}
}

// Row errors are rows with the server's words; only those that may pass are
// asked again.
func TestRowErrorsOfBatches(t *testing.T) {
	for _, api := range bothBatchAPIs {
		t.Run(api, func(t *testing.T) {
			var mu sync.Mutex
			seen := map[string]int{}
			server := teacherstest.NewBatch(t, func(r teacherstest.Request) teacherstest.Reply {
				mu.Lock()
				defer mu.Unlock()
				seen[r.Prompt]++
				switch {
				case r.Prompt == "0+1=":
					return teacherstest.Reply{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: "prompt is too long: 9 tokens"}
				case r.Prompt == "1+2=" && seen[r.Prompt] < 3:
					return teacherstest.Reply{Status: http.StatusInternalServerError, Type: "api_error", Message: "we are sorry"}
				case r.Prompt == "2+3=":
					return teacherstest.Reply{Status: http.StatusInternalServerError, Type: "api_error", Message: "for ever sorry"}
				}
				return teacherstest.Reply{Content: "42"}
			}, teacherstest.BatchOptions{})
			w := newWorld(t)
			w.file("p.jsonl", sums(20))
			b := w.startBatches(batchRecipe("a", api, server.URL, "")).all(4)
			if b.counts.New != 18 || seen["0+1="] != 1 || seen["1+2="] != 3 || seen["2+3="] != 4 || seen["5+6="] != 1 {
				t.Errorf("%+v %v", b.counts, seen)
			}
			all := b.candidates()
			for prompt, want := range map[string]string{"0+1=": teachers.ClassContextOverflow + " prompt is too long: 9 tokens", "2+3=": teachers.ClassServer + " for ever sorry"} {
				c := all[prompt]
				class, words, _ := strings.Cut(want, " ")
				if c.Error == nil || *c.Error != class || c.ErrorText == nil || !strings.Contains(*c.ErrorText, words) {
					t.Errorf("%s: %+v", prompt, c)
				}
			}
			if c := all["1+2="]; c.Error != nil {
				t.Errorf("%+v", c)
			}
			// The next run asks the failed ones once more, and nothing else.
			w.builds = int(w.a.Now().Unix()) + 1
			again := w.startBatches(batchRecipe("b", api, server.URL, "")).all(1)
			if again.counts.Reused != 18 || seen["0+1="] != 2 || seen["2+3="] != 5 || seen["5+6="] != 1 {
				t.Errorf("%+v %v", again.counts, seen)
			}
		})
	}
}

func TestABatchThatIsRefusedForOneLine(t *testing.T) {
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{End: func(j teacherstest.BatchJob) teacherstest.Outcome {
		if j.Round == 0 {
			return teacherstest.Outcome{State: "failed", Line: 3, Code: "invalid_value", Reason: "bad messages"}
		}
		return teacherstest.Outcome{}
	}})
	w := newWorld(t)
	w.file("p.jsonl", sums(10))
	b := w.startBatches(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, "")).all(3)
	if jobs := server.Jobs(); len(jobs) != 2 || jobs[1].Rows != 9 || b.counts.New != 9 {
		t.Errorf("%+v %+v", jobs, b.counts)
	}
	bad := 0
	for _, c := range b.candidates() {
		if c.Error != nil {
			bad++
			if *c.Error != teachers.ClassBadRequest || !strings.Contains(*c.ErrorText, "line 3 of its batch was refused: invalid_value: bad messages") {
				t.Errorf("%s", *c.ErrorText)
			}
		}
	}
	if bad != 1 {
		t.Errorf("%d rows are at fault, want one", bad)
	}
}

func TestABatchThatIsRefusedAsAWhole(t *testing.T) {
	for _, test := range []struct{ code, reason, class string }{
		{"billing_hard_limit_reached", "Billing hard limit has been reached", teachers.ClassQuota},
		{"model_not_found", "The provided model m is not supported by the Batch API", teachers.ClassNotFound},
		{"invalid_request", "nobody likes it", teachers.ClassBadRequest},
	} {
		server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{End: func(teacherstest.BatchJob) teacherstest.Outcome {
			return teacherstest.Outcome{State: "failed", Code: test.code, Reason: test.reason}
		}})
		w := newWorld(t)
		w.file("p.jsonl", sums(4))
		b := w.startBatches(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, "")).all(3)
		if b.stopped == nil || b.stopped.Class != test.class || !strings.Contains(b.stopped.Text, test.reason) || server.Stats().Submitted != 1 {
			t.Errorf("%+v: %+v", test, b.stopped)
		}
	}
	// A full queue passes.
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{End: func(j teacherstest.BatchJob) teacherstest.Outcome {
		if j.Round < 2 {
			return teacherstest.Outcome{State: "failed", Code: "token_limit_exceeded", Reason: "Enqueued token limit reached for m"}
		}
		return teacherstest.Outcome{}
	}})
	w := newWorld(t)
	w.file("p.jsonl", sums(4))
	b := w.startBatches(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, ""))
	c := b.collectAll(b.prepare(false))
	if c.WaitMS != (time.Minute).Milliseconds() || c.Stopped != nil || !strings.Contains(c.Why, "Enqueued token limit") {
		t.Errorf("%+v", c)
	}
	if b.all(3); b.counts.New != 4 || b.stopped != nil || server.Stats().SubmittedTwice != 0 {
		t.Errorf("%+v %+v", b.counts, b.stopped)
	}
}

// collectAll submits and collects, and gives the last batch's output.
func (b *batchRun) collectAll(p wire.BatchPrepareOutput) (out wire.BatchCollectOutput) {
	b.t.Helper()
	for _, key := range p.Submit {
		b.submit(key)
		for len(b.poll(key).Ended) == 0 {
			continue
		}
		out = b.collect(key)
	}
	return out
}

// What an endpoint sends that does not belong is refused, kept, and told.
func TestRowsThatDoNotBelong(t *testing.T) {
	for _, api := range bothBatchAPIs {
		t.Run(api, func(t *testing.T) {
			server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{Results: func(j teacherstest.BatchJob, failed bool, lines []string) []string {
				if failed || j.Round > 0 {
					return lines
				}
				first := lines[0]
				id := first[strings.Index(first, `"custom_id":"`)+len(`"custom_id":"`):][:batches.CustomIDLength]
				other := func(from, to int, by string) string {
					return strings.ReplaceAll(first, id, id[:from]+by+id[to:])
				}
				return append(lines[1:], // the first is missing under its own name
					other(0, 4, "ffff"),                          // an ask that is not in the batch
					other(33, 37, "ffff"),                        // another prompt's digest
					other(50, 58, "ffffffff"),                    // another batch
					strings.ReplaceAll(first, id, "x"),           // no id of ours
					lines[1],                                     // twice, the same
					strings.ReplaceAll(lines[2], `"42"`, `"43"`), // twice, another
					"this is not JSON", "")
			}})
			w := newWorld(t)
			w.file("p.jsonl", sums(10))
			b := w.startBatches(batchRecipe("a", api, server.URL, ""))
			c := b.collectAll(b.prepare(false))
			if c.Counts.New != 9 || c.Refused != 6 {
				t.Errorf("%+v", c)
			}
			evidence := w.object("batches/", "/refused.jsonl")
			for _, why := range []string{"its ask is not in this batch", "the digest of its prompt is another", "it is of another batch", "it is no id of ours", "the row came twice; the first is kept", "a row is not JSON"} {
				if !strings.Contains(evidence, why) {
					t.Errorf("%q is not in the evidence", why)
				}
			}
			for _, c := range b.candidates() {
				if c.Error == nil && c.Content() != "42" {
					t.Errorf("%q was taken", c.Content())
				}
			}
			// The row that was missing is asked again, and nothing else.
			b.round(b.prepare(true))
			if jobs := server.Jobs(); len(jobs) != 2 || jobs[1].Rows != 1 || b.prepare(true).Answered != 10 {
				t.Errorf("%+v", jobs)
			}
		})
	}
}

// object is the one object whose key has these ends.
func (w *world) object(prefix, suffix string) string {
	w.t.Helper()
	for at, err := range w.bucket.List(context.Background(), prefix, "") {
		if err != nil {
			w.t.Fatal(err)
		}
		if strings.HasSuffix(at.Key, suffix) {
			text, _, err := objstore.ReadAll(context.Background(), w.bucket, at.Key, 1<<24)
			if err != nil {
				w.t.Fatal(err)
			}
			return string(text)
		}
	}
	w.t.Fatalf("no object %s…%s", prefix, suffix)
	return ""
}

// Answers of another model are paid for and no use: they are kept as evidence,
// and where all are such the teacher is stopped before more are bought.
func TestAnswersOfAnotherModel(t *testing.T) {
	for _, api := range bothBatchAPIs {
		server := teacherstest.NewBatch(t, func(r teacherstest.Request) teacherstest.Reply {
			return teacherstest.Reply{Content: "42", Model: "someone-else"}
		}, teacherstest.BatchOptions{})
		w := newWorld(t)
		w.file("p.jsonl", sums(5))
		b := w.startBatches(batchRecipe("a", api, server.URL, "")).all(3)
		if b.stopped == nil || b.stopped.Class != teachers.ClassMismatch || !strings.Contains(b.stopped.Text, "write model: someone-else") || server.Stats().Submitted != 1 {
			t.Errorf("%+v", b.stopped)
		}
		for _, c := range b.candidates() {
			if c.Error == nil || *c.Error != teachers.ClassMismatch || c.Accepted {
				t.Errorf("%+v", c)
			}
		}
		if !strings.Contains(w.object("batches/", "/refused.jsonl"), "someone-else") {
			t.Error("no evidence is kept")
		}
	}
	// A dated name of the same model is the model.
	server := teacherstest.NewBatch(t, func(teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: "42", Model: "m-2026-11-01"}
	}, teacherstest.BatchOptions{})
	w := newWorld(t)
	w.file("p.jsonl", sums(5))
	if b := w.startBatches(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, "")).all(3); b.counts.New != 5 || b.stopped != nil {
		t.Errorf("%+v %+v", b.counts, b.stopped)
	}
}

// A crash, or a lost call, at every point between planning and keeping: the same
// answers, and nothing is submitted twice.
func TestNoPointAtWhichABatchIsSubmittedTwice(t *testing.T) {
	for _, api := range bothBatchAPIs {
		t.Run(api, func(t *testing.T) {
			points := 0
			for _, kind := range []string{"store fails", "store answers get lost"} {
				for point := 1; ; point++ {
					if !batchWithStoreFault(t, api, kind, point) {
						break
					}
					points++
				}
			}
			t.Logf("%d points at which the store failed", points)
			if points < 60 {
				t.Errorf("only %d points were tried", points)
			}
		})
	}
}

// batchWithStoreFault runs a build whose store fails once, at one point of its
// batches; false where there is no such point.
func batchWithStoreFault(t *testing.T, api, kind string, point int) bool {
	t.Helper()
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{End: func(j teacherstest.BatchJob) teacherstest.Outcome {
		if j.Round == 0 {
			return teacherstest.Outcome{State: "expired", Done: 3}
		}
		return teacherstest.Outcome{}
	}})
	w := newWorld(t)
	w.file("p.jsonl", sums(5))
	b := w.startBatches(batchRecipe("a", api, server.URL, ""))
	b.tolerant = true
	var n atomic.Int64
	hit := func(_, key string) error {
		if strings.HasPrefix(key, "batches/") && n.Add(1) == int64(point) {
			return objstore.ErrUnavailable
		}
		return nil
	}
	if kind == "store fails" {
		w.bucket.Fault = hit
	} else {
		w.bucket.Lost = hit
	}
	b.all(3)
	w.bucket.Fault, w.bucket.Lost = nil, nil
	s := server.Stats()
	answered := 0
	for _, c := range b.candidates() {
		if c.Error == nil && c.Content() == "42" {
			answered++
		}
	}
	if answered != 5 || s.SubmittedTwice != 0 || s.Answered != 5 || b.counts.New != 5 {
		t.Errorf("%s at point %d: %d answers, %+v, %+v", kind, point, answered, s, b.counts)
	}
	return n.Load() >= int64(point)
}

// Every call to the endpoint fails once in every way.
func TestNoFaultOfTheEndpointSubmitsTwice(t *testing.T) {
	faults := map[string]teacherstest.BatchFault{
		"500": {Status: 500}, "429": {Status: 429, Message: "slow down", Retry: time.Second}, "502": {Status: 502},
		"reset before": {Before: true}, "answer lost": {After: true},
	}
	ops := []string{teacherstest.OpUpload, teacherstest.OpFiles, teacherstest.OpSubmit, teacherstest.OpList, teacherstest.OpStatus, teacherstest.OpResult, teacherstest.OpDelete}
	for _, api := range bothBatchAPIs {
		for name, fault := range faults {
			for _, op := range ops {
				for _, row := range []int{0, 1} {
					server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{Fault: func(is string, n int) teacherstest.BatchFault {
						if is == op && n == row || is == teacherstest.OpSubmit && op == teacherstest.OpList && n == 0 {
							if is != op {
								return teacherstest.BatchFault{After: true} // so that it is listed at all
							}
							return fault
						}
						return teacherstest.BatchFault{}
					}})
					w := newWorld(t)
					w.file("p.jsonl", sums(6))
					b := w.startBatches(batchRecipe("a", api, server.URL, ", batch: {rows: 3}"))
					b.tolerant = true
					b.all(3)
					if s := server.Stats(); b.counts.New != 6 || b.stopped != nil || s.SubmittedTwice != 0 || s.Answered != 6 {
						t.Errorf("%s: %s of %s %d: %+v %+v %+v", api, name, op, row, b.counts, b.stopped, s)
					}
				}
			}
		}
	}
}

func TestACutFileOfResultsIsFetchedAgain(t *testing.T) {
	for _, api := range bothBatchAPIs {
		for name, fault := range map[string]teacherstest.BatchFault{"cut": {Cut: 0.5}, "broken off": {Break: 0.5}, "empty": {Cut: 1e-9}} {
			server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{Fault: func(op string, n int) teacherstest.BatchFault {
				if op == teacherstest.OpResult && n == 0 {
					return fault
				}
				return teacherstest.BatchFault{}
			}})
			w := newWorld(t)
			w.file("p.jsonl", sums(9))
			b := w.startBatches(batchRecipe("a", api, server.URL, ""))
			b.tolerant = true
			b.all(3)
			if s := server.Stats(); s.Submitted != 1 || s.Downloads != 2 || b.counts.New != 9 {
				t.Errorf("%s %s: %+v %+v", api, name, s, b.counts)
			}
		}
	}
}

func TestAuthStopsABatchTeacher(t *testing.T) {
	for _, op := range []string{teacherstest.OpUpload, teacherstest.OpSubmit, teacherstest.OpStatus} {
		server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{Fault: func(is string, _ int) teacherstest.BatchFault {
			if is == op {
				return teacherstest.BatchFault{Status: 401, Message: "Incorrect API key provided"}
			}
			return teacherstest.BatchFault{}
		}})
		w := newWorld(t)
		w.file("p.jsonl", sums(3))
		b := w.startBatches(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, "")).all(3)
		if b.stopped == nil || b.stopped.Class != teachers.ClassAuth || !strings.Contains(b.stopped.Text, "Incorrect API key") {
			t.Errorf("%s: %+v", op, b.stopped)
		}
	}
}

// A build that was cancelled leaves its batch running; the next one collects it.
func TestTheNextBuildCollectsWhatIsOpen(t *testing.T) {
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{})
	bucket := mem.New("t")
	w := newWorldOn(t, bucket)
	w.file("p.jsonl", sums(10))
	first := w.startBatches(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, ", batch: {rows: 5}"))
	p := first.prepare(false)
	first.submit(p.Submit[0]) // and not the second

	// On another machine, with another recipe that wants half of the asks.
	other := newWorldOn(t, bucket)
	other.builds = 7
	other.file("p.jsonl", sums(12))
	b := other.startBatches(batchRecipe("b", teachers.APIOpenAIBatch, server.URL, ""))
	p2 := b.prepare(false)
	if len(p2.Open) != 1 || p2.Open[0] != p.Submit[0] || len(p2.Submit) != 1 || p2.Asks != 12 {
		t.Fatalf("%+v", p2)
	}
	b.round(p2)
	if s := server.Stats(); s.Submitted != 2 || s.Rows != 12 || s.SubmittedTwice != 0 || b.counts.New != 12 {
		t.Errorf("%+v %+v", s, b.counts)
	}
	// The first build's other batch was given up: it finds its answers bought.
	if out := first.submit(p.Submit[1]); !out.Gone {
		t.Errorf("%+v", out)
	}
	if c := first.collect(p.Submit[0]); c.Counts.New != 0 || c.Ended != teachers.BatchCompleted {
		t.Errorf("what another build has collected is counted twice: %+v", c)
	}
	if p := first.prepare(false); p.Answered != 10 || len(p.Submit)+len(p.Open) != 0 {
		t.Errorf("%+v", p)
	}
}

// Somebody else's batch that looks like the one whose answer was lost is not
// taken for it, and ours is submitted all the same.
func TestAStrangersBatchIsNotOurs(t *testing.T) {
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{Fault: func(op string, n int) teacherstest.BatchFault {
		return teacherstest.BatchFault{Before: op == teacherstest.OpSubmit && n == 1}
	}})
	other := newWorld(t)
	other.file("p.jsonl", strings.ReplaceAll(sums(5), "+", " plus "))
	theirs := other.startBatches(batchRecipe("x", teachers.APIAnthropicBatch, server.URL, ""))
	w := newWorld(t)
	w.file("p.jsonl", sums(5))
	b := w.startBatches(batchRecipe("a", teachers.APIAnthropicBatch, server.URL, ""))
	p := b.prepare(false)
	theirs.submit(theirs.prepare(false).Submit[0]) // as many rows, at the same time
	b.round(p)
	if s := server.Stats(); b.counts.New != 5 || s.Submitted != 2 || s.SubmittedTwice != 0 {
		t.Errorf("%+v %+v", b.counts, s)
	}
}

// An endpoint that lists no batches leaves it open whether one was submitted:
// nothing is sent again on a guess.
func TestAnEndpointThatListsNothing(t *testing.T) {
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{Fault: func(op string, _ int) teacherstest.BatchFault {
		switch op {
		case teacherstest.OpSubmit:
			return teacherstest.BatchFault{After: true}
		case teacherstest.OpList:
			return teacherstest.BatchFault{Status: 404, Message: "Not Found"}
		}
		return teacherstest.BatchFault{}
	}})
	w := newWorld(t)
	w.file("p.jsonl", sums(3))
	b := w.startBatches(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, "")).all(3)
	if b.stopped == nil || b.stopped.Class != classUnknownBatch || !strings.Contains(b.stopped.Text, "state.json") || server.Stats().Submitted != 1 {
		t.Errorf("%+v %+v", b.stopped, server.Stats())
	}
}

func TestABatchThatIsGoneIsAskedAgain(t *testing.T) {
	var gone atomic.Bool
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{Fault: func(op string, _ int) teacherstest.BatchFault {
		if op == teacherstest.OpStatus && gone.Load() {
			return teacherstest.BatchFault{Status: 404, Message: "No batch found"}
		}
		return teacherstest.BatchFault{}
	}})
	w := newWorld(t)
	w.file("p.jsonl", sums(3))
	b := w.startBatches(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, ""))
	key := b.prepare(false).Submit[0]
	b.submit(key)
	gone.Store(true)
	// Another account's key would not find it either, and must not buy it anew.
	t.Setenv("OTHER", "sk-other-000000000000")
	other := newWorldOn(t, w.bucket)
	other.builds = 3
	other.file("p.jsonl", sums(3))
	foreign := other.startBatches(batchRecipe("b", teachers.APIOpenAIBatch, server.URL, ", api_key_env: OTHER"))
	foreign.round(foreign.prepare(false))
	if foreign.stopped == nil || foreign.stopped.Class != classUnknownBatch || !strings.Contains(foreign.stopped.Text, "variable OTHER") {
		t.Errorf("%+v", foreign.stopped)
	}
	if c := b.collect(key); c.Ended != "lost" {
		t.Errorf("%+v", c)
	}
	gone.Store(false)
	if b.all(2); b.counts.New != 3 {
		t.Errorf("%+v", b.counts)
	}
}

func TestCancelBatches(t *testing.T) {
	for _, api := range bothBatchAPIs {
		server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{Polls: 100})
		w := newWorld(t)
		w.file("p.jsonl", sums(10))
		b := w.startBatches(batchRecipe("a", api, server.URL, ""))
		p := b.prepare(false)
		b.submit(p.Submit[0])
		must[struct{}](w, wire.ActivityBatchCancel, wire.BatchPollInput{BuildRef: b.ref, Teacher: "t", Batches: append(p.Submit, strings.Repeat("0", 32))})
		b.round(wire.BatchPrepareOutput{Open: p.Submit})
		if s := server.Stats(); s.Cancelled != 1 || b.counts.New != 5 {
			t.Errorf("%s: %+v %+v", api, s, b.counts)
		}
	}
}

// Two tasks that come to the same ask are one row, and a row that is larger than
// any file is a row with its reason.
func TestRowsOfABatchFile(t *testing.T) {
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{})
	w := newWorld(t)
	w.file("p.jsonl", sums(4)+fmt.Sprintf(`{"question":%q,"gold":"1"}`+"\n", strings.Repeat("long ", 1000)))
	recipe := strings.Replace(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, ", batch: {bytes: 600}"), "gold: gold}}", "gold: gold}, efforts: [low, high]}", 1)
	b := w.startBatches(recipe).all(2)
	if s := server.Stats(); s.Rows != 4 || s.Submitted < 2 || b.counts.Asks != 10 || b.counts.New != 4 {
		t.Errorf("%+v %+v", s, b.counts)
	}
	b.refine()
	tooLarge := 0
	for _, task := range b.refined() {
		if c := task.Candidates[0]; c.Error != nil && *c.Error == teachers.ClassTooLarge && strings.Contains(*c.ErrorText, "a whole batch file at most") {
			tooLarge++
		}
	}
	if tooLarge != 2 {
		t.Errorf("%d candidates are too large, want both efforts of one prompt", tooLarge)
	}
}

// A folder stands in for a batch API: a runner works through its files.
func TestBatchesThroughAFolder(t *testing.T) {
	w := newWorld(t)
	w.file("p.jsonl", sums(10))
	recipe := strings.Replace(batchRecipe("a", teachers.APIOpenAIBatch, "URL", ", identity: own, batch: {folder: gpu-1, rows: 6}"), ", base_url: URL", "", 1)
	b := w.startBatches(recipe)
	p := b.prepare(false)
	for _, key := range p.Submit {
		if out := b.submit(key); !out.Submitted {
			t.Fatalf("%+v", out)
		}
	}
	if out := b.poll(p.Submit...); len(out.Ended) != 0 || !strings.Contains(out.Words, "batches/spool/gpu-1/results/") {
		t.Errorf("%+v", out)
	}
	put := func(key string, data []byte) {
		t.Helper()
		if _, err := objstore.PutBytes(context.Background(), w.bucket, "batches/spool/gpu-1/results/"+key+".jsonl", data, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i, key := range p.Submit {
		results := teacherstest.RunBatch([]byte(w.object("batches/spool/gpu-1/requests/"+key, ".jsonl")), answers42)
		if i > 0 {
			put(key, results)
			continue
		}
		// A runner that writes piece by piece is not read too soon.
		put(key, results[:len(results)/2])
		if out := b.poll(key); len(out.Ended) != 0 {
			t.Error("half a file was taken for whole")
		}
		put(key, results)
	}
	b.round(wire.BatchPrepareOutput{Open: p.Submit})
	if b.counts.New != 10 || w.objects("batches/spool/") != "" {
		t.Errorf("%+v, left: %s", b.counts, w.objects("batches/spool/"))
	}
}

// Two workers submit and collect the same batch at once: once is enough.
func TestTwoWorkersOneBatch(t *testing.T) {
	for _, api := range bothBatchAPIs {
		server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{})
		bucket := mem.New("t")
		w, other := newWorldOn(t, bucket), newWorldOn(t, bucket)
		w.file("p.jsonl", sums(20))
		b := w.startBatches(batchRecipe("a", api, server.URL, ""))
		key := b.prepare(false).Submit[0]
		other.a.Now = w.a.Now
		var wg sync.WaitGroup
		for _, one := range []*world{w, other, w, other} {
			wg.Go(func() {
				for range 1000 {
					out, err := call[wire.BatchSubmitOutput](one, wire.ActivityBatchSubmit, b.in(key))
					if err == nil && out.Submitted {
						return
					}
				}
				t.Error("it is not submitted after 1000 tries")
			})
		}
		wg.Wait()
		for len(b.poll(key).Ended) == 0 {
			continue
		}
		total := atomic.Int64{}
		for _, one := range []*world{w, other} {
			wg.Go(func() {
				for range 5 {
					if out, err := call[wire.BatchCollectOutput](one, wire.ActivityBatchCollect, b.in(key)); err == nil {
						total.Add(out.Counts.New)
						return
					} else if errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if s := server.Stats(); s.Submitted != 1 || total.Load()%20 != 0 {
			t.Errorf("%s: %+v, %d answers", api, s, total.Load())
		}
	}
}
