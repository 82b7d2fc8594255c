package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// askRecipe is a build over p.jsonl with one teacher; more is in its map.
func askRecipe(name, url, more string) string {
	return fmt.Sprintf("name: %s\nprompts: [{path: p.jsonl, fields: {prompt: question, gold: gold}}]\nteachers: [{id: t, model: m, base_url: %s%s}]\n", name, url, more)
}

// answers42 answers everything with "42".
func answers42(teacherstest.Request) teacherstest.Reply {
	return teacherstest.Reply{Content: "42"}
}

func TestAskPaysOnlyForTheDifference(t *testing.T) {
	server := teacherstest.New(t, answers42)
	w := newWorld(t)
	w.file("p.jsonl", sums(100))
	r := w.start(askRecipe("a", server.URL, ", price: {input: 1, output: 2}"))
	first := r.ask().counts["t"]
	// "0+1=" is 4 bytes: the fake counts (4+3)/4+4 prompt tokens, "42" is one.
	if first.Asks != 100 || first.New != 100 || first.Reused != 0 || first.Failed != 0 || first.CompletionTokens != 100 || first.CostMicros != first.PromptTokens+2*100 || first.Unpriced != 0 {
		t.Errorf("%+v", first)
	}
	again := w.start(askRecipe("b", server.URL, "")).ask().counts["t"]
	if again.Asks != 100 || again.New != 0 || again.Reused != 100 || again.CostMicros != 0 {
		t.Errorf("%+v", again)
	}
	w.file("p.jsonl", sums(101))
	more := w.start(askRecipe("c", server.URL, "")).ask().counts["t"]
	if more.New != 1 || more.Reused != 100 || more.Unpriced != 1 {
		t.Errorf("%+v", more)
	}
	w.start(askRecipe("d", server.URL, ", epoch: 1")).ask()
	if s := server.Stats(); s.Completed != 202 || s.PaidTwice != 101 { // epoch 1 asks the same bodies anew
		t.Errorf("%+v", s)
	}
}

func TestAskEachSampleOnceWithItsSeed(t *testing.T) {
	var mu sync.Mutex
	seeds := map[string]int{}
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		seed := "none"
		if r.Seed != nil {
			seed = fmt.Sprint(*r.Seed)
		}
		mu.Lock()
		seeds[seed]++
		mu.Unlock()
		return teacherstest.Reply{Content: "seed " + seed}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(10))
	r := w.start(askRecipe("a", server.URL, "") + "ask: {samples: 3}\n")
	r.ask()
	for _, seed := range []string{"none", "1", "2"} {
		if seeds[seed] != 10 {
			t.Errorf("seeds %v", seeds)
		}
	}
	counts := r.refine()
	if counts.Candidates != 30 || counts.Selected != 30 || server.Stats().PaidTwice != 0 {
		t.Errorf("%+v", counts)
	}
	for _, task := range r.refined() {
		for i, c := range task.Candidates {
			want, params := fmt.Sprintf("seed %d", i), fmt.Sprintf(`{"seed":%d}`, i)
			if i == 0 {
				want, params = "seed none", "{}"
			}
			if int(c.SampleIndex) != i || c.Content() != want || c.ParamsAsked != params {
				t.Fatalf("sample %d: %+v", i, c)
			}
		}
	}
	// Fewer samples are there already; one more costs one.
	if c := w.start(askRecipe("b", server.URL, "") + "ask: {samples: 2}\n").ask().counts["t"]; c.New != 0 {
		t.Errorf("%+v", c)
	}
	if c := w.start(askRecipe("c", server.URL, "") + "ask: {samples: 4}\n").ask().counts["t"]; c.New != 10 || c.Reused != 30 {
		t.Errorf("%+v", c)
	}
}

