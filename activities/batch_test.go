package activities

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/batches"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

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
		if b.stopped == nil || b.stopped.Class != teachers.ClassMismatch || !strings.Contains(b.stopped.Text, `write model: "someone-else" if`) || server.Stats().Submitted != 1 {
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

// A preview looks at a few answers: a batch teacher is asked for them online.
func TestAPreviewDoesNotWaitForABatch(t *testing.T) {
	online := teacherstest.New(t, answers42)
	w := newWorld(t)
	w.file("p.jsonl", sums(20))
	ref := w.submit(batchRecipe("a", teachers.APIOpenAIBatch, online.URL, ""))
	full := must[wire.PlanOutput](w, wire.ActivityPlan, ref)
	if b := full.Teachers[0].Batch; b == nil || b.PollMS != 30_000 {
		t.Errorf("%+v", full.Teachers[0])
	}
	ref.Preview = 3
	plan := must[wire.PlanOutput](w, wire.ActivityPlan, ref)
	if plan.Teachers[0].Batch != nil {
		t.Errorf("%+v", plan.Teachers[0])
	}
	out := must[wire.AskOutput](w, wire.ActivityAskShard, wire.AskInput{BuildRef: ref, PlanKey: plan.Key, Teacher: "t"})
	if out.Counts.New != 3 || online.Stats().Completed != 3 {
		t.Errorf("%+v", out.Counts)
	}
}

// What an older parser could not read and today's can is read, and not asked
// again in a batch.
func TestBatchesDoNotAskForWhatCanBeReadNow(t *testing.T) {
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{})
	w := newWorld(t)
	w.file("p.jsonl", sums(3))
	b := w.startBatches(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, ""))
	rt, plan, err := w.a.planned(context.Background(), b.ref, b.plan.Key)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := w.a.tasks(context.Background(), plan, 0)
	if err != nil {
		t.Fatal(err)
	}
	asks, err := rt.teachers["t"].asks(&tasks[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	rec := &answers.Record{
		Ask: asks[0].ask, Teacher: "t", Model: "m", Format: teachers.FormatOpenAIJSON, Status: 200,
		Raw:     []byte(`{"model":"m","choices":[{"message":{"content":"read now"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`),
		Started: time.Now(), Latency: time.Second, Attempts: 1, ErrorClass: teachers.ClassMalformed, ErrorText: "an older parser",
	}
	if err := w.a.Answers.Append(context.Background(), rec); err != nil {
		t.Fatal(err)
	}
	b.all(2)
	if s := server.Stats(); s.Rows != 2 || b.counts.Reused != 1 || b.counts.New != 2 {
		t.Errorf("%+v %+v", s, b.counts)
	}
	contents := map[string]int{}
	for _, c := range b.candidates() {
		contents[c.Content()]++
	}
	if contents["read now"] != 1 || contents["42"] != 2 {
		t.Errorf("%v", contents)
	}
}
