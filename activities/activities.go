// Package activities holds the side effects of a build: planning, asking,
// refining and sealing. Each is safe to run again: what it writes is named by
// content or by ask identity, and what a teacher was paid for is kept before
// anything else is done with it.
//
// One prompt's walk: [Activities.Plan] makes tasks of the sources' rows and
// writes them in shards; [Activities.AskShard] asks a teacher for what the
// answer store does not hold and keeps it there; [Activities.RefineShard]
// parses, checks, filters and merges what the store holds; [Activities.Seal]
// writes the tables, the report and the version.
package activities

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/secrets"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/internal/wallet"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// Activities is what one worker's activities share.
type Activities struct {
	Bucket  objstore.Bucket
	Answers *answers.Store
	Catalog *catalog.Catalog
	TempDir string // absolute; for files on their way to the store
	Log     *slog.Logger
	// Lookup resolves the variables that hold keys; os.LookupEnv.
	Lookup func(name string) (string, bool)
	// Keys reads the teachers' keys; nil: from Lookup's variables and from
	// files.
	Keys *secrets.Keyring
	// Roots are the authorities that vouch for teachers and webhooks; nil: those
	// of the system.
	Roots *x509.CertPool
	// MayAsk tells whether the endpoint at an address may be asked with a key,
	// which is named as recipes name it, "" for none; nil: any.
	MayAsk func(baseURL, key string) error
	// MayRun tells whether a command of a recipe that is told how a build ended
	// runs here; nil: none does.
	MayRun func(argv []string) error
	// Remote opens sources that lie in other stores, by s3:// URL.
	Remote func(ctx context.Context, url string) ([]sources.File, error)
	// Serve is told of every teacher queue that a plan made, so that a worker
	// that serves all teachers opens it. May be nil.
	Serve func(queue string)
	// Stopping is closed when the worker begins to stop: no new ask is sent,
	// and what is in flight has Drain to arrive.
	Stopping <-chan struct{}
	// Drain is how long answers in flight are waited for; default 10 s.
	Drain time.Duration
	// Wallets hold what this worker has borrowed of budgets; nil: it builds
	// nothing that has one.
	Wallets *wallet.Wallets
	// Leases shares the limits of endpoints with other workers; nil: this worker
	// has them for itself.
	Leases Authority
	// Sandbox runs the code of answers; nil: this worker runs none.
	Sandbox Sandbox
	// Checkers runs the commands of recipes; nil: this worker runs none.
	Checkers Checkers
	// Trainers starts trainings; see handoff.go.
	Trainers Trainers

	// Now is the clock of batches; nil: time.Now.
	Now func() time.Time

	mu       sync.Mutex
	services map[string]batchService
	runtimes map[string]*runtime
	clients  map[string]*teachers.Client
	leases   *leases // see leasing
	turns    map[*teachers.Client]*turns
	healths  map[string]*health // by build and teacher
	shards   shardCache
	indexes  indexCache // of evaluation sets
	claims   claims
	begun    map[string]bool // builds that this worker has seen, see begins
}

// Registry is the part of a worker that activities are registered with.
type Registry interface {
	RegisterActivityWithOptions(a any, options activity.RegisterOptions)
}

// RegisterPipeline registers everything but asking.
func (a *Activities) RegisterPipeline(r Registry) {
	for name, f := range map[string]any{
		wire.ActivityPlan:         a.Plan,
		wire.ActivityImport:       a.ImportRecorded,
		wire.ActivityMeasure:      a.MeasureShards,
		wire.ActivityMergeMeasure: a.MergeMeasures,
		wire.ActivityRefine:       a.RefineShard,
		wire.ActivitySeal:         a.Seal,
		wire.ActivityAbandon:      a.AbandonBuild,
		wire.ActivityNotify:       a.Notify,
		wire.ActivityRepin:        a.RepinSources,
		wire.ActivityBudget:       a.OpenBudget,
		wire.ActivityPrepare:      a.PrepareHandOff,
		wire.ActivityCheck:        a.CheckTraining,
		wire.ActivityRecipeHO:     a.RecipeHandOff,
		wire.ActivityLaunch:       a.LaunchTraining,
		wire.ActivityFollow:       a.FollowTraining,

		wire.ActivityFilterPrompts: a.FilterPrompts,
		wire.ActivityPlanFiltered:  a.PlanFiltered,
	} {
		r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// RegisterSandbox registers what runs the code of answers, on a worker of
// [wire.QueueSandbox].
func (a *Activities) RegisterSandbox(r Registry) {
	r.RegisterActivityWithOptions(a.RefineShard, activity.RegisterOptions{Name: wire.ActivityRefine})
}

// RegisterTeacher registers asking, on a worker of a teacher's queue.
func (a *Activities) RegisterTeacher(r Registry) {
	r.RegisterActivityWithOptions(a.AskShard, activity.RegisterOptions{Name: wire.ActivityAskShard})
	for name, f := range map[string]any{
		wire.ActivityJudge:        a.JudgeShard,
		wire.ActivityStudentFit:   a.ScoreStudentFit,
		wire.ActivityFallback:     a.AskFallback,
		wire.ActivityBatchPrepare: a.PrepareBatches,
		wire.ActivityBatchSubmit:  a.SubmitBatch,
		wire.ActivityBatchPoll:    a.PollBatches,
		wire.ActivityBatchCollect: a.CollectBatch,
		wire.ActivityBatchCancel:  a.CancelBatches,
	} {
		r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// Close closes the clients of all teachers. No activity is running any more.
func (a *Activities) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.services {
		s.Close()
	}
	a.services = nil
	for _, c := range a.clients {
		c.Close()
	}
	a.clients, a.turns = nil, nil
	if a.leases != nil {
		a.leases.close()
	}
}

// errStopping ends an activity whose worker stops; it is retried elsewhere, or
// here when the worker is back.
var errStopping = errors.New("the worker is stopping; the activity goes on when a worker is back")

// heartbeat beats for a running activity, from one beat after its first moment
// until the returned function is called: an activity that is over sooner costs
// no call. detail is asked at each beat. A cancelled activity beats on: what it
// has in flight may take longer to arrive than the server waits for a silent
// one.
func heartbeat(ctx context.Context, every time.Duration, detail func() any) (stop func()) {
	cancelled := ctx.Done()
	ctx = context.WithoutCancel(ctx)
	done := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				activity.RecordHeartbeat(ctx, detail())
			case <-cancelled:
				// Every beat brings the same news now, which the client logs.
				cancelled = nil
				tick.Reset(slower * every)
			case <-done:
				return
			}
		}
	})
	return func() {
		once.Do(func() { close(done) })
		wg.Wait()
	}
}

// beatEvery is how often activities heartbeat. Workers throttle what goes to
// the server (worker.Options), so this bounds only how fresh a detail can be.
const beatEvery = 2 * time.Second

// slower is how much more seldom they do once they are cancelled.
const slower = 10

// noter is a heartbeat detail that work updates as it goes.
type noter struct {
	mu   sync.Mutex
	text string
}

func (n *noter) set(text string) {
	n.mu.Lock()
	n.text = text
	n.mu.Unlock()
}

func (n *noter) get() any {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text
}
