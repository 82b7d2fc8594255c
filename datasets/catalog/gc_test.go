package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

const day = 24 * time.Hour

// A clock is what a test's catalogs take for the time: the real one, and as
// much as the test let pass. Objects are stamped by the store with the real one.
type clock struct{ passed atomic.Int64 }

func (c *clock) pass(d time.Duration) { c.passed.Add(int64(d)) }
func (c *clock) now() time.Time       { return time.Now().Add(time.Duration(c.passed.Load())) }

func (c *clock) open(b objstore.Bucket) *catalog.Catalog {
	return catalog.OpenAt(catalog.Open(b), c.now)
}

// keysIn are the keys of a store, in order.
func keysIn(t testing.TB, b objstore.Bucket, prefix string) []string {
	t.Helper()
	var keys []string
	for attr, err := range b.List(context.WithoutCancel(t.Context()), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, attr.Key)
	}
	return keys
}

func enter(t testing.TB, c *catalog.Catalog, name, build string) {
	t.Helper()
	if err := c.PutIntent(t.Context(), catalog.Intent{Dataset: name, BuildID: build}); err != nil {
		t.Fatal(err)
	}
}

func finish(t testing.TB, c *catalog.Catalog, name, build, state string) {
	t.Helper()
	if err := c.FinishIntent(t.Context(), name, build, state, nil); err != nil {
		t.Fatal(err)
	}
}

// built runs a build to its end, as the program does.
func built(t testing.TB, c *catalog.Catalog, name, build string) catalog.Version {
	t.Helper()
	enter(t, c, name, build)
	v := publish(t, c, name, build)
	if err := c.FinishIntent(t.Context(), name, build, catalog.BuildDone, func(in *catalog.Intent) { in.Version = v.Number }); err != nil {
		t.Fatal(err)
	}
	return v
}

