package activities

import (
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// What probes were answered is in no table: of a purged prompt it goes too.
func TestPurgeOfPromptsReachesWhatNoTableTells(t *testing.T) {
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: "You ask " + r.Prompt}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(5)+`{"question":"3+4= `+canary+`P","gold":"7"}`+"\n")
	free := func(every string) string {
		return strings.NewReplacer("check: [{verifier: math}]\n", "", "all_passing", "union").Replace(driftRecipe("a", server.URL, 20, every))
	}
	w.build(free("7d"))
	w.ended("")
	if _, result := w.build(free("1ns")); !result.Unchanged || result.Drift["t"].Asked != 6 {
		t.Fatalf("%+v", result)
	}
	w.ended("")
	w.build(free("1ns")) // and a second probe
	w.ended("")
	if n := server.Stats().Completed; n != 18 {
		t.Fatalf("%d answers", n)
	}
	done := w.purge("a", PurgeChoice{Table: datasets.TablePrompts, Match: func(row any) (bool, error) {
		return strings.Contains(*row.(*datasets.PromptRow).Messages[0].Content, canary), nil
	}})
	if done.Counts["answers"] != 3 {
		t.Errorf("%+v", done.Counts)
	}
	if left := holders(t, w.bucket, canary); len(left) > 0 {
		t.Errorf("left in %q", left)
	}
}
