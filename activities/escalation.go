package activities

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// A gatherer adds the candidates of one more teacher to tasks.
type gatherer func(ctx context.Context, teacher string, tasks []*refinedTask) error

// failed tells whether all answers to a task failed so far, so that it goes on
// to the next teacher of its route. One that is accepted has not failed; nor has
// one that nobody knows to be wrong, unless the rule says so, nor one that has
// yet to be asked for, or that a judge has yet to be asked about: the next run
// asks.
func (rt *runtime) failed(t *refinedTask) bool {
	if t.awaits {
		return false
	}
	escalate := rt.recipe.UnknownEscalates(t.Task.RouteWhy)
	for i := range t.Candidates {
		c := &t.Candidates[i]
		switch {
		case c.Accepted, c.Error != nil && *c.Error == classNotAsked:
			return false
		case c.Answer() == nil, rejected(c):
			// Whatever its verdict, nobody can use it.
		case !escalate && c.Verdict != nil && *c.Verdict == datasets.Unknown:
			return false
		}
	}
	return len(t.Candidates) > 0
}

// next is the teacher that a task goes on to, or "".
func (rt *runtime) next(t *refinedTask) string {
	if n := len(t.Escalated); n < len(t.Task.Fallback) && rt.failed(t) {
		return t.Task.Fallback[n]
	}
	return ""
}

// escalate adds and judges what the fallback teachers said of the tasks that all
// teachers before them failed. It asks nobody: what it finds out is a function of
// the recipe, the tasks and the stored answers.
func (rt *runtime) escalate(ctx context.Context, paid opinions, more gatherer, tasks []*refinedTask) error {
	for {
		var order []string
		by := map[string][]*refinedTask{}
		var touched []*refinedTask
		for _, t := range tasks {
			id := rt.next(t)
			if id == "" {
				continue
			}
			if by[id] == nil {
				order = append(order, id)
			}
			by[id] = append(by[id], t)
			touched = append(touched, t)
		}
		if len(touched) == 0 {
			return nil
		}
		for _, id := range order {
			if err := more(ctx, id, by[id]); err != nil {
				return err
			}
		}
		if err := rt.judgeNew(ctx, paid, touched); err != nil {
			return err
		}
	}
}

// gatherer gives the answers of the store.
func (rt *runtime) gatherer(look history, step int, since time.Time) gatherer {
	return func(ctx context.Context, id string, tasks []*refinedTask) error {
		t := rt.teachers[id]
		if t == nil {
			return invalidRecipe("teacher %s is not in the recipe", id)
		}
		for part := range slices.Chunk(tasks, rt.refineChunk(samplingOf(rt.recipe).Most)) {
			found := make([]refinedTask, len(part))
			for i := range part {
				found[i].Task = part[i].Task
			}
			if err := rt.sampled(ctx, look, step, t, since, found); err != nil {
				return err
			}
			for i := range found {
				for k := range found[i].Candidates {
					addFlag(&found[i].Candidates[k], datasets.FlagEscalated)
				}
				part[i].take(&found[i])
				part[i].Escalated = append(part[i].Escalated, id)
			}
		}
		return nil
	}
}

// upTo gives tasks with no more of their fallback than was asked in so many
// rounds.
func upTo(tasks []datasets.Task, rounds int) []datasets.Task {
	if !slices.ContainsFunc(tasks, func(t datasets.Task) bool { return len(t.Fallback) > rounds }) {
		return tasks
	}
	tasks = slices.Clone(tasks)
	for i := range tasks {
		tasks[i].Fallback = tasks[i].Fallback[:min(len(tasks[i].Fallback), rounds)]
	}
	return tasks
}

// ahead is whom a task goes on to after so many rounds, or "". whole is the task
// as it was planned.
func (rt *runtime) ahead(t *refinedTask, whole *datasets.Task, rounds int) string {
	if len(whole.Fallback) <= rounds || len(t.Escalated) < rounds || !rt.failed(t) {
		return ""
	}
	return whole.Fallback[rounds]
}

