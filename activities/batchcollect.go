package activities

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/batches"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// fetchTries is how often a file of results is fetched that ends too soon.
const fetchTries = 3

// CollectBatch brings what a batch has into the answer store, row by row, and
// closes it. Run again, it keeps nothing twice and counts the same.
func (a *Activities) CollectBatch(ctx context.Context, in wire.BatchInput) (*wire.BatchCollectOutput, error) {
	var note noter
	defer heartbeat(ctx, beatEvery, note.beat)()
	j, err := a.batchJob(ctx, in)
	if err != nil {
		return nil, final(err)
	}
	out, err := j.collect(ctx, note.set)
	return out, final(err)
}

func (j *batchJob) collect(ctx context.Context, note func(string)) (*wire.BatchCollectOutput, error) {
	switch j.st.State {
	case batches.Submitted:
	case batches.Collected:
		return j.collected(ctx)
	case batches.Dropped:
		return &wire.BatchCollectOutput{Ended: batches.Dropped}, j.store.Close(ctx, j.st.Key)
	default:
		return &wire.BatchCollectOutput{Foreign: true}, nil
	}
	note(fmt.Sprintf("collects a batch of %d rows", j.st.Rows))
	b, err := j.service.Status(ctx, j.st.Batch)
	var e *teachers.Error
	switch {
	case errors.As(err, &e) && e.Class == teachers.ClassNotFound:
		return j.lost(ctx, e)
	case errors.As(err, &e) && e.StopsTeacher():
		return &wire.BatchCollectOutput{Stopped: &wire.TeacherFailed{Class: e.Class, Text: bounded(e.Error())}}, nil
	case err != nil:
		return nil, err
	case b.Ended == "":
		return &wire.BatchCollectOutput{}, nil // it runs after all
	}
	if b.Ended == teachers.BatchFailed && !hasLines(b) {
		return j.refusedWhole(ctx, b)
	}
	r, err := j.reading(ctx, b)
	if err != nil {
		return nil, err
	}
	defer r.close()
	for _, f := range b.Files {
		if err := r.file(ctx, f); err != nil {
			return nil, err
		}
	}
	if j.st.Unproved && !r.proved {
		return j.foreign(ctx)
	}
	if err := r.rest(ctx); err != nil {
		return nil, err
	}
	return j.close(ctx, b, r)
}

func hasLines(b *teachers.Batch) bool {
	for _, e := range b.Errors {
		if e.Line > 0 {
			return true
		}
	}
	return false
}

// close notes what came of the batch. All of it is in the answer store's index
// by then.
func (j *batchJob) close(ctx context.Context, b *teachers.Batch, r *batchReading) (*wire.BatchCollectOutput, error) {
	if err := j.a.Answers.Flush(ctx); err != nil {
		return nil, fmt.Errorf("keep answers: %w", err)
	}
	if err := r.keepRefused(ctx); err != nil {
		return nil, err
	}
	j.st.State, j.st.Ended, j.st.Collected, j.st.By, j.st.Outcome = batches.Collected, b.Ended, j.a.clock(), j.in.BuildID, &r.outcome
	if err := j.store.Save(ctx, j.st); err != nil {
		return nil, err
	}
	r.settle(ctx)
	// Some vendors keep only so many files; that one is left over stops nobody.
	id := j.st.File
	if !j.service.Uploads() {
		id = j.st.Batch
	}
	if err := j.service.Discard(ctx, id); err != nil {
		j.a.Log.Info("a file of requests was left at the endpoint", "teacher", j.teacher.spec.ID, "file", id, "error", err)
	}
	out, err := j.collected(ctx)
	if err == nil {
		out.Stopped = r.stopped()
	}
	return out, err
}

// collected reports a batch that is collected, to the build that did it: what it
// cost is counted once.
func (j *batchJob) collected(ctx context.Context) (*wire.BatchCollectOutput, error) {
	out := &wire.BatchCollectOutput{Ended: j.st.Ended}
	if o := j.st.Outcome; o != nil && j.st.By == j.in.BuildID {
		out.Refused = o.Refused
		out.Counts = wire.AskCounts{
			New: o.Answered, PromptTokens: o.PromptTokens, CachedTokens: o.CachedTokens, CompletionTokens: o.CompletionTokens,
			CostMicros: o.CostMicros, Unpriced: o.Unpriced,
		}
	}
	return out, j.store.Close(ctx, j.st.Key)
}

