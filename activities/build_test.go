package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// A plan that dies between any two operations is the same plan when it is made
// again.
func TestPlanSurvivesACrashAnywhere(t *testing.T) {
	w := newWorld(t)
	recordedSums(w, 40)
	ref := w.submit(recordedSumsRecipe)
	base := copyBucket(t, w.bucket)
	want := must[wire.PlanOutput](w, wire.ActivityPlan, ref)
	if again := must[wire.PlanOutput](w, wire.ActivityPlan, ref); fmt.Sprint(again) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", again, want)
	}
	work := w.objects("datasets/sums/work/")
	if size := len(fmt.Sprintf("%+v", want)); size > wire.MaxPayload {
		t.Errorf("%d bytes", size)
	}
	for n := 0; ; n++ {
		b := copyBucket(t, base)
		c := &crash{left: n}
		c.hits(b)
		_, err := call[wire.PlanOutput](w.onBucket(b), wire.ActivityPlan, ref)
		if err == nil {
			break
		}
		b.Fault, b.Lost = nil, nil
		next := w.onBucket(b)
		if got, err := call[wire.PlanOutput](next, wire.ActivityPlan, ref); err != nil || fmt.Sprint(got) != fmt.Sprint(want) || next.objects("datasets/sums/work/") != work {
			t.Fatalf("crash after operation %d: %+v %v", n, got, err)
		}
	}
}

