package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// refine has the answers of a shard judged and merged. Where all teachers of a
// task failed and its route names another, that one is asked and the shard is
// refined once more: as often as there are teachers to go on to. Without them it
// is one activity.
func (b *build) refine(ctx workflow.Context, shard int) (wire.RefineCounts, error) {
	for round := 0; ; round++ {
		var counts wire.RefineCounts
		if err := b.judge(ctx, shard, round); err != nil {
			return counts, err
		}
		err := workflow.ExecuteActivity(b.refineOptions(ctx), wire.ActivityRefine, wire.RefineInput{
			BuildRef: b.in.BuildRef, PlanKey: b.plan.Key, Shard: shard, Started: b.started, StatsKey: b.stats, Fallbacks: round,
		}).Get(ctx, &counts)
		if err != nil || len(counts.Next) == 0 || b.failure != nil {
			return counts, err
		}
		for _, teacher := range counts.Next {
			if err := b.askFallback(ctx, shard, round, teacher); err != nil {
				return counts, fmt.Errorf("ask teacher %s where others failed: %w", teacher, err)
			}
		}
	}
}

// askFallback asks one teacher for the tasks of a shard that go on to it.
func (b *build) askFallback(ctx workflow.Context, shard, round int, teacher string) error {
	for _, f := range b.plan.Fallbacks {
		if f.Teacher() != teacher {
			continue
		}
		if err := b.importFallback(ctx, f); err != nil {
			return err
		}
		return b.askRound(ctx, teacher, f.Queue, wire.ActivityFallback, func() any {
			return wire.FallbackInput{
				BuildRef: b.in.BuildRef, PlanKey: b.plan.Key, StatsKey: b.stats, Shard: shard, Round: round, Teacher: teacher, Started: b.started,
			}
		})
	}
	return fmt.Errorf("the plan does not name it as a fallback")
}

// importFallback brings the answers of a recorded teacher into the answer store
// that no stream has brought there. Only one shard does, once in a run.
func (b *build) importFallback(ctx workflow.Context, f wire.FallbackPlan) error {
	teacher := f.Teacher()
	if !f.Recorded || b.streamed(teacher) {
		return nil
	}
	done, begun := b.imports[teacher]
	if !begun {
		if b.imports == nil {
			b.imports = map[string]workflow.Future{}
		}
		done = workflow.ExecuteActivity(pipelineOptions(ctx), wire.ActivityImport, wire.ImportInput{BuildRef: b.in.BuildRef, Teacher: teacher})
		b.imports[teacher] = done
	}
	return done.Get(ctx, nil)
}

// streamed tells whether a stream asks the teacher too.
func (b *build) streamed(teacher string) bool {
	for _, t := range b.plan.Teachers {
		if t.ID == teacher {
			return t.Batches > 0
		}
	}
	return false
}
