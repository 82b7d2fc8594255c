package activities

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/batches"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// SubmitBatch submits a prepared batch, once: what it does next follows from the
// batch's record alone, which it moves on before and after each step at the
// endpoint. It waits for nothing; where it has to be tried again it says when.
func (a *Activities) SubmitBatch(ctx context.Context, in wire.BatchInput) (*wire.BatchSubmitOutput, error) {
	var note noter
	defer heartbeat(ctx, beatEvery, note.beat)()
	j, err := a.batchJob(ctx, in)
	if err != nil {
		return nil, final(err)
	}
	out, err := j.submit(ctx, note.set)
	if errors.Is(err, batches.ErrMoved) {
		return &wire.BatchSubmitOutput{WaitMS: 1, Why: "another worker has it in hand"}, nil
	}
	return out, final(err)
}

// A batchJob is one batch in an activity's hands.
type batchJob struct {
	a       *Activities
	in      wire.BatchInput
	rt      *runtime
	teacher *teacher
	service batchService
	store   *batches.Store
	st      *batches.State
}

func (a *Activities) batchJob(ctx context.Context, in wire.BatchInput) (*batchJob, error) {
	rt, t, s, err := a.batchTeacher(ctx, in.BuildRef, in.Teacher)
	if err != nil {
		return nil, err
	}
	j := &batchJob{a: a, in: in, rt: rt, teacher: t, service: s, store: batches.Open(a.Bucket, t.endpoint)}
	if j.st, err = j.store.Load(ctx, in.Batch); err != nil {
		return nil, err
	}
	return j, nil
}

func (a *Activities) batchTeacher(ctx context.Context, ref wire.BuildRef, id string) (*runtime, *teacher, batchService, error) {
	rt, err := a.runtime(ctx, ref)
	if err != nil {
		return nil, nil, nil, err
	}
	t := rt.teachers[id]
	if t == nil {
		return nil, nil, nil, invalidRecipe("teacher %s is not in the recipe", id)
	}
	s, err := a.service(t)
	return rt, t, s, err
}

func (j *batchJob) submit(ctx context.Context, note func(string)) (*wire.BatchSubmitOutput, error) {
	for {
		switch j.st.State {
		case batches.Prepared:
			if out, err := j.upload(ctx, note); out != nil || err != nil {
				return out, err
			}
		case batches.Uploaded:
			if out, err := j.create(ctx, note); out != nil || err != nil {
				return out, err
			}
		case batches.Submitting:
			if out, err := j.find(ctx); out != nil || err != nil {
				return out, err
			}
		case batches.Dropped:
			return &wire.BatchSubmitOutput{Gone: true}, nil
		default:
			return &wire.BatchSubmitOutput{Submitted: true}, nil
		}
	}
}

// order is the batch as its service knows it. done removes the local copy of
// the requests.
func (j *batchJob) order(ctx context.Context) (o *teachers.BatchOrder, done func(), err error) {
	path, err := j.store.Requests(ctx, &j.st.Record, j.a.TempDir)
	if err != nil {
		return nil, nil, err
	}
	o = j.named()
	o.Open = func() (io.ReadCloser, error) { return os.Open(path) }
	return o, func() { _ = os.Remove(path) }, nil
}

// named is the order without its requests.
func (j *batchJob) named() *teachers.BatchOrder {
	return &teachers.BatchOrder{Key: j.st.Key, Rows: j.st.Rows, Size: j.st.Bytes, Window: j.teacher.spec.Batch.Window, File: j.st.File}
}

