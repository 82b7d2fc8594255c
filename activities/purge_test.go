package activities

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// canary is what no object of the store may hold after a purge.
const canary = "XQZVCANARY"

// holders are the keys of objects that hold a text, however they are packed.
func holders(t testing.TB, b objstore.Bucket, text string) []string {
	t.Helper()
	var out []string
	for attr, err := range b.List(context.Background(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := objstore.ReadAll(context.Background(), b, attr.Key, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		unpacked := string(data)
		switch {
		case strings.HasSuffix(attr.Key, ".parquet"):
			for row, err := range parquetio.Maps(context.Background(), bytes.NewReader(data), int64(len(data))) {
				if err != nil {
					t.Fatalf("%s: %v", attr.Key, err)
				}
				unpacked += fmt.Sprintf("%v %s", row, row["raw"])
			}
		case strings.HasSuffix(attr.Key, ".zst"):
			z, err := zstd.NewReader(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			plain, _ := io.ReadAll(z) // a journal is frames of our own around those of zstd
			z.Close()
			unpacked += string(plain)
		}
		if strings.Contains(unpacked, text) {
			out = append(out, attr.Key)
		}
	}
	return out
}

// purger is one of a machine that has nothing but the store.
func (w *world) purger() *Purger {
	w.t.Helper()
	reader, err := answers.OpenReader(w.bucket, "")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { reader.Close() })
	return &Purger{
		Bucket: w.bucket, Catalog: catalog.Open(w.bucket), Eraser: &answers.Eraser{Reader: reader, Exclusive: true}, TempDir: w.a.TempDir,
		Log: slog.New(slog.DiscardHandler), By: "somebody@here", Reason: "they asked us to",
	}
}

// purge plans and carries out.
func (w *world) purge(ref string, choice PurgeChoice) *PurgeResult {
	w.t.Helper()
	p := w.purger()
	found, plan, err := p.Plan(context.Background(), ref, choice)
	if err != nil {
		w.t.Fatal(err)
	}
	if plan == nil {
		w.t.Fatalf("nothing was chosen: %+v", found)
	}
	done, err := p.Erase(context.Background(), plan)
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

// answerWith chooses answers that hold a text.
func answerWith(text string) PurgeChoice {
	return PurgeChoice{Table: datasets.TableCandidates, Match: func(row any) (bool, error) {
		return strings.Contains(row.(*datasets.Candidate).Content(), text), nil
	}}
}

// canaries is a recipe whose teacher says the canary to one prompt, and whose
// judge repeats it.
func canaries(t *testing.T, w *world) (recipe string, asked func() int) {
	t.Helper()
	teacher := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		if strings.Contains(r.Prompt, "3+4=") {
			return teacherstest.Reply{Content: "It is 7, says " + canary + "A", Reasoning: canary + "R", Finish: "stop"}
		}
		return teacherstest.Reply{Content: "an answer to " + r.Prompt, Finish: "stop"}
	})
	judge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		said := "fine"
		if strings.Contains(r.Prompt, canary) {
			said = "quoting " + canary + "J"
		}
		return teacherstest.Reply{Content: said + "\n" + judged(r, 9)}
	})
	w.file("p.jsonl", sums(12))
	return fmt.Sprintf(`name: a
prompts: [{path: p.jsonl, fields: {prompt: question, gold: gold}}]
teachers:
  - {id: t, base_url: %s, model: m, identity: answers, params: {max_tokens: 100}, price: {input: 1, output: 2}}
  - {id: j, base_url: %s, model: other-70b, identity: judge, price: {input: 2, output: 2}}
check: [{verifier: judge, teacher: j, rubric: Is it kind?}]
output: {report_text: all}
`, teacher.URL, judge.URL), func() int { return teacher.Stats().Requests + judge.Stats().Requests }
}

// ended enters the end of the builds of dataset a, as the workflow does.
func (w *world) ended(string) { w.t.Helper(); w.endedOf("a") }

