package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// recordedSums writes n problems with the recorded answers of a and b: a is
// right but for every fifth, b for every third.
func recordedSums(w *world, n int) {
	var problems strings.Builder
	for i := range n {
		domain := []string{"math", "sums"}[i%2]
		a, b := 2*i+1, 2*i+1
		if i%5 == 0 {
			a++
		}
		if i%3 == 0 {
			b++
		}
		fmt.Fprintf(&problems, `{"question":"%d+%d=","gold":"%d","domain":%q,"a":"A: %d","b":"I add.\nA: %d"}`+"\n", i, i+1, 2*i+1, domain, a, b)
	}
	w.file("sums.jsonl", problems.String())
}

const recordedSumsRecipe = `name: sums
prompts: [{path: sums.jsonl, efforts: [low, high], fields: {prompt: question, gold: gold, domain: domain}}]
teachers:
  - {id: a, api: recorded, path: sums.jsonl, fields: {prompt: question, content: a}}
  - {id: b, api: recorded, path: sums.jsonl, fields: {prompt: question, content: b}}
check: [{verifier: math}]
output: {splits: {train: 0.8, test: 0.2}}
`

func TestSeal(t *testing.T) {
	w := newWorld(t)
	recordedSums(w, 60)
	r := w.start(recordedSumsRecipe).ask()
	counts := r.refine()
	out, result := r.seal()
	if out.Version != 1 || out.Unchanged || len(out.Gates)+len(out.Stopped) > 0 {
		t.Errorf("%+v", out)
	}
	// Of 60, 12 are wrong of a, 20 of b, 4 of both; each at two efforts.
	if counts.Tasks != 120 || counts.Candidates != 240 || counts.Accepted != 2*(48+40) || counts.Selected != 2*56 {
		t.Errorf("%+v", counts)
	}
	if result.Accepted != 2*(48+40) || result.Rejected["verdict:fail"] != 2*(12+20) || result.Rows["train"]+result.Rows["test"] != 2*56 {
		t.Errorf("%+v", result)
	}
	for _, table := range []string{datasets.TableTrain, datasets.TableTest} {
		last := ""
		list := rows[datasets.Row](w, "sums", table)
		if int64(len(list)) != result.Rows[table] || len(list) == 0 {
			t.Errorf("%s has %d rows, the result says %d", table, len(list), result.Rows[table])
		}
		for _, row := range list {
			if row.TaskID <= last {
				t.Errorf("%s: %s after %s", table, row.TaskID, last)
			}
			last = row.TaskID
			if len(row.Messages) != 2 || row.Messages[0].Train || !row.Messages[1].Train {
				t.Fatalf("%+v", row.Messages)
			}
		}
	}
	var left []string
	for at, err := range w.bucket.List(context.Background(), "datasets/sums/work/", "") {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, at.Key)
	}
	if len(left) > 0 {
		t.Errorf("intermediate files are left: %s", left)
	}

	// The same again: nothing is new, and nothing is published.
	again, result := w.build(recordedSumsRecipe)
	if again.Version != 1 || !again.Unchanged || result.Manifest == "" || result.Report == "" || w.versions("sums") != 1 {
		t.Errorf("%+v %+v", again, result)
	}
}

