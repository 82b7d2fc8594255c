package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/worker"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/checkers"
	"github.com/stillhouse-data/stillhouse/internal/codec"
	"github.com/stillhouse-data/stillhouse/internal/home"
	"github.com/stillhouse-data/stillhouse/internal/wallet"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/workflows"
)

const (
	// drainLimit is how long answers in flight are waited for at the end.
	drainLimit = 10 * time.Second
	// queueCheck is how often a worker looks for teachers that it does not
	// serve yet: those of builds that were planned elsewhere or earlier.
	queueCheck = 2 * time.Second
	// queueIdle is how long a teacher's queue is served without a stream.
	queueIdle = time.Minute
)

// Roles of a worker.
const (
	roleAll     = "all"
	roleSandbox = "sandbox"
)

// workers serve the pipeline and the teachers' queues in this process.
type workers struct {
	session    *session
	activities *activities.Activities
	answers    *answers.Store
	wallets    *wallet.Wallets
	sandbox    *sandboxBox
	only       map[string]bool // ids of the teachers that are served; nil: all
	log        *slog.Logger

	checkers *checkerPool
	noKey    sync.Once // a history that cannot be read was told of
	stopping chan struct{}
	pipeline worker.Worker // nil in a worker that has another role
	// sandboxWorker refines on the sandboxes' queue; nil: this process does not.
	sandboxWorker worker.Worker

	mu        sync.Mutex
	queues    map[string]*teacherQueue
	closed    bool
	watch     sync.WaitGroup
	stopWatch context.CancelFunc
}

type teacherQueue struct {
	worker worker.Worker
	wanted time.Time // when a stream was last seen
}

// startWorkers opens the answer store of this home and begins to work. only
// names the teachers to serve; nil serves all. role is what else is served: all,
// or the sandboxes' queue alone.
func startWorkers(ctx context.Context, s *session, role string, only []string) (*workers, error) {
	w := &workers{session: s, log: s.app.log(), stopping: make(chan struct{}), queues: map[string]*teacherQueue{}}
	if only != nil {
		w.only = map[string]bool{}
		for _, id := range only {
			w.only[id] = true
		}
	}
	store, err := answers.Open(ctx, answers.Options{Bucket: s.bucket, Dir: s.home.Path("worker"), Log: w.log})
	if err != nil {
		return nil, fmt.Errorf("open the answers of this home: %w", err)
	}
	// The answers are one process's at a time, and so is what lies beside them.
	temp, err := clearTemp(s.home)
	if err != nil {
		return nil, errors.Join(err, store.Close(ctx))
	}
	w.answers = store
	w.wallets = &wallet.Wallets{
		Dir: s.home.Path("worker", "budget"), Worker: store.Worker(), Log: w.log,
		Authority: &activities.BudgetAuthority{Client: s.temporal},
	}
	w.sandbox = &sandboxBox{app: s.app, remote: s.remote}
	w.checkers = &checkerPool{Pool: checkers.New(w.log), app: s.app}
	w.activities = &activities.Activities{
		Wallets: w.wallets, Sandbox: w.sandbox, Checkers: w.checkers,
		Bucket: s.bucket, Answers: store, Catalog: catalog.Open(s.bucket), TempDir: temp, Log: w.log,
		Lookup: s.app.lookup, Keys: s.app.keyring(s.remote), Roots: s.app.roots, MayAsk: s.app.policy.Endpoint, MayRun: s.app.mayRun, Remote: s.app.listRemote, Serve: w.serve, Stopping: w.stopping, Drain: drainLimit,
		Trainers: s.trainers(), Leases: activities.TemporalAuthority{Client: s.temporal},
	}
	if role == roleSandbox {
		if _, err := w.sandbox.Here(ctx); err != nil {
			return nil, errors.Join(usage("--role sandbox: %v", err), store.Close(ctx))
		}
		w.stopWatch = func() {}
		return w, w.startSandbox()
	}
	w.pipeline = worker.New(s.temporal, wire.QueuePipeline, w.options(8))
	workflows.Register(w.pipeline)
	w.activities.RegisterPipeline(w.pipeline)
	if err := w.pipeline.Start(); err != nil {
		return nil, fmt.Errorf("start the pipeline's worker: %w", err)
	}
	if err := w.serveSandbox(ctx); err != nil {
		return nil, err
	}
	watch, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.stopWatch = cancel
	if err := w.checkQueues(watch); err != nil {
		w.log.Warn("open builds were not listed; the next look comes in some seconds", "error", err)
	}
	w.watch.Go(func() { w.watchQueues(watch) })
	return w, nil
}

