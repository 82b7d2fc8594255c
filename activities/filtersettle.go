package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// stageAlarms holds what looks as if the filters found too much.
const stageAlarms = "filter-alarms"

// settle puts together what was found about each prompt.
func (w *filterWork) settle(ctx context.Context, plan *filterPlan) error {
	hits, err := w.hits(ctx, plan)
	if err != nil {
		return err
	}
	same, alarms, err := w.duplicates(ctx, plan)
	if err != nil {
		return err
	}
	out, err := newStageFile[promptFinding](w.temp)
	if err != nil {
		return err
	}
	defer out.discard()
	for f, err := range joinFindings(hits, same) {
		if err == nil {
			err = out.write([]promptFinding{f}, func(f *promptFinding) string { return f.PromptID })
		}
		if err != nil {
			return err
		}
	}
	text, err := json.Marshal(append(plan.Notes, alarms...))
	if err != nil {
		return err
	}
	key := stageKey(w.dataset, w.buildID, stageAlarms, unitName(0), text, ".json")
	if _, err := objstore.CreateOrSame(ctx, w.bucket, key, text); err != nil {
		return fmt.Errorf("write the alarms of the filters of prompts: %w", err)
	}
	_, err = out.upload(ctx, w.bucket, w.dataset, w.buildID, stageFound, unitName(0))
	return err
}

// joinFindings makes one finding of each prompt of two lists in the order of
// prompt ids: the hits of the first, and all else of the second.
func joinFindings(hits, same iter.Seq2[promptFinding, error]) iter.Seq2[promptFinding, error] {
	return func(yield func(promptFinding, error) bool) {
		right := readFindings(same)
		defer right.close()
		head, err, more := right.next()
		for left, lerr := range hits {
			for ; err == nil && more && head.PromptID < left.PromptID; head, err, more = right.next() {
				if !yield(head, nil) {
					return
				}
			}
			if lerr != nil || err != nil {
				yield(promptFinding{}, cmp.Or(lerr, err))
				return
			}
			if more && head.PromptID == left.PromptID {
				head.Hits = left.Hits
				left = head
				head, err, more = right.next()
			}
			if !yield(left, nil) {
				return
			}
		}
		for ; err == nil && more; head, err, more = right.next() {
			if !yield(head, nil) {
				return
			}
		}
		if err != nil {
			yield(promptFinding{}, err)
		}
	}
}