// What an endpoint may say to one prompt, and what comes of it.
func TestOnePromptsFate(t *testing.T) {
	const odd = "5+6=" // the prompt that gets the reply; all others are answered
	for _, tc := range []struct {
		name   string
		reply  teacherstest.Reply
		failed int64  // asks
		class  string // of its candidate's error
		reason string // of its rejection
		again  int    // requests of the next build
	}{
		{"cut off at the cap", teacherstest.Reply{Content: "It is", Finish: "length"}, 0, "", "truncated", 0},
		{"held back", teacherstest.Reply{Content: "x", Finish: "content_filter"}, 0, "", "content_filter", 0},
		{"an empty answer", teacherstest.Reply{Content: " \n"}, 0, "", "empty", 0},
		{"refused as it is", teacherstest.Reply{Status: 400, Message: "no"}, 1, "bad_request", "error:bad_request", 1},
		{"too long", teacherstest.Reply{Status: 400, Message: "maximum context length is 8 tokens", Code: "context_length_exceeded"}, 1, "context_overflow", "error:context_overflow", 1},
		{"a word of its own", teacherstest.Reply{Content: "x", Finish: "<script>\u202e"}, 0, "", "finish:_script__", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
				if r.Prompt == odd {
					return tc.reply
				}
				return teacherstest.Reply{Content: "42"}
			})
			w := newWorld(t)
			w.file("p.jsonl", sums(20))
			r := w.start(askRecipe("a", server.URL, ", params: {max_completion_tokens: 64}"))
			if c := r.ask().counts["t"]; c.New != 20-tc.failed || c.Failed != tc.failed || r.reports["t"].Stopped != nil {
				t.Errorf("%+v %+v", c, r.reports["t"].Stopped)
			}
			r.refine()
			_, result := r.seal()
			if result.Accepted != 19 || result.Rejected[tc.reason] != 1 || len(result.Rejected) != 1 {
				t.Errorf("%+v", result.Rejected)
			}
			for _, c := range rows[datasets.Candidate](w, "a", datasets.TableCandidates) {
				if *c.Messages[0].Content != odd {
					continue
				}
				if (c.Error == nil) != (tc.class == "") || c.Error != nil && *c.Error != tc.class || c.Accepted {
					t.Errorf("%+v", c)
				}
			}
			status := map[bool]string{true: datasets.StatusClean, false: datasets.StatusUnanswered}[tc.class == ""]
			for _, p := range rows[datasets.PromptRow](w, "a", datasets.TablePrompts) {
				if *p.Messages[0].Content == odd && p.Status != status {
					t.Errorf("its status is %s", p.Status)
				}
			}
			before := server.Stats().Requests
			w.start(askRecipe("b", server.URL, ", params: {max_completion_tokens: 64}")).ask()
			if got := server.Stats().Requests - before; got != tc.again {
				t.Errorf("the next build sends %d requests, want %d", got, tc.again)
			}
		})
	}
}

// A larger cap serves what ended by itself and asks again what was cut off.
func TestALargerCapAsksOnlyForTheCutOff(t *testing.T) {
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		if strings.HasPrefix(r.Prompt, "1") && strings.Contains(string(r.Body), ":64") {
			return teacherstest.Reply{Content: "It", Finish: "length"}
		}
		return teacherstest.Reply{Content: "42"}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(20)) // eleven begin with 1
	w.start(askRecipe("a", server.URL, ", params: {max_completion_tokens: 64}")).ask()
	if c := w.start(askRecipe("b", server.URL, ", params: {max_completion_tokens: 128}")).ask().counts["t"]; c.New != 11 || c.Reused != 9 {
		t.Errorf("%+v", c)
	}
}

