package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// A judgeRound is what one teacher is asked about the answers of a shard at
// once: the opinions of paid verifiers that follow each other in the recipe, or
// the comparisons of the merge policy, which come last.
type judgeRound struct {
	teacher     string
	first, last int // ids of the checks
	pairs       bool
}

// mostRounds bounds the rounds of a recipe: each is an activity a shard.
const mostRounds = wire.MostRounds

// judgeRounds are the rounds of a recipe, in order.
func (rt *runtime) judgeRounds() []judgeRound {
	var out []judgeRound
	for _, p := range rt.paid {
		if n := len(out) - 1; n >= 0 && out[n].teacher == p.Teacher {
			out[n].last = p.id
			continue
		}
		out = append(out, judgeRound{teacher: p.Teacher, first: p.id, last: p.id})
	}
	if p := rt.pairJudge; p != nil {
		out = append(out, judgeRound{teacher: p.Teacher, pairs: true})
	}
	return out
}

// judgePlans are the rounds as a plan tells them.
func (rt *runtime) judgePlans() []wire.JudgePlan {
	var out []wire.JudgePlan
	for _, r := range rt.judgeRounds() {
		out = append(out, wire.JudgePlan{Queue: wire.TeacherQueue(r.teacher, rt.teachers[r.teacher].endpoint)})
	}
	return out
}

// holds tells whether a check is asked in this round.
func (r *judgeRound) holds(p *paidCheck) bool {
	if p.pair || r.pairs {
		return p.pair && r.pairs
	}
	return r.first <= p.id && p.id <= r.last && p.Teacher == r.teacher
}

// concerns leaves those candidates of tasks that the round may be asked about:
// where nobody will be asked, the free verifiers need not run twice.
func (r *judgeRound) concerns(rt *runtime, tasks []refinedTask) {
	if r.pairs {
		return
	}
	for i := range tasks {
		t := &tasks[i]
		t.Candidates = slices.DeleteFunc(t.Candidates, func(c datasets.Candidate) bool {
			return !r.applies(rt.check, &environment{task: &t.Task, candidate: &c})
		})
	}
}

// applies tells whether a check of the round is below a check, and its
// conditions hold as far as they can be decided yet.
func (r *judgeRound) applies(k *check, env *environment) bool {
	if !k.when.Uses(recipe.VerdictWords...) {
		if match, err := env.match(k.when); err != nil || !match {
			return false
		}
	}
	if p, ok := k.paid.(*paidCheck); ok {
		return r.holds(p)
	}
	return slices.ContainsFunc(k.members, func(m *check) bool { return r.applies(m, env) })
}

// prepareJudges makes ready whoever is asked about answers.
func (rt *runtime) prepareJudges() error {
	for _, k := range rt.check.all() {
		if p, ok := k.paid.(*paidCheck); ok {
			p.id = k.id
			rt.paid = append(rt.paid, p)
		}
	}
	var err error
	if rt.pairJudge, err = rt.newPairJudge(rt.recipe.Merge.Judge); err != nil {
		return rt.recipe.ErrorAt("merge.judge", err.Error(), "")
	}
	if n := len(rt.judgeRounds()); n > mostRounds {
		return rt.recipe.ErrorAt("check", fmt.Sprintf("its judges take turns %d times, and at most %d times are possible", n, mostRounds),
			"put the verifiers of one teacher beside each other")
	}
	return nil
}

