package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// measure has all answers measured once the teachers are through, where the
// recipe judges each by all of them: in parts, so that many workers share the
// work. Until then no shard is refined. A build that needs no measures has none
// of this, and does what it always did.
func (b *build) measure(ctx workflow.Context) error {
	parts := min(wire.MostMeasures, b.plan.Shards)
	digests := make([]string, parts)
	var failure error
	next, inFlight := 0, 0
	for failure == nil && (next < parts || inFlight > 0) {
		for next < parts && inFlight < refineWindow {
			part := next
			next++
			inFlight++
			first, end := part*b.plan.Shards/parts, (part+1)*b.plan.Shards/parts
			workflow.Go(ctx, func(ctx workflow.Context) {
				var out wire.MeasureOutput
				err := workflow.ExecuteActivity(pipelineOptions(ctx), wire.ActivityMeasure, wire.MeasureInput{
					BuildRef: b.in.BuildRef, PlanKey: b.plan.Key, Part: part, First: first, Shards: end - first,
				}).Get(ctx, &out)
				inFlight--
				digests[part] = out.SHA256
				if err != nil && failure == nil {
					failure = fmt.Errorf("measure the answers of shards %d to %d: %w", first, end-1, err)
				}
			})
		}
		before := inFlight
		if err := workflow.Await(ctx, func() bool { return inFlight < before || failure != nil }); err != nil {
			return err
		}
	}
	if failure != nil {
		return failure
	}
	var out wire.MergeMeasuresOutput
	err := workflow.ExecuteActivity(pipelineOptions(ctx), wire.ActivityMergeMeasure, wire.MergeMeasuresInput{
		BuildRef: b.in.BuildRef, Parts: digests,
	}).Get(ctx, &out)
	if err != nil {
		return fmt.Errorf("add up the measures of the answers: %w", err)
	}
	b.stats = out.Key
	return nil
}

// unmeasured tells that no shard may be refined yet.
func (b *build) unmeasured() bool { return b.plan.Measure && b.stats == "" }
