package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/training"
)

// A Left is what a launch of another machine left in the store, beside the
// number of rows that it was handed.
type Left struct {
	Result *training.Result // nil where there is none that can be believed
	Why    string           // there is none
	Rows   int64            // of the train split, by handoff.json
}

// Leavings reads what a launch left in the store. It fails where the store
// can't be read, never because there is no result.
type Leavings func(ctx context.Context, launchID string) (Left, error)

// maxHandoff bounds handoff.json when it is read back.
const maxHandoff = 4 << 20

// LeavingsIn reads from the bucket that the bundle lies in.
func LeavingsIn(bucket objstore.Bucket) Leavings {
	return func(ctx context.Context, launchID string) (Left, error) {
		text, _, err := objstore.ReadAll(ctx, bucket, training.Key(launchID, training.HandoffFile), maxHandoff)
		if err != nil {
			return Left{}, fmt.Errorf("read what was handed over as launch %s: %w", launchID, err)
		}
		var b training.Bundle
		if err := json.Unmarshal(text, &b); err != nil {
			return Left{}, fmt.Errorf("read what was handed over as launch %s: %w", launchID, err)
		}
		left := Left{Rows: b.View.Rows[datasets.TableTrain]}
		text, _, err = objstore.ReadAll(ctx, bucket, training.Key(launchID, training.ResultFile), training.MaxResultBytes)
		switch {
		case errors.Is(err, objstore.ErrNotFound):
			left.Why = "it left no " + training.ResultFile
		case errors.Is(err, objstore.ErrTooLarge):
			left.Why = training.ResultFile + " is too large to be one"
		case err != nil:
			return Left{}, fmt.Errorf("read the result of launch %s: %w", launchID, err)
		default:
			if left.Result, err = training.ParseResult(text, launchID); err != nil {
				left.Why = err.Error()
			}
		}
		return left, nil
	}
}

// Weigh holds what a cluster says of a launch's end (a final phase; [Unknown]
// where the cluster no longer knows the launch) to what the launch left.
// It is Succeeded only where a result says so for as many rows as were handed
// over and the cluster does not say otherwise.
func Weigh(said State, left Left) State {
	out, r := said, left.Result
	out.Result = r
	if out.ExitCode == nil && r != nil {
		out.ExitCode = &r.ExitCode
	}
	// A second start of a launch ends at once, and says nothing of the first.
	second := said.Phase == Failed && said.ExitCode != nil && *said.ExitCode == training.ExitClaimed
	switch {
	case said.Phase == Running || said.Phase == Cancelled:
		out.Reason = because(said.Reason, string(said.Phase))
	case r == nil && second:
		out.Phase, out.Reason = Unknown, "an earlier run has claimed this launch, and "+left.Why
	case r == nil && said.Phase == Failed:
		out.Reason = because(said.Reason, "failed")
	case r == nil:
		out.Phase, out.Reason = Unknown, because(said.Reason, string(said.Phase))+", but "+left.Why
	case said.Phase == Failed && !second && r.State == training.ResultSucceeded:
		out.Phase, out.Reason = Unknown, because(said.Reason, "failed")+", but its result says that it succeeded"
	case said.Phase == Failed && !second:
		out.Reason = because(said.Reason, "failed")
		if r.Error != "" {
			out.Reason += ": " + r.Error
		}
	case r.State == training.ResultFailed:
		out.Phase, out.Reason = Failed, because(r.Error, "its result says that it failed")
	case r.State == training.ResultCancelled:
		out.Phase, out.Reason = Cancelled, because(r.Error, "its result says that it was cancelled")
	case left.Rows > 0 && r.RowsSeen == nil:
		out.Phase, out.Reason = Unknown, fmt.Sprintf("it says that it succeeded, but not on how many of the %d rows; install pyarrow where it runs, so that run.sh can count", left.Rows)
	case left.Rows > 0 && *r.RowsSeen != left.Rows:
		out.Phase, out.Reason = Unknown, fmt.Sprintf("it says that it succeeded, but on %d rows, not on the %d that were handed over", *r.RowsSeen, left.Rows)
	default:
		out.Phase, out.Reason = Succeeded, ""
	}
	return out
}

func because(reason, otherwise string) string {
	if reason == "" {
		return otherwise
	}
	return reason
}