func TestPlanOfTheMostTeachersFitsAPayload(t *testing.T) {
	recipe := func(n int) string {
		var b strings.Builder
		b.WriteString("name: many\nprompts: [{path: p.jsonl}]\nteachers:\n")
		for i := range n {
			fmt.Fprintf(&b, "  - {id: %s%02d, model: m, base_url: http://localhost/v1}\n", strings.Repeat("t", 60), i)
		}
		return b.String()
	}
	w := newWorld(t)
	w.file("p.jsonl", sums(10))
	out := must[wire.PlanOutput](w, wire.ActivityPlan, w.submit(recipe(wire.MaxTeachers)))
	if text, err := json.Marshal(out); err != nil || len(text) > wire.MaxPayload {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	// Each fallback beyond some takes the place of a teacher.
	fallbacks := func(n int) string {
		rules := ""
		for i := range n {
			rules += fmt.Sprintf("{when: 'gold == \"%d\"', teachers: [%s%02d], fallback: [%[2]s%02[4]d]}, ", i, strings.Repeat("t", 60), n, i)
		}
		return fmt.Sprintf("ask: {route: {rules: [%s{teachers: [%s00]}]}}\n", rules, strings.Repeat("t", 60))
	}
	out = must[wire.PlanOutput](w, wire.ActivityPlan, w.submit(recipe(wire.MaxTeachers)+fallbacks(wire.MostFallbacks)))
	if text, err := json.Marshal(out); err != nil || len(text) > wire.MaxPayload || len(out.Fallbacks) != wire.MostFallbacks {
		t.Errorf("%d bytes with %d fallbacks, %v", len(text), len(out.Fallbacks), err)
	}
	for _, many := range []string{recipe(wire.MaxTeachers + 1), recipe(wire.MaxTeachers) + fallbacks(wire.MostFallbacks+1)} {
		_, err := call[wire.PlanOutput](w, wire.ActivityPlan, w.submit(many))
		var application *temporal.ApplicationError
		if !asApplication(err, &application) || application.Type() != wire.ErrInvalidRecipe {
			t.Errorf("%v", err)
		}
	}
}

// Faults of recipe and sources end a build before anything is paid for, and
// are not tried again.
func TestPlanRefuses(t *testing.T) {
	w := newWorld(t)
	w.file("p.jsonl", sums(3))
	w.file("bad.jsonl", "{\"question\":\"1+1=\"}\nnot JSON\n")
	for _, tc := range []struct{ name, recipe, kind, want string }{
		{"bad rows", "name: x\nprompts: [{path: bad.jsonl}]\nteachers: [{model: m, base_url: http://localhost/v1}]\n", wire.ErrBadSource, "bad.jsonl:2"},
		{"params that no request can have", "name: x\nprompts: [{path: p.jsonl, efforts: [low, high]}]\nteachers: [{id: t, model: m, base_url: http://localhost/v1, params_by: {effort: {high: {max_tokens: 5, max_completion_tokens: 5}}}}]\n", wire.ErrInvalidRecipe, "teacher t at effort high: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := call[wire.PlanOutput](w, wire.ActivityPlan, w.submit(tc.recipe))
			var application *temporal.ApplicationError
			if !asApplication(err, &application) || application.Type() != tc.kind || !application.NonRetryable() || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A file in another store is read as it was when the build was submitted, or
// not at all.
func TestPlanOfARemoteFileThatChanged(t *testing.T) {
	w := newWorld(t)
	text, tag := sums(3), "etag:1"
	w.a.Remote = func(_ context.Context, url string) ([]sources.File, error) {
		f := textFile("p.jsonl", text)
		f.Key, f.SHA256 = url, tag
		return []sources.File{f}, nil
	}
	r := parsed(t, "name: x\nprompts: [{path: 's3://b/p.jsonl'}]\nteachers: [{model: m, base_url: http://localhost/v1}]\n")
	s, err := Submit(context.Background(), w.bucket, r, sources.Finder{Remote: w.a.Remote})
	if err != nil {
		t.Fatal(err)
	}
	ref := wire.BuildRef{Dataset: "x", BuildID: wire.BuildID(time.Unix(1, 0), "x"), RecipeDigest: s.RecipeDigest, SourcesDigest: s.SourcesDigest}
	if out := must[wire.PlanOutput](w, wire.ActivityPlan, ref); out.Tasks != 3 {
		t.Errorf("%+v", out)
	}
	tag = "etag:2"
	if _, err := call[wire.PlanOutput](w, wire.ActivityPlan, ref); err == nil || !strings.Contains(err.Error(), "s3://b/p.jsonl changed") {
		t.Errorf("%v", err)
	}
	w.a.Remote = nil
	if _, err := call[wire.PlanOutput](w, wire.ActivityPlan, ref); err == nil || !strings.Contains(err.Error(), "no other stores") {
		t.Errorf("%v", err)
	}
}

func TestSubmitUploadsOnce(t *testing.T) {
	w := newWorld(t)
	recordedSums(w, 10)
	r := parsed(t, recordedSumsRecipe)
	first, err := Submit(context.Background(), w.bucket, r, sources.Finder{Dir: w.dir})
	if err != nil || first.Uploaded == 0 {
		t.Fatalf("%+v %v", first, err)
	}
	second, err := Submit(context.Background(), w.bucket, r, sources.Finder{Dir: w.dir})
	if err != nil || second.Uploaded != 0 || second.SourcesDigest != first.SourcesDigest || second.RecipeDigest != first.RecipeDigest {
		t.Errorf("%+v, want %+v but nothing uploaded; %v", second, first, err)
	}
}

func TestAbandon(t *testing.T) {
	w := newWorld(t)
	recordedSums(w, 10)
	state := func(ref wire.BuildRef) catalog.Intent {
		in, err := w.a.Catalog.Build(context.Background(), ref.Dataset, ref.BuildID)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	r := w.start(recordedSumsRecipe)
	must[struct{}](w, wire.ActivityAbandon, r.ref, catalog.BuildCancelled, strings.Repeat("why ", 10_000))
	if left := w.objects(workPrefix("sums", r.ref.BuildID, "")); left != "" {
		t.Errorf("intermediate files are left: %s", left)
	}
	if in := state(r.ref); in.State != catalog.BuildCancelled || in.Finished == nil || !strings.HasPrefix(in.Reason, "why") || len(in.Reason) > 1000 {
		t.Errorf("%+v", in)
	}
	done := w.start(recordedSumsRecipe).ask()
	done.refine()
	done.seal()
	must[struct{}](w, wire.ActivityAbandon, done.ref, catalog.BuildCancelled, "too late")
	if in := state(done.ref); in.State != catalog.BuildDone || in.Version != 1 || in.Reason != "" {
		t.Errorf("%+v", in)
	}
	unknown := done.ref
	unknown.BuildID = wire.BuildID(time.Unix(99, 0), "unknown")
	must[struct{}](w, wire.ActivityAbandon, unknown, catalog.BuildFailed, "it was never entered")
}

func TestPreviewPublishesNothing(t *testing.T) {
	w := newWorld(t)
	recordedSums(w, 60)
	ref := w.submit(recordedSumsRecipe)
	ref.Preview = 6
	r := &run{w: w, ref: ref, started: time.Now(), reports: map[string]*wire.StreamSummary{}, counts: map[string]wire.AskCounts{}}
	r.plan = must[wire.PlanOutput](w, wire.ActivityPlan, ref)
	if r.plan.Tasks != 6 {
		t.Errorf("%+v", r.plan)
	}
	r.ask()
	r.refine()
	out := must[wire.BuildOutput](w, wire.ActivitySeal, r.sealInput())
	text, _, err := objstore.ReadAll(context.Background(), w.bucket, out.Preview, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, task := range fromJSON[[]PreviewTask](t, text) {
		kinds[task.Task.Domain+" "+task.Task.Effort]++
		for _, c := range task.Candidates {
			if len(c.Messages) != 2 {
				t.Errorf("%+v", c.Messages)
			}
		}
	}
	if len(kinds) != 4 || w.versions("sums") != 0 || w.objects("datasets/sums/builds/") != "" || w.objects("datasets/sums/data/") != "" {
		t.Errorf("%v", kinds)
	}
}

// A cancelled activity that waits for what is under way must not fall silent:
// the server would take its worker for dead.
func TestACancelledActivityBeatsOn(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	beats := make(chan struct{})
	work := func(ctx context.Context) error {
		stop := heartbeat(ctx, time.Millisecond, func() any {
			select {
			case beats <- struct{}{}:
			case <-time.After(time.Minute):
			}
			return nil
		})
		defer stop()
		<-beats
		cancel(temporal.NewCanceledError())
		<-ctx.Done()
		for range 3 {
			select {
			case <-beats:
			case <-time.After(20 * time.Second):
				return errors.New("it is silent")
			}
		}
		// stop waits for a beat that is being made.
		go func() {
			for range beats {
			}
		}()
		return nil
	}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
	env.RegisterActivityWithOptions(work, activity.RegisterOptions{Name: "work"})
	if _, err := env.ExecuteActivity("work"); err != nil {
		t.Error(err)
	}
	close(beats)
}

// With the store away for a moment anywhere in a build, trying again ends it
// with the same tables.
func TestBuildSurvivesAnUnreliableStore(t *testing.T) {
	quiet := newWorld(t)
	recordedSums(quiet, 30)
	quiet.build(recordedSumsRecipe)
	want := strings.Join(quiet.digests("sums", append(stable, datasets.TableCandidates)...), "\n")

	w := newWorld(t)
	recordedSums(w, 30)
	ref := w.submit(recordedSumsRecipe)
	var mu sync.Mutex
	n, next, failures := 0, 1, 0
	w.bucket.Fault = func(string, string) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n < next {
			return nil
		}
		failures++
		next += 1 + failures // ever more seldom, so that an end is reached
		return objstore.ErrUnavailable
	}
	r := &run{w: w, ref: ref, started: time.Now(), reports: map[string]*wire.StreamSummary{}}
	retried[wire.PlanOutput](w, &r.plan, wire.ActivityPlan, ref)
	for _, teacher := range r.plan.Teachers {
		retried[wire.ImportOutput](w, nil, wire.ActivityImport, wire.ImportInput{BuildRef: ref, Teacher: teacher.ID})
	}
	for shard := range r.plan.Shards {
		retried[wire.RefineCounts](w, nil, wire.ActivityRefine, r.refineInput(shard))
	}
	var out wire.BuildOutput
	retried[wire.BuildOutput](w, &out, wire.ActivitySeal, r.sealInput())
	w.bucket.Fault = nil
	if got := strings.Join(w.digests("sums", append(stable, datasets.TableCandidates)...), "\n"); got != want || out.Version != 1 || w.versions("sums") != 1 {
		t.Errorf("%+v\n%s\nwant\n%s", out, got, want)
	}
}

// retried runs an activity until it succeeds, as its retry policy does.
func retried[T any](w *world, out *T, name string, args ...any) {
	w.t.Helper()
	for range 200 {
		v, err := call[T](w, name, args...)
		var application *temporal.ApplicationError
		switch {
		case err == nil:
			if out != nil {
				*out = v
			}
			return
		case asApplication(err, &application) && application.NonRetryable():
			w.t.Fatal(err)
		}
	}
	w.t.Fatalf("%s does not succeed", name)
}

// A file that changes under our hands must not be kept under the digest of what
// it was.
func TestSubmitOfAFileThatChanges(t *testing.T) {
	for _, how := range []string{"between listing and upload", "during the upload"} {
		t.Run(how, func(t *testing.T) {
			bucket := mem.New("t")
			w := newWorldOn(t, bucket)
			w.file("p.jsonl", sums(10))
			path := filepath.Join(w.dir, "p.jsonl")
			change := func() {
				w.file("p.jsonl", sums(11))
				if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
					t.Error(err)
				}
			}
			r := parsed(t, "name: x\nprompts: [{path: p.jsonl}]\nteachers: [{model: m, base_url: http://localhost/v1}]\n")
			var once sync.Once
			bucket.Fault = func(op, key string) error {
				if op == mem.OpPut && strings.HasPrefix(key, "sources/") && how == "during the upload" || strings.HasPrefix(key, "recipes/") && how == "between listing and upload" {
					once.Do(change)
				}
				return nil
			}
			_, err := Submit(context.Background(), bucket, r, sources.Finder{Dir: w.dir})
			if !errors.Is(err, errChanging) || !strings.Contains(err.Error(), "p.jsonl") {
				t.Errorf("%v", err)
			}
			if left := w.objects("sources/"); left != "" {
				t.Errorf("it is kept all the same: %s", left)
			}
		})
	}
}

// A preview beside a build of the same recipe has another plan: neither may get
// the other's batches.
func TestTwoPlansOfOneRecipe(t *testing.T) {
	w := newWorld(t)
	recordedSums(w, 60)
	ref := w.submit(recordedSumsRecipe)
	full := must[wire.PlanOutput](w, wire.ActivityPlan, ref)
	small := ref
	small.BuildID, small.Preview = wire.BuildID(time.Unix(50, 0), "preview"), 6
	sample := must[wire.PlanOutput](w, wire.ActivityPlan, small)

	rt, plan, err := w.a.planned(context.Background(), ref, full.Key)
	if err != nil {
		t.Fatal(err)
	}
	// Meanwhile an activity of the preview, and of further ones, comes.
	rt2, other, err := w.a.planned(context.Background(), small, sample.Key)
	if err != nil || rt2 != rt {
		t.Fatal(err)
	}
	for range 2 {
		for _, p := range []*Plan{plan, other} {
			for i, want := range p.batches("a") {
				if got, err := rt.batch(p, "a", i); err != nil || got != want {
					t.Errorf("batch %d is %+v %v, want %+v", i, got, err, want)
				}
			}
			if _, err := rt.batch(p, "a", len(p.batches("a"))); err == nil {
				t.Error("there is a batch too many")
			}
		}
		rt.plans = nil // no room is left for either
	}
}