// The tables do not depend on how tasks were cut into cells and shards.
func TestSealIgnoresArrangement(t *testing.T) {
	w := newWorld(t)
	recordedSums(w, 40)
	w.build(recordedSumsRecipe)
	want := w.digests("sums", append(stable, datasets.TableCandidates)...)

	r := w.start(strings.Replace(recordedSumsRecipe, "name: sums", "name: other", 1)).ask()
	r.refine()
	all := r.refined()
	slices.SortFunc(all, func(a, b refinedTask) int { return strings.Compare(a.Task.TaskID, b.Task.TaskID) })
	// One cell of all tasks, in shards of seven.
	plan := r.planned()
	plan.Cells, plan.Shards = []Cell{{Teachers: []string{"a", "b"}, Tasks: plan.Tasks}}, nil
	if err := clearPrefix(w.bucket, workPrefix(r.ref.Dataset, r.ref.BuildID, stageRefined)); err != nil {
		t.Fatal(err)
	}
	for chunk := range slices.Chunk(all, 7) {
		i := len(plan.Shards)
		plan.Shards = append(plan.Shards, Shard{Seq: i, Tasks: len(chunk)})
		out, err := newStageFile[refinedTask](w.a.TempDir)
		if err != nil {
			t.Fatal(err)
		}
		if err := out.write(chunk, func(r *refinedTask) string { return r.Task.TaskID }); err != nil {
			t.Fatal(err)
		}
		if _, err := out.upload(context.Background(), w.bucket, r.ref.Dataset, r.ref.BuildID, stageRefined, fmt.Sprintf("%07d", i)); err != nil {
			t.Fatal(err)
		}
		out.discard()
	}
	r.seal()
	if got := w.digests("other", append(stable, datasets.TableCandidates)...); !slices.Equal(got, want) {
		t.Errorf("tables\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// planned is the plan as the worker holds it, to be changed.
func (r *run) planned() *Plan {
	r.w.t.Helper()
	_, plan, err := r.w.a.planned(context.Background(), r.ref, r.plan.Key)
	if err != nil {
		r.w.t.Fatal(err)
	}
	return plan
}

func clearPrefix(b objstore.Bucket, prefix string) error {
	for at, err := range b.List(context.Background(), prefix, "") {
		if err == nil {
			err = b.Delete(context.Background(), at.Key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyBucket copies every object into a bucket of its own.
func copyBucket(t *testing.T, from *mem.Bucket) *mem.Bucket {
	t.Helper()
	to := mem.New("copy")
	for at, err := range from.List(context.Background(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := objstore.ReadAll(context.Background(), from, at.Key, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := objstore.PutBytes(context.Background(), to, at.Key, data, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// onBucket is a fresh worker on another bucket, as after a crash. It seals
// only, so it has no answers.
func (w *world) onBucket(b *mem.Bucket) *world {
	return &world{t: w.t, bucket: b, ctx: context.Background(), a: &Activities{
		Bucket: b, Catalog: catalog.Open(b), TempDir: w.a.TempDir, Log: slog.New(slog.DiscardHandler), Lookup: os.LookupEnv,
	}}
}

var errCrashed = errors.New("crashed")

// A crash is the death of a worker: the answers to n operations arrive, the
// next one still happens, and then none does.
type crash struct {
	mu   sync.Mutex
	left int
}

// dead is a fault for all operations after the crash, on the bucket that it
// hits.
func (c *crash) dead(string, string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left < 0 {
		return errCrashed
	}
	return nil
}

func (c *crash) step(string, string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left < 0 {
		return errCrashed
	}
	return nil
}

// hits lets a bucket die with the worker.
func (c *crash) hits(b *mem.Bucket) { b.Fault, b.Lost = c.dead, c.step }

// A seal that dies between any two operations on the store gives the same one
// version when another worker takes it up.
func TestSealSurvivesACrashAnywhere(t *testing.T) {
	t.Parallel() // it waits more than it works
	w := newWorld(t)
	recordedSums(w, 20)
	r := w.start(recordedSumsRecipe).ask()
	r.refine()
	base := copyBucket(t, w.bucket)
	want, wantResult := r.seal()
	digests := w.digests("sums", append(stable, datasets.TableCandidates)...)

	for n := 0; ; n++ {
		b := copyBucket(t, base)
		c := &crash{left: n}
		c.hits(b)
		_, err := call[wire.BuildOutput](w.onBucket(b), wire.ActivitySeal, r.sealInput())
		if err == nil && c.left >= 0 {
			t.Logf("%d operations", n)
			break
		}
		b.Fault, b.Lost = nil, nil
		next := w.onBucket(b)
		got, err := call[wire.BuildOutput](next, wire.ActivitySeal, r.sealInput())
		if err != nil {
			t.Fatalf("crash after operation %d: the next attempt: %v", n, err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("crash after operation %d: %+v, want %+v", n, got, want)
		}
		if next.versions("sums") != 1 {
			t.Fatalf("crash after operation %d: %d versions", n, next.versions("sums"))
		}
		if n%10 == 0 {
			next.verify("sums")
		}
		if got := next.digests("sums", append(stable, datasets.TableCandidates)...); !slices.Equal(got, digests) {
			t.Fatalf("crash after operation %d: other tables:\n%s", n, strings.Join(got, "\n"))
		}
		result := (&run{w: next, ref: r.ref}).result()
		if result.Version != 1 || result.Accepted != wantResult.Accepted || result.Manifest == "" {
			t.Fatalf("crash after operation %d: %+v", n, result)
		}
	}
}

// verify derives every digest of the newest version again.
func (w *world) verify(dataset string) {
	w.t.Helper()
	r, err := w.a.Catalog.Verify(context.Background(), dataset, nil)
	if err != nil || !r.OK() {
		w.t.Fatalf("%+v %v", r, err)
	}
}
