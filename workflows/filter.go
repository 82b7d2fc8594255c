package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// filterWindow is how many units of the filters of prompts are under way at
// once, over all workers.
const filterWindow = 32

// filterPrompts does what the plan says is to be done before the prompts can be
// planned, and plans them then. A recipe without filters of prompts has nothing
// of that in its plan.
func (b *build) filterPrompts(ctx workflow.Context) error {
	todo := b.plan.Filter
	if todo == nil {
		return nil
	}
	for _, phase := range todo.Phases {
		if err := b.filterPhase(ctx, todo.Key, phase); err != nil {
			return err
		}
	}
	b.filtering = ""
	in := wire.PlanFilteredInput{BuildRef: b.in.BuildRef, Key: todo.Key}
	var plan wire.PlanOutput
	if err := workflow.ExecuteActivity(pipelineOptions(ctx), wire.ActivityPlanFiltered, in).Get(ctx, &plan); err != nil {
		return err
	}
	b.plan = plan
	return nil
}

// filterPhase does the units of one phase. After one that failed no other is
// begun, and those under way are waited for.
func (b *build) filterPhase(ctx workflow.Context, key string, phase wire.FilterPhase) error {
	var failure error
	done, inFlight := 0, 0
	for unit := range phase.Units {
		if err := workflow.Await(ctx, func() bool { return inFlight < filterWindow }); err != nil {
			return err
		}
		if failure != nil {
			break
		}
		b.filtering = fmt.Sprintf("%s %d of %d", phase.Name, done, phase.Units)
		inFlight++
		workflow.Go(ctx, func(ctx workflow.Context) {
			in := wire.FilterInput{BuildRef: b.in.BuildRef, Key: key, Phase: phase.Name, Unit: unit}
			err := workflow.ExecuteActivity(pipelineOptions(ctx), wire.ActivityFilterPrompts, in).Get(ctx, nil)
			inFlight--
			done++
			b.filtering = fmt.Sprintf("%s %d of %d", phase.Name, done, phase.Units)
			if err != nil && failure == nil {
				failure = fmt.Errorf("filter prompts: %s, unit %d: %w", phase.Name, unit, err)
			}
		})
	}
	if err := workflow.Await(ctx, func() bool { return inFlight == 0 }); err != nil {
		return err
	}
	return failure
}