func (w *world) endedOf(dataset string) {
	w.t.Helper()
	builds, err := w.a.Catalog.Builds(context.Background(), dataset)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, b := range builds {
		if b.Live() {
			if err := w.a.Catalog.FinishIntent(context.Background(), dataset, b.BuildID, catalog.BuildDone, nil); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

func TestPurgeOfAnswers(t *testing.T) {
	w := newWorld(t)
	recipe, asked := canaries(t, w)
	_, first := w.judgedBuild(recipe)
	w.ended(first.BuildID)
	w.judgedBuild(strings.Replace(recipe, "max_tokens: 100", "max_tokens: 200", 1)) // the same answers under a larger cap
	w.ended("")
	w.file("p.jsonl", sums(13))
	w.judgedBuild(recipe) // and another version
	w.ended("")
	versions := w.versions("a")
	before := w.manifest("a")
	if n := len(holders(t, w.bucket, canary)); n < 6 {
		t.Fatalf("only %d objects hold the canary", n)
	}
	v, _, err := w.a.Catalog.Latest(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}

	done := w.purge("a", answerWith(canary))
	if left := holders(t, w.bucket, canary); len(left) > 0 {
		t.Fatalf("left in %q", left)
	}
	if done.Chosen != 1 || done.Asks != 2 || done.Judged != 1 || done.Missing != 0 || len(done.Versions) != versions || done.Counts["answers"] != 2 {
		t.Errorf("%+v", done)
	}
	// The versions are whole, say what they were, and keep their numbers.
	for n := 1; n <= versions; n++ {
		report, err := w.a.Catalog.Verify(context.Background(), fmt.Sprintf("a@%d", n), nil)
		if err != nil || !report.OK() {
			t.Errorf("version %d: %+v, %v", n, report, err)
		}
	}
	if _, _, err := w.a.Catalog.Resolve(context.Background(), "a@sha256:"+v.ManifestSHA256); !errors.Is(err, catalog.ErrPurged) {
		t.Errorf("the digest from before: %v", err)
	}
	after := w.manifest("a")
	if after.Rows("train") != before.Rows("train")-1 || after.Rows("candidates") != before.Rows("candidates") || len(after.Purged) != 1 {
		t.Errorf("rows %v, were %v; %+v", after.Counts.Rows, before.Counts.Rows, after.Purged)
	}
	for _, c := range rows[datasets.Candidate](w, "a", datasets.TableCandidates) {
		if c.Error != nil && (*c.Error != classPurged || c.CostMicros == nil || len(c.Messages) != 1 || c.Accepted) {
			t.Errorf("candidate %+v", c)
		}
	}
	// Nobody is asked again, and the purged answer does not come back.
	n := asked()
	_, again := w.judgedBuild(recipe)
	if asked() != n {
		t.Errorf("%d requests after the purge", asked()-n)
	}
	if left := holders(t, w.bucket, canary); len(left) > 0 {
		t.Errorf("after another build left in %q", left)
	}
	if !again.Unchanged {
		t.Errorf("a build after the purge is not what the purge left: %+v", again)
	}
	w.ended("")
	// A reading of the raw answers finds none.
	if _, err := w.reparse("a", true); err != nil {
		t.Error(err)
	}
	purges, err := w.a.Catalog.Purges(context.Background(), "a")
	if err != nil || len(purges) != 1 || purges[0].State != catalog.PurgeDone || purges[0].By != "somebody@here" || purges[0].IDs == 0 || len(purges[0].Versions) != versions {
		t.Errorf("records %+v, %v", purges, err)
	}
}

func TestPurgeOfPrompts(t *testing.T) {
	w := newWorld(t)
	recipe, asked := canaries(t, w)
	w.file("p.jsonl", sums(12)+`{"question":"3+4= `+canary+`P","gold":"7"}`+"\n")
	w.judgedBuild(recipe)
	w.ended("")
	done := w.purge("a", PurgeChoice{Table: datasets.TablePrompts, Match: func(row any) (bool, error) {
		p := row.(*datasets.PromptRow)
		return strings.Contains(*p.Messages[0].Content, canary), nil
	}})
	if left := holders(t, w.bucket, canary+"P"); len(left) > 0 {
		t.Fatalf("left in %q", left)
	}
	if done.Chosen != 1 || done.Counts["pinned_files"] != 1 || len(done.Notes) != 1 {
		t.Errorf("%+v", done)
	}
	if got := len(rows[datasets.PromptRow](w, "a", datasets.TablePrompts)); got != 12 {
		t.Errorf("%d prompts are left", got)
	}
	report, err := w.a.Catalog.Verify(context.Background(), "a", nil)
	if err != nil || !report.OK() {
		t.Errorf("%+v, %v", report, err)
	}
	// The file of the user still has it: a build passes over it.
	n := asked()
	w.judgedBuild(recipe)
	if asked() != n {
		t.Errorf("%d requests after the purge", asked()-n)
	}
	for _, key := range holders(t, w.bucket, canary+"P") {
		if !strings.HasPrefix(key, "sources/") {
			t.Errorf("%s holds it again", key)
		}
	}
}

// TestPurgeInterrupted cuts a purge at each request that it makes to the store,
// before and after it takes effect: run again it ends, and nothing is left.
func TestPurgeInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("many purges")
	}
	origin := newWorld(t)
	recipe, _ := canaries(t, origin)
	origin.judgedBuild(recipe)
	origin.ended("")
	if _, err := origin.a.Catalog.Tag(context.Background(), "a@1", "best"); err != nil {
		t.Fatal(err)
	}
	objects := map[string][]byte{}
	for attr, err := range origin.bucket.List(context.Background(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := objstore.ReadAll(context.Background(), origin.bucket, attr.Key, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		objects[attr.Key] = data
	}
	reports := 2 // the figures and the page
	for cut := 1; ; cut++ {
		b := mem.New("t")
		for _, key := range slices.Sorted(mapsKeys(objects)) {
			if _, err := objstore.PutBytes(context.Background(), b, key, objects[key], objstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		w := &world{t: t, bucket: b, a: &Activities{TempDir: t.TempDir(), Catalog: catalog.Open(b)}}
		p := w.purger()
		_, plan, err := p.Plan(context.Background(), "a", answerWith(canary))
		if err != nil || plan == nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		n := 0
		fault := func(string, string) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n >= cut {
				return objstore.ErrUnavailable
			}
			return nil
		}
		if cut%2 == 0 {
			b.Lost = fault
		} else {
			b.Fault = fault
		}
		_, first := p.Erase(context.Background(), plan)
		b.Fault, b.Lost = nil, nil
		again := w.purger()
		done, err := again.Finish(context.Background(), "a")
		if err != nil {
			t.Fatalf("cut %d: finish: %v", cut, err)
		}
		if done == nil && first != nil { // it had not begun, or its last step was lost
			if _, plan, err = again.Plan(context.Background(), "a", answerWith(canary)); err != nil {
				t.Fatal(err)
			}
			if plan != nil {
				if _, err := again.Erase(context.Background(), plan); err != nil {
					t.Fatalf("cut %d: %v", cut, err)
				}
			}
		}
		if left := holders(t, b, canary); len(left) > 0 {
			t.Fatalf("cut %d (%v) left %q", cut, first, left)
		}
		report, err := w.a.Catalog.Verify(context.Background(), "a", nil)
		if err != nil || !report.OK() {
			t.Fatalf("cut %d: %+v, %v", cut, report, err)
		}
		for _, key := range w.manifest("a").Reports {
			if _, err := b.Head(context.Background(), key); err != nil {
				t.Fatalf("cut %d (%v): report %s: %v", cut, first, key, err)
			}
		}
		if len(w.manifest("a").Reports) != reports {
			t.Fatalf("cut %d (%v): reports %q", cut, first, w.manifest("a").Reports)
		}
		v, _, err := w.a.Catalog.Resolve(context.Background(), "a@best")
		if err != nil {
			t.Fatal(err)
		}
		if tags, err := w.a.Catalog.Tags(context.Background(), "a"); err != nil || len(tags) != 1 || tags[0].ManifestSHA256 != v.ManifestSHA256 {
			t.Fatalf("cut %d (%v): tags %+v, %v", cut, first, tags, err)
		}
		if open, _, err := w.a.Catalog.OpenPurge(context.Background(), "a"); open != nil || err != nil {
			t.Fatalf("cut %d: open %+v, %v", cut, open, err)
		}
		if first == nil {
			if cut < 30 {
				t.Fatalf("only %d requests", cut)
			}
			return
		}
	}
}

func mapsKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func TestPurgeAndBuildsHoldEachOtherBack(t *testing.T) {
	w := newWorld(t)
	recipe, _ := canaries(t, w)
	w.judgedBuild(recipe)
	p := w.purger()
	ctx := context.Background()
	_, plan, err := p.Plan(ctx, "a", answerWith(canary))
	if err != nil {
		t.Fatal(err)
	}
	w.ended("")
	if err := w.a.Catalog.PutIntent(ctx, catalog.Intent{Dataset: "a", BuildID: "running"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Erase(ctx, plan); !errors.Is(err, catalog.ErrBuilding) || !strings.Contains(err.Error(), "stillhouse cancel running") {
		t.Fatalf("beside a build: %v", err)
	}
	if open, _, err := w.a.Catalog.OpenPurge(ctx, "a"); open != nil || err != nil {
		t.Fatalf("a refused purge is open: %+v, %v", open, err)
	}
	w.ended("")
	// While one is open nothing begins and nothing is published.
	if err := w.a.Catalog.BeginPurge(ctx, catalog.Purge{ID: "x", Dataset: "a"}, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := w.a.Catalog.PutIntent(ctx, catalog.Intent{Dataset: "a", BuildID: "later"}); !errors.Is(err, catalog.ErrPurging) || !strings.Contains(err.Error(), "stillhouse purge a --yes") {
		t.Fatalf("a build began: %v", err)
	}
	m := *w.manifest("a")
	m.BuildID = "later"
	if _, err := w.a.Catalog.Publish(ctx, m); !errors.Is(err, catalog.ErrPurging) {
		t.Fatalf("a build published: %v", err)
	}
	if _, err := p.Erase(ctx, plan); !errors.Is(err, catalog.ErrPurging) {
		t.Fatalf("a second purge began: %v", err)
	}
	if _, err := p.Finish(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if err := w.a.Catalog.PutIntent(ctx, catalog.Intent{Dataset: "a", BuildID: "later"}); err != nil {
		t.Fatalf("after the purge: %v", err)
	}
}

// What of another dataset was made of the same answers is told, and stays.
func TestPurgeTellsOfOtherDatasets(t *testing.T) {
	w := newWorld(t)
	recipe, _ := canaries(t, w)
	w.judgedBuild(recipe)
	w.ended("")
	w.judgedBuild(strings.Replace(recipe, "name: a", "name: b", 1))
	found, plan, err := w.purger().Plan(context.Background(), "a", answerWith(canary))
	if err != nil || plan == nil || found.Elsewhere["b"] != 1 || len(found.Elsewhere) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	if found, plan, err = w.purger().Plan(context.Background(), "a", answerWith("nobody says this")); err != nil || plan != nil || found.Chosen != 0 {
		t.Fatalf("%+v, %v", found, err)
	}
}