func gc(t testing.TB, c *catalog.Catalog, opt catalog.GCOptions) *catalog.GCReport {
	t.Helper()
	r, err := c.GC(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// allWhole verifies every version that stands.
func allWhole(t testing.TB, c *catalog.Catalog, name string) []catalog.Version {
	t.Helper()
	all, err := c.Versions(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		if v.Removed != nil {
			continue
		}
		r, err := c.Verify(t.Context(), v.Ref(), nil)
		if err != nil || !r.OK() {
			t.Fatalf("%s is not whole: %v %+v", v.Ref(), err, r)
		}
	}
	return all
}

// A store with everything that a collection meets.
func usedStore(t *testing.T) (*mem.Bucket, []string) {
	b := mem.New("b")
	c := catalog.Open(b)
	built(t, c, "maths", "b1")
	built(t, c, "maths", "b2")
	var gone []string
	leave := func(key string) {
		put(t, b, key, []byte("left over"))
		gone = append(gone, key)
	}
	leave("datasets/maths/work/b2/refined/0000000-00.parquet")                // was not cleared away
	leave("datasets/maths/manifests/b2-" + strings.Repeat("a", 64) + ".json") // written for a number that another got
	for build, state := range map[string]string{"f1": catalog.BuildFailed, "f2": catalog.BuildCancelled} {
		enter(t, c, "maths", build)
		for _, f := range draft(t, c, "maths", build).Files {
			gone = append(gone, f.Key)
		}
		leave("datasets/maths/work/" + build + "/plan/plan-00.json")
		leave("datasets/maths/reports/" + build + "/report.json")
		leave("datasets/maths/manifests/" + build + "-" + strings.Repeat("b", 64) + ".json")
		finish(t, c, "maths", build, state)
	}
	leave("datasets/maths/work/preview/preview/tasks-00.json") // a preview has no entry
	leave("datasets/maths/data/nobody/train/train-00000-00.parquet")

	// Builds that go on.
	for build, state := range map[string]string{"r1": catalog.BuildRunning, "p1": catalog.BuildPaused} {
		if err := c.PutIntent(t.Context(), catalog.Intent{Dataset: "maths", BuildID: build, State: state}); err != nil {
			t.Fatal(err)
		}
		draft(t, c, "maths", build)
		put(t, b, "datasets/maths/work/"+build+"/tasks/0-0.parquet", []byte("work"))
	}
	for _, key := range []string{
		"answers/e/0/1.parquet", "answers/journal/w/1.zst", "recipes/r.yaml", "sources/s/a.jsonl", "batches/e/b.json",
		"purges/p.json", "datasets/maths/epochs.json", "datasets/maths/notes/by-hand.txt", "datasets/maths/data/readme.txt",
		"datasets/maths/manifests/no-digest.json",
	} {
		put(t, b, key, []byte("kept"))
	}
	slices.Sort(gone)
	return b, gone
}

func TestGCRemovesWhatNobodyNeedsAndNothingElse(t *testing.T) {
	at := new(clock)
	b, gone := usedStore(t)
	c := at.open(b)
	before := keysIn(t, b, "")
	at.pass(6 * day)
	if r := gc(t, c, catalog.GCOptions{Grace: catalog.DefaultGrace, Remove: true}); r.Removed.Objects != 0 {
		t.Errorf("within the grace time it removed %+v", r)
	}
	at.pass(2 * day)

	var would []string
	dry := gc(t, c, catalog.GCOptions{Grace: catalog.DefaultGrace, Removed: func(key string) { would = append(would, key) }})
	if diff := cmp.Diff(before, keysIn(t, b, "")); diff != "" {
		t.Fatalf("a dry run changed the store:\n%s", diff)
	}
	slices.Sort(would)
	if diff := cmp.Diff(gone, would); diff != "" {
		t.Errorf("it would remove (-want +got):\n%s", diff)
	}
	did := gc(t, c, catalog.GCOptions{Grace: catalog.DefaultGrace, Remove: true})
	if diff := cmp.Diff(dry.Removed, did.Removed); diff != "" || !dry.DryRun || did.DryRun {
		t.Errorf("the dry run promised something else:\n%s", diff)
	}
	left := slices.DeleteFunc(slices.Clone(before), func(key string) bool { return slices.Contains(gone, key) })
	if diff := cmp.Diff(left, keysIn(t, b, "")); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	allWhole(t, c, "maths")
	if again := gc(t, c, catalog.GCOptions{Grace: catalog.DefaultGrace, Remove: true}); again.Removed.Objects != 0 {
		t.Errorf("a second run removed %+v", again.Removed)
	}
	if got, want := did.Kept.Objects+did.Removed.Objects, int64(len(before)); got != want {
		t.Errorf("it tells of %d objects, the store held %d", got, want)
	}
	why := map[string]string{}
	for _, i := range did.Items {
		if i.Why == "" {
			t.Errorf("no reason for %+v", i)
		}
		why[i.Action+" "+i.Class+" "+i.BuildID] = i.Why
	}
	for at, want := range map[string]string{
		"remove data f1":      "its build is failed",
		"remove data f2":      "its build is cancelled",
		"remove data nobody":  "no entry of its build",
		"remove work b2":      "the build is done",
		"remove manifests b2": "another build had the number",
		"keep answers ":       "gc never touches them",
		"keep recipes ":       "schedules",
		"keep batches ":       "submitted twice",
	} {
		if !strings.Contains(why[at], want) {
			t.Errorf("%s: %q, want %q", at, why[at], want)
		}
	}

	// The live builds publish what they had staged.
	for _, build := range []string{"r1", "p1"} {
		publish(t, c, "maths", build)
	}
	if all := allWhole(t, c, "maths"); len(all) != 4 {
		t.Errorf("%d versions", len(all))
	}
}

func TestABuildThatWasSweptStartsAnew(t *testing.T) {
	c := catalog.Open(mem.New("b"))
	built(t, c, "maths", "b1")
	enter(t, c, "maths", "b2")
	m := draft(t, c, "maths", "b2")
	finish(t, c, "maths", "b2", catalog.BuildFailed)
	gc(t, c, catalog.GCOptions{Remove: true})
	err := c.PutIntent(t.Context(), catalog.Intent{Dataset: "maths", BuildID: "b2"})
	if !errors.Is(err, catalog.ErrInvalid) || !strings.Contains(err.Error(), "start the build again") {
		t.Errorf("it goes on over files that are gone: %v", err)
	}
	if _, err := c.Publish(t.Context(), m); !errors.Is(err, catalog.ErrInvalid) {
		t.Errorf("it publishes: %v", err)
	}
	allWhole(t, c, "maths")
}

func TestGCOfABuildThatShowsNoSignOfLife(t *testing.T) {
	at := new(clock)
	b := mem.New("b")
	c := at.open(b)
	built(t, c, "maths", "b1")
	enter(t, c, "maths", "b2")
	draft(t, c, "maths", "b2")
	if err := c.PutIntent(t.Context(), catalog.Intent{Dataset: "maths", BuildID: "b3", State: catalog.BuildPaused}); err != nil {
		t.Fatal(err)
	}
	paused := draft(t, c, "maths", "b3").Files[0].Key
	at.pass(40 * day)
	r := gc(t, c, catalog.GCOptions{Grace: day, Remove: true})
	if r.Removed.Objects != 0 {
		t.Errorf("it removed %+v", r.Items)
	}
	if !slices.ContainsFunc(r.Items, func(i catalog.GCItem) bool {
		return i.Action == catalog.GCKeep && strings.Contains(i.Why, "no sign of life") && strings.Contains(i.Why, "--abandoned")
	}) {
		t.Errorf("nobody is told of it: %+v", r.Items)
	}
	if r := gc(t, c, catalog.GCOptions{Grace: day, Abandoned: 30 * day, Remove: true}); r.Removed.Objects != 3 {
		t.Errorf("it removed %+v", r.Items)
	}
	in, err := c.Build(t.Context(), "maths", "b2")
	if err != nil || in.State != catalog.BuildFailed || !strings.Contains(in.Reason, "no sign of life") || in.Swept == nil {
		t.Errorf("%+v, %v", in, err)
	}
	if keys := keysIn(t, b, paused); len(keys) != 1 {
		t.Error("a build that pauses lost its files")
	}
	allWhole(t, c, "maths")
}

func TestGCWithdrawsVersions(t *testing.T) {
	at := new(clock)
	b := mem.New("b")
	c := at.open(b)
	for n := 1; n <= 6; n++ {
		built(t, c, "maths", fmt.Sprintf("b%d", n))
		at.pass(10 * day)
	}
	if _, err := c.Tag(t.Context(), "maths@2", "paper"); err != nil {
		t.Fatal(err)
	}
	standing := func() []int64 {
		var out []int64
		for _, v := range allWhole(t, c, "maths") {
			if v.Removed == nil {
				out = append(out, v.Number)
			}
		}
		return out
	}
	opt := catalog.GCOptions{Grace: 7 * day, KeepLast: 1, KeepWithin: 25 * day}
	dry := gc(t, c, opt)
	if got := standing(); len(got) != 6 {
		t.Fatalf("a dry run withdrew: %v stand", got)
	}
	opt.Remove = true
	r := gc(t, c, opt)
	if diff := cmp.Diff([]int64{6, 5, 2}, standing()); diff != "" {
		t.Error(diff)
	}
	if r.Removed.Objects != 0 || dry.Removed.Objects != 0 {
		t.Errorf("it removed files within the grace time: %+v", r.Removed)
	}
	if _, _, err := c.Resolve(t.Context(), "maths@3"); !errors.Is(err, catalog.ErrRemoved) || !strings.Contains(err.Error(), "those of the last 25d") {
		t.Errorf("a withdrawn version: %v", err)
	}
	at.pass(6 * day)
	if r := gc(t, c, catalog.GCOptions{Grace: 7 * day, Remove: true}); r.Removed.Objects != 0 {
		t.Errorf("it removed files within the grace time: %+v", r.Removed)
	}
	at.pass(day)
	if r = gc(t, c, catalog.GCOptions{Grace: 7 * day, Remove: true}); r.Removed.Objects != 3*4 { // three files and the manifest
		t.Errorf("it removed %+v", r.Removed)
	}
	if diff := cmp.Diff([]int64{6, 5, 2}, standing()); diff != "" {
		t.Error(diff)
	}
	// Numbers are not used again, and the newest stays however old.
	if v := built(t, c, "maths", "b7"); v.Number != 7 {
		t.Errorf("the next is %d", v.Number)
	}
	at.pass(400 * day)
	gc(t, c, catalog.GCOptions{KeepWithin: day, Remove: true})
	if diff := cmp.Diff([]int64{7, 2}, standing()); diff != "" {
		t.Error(diff)
	}
}

// Who reads a version that is withdrawn meanwhile reads it to its end within
// the grace time. Without one, the reader fails and is never short.
func TestReadingWhileGCRuns(t *testing.T) {
	for _, grace := range []time.Duration{day, 0} {
		t.Run("grace "+grace.String(), func(t *testing.T) {
			c := catalog.Open(mem.New("b"))
			built(t, c, "maths", "b1")
			_, m, err := c.Resolve(t.Context(), "maths@1")
			if err != nil {
				t.Fatal(err)
			}
			built(t, c, "maths", "b2")
			rows, failure := 0, error(nil)
			for _, err := range catalog.ReadTable[datasets.Row](t.Context(), c, m, "train") {
				if err != nil {
					failure = err
					break
				}
				if rows++; rows == 1 {
					gc(t, c, catalog.GCOptions{Grace: grace, KeepLast: 1, Remove: true})
				}
			}
			switch {
			case grace > 0 && (failure != nil || rows != 15):
				t.Errorf("%d rows, %v", rows, failure)
			case grace == 0 && !errors.Is(failure, catalog.ErrDamaged):
				t.Errorf("%d rows of 15 and the error %v", rows, failure)
			}
		})
	}
}

func TestGCLeavesADatasetAloneThatItCannotRead(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, b *mem.Bucket, v catalog.Version){
		"a version record": func(t *testing.T, b *mem.Bucket, _ catalog.Version) {
			put(t, b, "datasets/maths/versions/00000000000000000001.json", []byte("{"))
		},
		"a manifest":          func(t *testing.T, b *mem.Bucket, v catalog.Version) { put(t, b, v.Manifest, []byte("{}")) },
		"a manifest, removed": func(t *testing.T, b *mem.Bucket, v catalog.Version) { damages["gone"](t, b, v.Manifest) },
		"an entry of a build": func(t *testing.T, b *mem.Bucket, _ catalog.Version) {
			put(t, b, "datasets/maths/builds/b1.json", []byte("?"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := mem.New("b")
			c := catalog.Open(b)
			v := built(t, c, "maths", "b1")
			built(t, c, "maths", "b2")
			for _, name := range []string{"maths", "other"} {
				enter(t, c, name, "dead")
				draft(t, c, name, "dead")
				finish(t, c, name, "dead", catalog.BuildFailed)
			}
			damage(t, b, v)
			before := keysIn(t, b, "datasets/maths/")
			r := gc(t, c, catalog.GCOptions{KeepLast: 1, Remove: true})
			if diff := cmp.Diff(before, keysIn(t, b, "datasets/maths/")); diff != "" {
				t.Error(diff)
			}
			if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, "maths") || r.Problems[0].Next == "" {
				t.Errorf("problems %+v", r.Problems)
			}
			if keys := keysIn(t, b, "datasets/other/data/"); len(keys) > 0 {
				t.Errorf("the other dataset was left alone too: %v", keys)
			}
		})
	}
}

// An uploading bucket has unfinished uploads.
type uploading struct {
	*mem.Bucket
	open map[string]objstore.Upload
}

func (u *uploading) Uploads(context.Context) ([]objstore.Upload, error) {
	return slices.Collect(maps.Values(u.open)), nil
}

func (u *uploading) AbortUpload(_ context.Context, up objstore.Upload) error {
	delete(u.open, up.ID)
	return nil
}

func TestGCAbortsStaleUploads(t *testing.T) {
	at := new(clock)
	b := &uploading{mem.New("b"), map[string]objstore.Upload{}}
	c := at.open(b)
	built(t, c, "maths", "b1")
	enter(t, c, "maths", "b2")
	begin := func(id, key string) { b.open[id] = objstore.Upload{Key: key, ID: id, Began: at.now()} }
	begin("dead", "datasets/maths/data/b1/train/train-00000-00.parquet")
	begin("live", "datasets/maths/data/b2/train/train-00000-00.parquet")
	begin("answers", "answers/e/0/1.parquet")
	begin("source", "sources/s/a.jsonl")
	at.pass(2 * day)
	begin("young", "sources/s/b.jsonl")
	if gc(t, c, catalog.GCOptions{Grace: 7 * day}); len(b.open) != 5 {
		t.Errorf("a dry run aborted: left are %v", b.open)
	}
	r := gc(t, c, catalog.GCOptions{Grace: 7 * day, Remove: true})
	if diff := cmp.Diff([]string{"answers", "live", "young"}, slices.Sorted(maps.Keys(b.open))); diff != "" {
		t.Error(diff)
	}
	var aborted int64
	for _, i := range r.Items {
		if i.Action == catalog.GCAbort {
			aborted += i.Objects
		}
	}
	if aborted != 2 {
		t.Errorf("it says that it aborted %d", aborted)
	}
}

func TestGCOfNamedDatasets(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	for _, name := range []string{"maths", "other"} {
		enter(t, c, name, "dead")
		draft(t, c, name, "dead")
		finish(t, c, name, "dead", catalog.BuildFailed)
	}
	gc(t, c, catalog.GCOptions{Datasets: []string{"maths"}, Remove: true})
	if len(keysIn(t, b, "datasets/maths/data/")) != 0 || len(keysIn(t, b, "datasets/other/data/")) != 3 {
		t.Errorf("left are %v", keysIn(t, b, ""))
	}
	for _, opt := range []catalog.GCOptions{{Datasets: []string{"../x"}}, {Grace: -1}, {KeepLast: -1}} {
		if _, err := c.GC(t.Context(), opt); !errors.Is(err, catalog.ErrInvalid) {
			t.Errorf("%+v: %v", opt, err)
		}
	}
}

func TestWithdrawRefuses(t *testing.T) {
	c := catalog.Open(mem.New("b"))
	built(t, c, "maths", "b1")
	built(t, c, "maths", "b2")
	if _, err := c.Withdraw(t.Context(), "maths", 2, "why"); !errors.Is(err, catalog.ErrInvalid) {
		t.Errorf("the newest: %v", err)
	}
	if _, err := c.Withdraw(t.Context(), "maths", 9, "why"); !errors.Is(err, catalog.ErrUnknown) {
		t.Errorf("none: %v", err)
	}
	if _, err := c.Tag(t.Context(), "maths@1", "best"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Withdraw(t.Context(), "maths", 1, "why"); !errors.Is(err, catalog.ErrInvalid) || !strings.Contains(err.Error(), "best") {
		t.Errorf("a tagged one: %v", err)
	}
}

// While rows are being erased, versions change: gc waits.
func TestGCWaitsForAPurge(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	built(t, c, "maths", "b1")
	enter(t, c, "maths", "dead")
	draft(t, c, "maths", "dead")
	finish(t, c, "maths", "dead", catalog.BuildFailed)
	p := catalog.Purge{ID: "20261201T000000Z-0badcafe", Dataset: "maths", Ref: "maths@1", Scope: catalog.PurgeAnswers}
	if err := c.BeginPurge(t.Context(), p, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	r := gc(t, c, catalog.GCOptions{Remove: true})
	if r.Removed.Objects != 0 || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, "purge") {
		t.Errorf("%+v", r)
	}
	open, _, err := c.OpenPurge(t.Context(), "maths")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.EndPurge(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	if r := gc(t, c, catalog.GCOptions{Remove: true}); r.Removed.Objects != 3 {
		t.Errorf("%+v", r)
	}
	if purges, err := c.Purges(t.Context(), "maths"); err != nil || len(purges) != 1 || purges[0].FormatVersion != catalog.PurgeFormat {
		t.Errorf("the record of the purge: %v, %v", purges, err)
	}
}
