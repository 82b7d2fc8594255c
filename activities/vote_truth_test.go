package activities

import (
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/merge"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// Four recorded teachers vote on GSM8K, and nobody looks at the gold.
func TestVoteOnGSM8K(t *testing.T) {
	testdata.Heavy(t)
	w := newWorld(t)
	_, result := w.build(gsmRecipe(t, 4) + "merge: {policy: vote, accept: any, share: 0.5, margin: 1}\n")
	labelled, ties := 0, 0
	for _, p := range rows[datasets.PromptRow](w, "gsm", datasets.TablePrompts) {
		switch {
		case p.Label != nil:
			labelled++
		case p.LabelMargin != nil && *p.LabelMargin == 0 && *p.LabelShare == 0.5 && *p.LabelVotes == 4:
			ties++
		}
	}
	right, members := map[string]bool{}, 0
	tasks := map[string]bool{}
	for _, table := range []string{datasets.TableTrain, datasets.TableTest} {
		for _, row := range rows[datasets.Row](w, "gsm", table) {
			members++
			tasks[row.TaskID] = true
			if row.Verdict != nil && *row.Verdict == datasets.Pass {
				right[row.TaskID] = true
			}
		}
	}
	if labelled != 791 || len(tasks) != 791 || len(right) != 565 || ties != 40 {
		t.Errorf("%d labelled, %d with rows, %d right, %d ties; want 791, 791, 565, 40", labelled, len(tasks), len(right), ties)
	}
	if int64(members) != result.Rows["train"]+result.Rows["test"] || int64(members)+result.Unselected[merge.LeftOutvoted]+result.Unselected[merge.LeftNoLabel] != result.Accepted {
		t.Errorf("%d rows, %v of %d accepted", members, result.Unselected, result.Accepted)
	}
	t.Logf("%d labelled, %d right, %d ties; %d rows; %v left", labelled, len(right), ties, members, result.Unselected)
}
