package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// scoreStudentFit has the student score some of the accepted answers, where the
// recipe says so. Nothing of it decides what enters the dataset, so no failure
// of it ends a build that is paid for: answers that are not scored say why. A
// build without a student has none of this, and does what it always did.
func (b *build) scoreStudentFit(ctx workflow.Context) error {
	fit := b.plan.Fit
	if fit == nil {
		return nil
	}
	err := b.askRound(ctx, fit.Teacher(), fit.Queue, wire.ActivityStudentFit, func() any {
		return wire.FitInput{BuildRef: b.in.BuildRef, PlanKey: b.plan.Key, Teacher: fit.Teacher(), Started: b.started}
	})
	if err != nil && ctx.Err() == nil && !temporal.IsCanceledError(err) {
		workflow.GetLogger(ctx).Warn("the student scored no answers", "error", err)
		return nil
	}
	return err
}