// JudgeShard asks one teacher what it thinks of the answers in a shard: of those
// that what is free has left. It returns once everything that came is in the
// answer store's index, where RefineShard finds it.
func (a *Activities) JudgeShard(ctx context.Context, in wire.JudgeInput) (*wire.JudgeOutput, error) {
	w := &judgeWork{in: in}
	w.askWork = askWork{a: a, in: wire.AskInput{BuildRef: in.BuildRef, PlanKey: in.PlanKey, Teacher: in.Teacher}, health: a.healthOf(in.BuildID, in.Teacher)}
	defer heartbeat(ctx, beatEvery, w.detail)()
	out, err := w.run(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && temporal.IsCanceledError(context.Cause(ctx)) {
		return nil, temporal.NewCanceledError(w.counts)
	}
	return out, final(err)
}

// judgeWork is one JudgeShard at work.
type judgeWork struct {
	askWork
	in    wire.JudgeInput
	round judgeRound
}

func (w *judgeWork) run(ctx context.Context) (*wire.JudgeOutput, error) {
	if w.health.stop() != nil {
		return w.output(), nil // what it said before is in the store
	}
	rt, plan, err := w.a.measured(ctx, w.in.BuildRef, w.in.PlanKey, w.in.StatsKey)
	if err != nil {
		return nil, err
	}
	w.rt = rt
	rounds := rt.judgeRounds()
	if w.in.Round < 0 || w.in.Round >= len(rounds) || rounds[w.in.Round].teacher != w.in.Teacher {
		return nil, fmt.Errorf("judge shard %d: the recipe has no round %d of teacher %s", w.in.Shard, w.in.Round, w.in.Teacher)
	}
	w.round = rounds[w.in.Round]
	tasks, err := w.a.tasks(ctx, plan, w.in.Shard)
	if err != nil {
		return nil, err
	}
	if plan.Shards[w.in.Shard].Shared != nil {
		tasks = slices.Clone(tasks)
		slices.SortFunc(tasks, func(a, b datasets.Task) int { return strings.Compare(a.TaskID, b.TaskID) })
	}
	pace := pace{rt: rt, each: max(1, len(tasks[0].Route)*plan.Samples)}
	// What is asked here is in the index only then: every look is a new one.
	look := pace.measured(func(ctx context.Context, asks []answers.Ask) ([]answers.History, error) {
		return w.a.Answers.History(ctx, time.Now(), asks)
	})
	for len(tasks) > 0 {
		chunk := tasks[:min(pace.tasks(), len(tasks))]
		h := rt.hearing(look, pace.step(), w.in.Started)
		h.ask = w.askQuestions
		out, err := rt.gather(ctx, look, pace.step(), w.in.Started, upTo(chunk, w.in.Fallbacks))
		if err == nil {
			if w.in.Fallbacks == 0 {
				w.round.concerns(rt, out) // whether a task goes on, all of its answers tell
			}
			err = rt.judgeHeard(ctx, h, rt.gatherer(look, pace.step(), w.in.Started), out)
		}
		if errors.Is(err, answers.ErrLarge) && !pace.long {
			pace.long = true
			continue
		}
		if err != nil {
			return nil, err
		}
		tasks = tasks[len(chunk):]
	}
	return w.output(), nil
}

func (w *judgeWork) output() *wire.JudgeOutput {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &wire.JudgeOutput{Counts: w.counts, Stopped: w.health.stop()}
}

// askQuestions asks those of the questions that are this round's.
func (w *judgeWork) askQuestions(ctx context.Context, list []question) error {
	_, limited := Limits(w.rt.recipe, w.in.BudgetMicros)
	byForm := map[*teacher][]asked{}
	var forms []*teacher
	for i := range list {
		q := &list[i]
		if !w.round.holds(q.check) {
			continue
		}
		if limited && !q.check.bounded(q.asked.request.Cap) {
			return noCap(q.check.Teacher)
		}
		if byForm[q.check.wire] == nil {
			forms = append(forms, q.check.wire)
		}
		byForm[q.check.wire] = append(byForm[q.check.wire], q.asked)
	}
	for _, t := range forms {
		asks := unique(byForm[t])
		w.mu.Lock()
		w.total += len(asks)
		w.counts.Asks += int64(len(asks))
		w.mu.Unlock()
		if err := w.askWork.ask(ctx, t, asks); err != nil {
			return fmt.Errorf("ask teacher %s about answers: %w", w.in.Teacher, err)
		}
	}
	return nil
}

// bounded tells whether it is known what a call can cost at most: scoring
// endpoints write nothing.
func (p *paidCheck) bounded(cap int64) bool {
	return p.wire.price == nil || cap > 0 || p.scorer != nil
}

func noCap(teacher string) error {
	return invalidRecipe("teacher %s has no token cap where it judges, so what a call can cost has no bound and the budget cannot be kept; add max_completion_tokens (or max_tokens, where the endpoint calls it so) to its params, or build without a budget", teacher)
}
