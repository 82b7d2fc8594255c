package cli

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/cobra"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/worker"

	"github.com/stillhouse-data/stillhouse/datasets/verify"
	"github.com/stillhouse-data/stillhouse/internal/sandbox"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// sandboxFlags are the flags of commands that judge answers in this process.
type sandboxFlags struct {
	unsafe bool
	image  string
}

// addSandboxFlags declares them. They are the process's, and no recipe has keys
// of their kind: a recipe must not decide what a machine risks.
func (a *app) addSandboxFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&a.sandbox.unsafe, "unsafe-code", false, "where no sandbox works, run the code of answers without one, as this user")
	f.StringVar(&a.sandbox.image, "sandbox-image", sandbox.DefaultImage, "image that docker or podman run the code of answers in, where bubblewrap does not work")
}

// A sandboxBox is this process's sandbox, found when it is first needed.
type sandboxBox struct {
	app    *app
	remote bool

	mu  sync.Mutex
	box *sandbox.Box
}

// Here implements [activities.Sandbox]. A machine on which no sandbox works is
// tried again when it is asked for again: somebody may have installed one.
func (s *sandboxBox) Here(ctx context.Context) (verify.Runner, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box != nil {
		return s.box, nil
	}
	box, err := sandbox.Open(ctx, sandbox.Options{Unsafe: s.app.sandbox.unsafe, Image: s.app.sandbox.image})
	if err != nil {
		return nil, err
	}
	if box.Kind() == sandbox.Unsafe {
		s.app.say("the code of answers runs WITHOUT a sandbox, as this user: --unsafe-code")
	} else {
		s.app.log().Info("the code of answers runs in a sandbox", "sandbox", box.String())
	}
	s.box = box
	return box, nil
}

// Elsewhere implements [activities.Sandbox].
func (s *sandboxBox) Elsewhere() bool { return s.remote }

func (s *sandboxBox) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box != nil {
		s.box.Close()
		s.box = nil
	}
}

// sandbox checks whether the code of answers can be run here. Most recipes never
// need it, so none is a warning.
func (p *physician) sandbox(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*doctorLimit)
	defer cancel()
	box, err := sandbox.Open(ctx, sandbox.Options{})
	if err != nil {
		p.warn("sandbox", "needed by the verifier code alone: install bubblewrap and allow user namespaces, or see docs/sandbox.md", "%v", err)
		return
	}
	defer box.Close()
	p.ok("sandbox", "%s", box)
}

// noSandbox tells whether no worker of the cluster serves the sandboxes' queue.
func (s *session) noSandbox(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, doctorLimit)
	defer cancel()
	queue, err := s.temporal.DescribeTaskQueue(ctx, wire.QueueSandbox, enums.TASK_QUEUE_TYPE_ACTIVITY)
	return err == nil && len(queue.GetPollers()) == 0
}

// serveSandbox begins to refine on the sandboxes' queue. A worker of a cluster
// without a sandbox leaves the queue to those that have one; embedded workers
// are the only ones, and serve it always: builds that find no sandbox have been
// refused when they were planned.
func (w *workers) serveSandbox(ctx context.Context) error {
	if w.session.remote {
		if _, err := w.sandbox.Here(ctx); err != nil {
			w.log.Info("this worker runs no code of answers", "reason", err)
			return nil
		}
	}
	return w.startSandbox()
}

func (w *workers) startSandbox() error {
	options := w.options(8)
	options.DisableWorkflowWorker = true
	sw := worker.New(w.session.temporal, wire.QueueSandbox, options)
	w.activities.RegisterSandbox(sw)
	if err := sw.Start(); err != nil {
		return fmt.Errorf("start the sandbox's worker: %w", err)
	}
	w.sandboxWorker = sw
	return nil
}
