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

// holderWait bounds how long is waited for a wallet to learn of its account.
const holderWait = 10 * time.Second

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
		j.st.Reserved, j.st.Purse = worst, accountOf(purse) // saved with the state that comes next
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
func (j *batchJob) unreserve(ctx context.Context, reserved int64) {
	if reserved == 0 {
		return
	}
	if purse, done := j.holder(ctx); purse != nil {
		defer done()
		purse.Settle(reserved, 0)
	}
}

// holder is the purse that holds what is reserved for the batch: that of the
// build which submitted it, or of one that goes on with the same account. It is
// nil where that account is closed, which must not make another one larger, or
// where nobody can tell: then the amount stays charged.
func (j *batchJob) holder(ctx context.Context) (teachers.Purse, func()) {
	purse, done, err := j.purse()
	if purse == nil || err != nil {
		return nil, nil
	}
	if j.st.BuildID == j.in.BuildID {
		return purse, done
	}
	if j.st.Purse != 0 {
		// A wallet that has just been opened knows its account once it has borrowed.
		waiting, cancel := context.WithTimeout(ctx, holderWait)
		defer cancel()
		if err := purse.Reserve(waiting, 1); err == nil {
			purse.Settle(1, 0)
		}
		if accountOf(purse) == j.st.Purse {
			return purse, done
		}
	}
	done()
	return nil, nil
}

// accountOf is the account that a purse pays from; 0 where it has none.
func accountOf(purse teachers.Purse) int64 {
	if p, ok := purse.(interface{ Account() int64 }); ok {
		return p.Account()
	}
	return 0
}

// unsaved gives back what was reserved for a submission that is another
// worker's, who has reserved for it as well. Where the record does not say whose
// it is, the amount stays charged.
func (j *batchJob) unsaved(ctx context.Context, err error, reserved int64) {
	if !errors.Is(err, batches.ErrMoved) {
		return
	}
	if now, err := j.store.Load(ctx, j.st.Key); err == nil && now.Try != j.st.Try {
		j.unreserve(ctx, reserved)
	}
}

// purse is what the build pays this teacher from; nil where nothing limits it.
func (j *batchJob) purse() (teachers.Purse, func(), error) {
	return j.a.purse(j.in.BuildRef, j.rt, j.in.Teacher)
}

// settle ends the reservation of a batch that is collected, row by row: what a
// row has cost, nothing for one that was not run, and the most for one that may
// be charged though nobody can know.
func (r *batchReading) settle(ctx context.Context) {
	if r.job.st.Reserved == 0 {
		return
	}
	purse, done := r.job.holder(ctx)
	if purse == nil {
		return
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
func (j *batchJob) settleAll(ctx context.Context) {
	j.unreserve(ctx, j.st.Reserved)
}
