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
	// silentAfter is how many questions in a row stay without an answer before
	// a user is told that nobody works.
	silentAfter = 2
	// endLimit bounds how long a process takes to give its home back once its
	// services have stopped to answer.
	endLimit = 10 * time.Second
)

// follow watches a build to its end and shows how it stands. Where the build
// runs on another process's embedded services and that process ends, this one
// follows it to the next, or takes over.
func (s *session) follow(ctx context.Context, r *run) (*wire.BuildOutput, error) {
	show := newProgressView(s.app)
	defer show.end()
	for {
		end := s.await(ctx, r)
		lost, err := s.watch(ctx, r, show, end)
		switch {
		case err != nil:
			return nil, err
		case !lost:
			got := <-end
			return got.out, got.err
		}
		if err := s.replace(ctx, r); err != nil {
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
// process that ran it is lost.
func (s *session) watch(ctx context.Context, r *run, show *progressView, end chan ended) (lost bool, err error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	unanswered := 0
	alone := false // no worker has a sandbox, and that was said
	var died <-chan struct{}
	if s.services != nil {
		died = s.services.Done()
	}
	for {
		select {
		case got := <-end:
			if got.err != nil && unavailable(got.err) && s.awaitLost(ctx) {
				return true, nil
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
			if s.app.quiet { // nobody looks
				if s.lost(ctx) {
					return true, nil
				}
				continue
			}
			p, err := s.progress(ctx, r.id)
			switch {
			case err == nil:
				unanswered = 0
				show.show(p)
				if s.remote && p.Sandbox && p.ShardsDone < p.Shards && !alone {
					if alone = s.noSandbox(ctx); alone {
						s.app.warn("no worker runs the code of answers for this build; checking them waits until one does: stillhouse worker --role sandbox, with this --temporal, --namespace and --store, on a machine with a sandbox")
					}
				}
			case s.lost(ctx):
				return true, nil
			default:
				if unanswered++; unanswered == silentAfter && s.remote {
					s.app.warn("no worker answers for this build; it waits until one runs: stillhouse worker, with this --temporal, --namespace and --store")
				}
			}
		}
	}
}

// lost tells that the process whose embedded services we use has ended: the
// home is free, or another process holds it.
func (s *session) lost(ctx context.Context) bool {
	if s.owns() || s.remote {
		return false
	}
	e, err := s.home.ReadEndpoints(ctx)
	if err != nil {
		return errors.Is(err, home.ErrNotRunning)
	}
	return e.PID != s.endpoints.PID
}

// awaitLost gives a process whose services do not answer any more the time to
// end.
func (s *session) awaitLost(ctx context.Context) bool {
	if s.owns() || s.remote {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !s.lost(ctx) {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// replace goes on with the process that holds the home now, or becomes it.
func (s *session) replace(ctx context.Context, r *run) error {
	s.temporal.Close()
	s.temporal = nil
	lock, err := s.freeHome()
	if err != nil {
		return err
	}
	switch {
	case lock == nil:
		e, err := s.home.ReadEndpoints(ctx)
		if err != nil {
			return &codedError{exitUnreachable, fmt.Sprintf("the process that ran build %s has ended: %v", r.buildID, err)}
		}
		s.app.warn("process %d runs this build now", e.PID)
		if err := s.attach(ctx, e); err != nil {
			return err
		}
	default:
		s.app.warn("the process that ran this build has ended; going on in this one")
		s.lock = lock
		if err := s.start(ctx); err != nil {
			return err
		}
	}
	r.handle = s.temporal.GetWorkflow(ctx, r.id, "")
	return nil
}

// freeHome takes the home's lock if this command may run work and nobody holds
// it; else the lock is nil.
func (s *session) freeHome() (*home.Lock, error) {
	if !s.works {
		return nil, nil
	}
	lock, err := s.home.Lock()
	var locked *home.ErrLocked
	if errors.As(err, &locked) {
		return nil, nil
	}
	return lock, err
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
	if p.Limited {
		s.addBudget(ctx, &p)
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
			converter.DecodeCommonFailureAttributes(s.app.payloads(), p.LastFailure)
			t.Waiting = p.LastFailure.Message
		}
		var beat wire.AskHeartbeat
		if p.HeartbeatDetails == nil || s.app.payloads().FromPayloads(p.HeartbeatDetails, &beat) != nil {
			continue
		}
		t.Counts.Add(beat.Counts)
		if beat.Waiting != "" {
			t.Waiting = beat.Waiting
		}
	}
}
