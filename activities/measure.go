package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/filter"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// stageStats holds what was measured of a build's answers.
const stageStats = "stats"

// maxStats bounds the measures of a build or a part of it, in bytes.
const maxStats = 64 << 20

// needsStats tells that a filter judges each answer by all of the build.
func (rt *runtime) needsStats() bool {
	for i := range rt.filters {
		if filter.NeedsStats(rt.filters[i].filter) {
			return true
		}
	}
	return false
}

// withStats is a runtime whose filters see the measures of a build.
func (rt *runtime) withStats(stats *filter.Stats) (*runtime, error) {
	out, err := newRuntime(rt.recipe, rt.sources)
	if err != nil {
		return nil, err
	}
	out.runner, out.checkers, out.teachers, out.stats = rt.runner, rt.checkers, rt.teachers, stats
	// Judges are those of these teachers: with the epochs of the plan.
	out.check, out.checkCount, out.paid, out.pairJudge = rt.check, rt.checkCount, rt.paid, rt.pairJudge
	return out, nil
}

// MeasureShards measures the answers to the tasks of some shards, as they are
// before anybody has judged them. Like RefineShard it asks nobody: it is a
// function of the recipe, the tasks and the answers that the store's index
// names.
func (a *Activities) MeasureShards(ctx context.Context, in wire.MeasureInput) (*wire.MeasureOutput, error) {
	var note noter
	defer heartbeat(ctx, beatEvery, note.get)()
	out, err := a.measureShards(ctx, in, note.set)
	return out, final(err)
}

func (a *Activities) measureShards(ctx context.Context, in wire.MeasureInput, note func(string)) (*wire.MeasureOutput, error) {
	rt, plan, err := a.planned(ctx, in.BuildRef, in.PlanKey)
	if err != nil {
		return nil, err
	}
	if in.First < 0 || in.Shards < 0 || in.First+in.Shards > len(plan.Shards) {
		return nil, fmt.Errorf("measure shards %d to %d: the plan has %d", in.First, in.First+in.Shards-1, len(plan.Shards))
	}
	var out wire.MeasureOutput
	var stats filter.Stats
	for shard := in.First; shard < in.First+in.Shards; shard++ {
		note(fmt.Sprintf("measured %d of %d shards", shard-in.First, in.Shards))
		tasks, err := a.tasks(ctx, plan, shard)
		if err != nil {
			return nil, err
		}
		n, err := a.measureTasks(ctx, rt, plan, tasks, &stats)
		if err != nil {
			return nil, fmt.Errorf("measure the answers of shard %d: %w", shard, err)
		}
		out.Answers += n
	}
	text, err := json.Marshal(&stats)
	if err != nil {
		return nil, err
	}
	key := stageKey(in.Dataset, in.BuildID, stageStats, partName(in.Part), text, ".json")
	if _, err := objstore.CreateOrSame(ctx, a.Bucket, key, text); err != nil {
		return nil, fmt.Errorf("write %s: %w", key, err)
	}
	out.SHA256 = digestIn(key)
	return &out, nil
}

// digestIn is the digest of the content in the key of a staged file.
func digestIn(key string) string {
	name := strings.TrimSuffix(path.Base(key), path.Ext(key))
	return name[strings.LastIndexByte(name, '-')+1:]
}

func partName(part int) string { return fmt.Sprintf("part-%02d", part) }

// measureTasks adds the answers to some tasks of one cell to stats.
func (a *Activities) measureTasks(ctx context.Context, rt *runtime, plan *Plan, tasks []datasets.Task, stats *filter.Stats) (int64, error) {
	if len(tasks) == 0 || len(tasks[0].Route) == 0 {
		return 0, nil
	}
	pace := pace{rt: rt, each: len(tasks[0].Route) * plan.Samples}
	look := pace.measured(a.historyAsOf(time.Now()))
	var n int64
	for len(tasks) > 0 {
		chunk := tasks[:min(pace.tasks(), len(tasks))]
		gathered, err := rt.gather(ctx, look, pace.step(), time.Time{}, chunk)
		if errors.Is(err, answers.ErrLarge) && !pace.long {
			pace.long = true
			continue
		}
		if err != nil {
			return n, err
		}
		tasks = tasks[len(chunk):]
		for i := range gathered {
			n += measureTask(stats, &gathered[i])
		}
	}
	return n, nil
}

// measureTask adds the answers to a task to stats.
func measureTask(stats *filter.Stats, t *refinedTask) (n int64) {
	for i := range t.Candidates {
		if c := &t.Candidates[i]; c.Answer() != nil {
			stats.Measure(filterInput(&t.Task, c, nil))
			n++
		}
	}
	return n
}

// MergeMeasures adds up what was measured in parts.
func (a *Activities) MergeMeasures(ctx context.Context, in wire.MergeMeasuresInput) (*wire.MergeMeasuresOutput, error) {
	defer heartbeat(ctx, beatEvery, func() any { return nil })()
	out, err := a.mergeMeasures(ctx, in)
	return out, final(err)
}

func (a *Activities) mergeMeasures(ctx context.Context, in wire.MergeMeasuresInput) (*wire.MergeMeasuresOutput, error) {
	var sum filter.Stats
	for part, digest := range in.Parts {
		key := workPrefix(in.Dataset, in.BuildID, stageStats) + partName(part) + "-" + digest + ".json"
		one, err := a.readStats(ctx, key, digest)
		if err != nil {
			return nil, err
		}
		sum.Add(one)
	}
	text, err := json.Marshal(&sum)
	if err != nil {
		return nil, err
	}
	key := stageKey(in.Dataset, in.BuildID, stageStats, "all", text, ".json")
	if _, err := objstore.CreateOrSame(ctx, a.Bucket, key, text); err != nil {
		return nil, fmt.Errorf("write %s: %w", key, err)
	}
	return &wire.MergeMeasuresOutput{Key: key}, nil
}

func (a *Activities) readStats(ctx context.Context, key, digest string) (*filter.Stats, error) {
	text, err := readPinned(ctx, a.Bucket, key, digest, maxStats)
	if err != nil {
		return nil, fmt.Errorf("read the measures of the build's answers: %w", err)
	}
	var stats filter.Stats
	if err := json.Unmarshal(text, &stats); err != nil {
		return nil, fmt.Errorf("read the measures of the build's answers: %w", err)
	}
	return &stats, nil
}

// measured is the runtime and the plan of a build whose answers were measured;
// statsKey is "" where they were not to be.
func (a *Activities) measured(ctx context.Context, ref wire.BuildRef, planKey, statsKey string) (*runtime, *Plan, error) {
	rt, plan, err := a.planned(ctx, ref, planKey)
	if err != nil || statsKey == "" {
		return rt, plan, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if m := rt.measuredAs; m != nil && m.key == statsKey && m.planKey == planKey {
		return m.rt, plan, nil
	}
	stats, err := a.readStats(ctx, statsKey, digestIn(statsKey))
	if err != nil {
		return nil, nil, err
	}
	with, err := rt.withStats(stats)
	if err != nil {
		return nil, nil, err
	}
	rt.measuredAs = &measuredRuntime{key: statsKey, planKey: planKey, rt: with}
	return with, plan, nil
}

// A measuredRuntime is a runtime with the measures of a build.
type measuredRuntime struct {
	key, planKey string
	rt           *runtime
}
