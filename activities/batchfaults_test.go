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

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// A crash, or a lost call, at every point between planning and keeping: the same
// answers, and nothing is submitted twice.
func TestNoPointAtWhichABatchIsSubmittedTwice(t *testing.T) {
	t.Parallel() // it waits more than it works
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
	t.Parallel() // it waits more than it works
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

// Teachers of one endpoint open and close batches beside each other: none has to
// begin anew for the others' sake, and each ask goes into one batch.
func TestPreparationsBesideEachOther(t *testing.T) {
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{})
	bucket := mem.New("t")
	var puts atomic.Int64
	bucket.Fault = func(op, key string) error {
		if op == mem.OpPut && strings.HasSuffix(key, "requests.jsonl.zst") {
			puts.Add(1)
		}
		return nil
	}
	var wg sync.WaitGroup
	const builds, rows = 4, 30
	counts := make([]wire.AskCounts, builds)
	for i := range builds {
		w := newWorldOn(t, bucket)
		w.builds = 10 * i
		w.file("p.jsonl", strings.ReplaceAll(sums(rows), "=", fmt.Sprintf(" is, says %d,", i)))
		b := w.startBatches(batchRecipe(fmt.Sprintf("d%d", i), teachers.APIOpenAIBatch, server.URL, ", batch: {rows: 3}"))
		b.tolerant = true
		wg.Go(func() { counts[i] = b.all(1).counts })
	}
	wg.Wait()
	for i, c := range counts {
		if c.New != rows {
			t.Errorf("build %d: %+v", i, c)
		}
	}
	if s := server.Stats(); s.SubmittedTwice != 0 || s.Rows < builds*rows {
		t.Errorf("%+v", s)
	}
	t.Logf("%d files of requests were written for %d batches", puts.Load(), builds*rows/3)
}
