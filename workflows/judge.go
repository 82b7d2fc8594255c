package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// judging is the part of a build that has its judges asked. A build without
// judges has none of it, and does what it always did.
type judging struct {
	reports []wire.JudgeReport // in the order in which they were first asked
	root    workflow.Context   // of the build
	rounds  workflow.Context   // of the rounds in flight; a pause cancels it
	halt    workflow.CancelFunc
}

// announceJudges names the queues of judges and fallbacks where workers look for
// them.
func (b *build) announceJudges(ctx workflow.Context) error {
	var queues []string
	for _, j := range b.plan.Judges {
		queues = append(queues, j.Queue)
	}
	for _, f := range b.plan.Fallbacks {
		queues = append(queues, f.Queue)
	}
	if f := b.plan.Fit; f != nil {
		queues = append(queues, f.Queue)
	}
	if len(queues) == 0 {
		return nil
	}
	return workflow.UpsertMemo(ctx, map[string]any{wire.MemoQueues: queues})
}

// beginJudging opens the rounds of a run.
func (b *build) beginJudging(ctx workflow.Context) {
	b.judges.root = ctx
	b.judges.rounds, b.judges.halt = workflow.WithCancel(ctx)
}

// interruptJudging interrupts the rounds in flight: what they have asked is kept,
// and the rest is asked when they are begun again.
func (b *build) interruptJudging() {
	if len(b.plan.Judges) == 0 && len(b.plan.Fallbacks) == 0 && b.plan.Fit == nil || b.judges.root == nil {
		return
	}
	b.judges.halt()
	b.judges.rounds, b.judges.halt = workflow.WithCancel(b.judges.root)
}

// judge has every judge asked about the answers of a shard, one after the other:
// each sees what those before it have left. fallbacks is how many rounds of
// fallbacks were asked before.
func (b *build) judge(ctx workflow.Context, shard, fallbacks int) error {
	for round, j := range b.plan.Judges {
		if err := b.askRound(ctx, j.Teacher(), j.Queue, wire.ActivityJudge, func() any {
			return wire.JudgeInput{
				BuildRef: b.in.BuildRef, PlanKey: b.plan.Key, Shard: shard, Round: round, Teacher: j.Teacher(), Started: b.started,
				StatsKey: b.stats, Fallbacks: fallbacks,
			}
		}); err != nil {
			return fmt.Errorf("ask judge %s about shard %d: %w", j.Teacher(), shard, err)
		}
	}
	return nil
}

// askRound has an activity ask one teacher about a shard, over and over where a
// pause interrupts it. Of a teacher that cannot be used any more nothing is
// asked. Each time the activity is told anew what it may spend.
func (b *build) askRound(ctx workflow.Context, teacher, queue, activity string, in func() any) error {
	var before wire.AskCounts // of attempts that a pause interrupted
	for {
		if err := workflow.Await(ctx, func() bool { return !b.paused || b.failure != nil }); err != nil {
			return err
		}
		if b.failure != nil || b.judgeReport(teacher).Stopped != nil {
			return nil
		}
		rounds := b.judges.rounds
		var out wire.JudgeOutput
		err := workflow.ExecuteActivity(askOptions(rounds, queue), activity, in()).Get(ctx, &out)
		switch {
		case err == nil:
			b.countJudged(teacher, before, out)
			return nil
		case ctx.Err() != nil || !cutShort(rounds.Err() != nil, err):
			return err
		}
		var canceled *temporal.CanceledError
		var counts wire.AskCounts
		if errors.As(err, &canceled) && canceled.HasDetails() && canceled.Details(&counts) == nil {
			before = onceMore(before, counts)
		}
	}
}

// judgeReport is the report of a judge, made where there is none.
func (b *build) judgeReport(teacher string) *wire.JudgeReport {
	for i := range b.judges.reports {
		if b.judges.reports[i].Teacher == teacher {
			return &b.judges.reports[i]
		}
	}
	b.judges.reports = append(b.judges.reports, wire.JudgeReport{Teacher: teacher})
	return &b.judges.reports[len(b.judges.reports)-1]
}

func (b *build) countJudged(teacher string, before wire.AskCounts, out wire.JudgeOutput) {
	r := b.judgeReport(teacher)
	r.Counts.Add(onceMore(before, out.Counts))
	if r.Stopped == nil && out.Stopped != nil {
		r.Stopped = out.Stopped
	}
}

// onceMore are the counts of work that was begun again: what it bought before it
// finds now, and its other counts stand for the earlier ones.
func onceMore(before, c wire.AskCounts) wire.AskCounts {
	bought := min(before.New, c.Reused)
	c.New += bought
	c.Reused -= bought
	c.PromptTokens += before.PromptTokens
	c.CachedTokens += before.CachedTokens
	c.CompletionTokens += before.CompletionTokens
	c.CostMicros += before.CostMicros
	c.Unpriced += before.Unpriced
	return c
}

// carriedJudges are the reports that a continuation is handed.
func (b *build) carriedJudges() []wire.JudgeReport {
	out := slices.Clone(b.judges.reports)
	for i := range out {
		out[i].Stopped, out[i].Counts = classOnly(out[i].Stopped), withoutTokens(out[i].Counts)
	}
	return out
}

// withoutTokens leaves out what only rates are made of.
func withoutTokens(c wire.AskCounts) wire.AskCounts {
	c.PromptTokens, c.CachedTokens, c.CompletionTokens = 0, 0, 0
	return c
}

// summaries are what the seal is told of streams and judges. A teacher that
// answers tasks and judges is told of once.
func (b *build) summaries() []wire.StreamSummary {
	var out []wire.StreamSummary
	for _, id := range b.order {
		r := b.streams[id]
		out = append(out, wire.StreamSummary{
			Teacher: id, New: r.Counts.New, Reused: r.Counts.Reused,
			Spent: r.Counts.CostMicros, Unp: r.Counts.Unpriced, Stopped: classOnly(r.Stopped),
		})
	}
	for i := range b.judges.reports {
		r := &b.judges.reports[i]
		for n := range out {
			if s := &out[n]; s.Teacher == r.Teacher {
				s.New += r.Counts.New
				s.Reused += r.Counts.Reused
				s.Spent += r.Counts.CostMicros
				s.Unp += r.Counts.Unpriced
				s.Stopped = cmp.Or(s.Stopped, classOnly(r.Stopped))
			}
		}
	}
	return out
}

// judged adds to a teacher's status what it was asked as a judge.
func (b *build) judged(s *wire.TeacherStatus) {
	for i := range b.judges.reports {
		if r := &b.judges.reports[i]; r.Teacher == s.ID {
			s.Counts.Add(r.Counts)
			s.Stopped = cmp.Or(s.Stopped, r.Stopped)
			s.Done = s.Done && b.next >= b.plan.Shards && b.inFlight == 0
		}
	}
}