// Errors that say that no ask will do better end the stream of the teacher and
// leave the others alone.
func TestUnusableTeachers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reply teacherstest.Reply
		class string
	}{
		{"wrong key", teacherstest.Reply{Status: 401, Message: "Incorrect API key provided: sk-abcdefghijklmnopqrstuvwxyz"}, "auth"},
		{"no money", teacherstest.Reply{Status: 429, Message: "You exceeded your current quota", Code: "insufficient_quota"}, "quota"},
		{"wrong model", teacherstest.Reply{Status: 404, Message: "The model m does not exist", Code: "model_not_found"}, "not_found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return tc.reply })
			good := teacherstest.New(t, answers42)
			t.Setenv("THE_KEY", "sk-abcdefghijklmnopqrstuvwxyz")
			w := newWorld(t)
			w.file("p.jsonl", sums(300))
			r := w.start(fmt.Sprintf("name: a\nprompts: [{path: p.jsonl}]\nteachers:\n  - {id: bad, model: m, base_url: %s, api_key_env: THE_KEY}\n  - {id: good, model: m, base_url: %s}\n", bad.URL, good.URL)).ask()
			if s := r.reports["bad"].Stopped; s == nil || s.Class != tc.class {
				t.Fatalf("%+v", s)
			}
			if n := bad.Stats().Requests; n > 20 {
				t.Errorf("%d requests before it was given up", n)
			}
			r.refine()
			out, result := r.seal()
			if out.Version != 1 || fmt.Sprint(out.Stopped) != "[bad]" || result.Rows["train"] != 300 || result.AnswersNew != 300 {
				t.Errorf("%+v %+v", out, result)
			}
			why := result.Stopped["bad"]
			if !strings.Contains(why, "bad") || !strings.Contains(why, bad.URL) || strings.Contains(why, "sk-abc") {
				t.Errorf("%q", why)
			}
			if text := everything(t, w.bucket); strings.Contains(text, "sk-abcdefgh") {
				t.Error("the key is in the store")
			}
		})
	}
}

