package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"

	"github.com/stillhouse-data/stillhouse/internal/home"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

const (
	// pollEvery is how often a build that is watched is asked how it stands.
	pollEvery = 500 * time.Millisecond
	// pollLimit bounds one such question.
	pollLimit = 5 * time.Second
	// takeoverAfter is how many questions in a row must fail before another
	// process's services are taken for dead.
	takeoverAfter = 3
)

// follow watches a build to its end and shows how it stands. Where the build
// runs on another process's embedded services and that process dies, this one
// takes over.
func (s *session) follow(ctx context.Context, r *run) (*wire.BuildOutput, error) {
	show := newProgressView(s.app)
	defer show.end()
	failures := 0
	for {
		end := s.await(ctx, r)
		takeover, err := s.watch(ctx, r, show, end, &failures)
		switch {
		case err != nil:
			return nil, err
		case !takeover:
			got := <-end
			return got.out, got.err
		}
		if err := s.takeOver(ctx, r); err != nil {
			return nil, err
		}
	}
}

type ended struct {
	out *wire.BuildOutput
	err error
}

// await waits for the build's result in the background.
func (s *session) await(ctx context.Context, r *run) chan ended {
	end := make(chan ended, 1)
	handle := r.handle
	go func() {
		var out wire.BuildOutput
		err := handle.Get(ctx, &out)
		end <- ended{&out, err}
	}()
	return end
}

// watch shows the build's progress until end holds its result, or until the
// process that ran it has died and can be replaced.
func (s *session) watch(ctx context.Context, r *run, show *progressView, end chan ended, failures *int) (takeover bool, err error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var died <-chan struct{}
	if s.services != nil {
		died = s.services.Done()
	}
	for {
		select {
		case got := <-end:
			if got.err != nil && s.replaceable() && unavailable(got.err) {
				return s.vacant(), nil
			}
			end <- got
			return false, nil
		case <-s.app.interrupted:
			return false, context.Canceled
		case <-ctx.Done():
			return false, ctx.Err()
		case <-died:
			return false, fmt.Errorf("an embedded service died: %w; what has arrived is kept, run the same command again", s.services.Err())
		case <-tick.C:
			p, err := s.progress(ctx, r.id)
			if err == nil {
				*failures = 0
				show.show(p)
				continue
			}
			*failures++
			if *failures >= takeoverAfter && s.replaceable() && s.vacant() {
				return true, nil
			}
		}
	}
}

// replaceable tells whether the services are another process's of this home.
func (s *session) replaceable() bool { return !s.owns() && !s.remote }

// vacant takes the home's lock if nobody holds it.
func (s *session) vacant() bool {
	lock, err := s.home.Lock()
	var locked *home.ErrLocked
	if errors.As(err, &locked) || err != nil {
		return false
	}
	s.lock = lock
	return true
}

// takeOver starts the services that another process ran, and goes on.
func (s *session) takeOver(ctx context.Context, r *run) error {
	s.app.warn("the process that ran this build has ended; going on in this one")
	s.temporal.Close()
	if err := s.start(ctx); err != nil {
		return err
	}
	r.handle = s.temporal.GetWorkflow(ctx, r.id, "")
	return nil
}

// progress asks a build how it stands, with what its asks in flight have
// brought so far.
func (s *session) progress(ctx context.Context, id string) (*wire.Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	value, err := s.temporal.QueryWorkflow(ctx, id, "", wire.QueryProgress)
	if err != nil {
		return nil, err
	}
	var p wire.Progress
	if err := value.Get(&p); err != nil {
		return nil, err
	}
	for i := range p.Teachers {
		if t := &p.Teachers[i]; !t.Done && p.Phase == wire.PhaseAsk {
			s.addInFlight(ctx, t)
		}
	}
	return &p, nil
}

// addInFlight adds what the heartbeats of a stream's batches say. A batch that
// has just ended may be missing for a moment; the next look has it.
func (s *session) addInFlight(ctx context.Context, t *wire.TeacherStatus) {
	description, err := s.temporal.DescribeWorkflowExecution(ctx, t.Stream, "")
	if err != nil {
		return
	}
	for _, p := range description.PendingActivities {
		if p.State == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED && p.LastFailure != nil {
			t.Waiting = p.LastFailure.Message
		}
		var beat wire.AskHeartbeat
		if p.HeartbeatDetails == nil || converter.GetDefaultDataConverter().FromPayloads(p.HeartbeatDetails, &beat) != nil {
			continue
		}
		t.Counts.Add(beat.Counts)
		if beat.Waiting != "" {
			t.Waiting = beat.Waiting
		}
	}
}