// clearTemp makes the folder of the work under way, empty: what a killed process
// left there is of no use to anybody. It lies below a folder of ours, since a
// home may be any folder of its user, who may keep a tmp of his own in it.
func clearTemp(h *home.Home) (string, error) {
	temp := h.Path("worker", "tmp")
	if err := os.RemoveAll(temp); err != nil {
		return "", fmt.Errorf("clear %s: %w", temp, err)
	}
	return temp, os.MkdirAll(temp, 0o700)
}

// options of every worker. Heartbeats carry the progress that users watch, so
// on this machine they may be frequent.
func (w *workers) options(atOnce int) worker.Options {
	throttle := 10 * time.Second
	if !w.session.remote {
		throttle = 500 * time.Millisecond
	}
	return worker.Options{
		MaxConcurrentActivityExecutionSize: atOnce,
		MaxConcurrentActivityTaskPollers:   4,
		WorkerStopTimeout:                  drainLimit + 3*time.Second,
		DefaultHeartbeatThrottleInterval:   throttle,
		MaxHeartbeatThrottleInterval:       throttle,
		StickyScheduleToStartTimeout:       time.Second,
	}
}

// serve opens a teacher's queue, if this worker serves that teacher.
func (w *workers) serve(queue string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || (w.only != nil && !w.only[wire.QueueTeacher(queue)]) {
		return
	}
	if q := w.queues[queue]; q != nil {
		q.wanted = time.Now()
		return
	}
	options := w.options(activities.MostBatches)
	options.DisableWorkflowWorker = true
	tw := worker.New(w.session.temporal, queue, options)
	w.activities.RegisterTeacher(tw)
	if err := tw.Start(); err != nil {
		w.log.Error("a teacher's worker did not start", "queue", queue, "error", err)
		return
	}
	w.queues[queue] = &teacherQueue{worker: tw, wanted: time.Now()}
}

func (w *workers) watchQueues(ctx context.Context) {
	tick := time.NewTicker(queueCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := w.checkQueues(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn("open builds were not listed", "error", err)
		}
		w.closeIdle()
	}
}

// checkQueues opens the queues of all running streams, and of the judges of all
// running builds.
func (w *workers) checkQueues(ctx context.Context) error {
	var token []byte
	for {
		page, err := w.session.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query:         fmt.Sprintf("(WorkflowType = '%s' OR WorkflowType = '%s') AND ExecutionStatus = 'Running'", wire.WorkflowTeacherStream, wire.WorkflowBuild),
			PageSize:      500,
			NextPageToken: token,
		})
		if err != nil {
			return err
		}
		for _, e := range page.Executions {
			var queue string
			if w.memo(e, wire.MemoQueue, &queue) {
				w.serve(queue)
			}
			var queues []string
			if w.memo(e, wire.MemoQueues, &queues) {
				for _, queue := range queues {
					w.serve(queue)
				}
			}
		}
		if token = page.NextPageToken; len(token) == 0 {
			return nil
		}
	}
}

// memo reads a field of a workflow's memo, if it is there. One that is encrypted
// with a key that is not here is told once: what it belongs to waits, and this
// worker is in the way of those that have the key.
func (w *workers) memo(e *workflowpb.WorkflowExecutionInfo, field string, v any) bool {
	payload := e.GetMemo().GetFields()[field]
	if payload == nil {
		return false
	}
	err := w.session.app.payloads().FromPayload(payload, v)
	if errors.Is(err, codec.ErrNoKey) {
		w.noKey.Do(func() {
			w.session.app.warn("warning: %s: %v, or stop this worker", e.GetExecution().GetWorkflowId(), err)
		})
	}
	return err == nil
}

func (w *workers) closeIdle() {
	w.mu.Lock()
	var idle []worker.Worker
	for name, q := range w.queues {
		if time.Since(q.wanted) > queueIdle {
			idle = append(idle, q.worker)
			delete(w.queues, name)
		}
	}
	w.mu.Unlock()
	for _, q := range idle {
		q.Stop()
	}
}

// stop drains: no new ask is sent, and what is in flight has some seconds to
// arrive and is kept.
func (w *workers) stop(ctx context.Context) {
	close(w.stopping)
	w.stopWatch()
	w.watch.Wait()
	w.mu.Lock()
	w.closed = true
	var all []worker.Worker
	for _, one := range []worker.Worker{w.pipeline, w.sandboxWorker} {
		if one != nil {
			all = append(all, one)
		}
	}
	for _, q := range w.queues {
		all = append(all, q.worker)
	}
	w.mu.Unlock()
	var wg sync.WaitGroup
	for _, one := range all {
		wg.Go(one.Stop)
	}
	wg.Wait()
	w.sandbox.close()
	w.checkers.Close()
	w.activities.Close()
	w.closeWallets(ctx)
	if err := w.answers.Close(ctx); err != nil {
		w.log.Warn("the answers' journal was not closed; the next start reads it again", "error", err)
	}
}
