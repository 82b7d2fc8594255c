package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// A world is a worker with its store, and a driver that does what the
// workflows do, without a Temporal server.
type world struct {
	t      testing.TB
	bucket *mem.Bucket
	a      *Activities
	dir    string          // of recipes and their files
	ctx    context.Context // of the activities: cancelling it cancels them
	builds int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOn(t, mem.New("t"))
}

// newWorldOn is a worker with a home of its own on a store that may be shared.
func newWorldOn(t testing.TB, bucket *mem.Bucket) *world {
	t.Helper()
	w := &world{t: t, bucket: bucket, dir: t.TempDir(), ctx: context.Background()}
	store, err := answers.Open(context.Background(), answers.Options{Bucket: bucket, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	w.a = &Activities{
		Bucket: bucket, Answers: store, Catalog: catalog.Open(bucket), TempDir: t.TempDir(),
		Log: slog.New(slog.DiscardHandler), Lookup: os.LookupEnv,
	}
	t.Cleanup(func() {
		w.a.Close()
		// A store that the test has broken for good refuses this; the journal
		// is in a folder of the test.
		_ = store.Close(context.Background())
		w.noLeftovers()
	})
	return w
}

// noLeftovers checks that no activity left a temporary file behind.
func (w *world) noLeftovers() {
	left, err := os.ReadDir(w.a.TempDir)
	if err != nil {
		w.t.Error(err)
	}
	for _, f := range left {
		w.t.Errorf("temporary file left behind: %s", f.Name())
	}
}

// file writes a source file next to the recipes.
func (w *world) file(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// parsed is a recipe that must be good.
func parsed(t testing.TB, text string) *recipe.Recipe {
	t.Helper()
	r, err := recipe.Parse("recipe.yaml", []byte(text))
	if err != nil {
		t.Fatalf("recipe: %v\n%s", err, text)
	}
	return r
}

// submit uploads a recipe and its files, as a build that starts now.
func (w *world) submit(text string) wire.BuildRef {
	w.t.Helper()
	r := parsed(w.t, text)
	s, err := Submit(context.Background(), w.bucket, r, sources.Finder{Dir: w.dir})
	if err != nil {
		w.t.Fatal(err)
	}
	w.builds++
	return wire.BuildRef{
		Dataset: r.Name, BuildID: wire.BuildID(time.Unix(int64(w.builds), 0), w.t.Name()),
		RecipeDigest: s.RecipeDigest, SourcesDigest: s.SourcesDigest,
	}
}

// call runs one activity as a worker would.
func call[T any](w *world, activity string, args ...any) (T, error) {
	w.t.Helper()
	value, err := w.env().ExecuteActivity(activity, args...)
	return decoded[T](w.t, value, err)
}

func decoded[T any](t testing.TB, value converter.EncodedValue, err error) (out T, _ error) {
	t.Helper()
	if err != nil || value == nil || !value.HasValue() {
		return out, err
	}
	if err := value.Get(&out); err != nil {
		t.Fatal(err)
	}
	return out, nil
}

func (w *world) env() *testsuite.TestActivityEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{BackgroundActivityContext: w.ctx})
	w.a.RegisterPipeline(env)
	w.a.RegisterTeacher(env)
	return env
}

// must is call for activities that succeed.
func must[T any](w *world, activity string, args ...any) T {
	w.t.Helper()
	out, err := call[T](w, activity, args...)
	if err != nil {
		w.t.Fatalf("%s: %v", activity, err)
	}
	return out
}

// A run is a build under way.
type run struct {
	w       *world
	ref     wire.BuildRef
	plan    wire.PlanOutput
	started time.Time
	reports map[string]*wire.StreamSummary
	counts  map[string]wire.AskCounts
	stats   string // key of the measures of all answers
}

// start plans a build.
func (w *world) start(recipe string) *run {
	w.t.Helper()
	return w.startAs(recipe, func(*wire.BuildRef) {})
}

// startAs plans a build with something more in its reference.
func (w *world) startAs(recipe string, more func(*wire.BuildRef)) *run {
	w.t.Helper()
	ref := w.submit(recipe)
	more(&ref)
	r := &run{w: w, ref: ref, started: time.Now(), reports: map[string]*wire.StreamSummary{}, counts: map[string]wire.AskCounts{}}
	r.plan = w.filtered(r.ref, must[wire.PlanOutput](w, wire.ActivityPlan, r.ref))
	return r
}

// ask imports and asks everything of all teachers, in the plan's order.
func (r *run) ask() *run {
	r.w.t.Helper()
	for _, t := range r.plan.Teachers {
		if t.Recorded {
			must[wire.ImportOutput](r.w, wire.ActivityImport, wire.ImportInput{BuildRef: r.ref, Teacher: t.ID})
		}
		s := &wire.StreamSummary{Teacher: t.ID}
		r.reports[t.ID] = s
		for batch := 0; batch < t.Batches && s.Stopped == nil; batch++ {
			out := r.askBatch(t.ID, batch)
			sum := r.counts[t.ID]
			sum.Add(out.Counts)
			r.counts[t.ID] = sum
			if out.Stopped != nil {
				s.Stopped = &wire.TeacherFailed{Class: out.Stopped.Class}
			}
		}
	}
	return r
}

func (r *run) askInput(teacher string, batch int) wire.AskInput {
	return wire.AskInput{BuildRef: r.ref, PlanKey: r.plan.Key, Teacher: teacher, Batch: batch}
}

func (r *run) askBatch(teacher string, batch int) wire.AskOutput {
	r.w.t.Helper()
	return must[wire.AskOutput](r.w, wire.ActivityAskShard, r.askInput(teacher, batch))
}

// refine refines all shards.
func (r *run) refine() wire.RefineCounts {
	r.w.t.Helper()
	var sum wire.RefineCounts
	for shard := range r.plan.Shards {
		sum.Add(must[wire.RefineCounts](r.w, wire.ActivityRefine, r.refineInput(shard)))
	}
	return sum
}

func (r *run) refineInput(shard int) wire.RefineInput {
	return wire.RefineInput{BuildRef: r.ref, PlanKey: r.plan.Key, Shard: shard, Started: r.started, StatsKey: r.stats}
}

func (r *run) sealInput() wire.SealInput {
	in := wire.SealInput{BuildRef: r.ref, PlanKey: r.plan.Key, Started: r.started}
	for _, t := range r.plan.Teachers {
		if s := r.reports[t.ID]; s != nil {
			in.Streams = append(in.Streams, *s)
		}
	}
	return in
}

// seal publishes and gives the build's whole result too.
func (r *run) seal() (wire.BuildOutput, BuildResult) {
	r.w.t.Helper()
	out := must[wire.BuildOutput](r.w, wire.ActivitySeal, r.sealInput())
	return out, r.result()
}

// result is what the build's entry in the catalog says.
func (r *run) result() BuildResult {
	r.w.t.Helper()
	in, err := r.w.a.Catalog.Build(context.Background(), r.ref.Dataset, r.ref.BuildID)
	if err != nil {
		r.w.t.Fatal(err)
	}
	return fromJSON[BuildResult](r.w.t, in.Result)
}

// build runs all of a build.
func (w *world) build(recipe string) (wire.BuildOutput, BuildResult) {
	w.t.Helper()
	r := w.start(recipe).ask()
	r.refine()
	out, result := r.seal()
	w.readsAgain(out)
	return out, result
}

// readsAgain holds what every version promises: reading its raw answers again
// with the same program changes nothing.
func (w *world) readsAgain(out wire.BuildOutput) {
	w.t.Helper()
	if out.Version == 0 {
		return
	}
	again, err := w.reparse(fmt.Sprintf("%s@%d", out.Dataset, out.Version), true)
	if err != nil {
		w.t.Errorf("reparse: %v", err)
	} else if !again.Unchanged {
		w.t.Errorf("reading %s@%d again changes it: %+v", out.Dataset, out.Version, again)
	}
}

// refined reads a shard's refined tasks.
func (r *run) refined() []refinedTask {
	r.w.t.Helper()
	var out []refinedTask
	for at, err := range r.w.bucket.List(context.Background(), workPrefix(r.ref.Dataset, r.ref.BuildID, stageRefined), "") {
		if err != nil {
			r.w.t.Fatal(err)
		}
		for task, err := range unstaged[refinedTask](stagedRows(context.Background(), r.w.bucket, at.Key, at.Size)) {
			if err != nil {
				r.w.t.Fatal(err)
			}
			out = append(out, task)
		}
	}
	return out
}

// manifest is the newest one of a dataset.
func (w *world) manifest(dataset string) *catalog.Manifest {
	w.t.Helper()
	_, m, err := w.a.Catalog.Latest(context.Background(), dataset)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// digests are the files of some tables by table and split.
func (w *world) digests(dataset string, tables ...string) []string {
	w.t.Helper()
	var out []string
	for _, f := range w.manifest(dataset).Files {
		if slices.Contains(tables, f.Table) {
			out = append(out, f.Table+"/"+f.Split+" "+f.SHA256)
		}
	}
	slices.Sort(out)
	return out
}

// stable are the tables that depend on recipe, answers and binary alone.
var stable = []string{datasets.TableTrain, datasets.TableTest, datasets.TablePrompts}

// rows reads a table of the newest version.
func rows[T any](w *world, dataset, table string) []T {
	w.t.Helper()
	var out []T
	for _, f := range w.manifest(dataset).Files {
		if f.Table != table {
			continue
		}
		r, err := parquetio.Open[T](objstore.NewReaderAt(context.Background(), w.bucket, f.Key, f.Bytes), f.Bytes)
		if err != nil {
			w.t.Fatal(err)
		}
		for row, err := range r.All() {
			if err != nil {
				w.t.Fatal(err)
			}
			out = append(out, row)
		}
	}
	return out
}

// versions counts the version records of a dataset.
func (w *world) versions(dataset string) int {
	w.t.Helper()
	n := 0
	for _, err := range w.bucket.List(context.Background(), "datasets/"+dataset+"/versions/", "") {
		if err != nil {
			w.t.Fatal(err)
		}
		n++
	}
	return n
}

// sums writes n additions, "2+3=", with their golds.
func sums(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"question":"%d+%d=","gold":"%d"}`+"\n", i, i+1, 2*i+1)
	}
	return b.String()
}

func fromJSON[T any](t testing.TB, text []byte) (out T) {
	t.Helper()
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}

// asApplication is errors.As with a name that says what is meant.
func asApplication(err error, target **temporal.ApplicationError) bool {
	return errors.As(err, target)
}
