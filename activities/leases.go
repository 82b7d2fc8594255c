package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// An Authority shares the limits of endpoints among the workers that ask them.
// Lease answers one request to the authority of the given workflow id, which it
// starts where none runs.
type Authority interface {
	Lease(ctx context.Context, id, model string, r wire.LeaseRequest) (*wire.LeaseGrant, error)
}

const (
	// leaseLimit bounds one request for a lease.
	leaseLimit = 10 * time.Second
	// leaseLinger is how long a lease is kept that nobody uses: from one batch
	// to the next.
	leaseLinger = 3 * time.Second
	// leaseGap is the least time between two requests. Whatever has changed is
	// told so long after: by then all of it has.
	leaseGap = 200 * time.Millisecond
	// Waits after a request that failed.
	leaseRetryFirst = 500 * time.Millisecond
	leaseRetryMost  = 5 * time.Second
	// releaseLimit bounds the giving back of a lease at the worker's end. One
	// that is not given back ends by itself.
	releaseLimit = time.Second
)

// leases are this worker's parts of the limits of the endpoints that it asks.
type leases struct {
	authority Authority // nil: the endpoints are this worker's alone
	worker    string
	process   int64
	log       *slog.Logger

	mu       sync.Mutex
	lessees  map[string]*lessee // by workflow id
	closed   bool
	stopping chan struct{}
	running  sync.WaitGroup
}

// newLeases makes the leases of a worker; they end with close.
func newLeases(authority Authority, worker string, now time.Time, log *slog.Logger) *leases {
	return &leases{
		authority: authority, worker: leaseName(worker), process: now.UnixMilli(), log: log,
		lessees: map[string]*lessee{}, stopping: make(chan struct{}),
	}
}

// leaseName is a worker's name, or a digest of one that is too long.
func leaseName(worker string) string {
	if len(worker) <= wire.MaxLesseeName {
		return worker
	}
	sum := sha256.Sum256([]byte(worker))
	return hex.EncodeToString(sum[:wire.MaxLesseeName/2])
}

// limiter is the one limiter of a model at an endpoint.
func (l *leases) limiter(endpoint, model string) *teachers.Limiter {
	return l.lessee(endpoint, model).limiter
}

// use is called by a batch when it begins to ask, and the function that it
// returns when it sends nothing more.
func (l *leases) use(endpoint, model string) (end func()) {
	return l.lessee(endpoint, model).use()
}

func (l *leases) lessee(endpoint, model string) *lessee {
	id := wire.LimitsWorkflowID(endpoint, model)
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.lessees[id]; one != nil {
		return one
	}
	one := &lessee{all: l, id: id, model: model, limiter: teachers.NewLimiter(), poked: make(chan struct{}, 1)}
	if l.authority != nil {
		one.limiter.Lease(one.poke)
	}
	l.lessees[id] = one
	return one
}

// close gives back what is leased. No ask is running any more.
func (l *leases) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.stopping)
	}
	l.mu.Unlock()
	l.running.Wait()
}

// A lessee leases one limiter's part of an endpoint's limits while asks need
// it: it asks for it, renews it and gives it back.
type lessee struct {
	all     *leases
	id      string
	model   string
	limiter *teachers.Limiter
	poked   chan struct{}

	mu      sync.Mutex
	users   int // batches that may send
	running bool

	number int64         // of the last request
	base   wire.Declared // what the authority knows of what the limiter has learned
	holds  *wire.Held    // what the limiter works with
	until  time.Time     // when that ends, by our clock
}

func (l *lessee) use() (end func()) {
	l.mu.Lock()
	l.users++
	l.mu.Unlock()
	l.poke()
	var once sync.Once
	return func() {
		once.Do(func() {
			l.mu.Lock()
			l.users--
			last := l.users == 0
			l.mu.Unlock()
			if last {
				l.poke() // what it had may go to others
			}
		})
	}
}

// poke has the lease looked after now. It does not block: the limiter calls it
// under its lock.
func (l *lessee) poke() {
	if l.all.authority == nil {
		return
	}
	select {
	case l.poked <- struct{}{}:
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running {
		return
	}
	l.running = true
	go l.begin()
}

// begin runs the lessee until nobody needs it.
func (l *lessee) begin() {
	l.all.mu.Lock()
	if l.all.closed {
		l.all.mu.Unlock()
		return
	}
	l.all.running.Add(1)
	l.all.mu.Unlock()
	defer l.all.running.Done()
	ctx, cancel := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-l.all.stopping:
			cancel()
		case <-ctx.Done():
		}
	})
	l.run(ctx)
	cancel()
	watch.Wait()
}