// upload brings the file of requests to the endpoint, unless it is there.
func (j *batchJob) upload(ctx context.Context, note func(string)) (*wire.BatchSubmitOutput, error) {
	if j.service.Uploads() {
		note(fmt.Sprintf("uploads a batch of %d requests", j.st.Rows))
		o, done, err := j.order(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		file, err := j.service.FindUpload(ctx, o)
		if err == nil && file == "" {
			file, err = j.service.Upload(ctx, o)
		}
		if err != nil {
			return j.refused(ctx, err)
		}
		j.st.File = file
	}
	j.st.State = batches.Uploaded
	return nil, j.store.Save(ctx, j.st)
}

// create submits the batch. Its record says so before the request is sent, so
// that whoever comes after a crash looks before sending another.
func (j *batchJob) create(ctx context.Context, note func(string)) (*wire.BatchSubmitOutput, error) {
	note(fmt.Sprintf("submits a batch of %d requests", j.st.Rows))
	o, done, err := j.order(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	before := j.st.Reserved
	if out, err := j.reserve(ctx); out != nil || err != nil {
		return out, err
	}
	j.st.State, j.st.Try, j.st.Since = batches.Submitting, rand.Text(), j.a.clock()
	if err := j.store.Save(ctx, j.st); err != nil {
		j.unsaved(ctx, err, j.st.Reserved-before)
		return nil, err
	}
	// A request that is still on its way when the record says that the endpoint
	// may be asked what became of it could be sent twice.
	// One that is under way when the build is cancelled comes to its end.
	ctx = context.WithoutCancel(ctx)
	sending, cancel := context.WithTimeout(ctx, j.unknownAfter()/2)
	defer cancel()
	batch, err := j.service.Create(sending, o)
	switch {
	case err == nil:
		return nil, j.submitted(ctx, batch, false)
	case teachers.Refused(err):
		reserved := j.st.Reserved
		j.st.State, j.st.Try, j.st.Since, j.st.Reserved = batches.Uploaded, "", time.Time{}, 0
		if j.st.File != "" && statusOf(err) == 404 {
			j.st.State, j.st.File = batches.Prepared, "" // the file has gone
		}
		if serr := j.store.Save(ctx, j.st); serr != nil {
			return nil, serr
		}
		j.unreserve(ctx, reserved)
		return j.refused(ctx, err)
	}
	return j.unknown(), nil
}

func statusOf(err error) int {
	var e *teachers.Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// submitted notes the id that the endpoint gave.
func (j *batchJob) submitted(ctx context.Context, b *teachers.Batch, unproved bool) error {
	j.st.State, j.st.Batch, j.st.Unproved, j.st.Submitted = batches.Submitted, b.ID, unproved, j.st.Since
	return j.store.Save(ctx, j.st)
}

// unknownAfter is how long after a submission whose answer was lost the endpoint
// must have done with it. Where the file goes up with the submission, sending
// takes long by itself.
func (j *batchJob) unknownAfter() time.Duration {
	settle := j.teacher.spec.Batch.Settle
	if _, folder := j.service.(*spool); !folder && !j.service.Uploads() {
		return 10 * settle
	}
	return settle
}

// busy is the wait after an endpoint's refusal to take more for now, where it
// names none.
func (j *batchJob) busy() time.Duration { return j.teacher.spec.Batch.Settle / 2 }

// mostBusy bounds the wait that an endpoint can ask for: a build must not stand
// still for as long as a header says.
const mostBusy = time.Hour

// unknown waits until the endpoint must have done with a submission whose
// answer was lost.
func (j *batchJob) unknown() *wire.BatchSubmitOutput {
	wait := max(j.st.Since.Add(j.unknownAfter()).Sub(j.a.clock()), 0)
	return &wire.BatchSubmitOutput{WaitMS: wait.Milliseconds() + 1, Why: "the answer to a submission was lost; the endpoint is asked whether it has the batch"}
}

// find asks the endpoint what became of a submission whose answer was lost.
func (j *batchJob) find(ctx context.Context) (*wire.BatchSubmitOutput, error) {
	if j.a.clock().Before(j.st.Since.Add(j.unknownAfter())) {
		return j.unknown(), nil
	}
	sure, maybe, err := j.service.Find(ctx, j.named(), j.st.Since)
	if err != nil {
		return j.cannotTell(ctx, err)
	}
	if len(sure) > 0 {
		// Of several, which there should never be, the first that was not refused.
		slices.SortFunc(sure, func(x, y *teachers.Batch) int { return x.Created.Compare(y.Created) })
		at := max(slices.IndexFunc(sure, func(b *teachers.Batch) bool { return b.Ended != teachers.BatchFailed }), 0)
		return nil, j.submitted(ctx, sure[at], false)
	}
	taken, err := j.takenIDs(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range slices.Backward(maybe) { // the oldest comes last
		if !taken[b.ID] && !slices.Contains(j.st.Foreign, b.ID) {
			return nil, j.submitted(ctx, b, true)
		}
	}
	j.st.State, j.st.Try, j.st.Since = batches.Uploaded, "", time.Time{}
	return nil, j.store.Save(ctx, j.st)
}

// takenIDs are the ids that other open batches of the endpoint have.
func (j *batchJob) takenIDs(ctx context.Context) (map[string]bool, error) {
	list, err := j.store.List(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, key := range list.Keys {
		if key == j.st.Key {
			continue
		}
		st, err := j.store.Load(ctx, key)
		if err != nil {
			return nil, err
		}
		if st.Batch != "" && !st.Unproved {
			out[st.Batch] = true
		}
	}
	return out, nil
}

// cannotTell is an endpoint that does not say which batches it has. Nothing is
// sent again on a guess.
func (j *batchJob) cannotTell(ctx context.Context, err error) (*wire.BatchSubmitOutput, error) {
	var e *teachers.Error
	if errors.As(err, &e) && (e.Class == teachers.ClassNotFound || e.Class == teachers.ClassBadRequest) {
		return &wire.BatchSubmitOutput{Stopped: &wire.TeacherFailed{Class: classUnknownBatch, Text: bounded(fmt.Sprintf(
			"whether batch %s was submitted at %s is not known, and the endpoint lists no batches (%v); look for the file stillhouse-%s.jsonl there; if it has not run, delete batches/%s/%s/state.json in the store, then run the same command again",
			j.st.Key, j.st.Since.Format(time.RFC3339), e, j.st.Key, j.st.Endpoint, j.st.Key))}}, nil
	}
	return j.refused(ctx, err)
}

// classUnknownBatch is the stop of a teacher of which it can't be told whether
// a batch was submitted.
const classUnknownBatch = "batch_unknown"

// refused is an endpoint that says no: for good, for now, or not at all.
func (j *batchJob) refused(ctx context.Context, err error) (*wire.BatchSubmitOutput, error) {
	var e *teachers.Error
	if !errors.As(err, &e) || ctx.Err() != nil {
		return nil, err
	}
	switch {
	case e.StopsTeacher() || e.Class == teachers.ClassBadRequest || e.Class == teachers.ClassContextOverflow:
		return &wire.BatchSubmitOutput{Stopped: &wire.TeacherFailed{Class: e.Class, Text: bounded(e.Error())}}, nil
	case e.Class == teachers.ClassRateLimited || e.Class == teachers.ClassOverloaded:
		return &wire.BatchSubmitOutput{WaitMS: min(max(e.RetryAfter, j.busy()), mostBusy).Milliseconds(), Why: briefly(e)}, nil
	}
	return nil, err // tried again by the activity's own policy
}
