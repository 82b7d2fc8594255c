package activities

import (
	"context"
	"fmt"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// opinions gives what paid verifiers say, in the order of what is wanted. What
// nobody was asked, or what can't be read, is unknown with a reason.
type opinions interface {
	opinions(ctx context.Context, wants []want) ([]datasets.Verdict, error)
}

// judge gives the candidates of tasks their verdicts and reject reasons, with
// those of the teachers that a task goes on to, and chooses among those that are
// accepted.
func (rt *runtime) judge(ctx context.Context, paid opinions, more gatherer, tasks ...*refinedTask) error {
	if err := rt.judgeNew(ctx, paid, tasks); err != nil {
		return err
	}
	if err := rt.escalate(ctx, paid, more, tasks); err != nil {
		return err
	}
	if err := rt.compareAll(ctx, paid, tasks); err != nil {
		return err
	}
	for _, t := range tasks {
		rt.choose(t)
	}
	return nil
}

// judgeNew judges the candidates that have not been judged yet.
func (rt *runtime) judgeNew(ctx context.Context, paid opinions, tasks []*refinedTask) error {
	var all []*judging
	for _, t := range tasks {
		for ; t.judged < len(t.Candidates); t.judged++ {
			c := &t.Candidates[t.judged]
			if c.Error == nil {
				t.Status = datasets.StatusClean
			}
			all = append(all, rt.judging(&t.Task, c))
		}
	}
	if err := rt.judgeAll(ctx, paid, all); err != nil {
		return err
	}
	if w, ok := paid.(interface{ awaits(sample string) bool }); ok {
		for _, t := range tasks {
			t.awaits = slices.ContainsFunc(t.Candidates, func(c datasets.Candidate) bool { return w.awaits(c.SampleID) && !is(c.Verdict, datasets.Fail) })
		}
	}
	return nil
}

func is(verdict *string, what string) bool { return verdict != nil && *verdict == what }

// judgeOne judges one candidate by what costs nothing: paid verifiers are left
// out, as if they did not apply.
func (rt *runtime) judgeOne(ctx context.Context, task *datasets.Task, c *datasets.Candidate) error {
	one := rt.judging(task, c)
	one.stats = nil // while teachers are still asked nobody knows them
	return rt.judgeAll(ctx, nil, []*judging{one})
}

// judgeAll carries out the stages, in their order: what costs nothing comes
// first, and what is paid for sees what is left.
func (rt *runtime) judgeAll(ctx context.Context, paid opinions, list []*judging) error {
	for _, j := range list {
		j.pays = paid != nil
		j.screen()
		if err := j.verifyFree(ctx); err != nil {
			return err
		}
	}
	if paid != nil {
		if err := verifyPaid(ctx, paid, list); err != nil {
			return err
		}
	}
	for _, j := range list {
		j.combine()
		j.lateFilters()
		j.change()
		j.accept()
	}
	return nil
}

// verifyPaid asks for opinions, in rounds: what a group says first may spare
// what comes after it.
func verifyPaid(ctx context.Context, paid opinions, list []*judging) error {
	for _, j := range list {
		j.decideLate()
	}
	for {
		var wants []want
		var of []*judging
		for _, j := range list {
			if k := j.open(); k != nil {
				wants = append(wants, want{k, j.task, j.c})
				of = append(of, j)
			}
		}
		if len(wants) == 0 {
			return nil
		}
		verdicts, err := paid.opinions(ctx, wants)
		if err != nil {
			return err
		}
		if len(verdicts) != len(wants) {
			return fmt.Errorf("judge: %d opinions for %d answers", len(verdicts), len(wants))
		}
		for i, j := range of {
			j.said[wants[i].check.id] = said{applies: true, given: true, verdict: verdicts[i]}
		}
	}
}
