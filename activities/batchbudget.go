package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/batches"
	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// purseWait bounds how long a submission waits for money that others may give
// back, before it lets the stream look at its other batches.
const purseWait = time.Minute

// worst is the most that the batch can cost.
func (j *batchJob) worst(ctx context.Context) (micros int64, err error) {
	err = j.store.Asks(ctx, j.st.Key, func(ask batches.Ask) error {
		micros += ask.Most
		return nil
	})
	return micros, err
}

// drop gives a batch up that was not submitted; its asks go into others.
func (j *batchJob) drop(ctx context.Context) error {
	j.st.State = batches.Dropped
	if err := j.store.Save(ctx, j.st); err != nil {
		return err
	}
	return j.store.Close(ctx, j.st.Key)
}

// reserve takes the most that the batch can cost from the build's purse. An
// output says why that can't be done, for now or at all.
func (j *batchJob) reserve(ctx context.Context) (*wire.BatchSubmitOutput, error) {
	purse, done, err := j.purse()
	if purse == nil || err != nil || j.st.Reserved > 0 {
		return nil, err
	}
	defer done()
	worst, err := j.worst(ctx)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, purseWait)
	defer cancel()
	err = purse.Spend(waiting, worst)
	switch {
	case err == nil:
		j.st.Reserved = worst // saved with the state that comes next
		return nil, nil
	case ctx.Err() != nil:
		return nil, err
	case waiting.Err() != nil:
		return &wire.BatchSubmitOutput{WaitMS: j.busy().Milliseconds(), Why: fmt.Sprintf("the budget has no room for the $%.2f that the batch can cost, until others have settled", float64(worst)/1e6)}, nil
	case !errors.Is(err, budget.ErrOver):
		return nil, fmt.Errorf("reserve what batch %s can cost: %w", j.st.Key, err)
	case j.st.Rows > 1:
		return &wire.BatchSubmitOutput{Gone: true, Most: max(worst/2, 1), Why: "the budget has room for a smaller batch at most"}, j.drop(ctx)
	}
	e := &teachers.Error{Teacher: "teacher " + j.in.Teacher, Class: classBudget, Excerpt: err.Error()}
	return &wire.BatchSubmitOutput{Stopped: &wire.TeacherFailed{Class: classBudget, Text: bounded(e.Error())}}, nil
}

// unreserve gives back what is reserved for a batch that was not submitted.
func (j *batchJob) unreserve(reserved int64) {
	if reserved == 0 || j.st.BuildID != j.in.BuildID {
		return
	}
	purse, done, err := j.purse()
	if purse == nil || err != nil {
		return // it stays charged
	}
	defer done()
	purse.Settle(reserved, 0)
}

// unsaved gives back what was reserved for a submission that is another
// worker's, who has reserved for it as well. Where the record does not say whose
// it is, the amount stays charged.
func (j *batchJob) unsaved(ctx context.Context, err error, reserved int64) {
	if !errors.Is(err, batches.ErrMoved) {
		return
	}
	if now, err := j.store.Load(ctx, j.st.Key); err == nil && now.Try != j.st.Try {
		j.unreserve(reserved)
	}
}

// purse is what the build pays this teacher from; nil where nothing limits it.
func (j *batchJob) purse() (teachers.Purse, func(), error) {
	return j.a.purse(j.in.BuildRef, j.rt, j.in.Teacher)
}

// settle ends the reservation of a batch that is collected, row by row: what a
// row has cost, nothing for one that was not run, and the most for one that may
// be charged though nobody can know. Another build's reservation stays charged to
// that build: its account may be closed, and this one's must not grow by it.
func (r *batchReading) settle() {
	if r.job.st.Reserved == 0 || r.job.st.BuildID != r.job.in.BuildID {
		return
	}
	purse, done, err := r.job.purse()
	if purse == nil || err != nil {
		return // it stays charged
	}
	defer done()
	for i := range r.rows {
		row := &r.rows[i]
		if row.ask.Most > 0 {
			purse.Settle(row.ask.Most, row.charge())
		}
	}
}

// charge is what a row is charged to the budget.
func (row *batchRow) charge() int64 {
	switch {
	case row.answered && !row.estimated:
		return min(row.cost, row.ask.Most)
	case row.answered, row.kept:
		return row.ask.Most
	case row.failure != nil && !notRun(row.failure) && teachers.MayBeBilled(row.failure.Status, true):
		return row.ask.Most
	}
	return 0
}

// settleAll gives back the reservation of a batch of which nothing ran.
func (j *batchJob) settleAll() {
	j.unreserve(j.st.Reserved)
}
