package activities

import (
	"context"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
)

// tellStart tells that a launch was submitted. Who can't be told is in the log:
// a training is worth more than the word of it.
func (a *Activities) tellStart(ctx context.Context, p wire.HandOffPrepared) {
	if a.Trainers.Lineage == nil {
		return
	}
	b, err := a.readBundle(ctx, p.LaunchID)
	if err == nil {
		err = a.Trainers.Lineage.Started(ctx, b, time.Now())
	}
	if err != nil {
		a.Log.Warn("nobody was told that a training started", "launch", p.LaunchID, "error", err)
	}
}

// tellEnd tells how a launch ended.
func (a *Activities) tellEnd(ctx context.Context, p wire.HandOffPrepared, s launch.State, r *training.Result) {
	if a.Trainers.Lineage == nil {
		return
	}
	at := s.Ended
	if at.IsZero() {
		at = time.Now()
	}
	b, err := a.readBundle(ctx, p.LaunchID)
	if err == nil {
		err = a.Trainers.Lineage.Ended(ctx, b, string(s.Phase), at, r, s.Reason)
	}
	if err != nil {
		a.Log.Warn("nobody was told how a training ended", "launch", p.LaunchID, "error", err)
	}
}