// everything is all bytes of a bucket, as they are.
func everything(t *testing.T, b *mem.Bucket) string {
	t.Helper()
	var all strings.Builder
	for at, err := range b.List(context.Background(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := objstore.ReadAll(context.Background(), b, at.Key, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}

func TestAskOfAPromptThatCannotBeAsked(t *testing.T) {
	server := teacherstest.New(t, answers42)
	w := newWorld(t)
	w.file("p.jsonl", `{"question":"1+1=","tools":[{"type":"function","function":{"name":"f"}}]}`+"\n")
	r := w.start(fmt.Sprintf("name: a\nprompts: [{path: p.jsonl, fields: {tools: tools}}]\nteachers: [{id: t, model: m, base_url: %s, params: {tools: []}}]\n", server.URL))
	_, err := call[wire.AskOutput](w, wire.ActivityAskShard, r.askInput("t", 0))
	var application *temporal.ApplicationError
	if !errors.As(err, &application) || !application.NonRetryable() || !strings.Contains(err.Error(), "p.jsonl:1") || !strings.Contains(err.Error(), "tools") {
		t.Errorf("%v", err)
	}
}

// When the store fails nothing is lost: the answers are in the journal, and the
// next attempt indexes them and asks nobody.
func TestAskWhileTheStoreIsAway(t *testing.T) {
	server := teacherstest.New(t, answers42)
	bucket := mem.New("t")
	var away atomic.Bool
	bucket.Fault = func(op, key string) error {
		if away.Load() && strings.HasPrefix(key, "answers/") && op == mem.OpPut {
			return objstore.ErrUnavailable
		}
		return nil
	}
	w := newWorldOn(t, bucket)
	w.file("p.jsonl", sums(40))
	r := w.start(askRecipe("a", server.URL, ""))
	away.Store(true)
	_, err := call[wire.AskOutput](w, wire.ActivityAskShard, r.askInput("t", 0))
	var application *temporal.ApplicationError
	if err == nil || errors.As(err, &application) && application.NonRetryable() {
		t.Fatalf("%v", err)
	}
	away.Store(false)
	if out := r.askBatch("t", 0); out.Counts.Reused != 40 || out.Counts.New != 0 {
		t.Errorf("%+v", out)
	}
	if s := server.Stats(); s.Completed != 40 || s.PaidTwice != 0 {
		t.Errorf("%+v", s)
	}
	r.refine()
	if _, result := r.seal(); result.AnswersNew != 40 || result.Rows["train"] != 40 {
		t.Errorf("%+v", result)
	}
}

// gate is a teacher that answers when it is told to.
type gate struct {
	*teacherstest.Server
	arrived chan string // prompts
	open    chan struct{}
}

func newGate(t *testing.T) *gate {
	g := &gate{arrived: make(chan string, 1000), open: make(chan struct{})}
	g.Server = teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		g.arrived <- r.Prompt
		select {
		case <-g.open:
		case <-r.Done:
		}
		return teacherstest.Reply{Content: "42"}
	})
	return g
}

// await waits for n requests.
func (g *gate) await(n int) {
	for range n {
		<-g.arrived
	}
}

// A cancelled batch sends nothing more, and keeps what was under way however
// long that takes.
func TestCancelKeepsWhatIsUnderWay(t *testing.T) {
	server := newGate(t)
	w := newWorld(t)
	w.file("p.jsonl", sums(60))
	r := w.start(askRecipe("a", server.URL, ", limits: {concurrency: 4}"))
	ctx, cancel := context.WithCancelCause(context.Background())
	w.ctx = ctx
	result := make(chan error, 1)
	go func() {
		_, err := call[wire.AskOutput](w, wire.ActivityAskShard, r.askInput("t", 0))
		result <- err
	}()
	server.await(4)
	cancel(temporal.NewCanceledError())
	close(server.open)
	if err := <-result; !temporal.IsCanceledError(err) {
		t.Errorf("%v", err)
	}
	if n := server.Stats().Completed; n != 4 {
		t.Errorf("%d answers", n)
	}
	w.ctx = context.Background()
	if out := r.askBatch("t", 0); out.Counts.Reused != 4 || out.Counts.New != 56 || server.Stats().PaidTwice != 0 {
		t.Errorf("%+v %+v", out, server.Stats())
	}
}

// A worker that stops waits for what is under way, for a while.
func TestAStoppingWorkerDrains(t *testing.T) {
	for _, patient := range []bool{true, false} {
		t.Run(fmt.Sprint(patient), func(t *testing.T) {
			server := newGate(t)
			w := newWorld(t)
			w.file("p.jsonl", sums(60))
			stopping := make(chan struct{})
			w.a.Stopping, w.a.Drain = stopping, time.Hour
			if !patient {
				w.a.Drain = time.Nanosecond
			}
			r := w.start(askRecipe("a", server.URL, ", limits: {concurrency: 4}"))
			result := make(chan error, 1)
			go func() {
				_, err := call[wire.AskOutput](w, wire.ActivityAskShard, r.askInput("t", 0))
				result <- err
			}()
			server.await(4)
			close(stopping)
			if patient {
				close(server.open)
			}
			if err := <-result; err == nil || !strings.Contains(err.Error(), errStopping.Error()) {
				t.Errorf("%v", err)
			}
			kept := 0
			if patient {
				kept = 4
			} else {
				close(server.open)
			}
			w.a.Stopping = nil
			if out := r.askBatch("t", 0); out.Counts.Reused != int64(kept) || out.Counts.New != int64(60-kept) {
				t.Errorf("%+v", out)
			}
			if s := server.Stats(); patient && s.PaidTwice != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Two batches that come to the same asks share their answers: an attempt that
// the server gave up for lost and its successor, and two efforts that a teacher
// takes alike.
func TestNothingIsAskedTwiceAtOnce(t *testing.T) {
	t.Run("two attempts", func(t *testing.T) {
		server := newGate(t)
		w := newWorld(t)
		w.file("p.jsonl", sums(30))
		r := w.start(askRecipe("a", server.URL, ", limits: {concurrency: 30}"))
		outs := make(chan wire.AskOutput, 2)
		ask := func() { outs <- r.askBatch("t", 0) }
		go ask()
		server.await(30)
		go ask()
		close(server.open)
		a, b := <-outs, <-outs
		if a.Counts.New+b.Counts.New != 30 || a.Counts.Reused+b.Counts.Reused != 30 || server.Stats().Requests != 30 {
			t.Errorf("%+v %+v %+v", a.Counts, b.Counts, server.Stats())
		}
	})
	t.Run("two efforts", func(t *testing.T) {
		server := teacherstest.New(t, answers42)
		w := newWorld(t)
		w.file("p.jsonl", sums(30))
		r := w.start(strings.Replace(askRecipe("a", server.URL, ", limits: {concurrency: 60}"), "path: p.jsonl,", "path: p.jsonl, efforts: [low, high],", 1))
		batches := r.plan.Teachers[0].Batches
		if batches != 2 {
			t.Fatalf("%d batches", batches)
		}
		outs := make(chan wire.AskOutput, batches)
		for batch := range batches {
			go func() { outs <- r.askBatch("t", batch) }()
		}
		a, b := <-outs, <-outs
		if a.Counts.New+b.Counts.New != 30 || a.Counts.Reused+b.Counts.Reused != 30 || server.Stats().PaidTwice != 0 {
			t.Errorf("%+v %+v %+v", a.Counts, b.Counts, server.Stats())
		}
		if counts := r.refine(); counts.Selected != 60 {
			t.Errorf("%+v", counts)
		}
	})
	t.Run("the first one fails", func(t *testing.T) {
		var first sync.Once
		arrived, open := make(chan struct{}), make(chan struct{})
		server := teacherstest.New(t, func(r teacherstest.Request) (reply teacherstest.Reply) {
			reply = teacherstest.Reply{Content: "42"}
			first.Do(func() {
				close(arrived)
				<-open
				reply = teacherstest.Reply{Status: 400, Message: "not today"}
			})
			return reply
		})
		w := newWorld(t)
		w.file("p.jsonl", sums(1))
		r := w.start(askRecipe("a", server.URL, ""))
		outs := make(chan wire.AskOutput, 2)
		go func() { outs <- r.askBatch("t", 0) }()
		<-arrived
		go func() { outs <- r.askBatch("t", 0) }()
		close(open)
		a, b := <-outs, <-outs
		if a.Counts.New+b.Counts.New != 1 || a.Counts.Failed+b.Counts.Failed != 1 {
			t.Errorf("%+v %+v", a.Counts, b.Counts)
		}
	})
}

// Two workers with homes of their own may pay twice for what both had in
// flight; the answer that the index names first is the answer of both.
func TestTwoWorkersAgreeOnTheFirstAnswer(t *testing.T) {
	var n atomic.Int64
	open := make(chan struct{})
	arrived := make(chan struct{}, 100)
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		arrived <- struct{}{}
		<-open
		return teacherstest.Reply{Content: fmt.Sprint("answer ", n.Add(1))}
	})
	one := newWorld(t)
	two := newWorldOn(t, one.bucket)
	one.file("p.jsonl", sums(10))
	r := one.start(askRecipe("a", server.URL, ", limits: {concurrency: 10}"))
	other := *r
	other.w = two
	var wg sync.WaitGroup
	for _, r := range []*run{r, &other} {
		wg.Go(func() { r.askBatch("t", 0) })
	}
	for range 20 {
		<-arrived
	}
	close(open)
	wg.Wait()
	r.refine()
	first := asRefined(t, r.refined())
	if err := clearPrefix(one.bucket, workPrefix(r.ref.Dataset, r.ref.BuildID, stageRefined)); err != nil {
		t.Fatal(err)
	}
	other.refine()
	if second := asRefined(t, other.refined()); first != second {
		t.Errorf("the workers refine different answers:\n%s\n%s", first, second)
	}
}

func asRefined(t *testing.T, tasks []refinedTask) string {
	t.Helper()
	var b strings.Builder
	for _, task := range tasks {
		for _, c := range task.Candidates {
			fmt.Fprintln(&b, c.SampleID, c.Content(), c.Accepted, c.Selected)
		}
	}
	return b.String()
}

func TestAskOfAnUnknownBatchOrTeacher(t *testing.T) {
	server := teacherstest.New(t, answers42)
	w := newWorld(t)
	w.file("p.jsonl", sums(3))
	r := w.start(askRecipe("a", server.URL, ""))
	if _, err := call[wire.AskOutput](w, wire.ActivityAskShard, r.askInput("t", 1)); err == nil || !strings.Contains(err.Error(), "1 batches") {
		t.Errorf("%v", err)
	}
	if _, err := call[wire.AskOutput](w, wire.ActivityAskShard, r.askInput("u", 0)); err == nil || !strings.Contains(err.Error(), "not in the recipe") {
		t.Errorf("%v", err)
	}
	if server.Stats().Requests != 0 {
		t.Error("somebody was asked")
	}
}

// No payload of an ask may grow with what an endpoint says.
func TestAskOutputStaysSmall(t *testing.T) {
	h := newHealth()
	h.failed(&teachers.Error{Class: teachers.ClassAuth, Excerpt: strings.Repeat("<", 5000)}, time.Now(), time.Now())
	if n := len(h.stop().Text); n > 1010 {
		t.Errorf("%d bytes", n)
	}
}
