package activities

import (
	"context"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// kept are those of some asks of which the answer store still holds something.
func (w *world) kept(ids map[string]bool) (out []string) {
	w.t.Helper()
	p := w.purger()
	endpoints, err := p.Eraser.Endpoints(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, endpoint := range endpoints {
		found, err := p.Eraser.Find(context.Background(), endpoint, ids)
		if err != nil {
			w.t.Fatal(err)
		}
		for id := range found {
			out = append(out, id)
		}
	}
	return out
}

// What the student was asked about a purged answer holds its words: it goes with
// it, and of a purged prompt also what the student was asked about that alone.
func TestPurgeOfWhatTheStudentScored(t *testing.T) {
	for _, prompts := range []bool{false, true} {
		short, long := sumAnswers(t, "%d"), sumAnswers(t, "The answer is %d.")
		pupil := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return teacherstest.Reply{} })
		w := newWorld(t)
		w.file("p.jsonl", sums(6))
		text := fitRecipe(short.URL, long.URL, pupil.URL, 10)
		_, first := w.scoredBuild(text)
		w.endedOf("d")

		victim := rows[datasets.FitRow](w, "d", datasets.TableStudentFit)[0]
		about := map[string]bool{*victim.AskID: true}
		choice := PurgeChoice{Table: datasets.TableTrain, IDs: map[string]bool{victim.SampleID: true}}
		want := 11
		if prompts {
			for _, row := range rows[datasets.Attempt](w, "d", datasets.TableAttempts) {
				if row.PromptID == victim.PromptID {
					about[row.AskID] = true
				}
			}
			if len(about) != 5 { // two answers, the prompt alone and with either
				t.Fatalf("%d asks about the prompt", len(about))
			}
			choice, want = PurgeChoice{Table: datasets.TablePrompts, IDs: map[string]bool{victim.PromptID: true}}, 10
		}
		if n := len(w.kept(about)); n != len(about) {
			t.Fatalf("%d of %d asks are kept before", n, len(about))
		}
		w.purge("d", choice)
		if left := w.kept(about); len(left) > 0 {
			t.Errorf("prompts %t: the answer store holds %q", prompts, left)
		}
		if n := len(rows[datasets.FitRow](w, "d", datasets.TableStudentFit)); n != want {
			t.Errorf("prompts %t: %d rows of the student's are left, want %d", prompts, n, want)
		}
		report, err := w.a.Catalog.Verify(context.Background(), "d", nil)
		if err != nil || !report.OK() {
			t.Errorf("prompts %t: %+v, %v", prompts, report, err)
		}
		n := pupil.Stats().Requests + short.Stats().Requests + long.Stats().Requests
		_, again := w.scoredBuild(text)
		if got := pupil.Stats().Requests + short.Stats().Requests + long.Stats().Requests; got != n || first.Unchanged {
			t.Errorf("prompts %t: %d requests after the purge", prompts, got-n)
		}
		if !prompts && !again.Unchanged {
			t.Errorf("a build after the purge is not what the purge left: %+v", again)
		}
	}
}
