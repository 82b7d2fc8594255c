package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

func driftRecipe(name, url string, probe int, every string) string {
	return askRecipe(name, url, ", price: {input: 1, output: 2}") + fmt.Sprintf("check: [{verifier: math}]\ndrift: {probe: %d, every: %s}\nmerge: {policy: all_passing}\n", probe, every)
}

// A changing teacher is right until it changed, and then wrong and wordy.
func changing(changed *atomic.Bool, asked *atomic.Int64) func(teacherstest.Request) teacherstest.Reply {
	return func(r teacherstest.Request) teacherstest.Reply {
		asked.Add(1)
		var a, b int
		_, _ = fmt.Sscanf(r.Prompt, "%d+%d=", &a, &b)
		if changed.Load() {
			return teacherstest.Reply{Content: fmt.Sprintf("%s so the answer is %d", strings.Repeat("well, ", 40), a+b+1), Model: "m-quantised"}
		}
		return teacherstest.Reply{Content: fmt.Sprintf("The answer is %d.", a+b)}
	}
}

// report reads the comparison of a build.
func (w *world) report(t *testing.T, dataset string) *report.Report {
	t.Helper()
	m := w.manifest(dataset)
	i := slices.IndexFunc(m.Reports, func(key string) bool { return strings.HasSuffix(key, "report.json") })
	text, _, err := objstore.ReadAll(context.Background(), w.bucket, m.Reports[i], 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	r := fromJSON[report.Report](t, text)
	return &r
}

// ago makes the dataset's last probe, or its first answers, older than they are.
func (w *world) ago(t *testing.T, dataset string, by time.Duration) {
	t.Helper()
	if err := w.a.Catalog.ChangeEpochs(context.Background(), dataset, func(e *catalog.Epochs) bool {
		for i := range e.Teachers {
			if at := e.Teachers[i].ProbedAt; at != nil {
				then := at.Add(-by)
				e.Teachers[i].ProbedAt = &then
			}
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
}

func TestProbesFindATeacherThatChanged(t *testing.T) {
	var changed atomic.Bool
	var asked atomic.Int64
	server := teacherstest.New(t, changing(&changed, &asked))
	w := newWorld(t)
	w.file("p.jsonl", sums(60))

	// The first answers are what probes are compared with: no probe yet.
	w.build(driftRecipe("a", server.URL, 20, "7d"))
	if n := asked.Load(); n != 60 {
		t.Fatalf("%d asked, want 60", n)
	}
	before := w.digests("a", stable...)
	w.build(driftRecipe("a", server.URL, 20, "7d"))
	if n := asked.Load(); n != 60 {
		t.Fatalf("a probe is asked before it is due: %d", n)
	}

	// Due: the same prompts once more. Nothing is published, as nothing of the
	// dataset changed, and what it showed is recorded all the same.
	_, result := w.build(driftRecipe("a", server.URL, 20, "1ns"))
	if n := asked.Load(); n != 80 || !result.Unchanged {
		t.Errorf("%d asked, want 80; %+v", n, result)
	}
	d := result.Drift["t"]
	if d.Probe != 1 || d.Asked != 20 || d.Answered != 20 || d.Changed || result.AnswersNew != 0 || result.CostUSD <= 0 {
		t.Errorf("%+v %+v", d, result)
	}
	known, err := w.a.Catalog.Epochs(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	shown := fromJSON[report.Drift](t, known.Teachers[0].Drift)
	if known.Teachers[0].Probes != 1 || known.Teachers[0].Probing != "" || shown.Pairs != 20 || shown.PassNow.Count != 20 || shown.Changed {
		t.Errorf("%+v %+v", known.Teachers[0], shown)
	}

	// Not due again, until it is.
	w.build(driftRecipe("a", server.URL, 20, "7d"))
	if n := asked.Load(); n != 80 {
		t.Errorf("%d asked", n)
	}
	changed.Store(true)
	w.ago(t, "a", 8*24*time.Hour)
	w.file("p.jsonl", sums(61)) // one row more, so that a version is published
	r := w.start(driftRecipe("a", server.URL, 20, "7d")).ask()
	if c := r.counts["t"]; c.Asks != 61+20 || c.New != 1+20 || c.Reused != 60 {
		t.Errorf("%+v", c)
	}
	r.refine()
	_, result = r.seal()
	if d := result.Drift["t"]; d.Probe != 2 || !d.Changed || !strings.Contains(d.Why, "m-quantised") {
		t.Errorf("%+v", d)
	}
	rep := w.report(t, "a")
	if len(rep.Drift) != 1 || rep.Drift[0].Worse == 0 || rep.Drift[0].Better != 0 || rep.Drift[0].Longer != int64(rep.Drift[0].Pairs) || rep.Drift[0].Pairs < 19 || *rep.Drift[0].LengthP > 1e-5 {
		t.Errorf("%+v", rep.Drift)
	}
	// Probes are in no table and in nobody's figures.
	if rep.Teachers[0].Asks != 61 {
		t.Errorf("%d asks in the comparison, want 61", rep.Teachers[0].Asks)
	}
	for _, row := range rows[datasets.Candidate](w, "a", datasets.TableCandidates) {
		if row.ModelAnswered != nil && *row.ModelAnswered == "m-quantised" && !strings.Contains(*row.Messages[0].Content, "60+61") {
			t.Errorf("a probe's answer is a candidate: %+v", row)
		}
	}
	if len(before) == 0 || server.Stats().Completed != int(asked.Load()) {
		t.Errorf("%+v", server.Stats())
	}
}

// A probe that a crash cut short goes on: what has arrived is not asked again,
// and no other probe begins.
func TestAProbeGoesOn(t *testing.T) {
	var changed atomic.Bool
	var asked atomic.Int64
	server := teacherstest.New(t, changing(&changed, &asked))
	w := newWorld(t)
	w.file("p.jsonl", sums(100))
	w.build(driftRecipe("a", server.URL, 80, "7d"))
	r := w.start(driftRecipe("a", server.URL, 80, "1ns"))
	batches := r.plan.Teachers[0].Batches
	r.askBatch("t", batches-2) // of the two that the probe has
	if n := asked.Load(); n != 100+BatchAsks {
		t.Fatalf("%d asked", n)
	}
	// The build is gone; the next one asks the rest.
	next := w.start(driftRecipe("a", server.URL, 80, "7d")).ask()
	if n := asked.Load(); n != 180 {
		t.Errorf("%d asked, want 180", n)
	}
	next.refine()
	if _, result := next.seal(); result.Drift["t"].Probe != 1 || result.Drift["t"].Answered != 80 {
		t.Errorf("%+v", result.Drift)
	}
	if s := server.Stats(); s.Completed != 180 {
		t.Errorf("%+v", s)
	}
}

// Which prompts a probe has does not depend on their order, and moves little
// where prompts are added.
func TestProbesAreTheSamePrompts(t *testing.T) {
	r := parsed(t, driftRecipe("a", "http://localhost/v1", 30, "7d"))
	tasks := make([]datasets.Task, 5000)
	for i := range tasks {
		tasks[i] = datasets.Task{TaskID: fmt.Sprintf("%032x/math/high", i*7919), Route: []string{"t"}}
	}
	choose := func(tasks []datasets.Task) []string {
		c := newProbeChoice(r)
		for chunk := range slices.Chunk(tasks, 7) {
			c.see(chunk)
		}
		var ids []string
		for _, task := range c.of("t") {
			ids = append(ids, task.TaskID)
		}
		return ids
	}
	want := choose(tasks)
	if len(want) != 30 || !slices.IsSorted(want) {
		t.Fatalf("%d tasks", len(want))
	}
	shuffled := slices.Clone(tasks)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	if got := choose(shuffled); !slices.Equal(got, want) {
		t.Error("the order of the tasks decides which are probed")
	}
	kept := 0
	for _, id := range choose(tasks[:4500]) {
		if slices.Contains(want, id) {
			kept++
		}
	}
	if kept < 20 {
		t.Errorf("of 30 prompts %d stay where a tenth more came", kept)
	}
	if few := choose(tasks[:12]); len(few) != 12 {
		t.Errorf("%d of 12 tasks", len(few))
	}
	if c := newProbeChoice(parsed(t, askRecipe("a", "http://localhost/v1", ""))); c.of("t") != nil {
		t.Error("a recipe without drift probes")
	}
}

// A teacher that is asked anew as a whole is not probed beside that.
func TestARefreshIsNoProbe(t *testing.T) {
	var changed atomic.Bool
	var asked atomic.Int64
	server := teacherstest.New(t, changing(&changed, &asked))
	w := newWorld(t)
	w.file("p.jsonl", sums(30))
	recipe := driftRecipe("a", server.URL, 10, "1ns")
	w.build(recipe)
	asked.Store(0)
	r := w.refresh(recipe, "t").ask()
	if n := asked.Load(); n != 30 {
		t.Errorf("%d asked, want 30", n)
	}
	r.refine()
	r.seal()
	asked.Store(0)
	changed.Store(true)
	// And the next probe is compared with the refreshed answers.
	_, result := w.build(recipe)
	if n := asked.Load(); n != 10 || !result.Drift["t"].Changed {
		t.Errorf("%d asked, %+v", n, result.Drift)
	}
	if text, err := json.Marshal(result); err != nil || !strings.Contains(string(text), `"drift":{"t":`) {
		t.Errorf("%s %v", text, err)
	}
}