// refusedWhole is a batch that the endpoint refused without naming a row:
// nothing of it ran. Its rows go into another batch, unless that would be
// refused as well.
func (j *batchJob) refusedWhole(ctx context.Context, b *teachers.Batch) (*wire.BatchCollectOutput, error) {
	class, words := teachers.ClassServer, "the endpoint gives no reason"
	if len(b.Errors) > 0 {
		class, words = b.Errors[0].Class, b.Errors[0].Message
		if code := b.Errors[0].Code; code != "" {
			words = code + ": " + words
		}
	}
	j.st.State, j.st.Ended, j.st.Collected, j.st.By = batches.Collected, b.Ended, j.a.clock(), j.in.BuildID
	j.st.Outcome = &batches.Outcome{Missing: int64(j.st.Rows)}
	if err := j.store.Save(ctx, j.st); err != nil {
		return nil, err
	}
	j.settleAll(ctx)
	out, err := j.collected(ctx)
	if err != nil {
		return nil, err
	}
	e := &teachers.Error{Teacher: "teacher " + j.teacher.spec.ID, Class: class, Excerpt: "it refused batch " + j.st.Batch + ": " + words}
	switch {
	case e.StopsTeacher() || class == teachers.ClassBadRequest || class == teachers.ClassContextOverflow:
		out.Stopped = &wire.TeacherFailed{Class: class, Text: bounded(e.Error())}
	default:
		out.WaitMS = j.busy().Milliseconds()
		out.Why = bounded(words)
	}
	return out, nil
}

// lost is a batch that the endpoint does not know any more: its results were
// kept for as long as the vendor keeps them, or somebody deleted it. With
// another account's key it would look the same.
func (j *batchJob) lost(ctx context.Context, e *teachers.Error) (*wire.BatchCollectOutput, error) {
	if j.st.Account != j.teacher.account() {
		return &wire.BatchCollectOutput{Stopped: &wire.TeacherFailed{Class: classUnknownBatch, Text: bounded(fmt.Sprintf(
			"batch %s was submitted with the key of %s, and this recipe's key (%s) does not find it: %v; use that key again to collect what was paid for",
			j.st.Batch, orNone(j.st.Account), orNone(j.teacher.account()), e))}}, nil
	}
	j.a.Log.Warn("a batch is gone at the endpoint; its rows are asked again", "teacher", j.teacher.spec.ID, "batch", j.st.Batch, "submitted", j.st.Submitted)
	j.st.State, j.st.Ended, j.st.Collected, j.st.By = batches.Collected, "lost", j.a.clock(), j.in.BuildID
	j.st.Outcome = &batches.Outcome{Missing: int64(j.st.Rows)}
	if err := j.store.Save(ctx, j.st); err != nil {
		return nil, err
	}
	return j.collected(ctx)
}

func orNone(s string) string {
	if s == "" {
		return "no account"
	}
	return s
}

// foreign goes on with a batch that was taken for ours and is somebody else's.
func (j *batchJob) foreign(ctx context.Context) (*wire.BatchCollectOutput, error) {
	j.st.Foreign = append(j.st.Foreign, j.st.Batch)
	j.st.State, j.st.Batch, j.st.Unproved, j.st.Submitted = batches.Submitting, "", false, time.Time{}
	return &wire.BatchCollectOutput{Foreign: true}, j.store.Save(ctx, j.st)
}

// file fetches and reads one file of results; a file that ends too soon is
// fetched again. What was kept of it is kept once.
func (r *batchReading) file(ctx context.Context, f teachers.BatchFile) error {
	var err error
	for range fetchTries {
		var whole bool
		if whole, err = r.fileOnce(ctx, f); err == nil && whole || ctx.Err() != nil {
			return err
		}
	}
	// Every row that did come is read. Those that did not are asked again, unless
	// the connection is what fails.
	return err
}

// fileOnce tells whether the file was whole.
func (r *batchReading) fileOnce(ctx context.Context, f teachers.BatchFile) (whole bool, err error) {
	tmp, err := os.CreateTemp(r.job.a.TempDir, "results-*.jsonl")
	if err != nil {
		return false, err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if _, err := r.job.service.Fetch(ctx, r.batch, f, tmp); err != nil {
		return false, err
	}
	if _, err := tmp.Seek(0, 0); err != nil {
		return false, err
	}
	r.inFile = 0
	err = r.job.service.Read(tmp, func(row *teachers.BatchRow) error { return r.row(ctx, row) })
	if ferr := r.flush(ctx); ferr != nil {
		return false, ferr
	}
	switch {
	case errors.Is(err, teachers.ErrCutLine):
		return false, nil
	case err != nil:
		return false, err
	}
	want := r.batch.Done
	if f.Errors {
		want = 0 // the counts of failed rows mean different things at different vendors
	}
	return r.inFile >= want, nil
}