func (l *lessee) run(ctx context.Context) {
	var idleSince time.Time
	retry, told := leaseRetryFirst, false
	for ctx.Err() == nil {
		request, idle := l.request()
		now := time.Now()
		switch {
		case !idle:
			idleSince = time.Time{}
		case idleSince.IsZero():
			idleSince = now
		case now.Sub(idleSince) >= leaseLinger:
			if l.release(ctx) {
				return
			}
			continue
		}
		next := retry
		if grant, err := l.lease(ctx, request); err == nil {
			retry, told = leaseRetryFirst, false
			next = min(max(grant.Renew, leaseGap), wire.LeaseRenew)
		} else {
			retry = min(2*retry, leaseRetryMost)
			if ctx.Err() == nil && !told {
				told = true
				l.all.log.Warn("the lease of a teacher's limits was not renewed; without it nothing new is asked after some seconds", "limits", l.id, "error", err)
			}
		}
		if idle {
			next = min(next, leaseLinger)
		}
		l.await(ctx, next)
	}
	l.limiter.Grant(teachers.Slice{})
	if l.holds != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
		defer cancel()
		_, _ = l.all.authority.Lease(ctx, l.id, l.model, l.numbered(wire.LeaseRequest{Release: true}))
	}
}

// await waits for the next renewal, or until something has changed.
func (l *lessee) await(ctx context.Context, next time.Duration) {
	due := time.NewTimer(next)
	defer due.Stop()
	select {
	case <-ctx.Done():
		return
	case <-due.C:
		return
	case <-l.poked:
	}
	gap := time.NewTimer(leaseGap)
	defer gap.Stop()
	select {
	case <-ctx.Done():
	case <-gap.C:
	}
}

// request is what this worker needs now; idle tells that it is nothing.
func (l *lessee) request() (r wire.LeaseRequest, idle bool) {
	d := l.limiter.Demand()
	l.mu.Lock()
	users := l.users
	l.mu.Unlock()
	r = wire.LeaseRequest{
		Holds: l.held(), InFlight: d.InFlight, Declared: wire.Declared(d.Declared), Learned: wire.Declared(d.Learned), Base: l.base, Minute: wire.Declared(d.Minute),
	}
	if users > 0 || d.Waiting > 0 {
		r.Hungry, r.RPM, r.TPM = d.Waiting > 0, d.RPM, d.TPM
	}
	return l.numbered(r), users == 0 && d.Waiting == 0 && d.InFlight == 0
}

// held is what the limiter works with, while that holds.
func (l *lessee) held() *wire.Held {
	if !time.Now().Before(l.until) {
		l.holds = nil
	}
	return l.holds
}

func (l *lessee) numbered(r wire.LeaseRequest) wire.LeaseRequest {
	l.number++
	r.Worker, r.Process, r.Number = l.all.worker, l.all.process, l.number
	return r
}

// lease asks for a slice and gives it to the limiter. Its time counts from
// before the request was sent, so that it is over here before it is there.
func (l *lessee) lease(ctx context.Context, r wire.LeaseRequest) (*wire.LeaseGrant, error) {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(ctx, leaseLimit)
	defer cancel()
	g, err := l.all.authority.Lease(ctx, l.id, l.model, r)
	if err != nil || g.Stale {
		return g, err
	}
	l.until = sent.Add(wire.LeaseTime)
	l.holds = &wire.Held{Seq: g.Seq, Concurrency: g.Concurrency, RPM: g.RPM, TPM: g.TPM}
	l.limiter.Grant(teachers.Slice{
		Concurrency: g.Concurrency, RPM: g.RPM, TPM: g.TPM, Until: l.until,
		Said: teachers.Declared(r.Learned), Learned: teachers.Declared(g.Learned),
	})
	l.base = r.Learned
	if has := l.limiter.Demand().Learned; g.Learned != (wire.Declared{}) {
		if has.Concurrency == g.Learned.Concurrency {
			l.base.Concurrency = has.Concurrency
		}
		if has.RPM == g.Learned.RPM {
			l.base.RPM = has.RPM
		}
		if has.TPM == g.Learned.TPM {
			l.base.TPM = has.TPM
		}
	}
	return g, nil
}

// release gives the lease back and ends the lessee, unless somebody needs it
// again.
func (l *lessee) release(ctx context.Context) bool {
	l.limiter.Grant(teachers.Slice{}) // whoever asks from now on pokes us
	if _, idle := l.request(); !idle {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, leaseLimit)
	defer cancel()
	if _, err := l.all.authority.Lease(ctx, l.id, l.model, l.numbered(wire.LeaseRequest{Release: true})); err != nil && ctx.Err() == nil {
		l.all.log.Warn("a lease was not given back; it ends by itself", "limits", l.id, "error", err)
	}
	l.holds, l.base = nil, wire.Declared{}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.poked:
		return false
	default:
	}
	l.running = false
	return true
}

// leasing is this worker's leases. The caller holds a.mu.
func (a *Activities) leasing() *leases {
	if a.leases == nil {
		a.leases = newLeases(a.Leases, a.Answers.Worker(), time.Now(), a.Log)
	}
	return a.leases
}

// lease notes that a batch asks a teacher; the function that it returns, that
// it sends nothing more.
func (a *Activities) lease(t *teacher) (end func()) {
	a.mu.Lock()
	l := a.leasing()
	a.mu.Unlock()
	return l.use(t.limitsOf(), t.spec.Model)
}