// AskFallback asks one teacher for the tasks of a shard that all teachers before
// it failed. It returns once everything that came is in the answer store's
// index, where RefineShard finds it.
func (a *Activities) AskFallback(ctx context.Context, in wire.FallbackInput) (*wire.JudgeOutput, error) {
	w := &askWork{a: a, in: wire.AskInput{BuildRef: in.BuildRef, PlanKey: in.PlanKey, Teacher: in.Teacher}, health: a.healthOf(in.BuildID, in.Teacher)}
	defer heartbeat(ctx, beatEvery, w.detail)()
	err := w.fallback(ctx, in)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && temporal.IsCanceledError(context.Cause(ctx)) {
		return nil, temporal.NewCanceledError(w.counts)
	}
	if err != nil {
		return nil, final(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return &wire.JudgeOutput{Counts: w.counts, Stopped: w.health.stop()}, nil
}

func (w *askWork) fallback(ctx context.Context, in wire.FallbackInput) error {
	if w.health.stop() != nil {
		return nil
	}
	rt, plan, err := w.a.measured(ctx, in.BuildRef, in.PlanKey, in.StatsKey)
	if err != nil {
		return err
	}
	w.rt = rt
	t := rt.teachers[in.Teacher]
	if t == nil {
		return invalidRecipe("teacher %s is not in the recipe", in.Teacher)
	}
	tasks, err := w.failedTasks(ctx, plan, in)
	if err != nil || len(tasks) == 0 {
		return err
	}
	if rule := samplingOf(rt.recipe); rule.adaptive() {
		return w.askSampled(ctx, t, rule, tasks)
	}
	var asks []asked
	for i := range tasks {
		more, err := t.asks(&tasks[i], plan.Samples)
		if err != nil {
			return err
		}
		asks = append(asks, more...)
	}
	w.mu.Lock()
	w.total = len(asks)
	w.counts.Asks = int64(len(asks))
	w.mu.Unlock()
	if t.config == nil {
		return w.recorded(ctx, asks)
	}
	return w.ask(ctx, t, asks)
}

// failedTasks are the tasks of a shard that go on to the teacher.
func (w *askWork) failedTasks(ctx context.Context, plan *Plan, in wire.FallbackInput) ([]datasets.Task, error) {
	whole, err := w.a.tasks(ctx, plan, in.Shard)
	if err != nil {
		return nil, err
	}
	pace := pace{rt: w.rt, each: max(1, len(whole[0].Route)*plan.Samples)}
	look := pace.measured(w.a.historyAsOf(time.Now()))
	var out []datasets.Task
	for len(whole) > 0 {
		chunk := whole[:min(pace.tasks(), len(whole))]
		refined, err := w.rt.refine(ctx, look, pace.step(), in.Started, upTo(chunk, in.Round))
		if errors.Is(err, answers.ErrLarge) && !pace.long {
			pace.long = true
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range refined {
			if w.rt.ahead(&refined[i], &chunk[i], in.Round) == in.Teacher {
				out = append(out, chunk[i])
			}
		}
		whole = whole[len(chunk):]
	}
	return out, nil
}

// fallbackPlans are the teachers that may be asked where others failed, as a
// plan tells them.
func (rt *runtime) fallbackPlans() []wire.FallbackPlan {
	var out []wire.FallbackPlan
	for _, id := range rt.recipe.Fallbacks() {
		t := rt.teachers[id]
		out = append(out, wire.FallbackPlan{Queue: wire.TeacherQueue(id, t.endpoint), Recorded: t.config == nil})
	}
	return out
}

// routeAndFallback tells apart whom tasks may be asked of.
func routeAndFallback(t *datasets.Task) string {
	return strings.Join(t.Route, "\x00") + "\x00\x00" + strings.Join(t.Fallback, "\x00")
}
