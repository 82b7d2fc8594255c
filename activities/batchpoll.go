package activities

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/internal/batches"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// looksAtOnce bounds the batches that one poll looks at together.
const looksAtOnce = 8

// PollBatches looks once at open batches and lists those of which nothing more
// is to be waited for.
func (a *Activities) PollBatches(ctx context.Context, in wire.BatchPollInput) (*wire.BatchPollOutput, error) {
	var note noter
	note.set(fmt.Sprintf("looks at %d batches", len(in.Batches)))
	defer heartbeat(ctx, beatEvery, note.beat)()
	_, t, service, err := a.batchTeacher(ctx, in.BuildRef, in.Teacher)
	if err != nil {
		return nil, final(err)
	}
	p := &poll{service: service, store: batches.Open(a.Bucket, t.endpoint), ended: make([]bool, len(in.Batches))}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(looksAtOnce)
	for i, key := range in.Batches {
		group.Go(func() error { return p.look(ctx, i, key) })
	}
	if err := group.Wait(); err != nil {
		return nil, final(err)
	}
	for i, key := range in.Batches {
		if p.ended[i] {
			p.out.Ended = append(p.out.Ended, key)
		}
	}
	return &p.out, nil
}

type poll struct {
	service batchService
	store   *batches.Store

	mu    sync.Mutex
	out   wire.BatchPollOutput
	ended []bool
}

func (p *poll) look(ctx context.Context, i int, key string) error {
	st, err := p.store.Load(ctx, key)
	if errors.Is(err, objstore.ErrNotFound) {
		p.end(i)
		return nil
	}
	if err != nil {
		return err
	}
	if st.State != batches.Submitted {
		p.end(i) // collected, dropped, or to be submitted again: collecting tells
		return nil
	}
	b, err := p.service.Status(ctx, st.Batch)
	var e *teachers.Error
	switch {
	case err == nil && b.Ended != "":
		p.end(i)
	case err == nil:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.out.Rows += int64(max(b.Total, st.Rows))
		p.out.Done += int64(b.Done)
		if p.out.Words == "" {
			p.out.Words = clipped(b.Word, 80)
		}
	case errors.As(err, &e) && e.Class == teachers.ClassNotFound:
		p.end(i) // collecting tells what that means
	case errors.As(err, &e) && e.StopsTeacher():
		p.mu.Lock()
		defer p.mu.Unlock()
		p.out.Stopped = &wire.TeacherFailed{Class: e.Class, Text: bounded(e.Error())}
	default:
		return err
	}
	return nil
}

func (p *poll) end(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended[i] = true
}

// CancelBatches asks the endpoint to stop batches that run. What has finished is
// paid for and is collected by the next run.
func (a *Activities) CancelBatches(ctx context.Context, in wire.BatchPollInput) error {
	var note noter
	note.set("cancels batches")
	defer heartbeat(ctx, beatEvery, note.beat)()
	_, t, service, err := a.batchTeacher(ctx, in.BuildRef, in.Teacher)
	if err != nil {
		return final(err)
	}
	store := batches.Open(a.Bucket, t.endpoint)
	var errs []error
	for _, key := range in.Batches {
		st, err := store.Load(ctx, key)
		if errors.Is(err, objstore.ErrNotFound) || err == nil && st.State != batches.Submitted {
			continue
		}
		if err == nil {
			err = service.Cancel(ctx, st.Batch)
		}
		var e *teachers.Error
		if errors.As(err, &e) && !e.Temporary() {
			err = nil // it is not there, or not ours to stop
		}
		errs = append(errs, err)
	}
	return final(errors.Join(errs...))
}
