package wallet

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/budget"
)

func newBank() *bank { return &bank{rng: rand.New(rand.NewPCG(1, 2))} }

func limited(micros int64) budget.Open {
	return budget.Open{Job: "j", Build: "b", Limits: budget.Limits{Build: micros}}
}

// use opens a wallet for a test.
func use(t *testing.T, w *Wallets, o budget.Open) *Use {
	t.Helper()
	u, err := w.Use("d", o)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func purse(t *testing.T, u *Use, teacher string) *Purse {
	t.Helper()
	p, err := u.Purse(teacher)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func closeAll(t *testing.T, w *Wallets) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestTheNextAskThatDoesNotFitIsOver(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &Wallets{Dir: dir, Worker: "w", Authority: newBank()}
		defer closeAll(t, w)
		u := use(t, w, limited(1000))
		p := purse(t, u, "t")
		if err := p.Reserve(t.Context(), 600); err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		go func() { over <- p.Reserve(t.Context(), 500) }()
		// It waits for as long as something is under way.
		pause(t.Context(), 5*time.Minute)
		select {
		case err := <-over:
			t.Fatalf("over while an ask is under way: %v", err)
		default:
		}
		if why := w.Why("d", "t"); !strings.Contains(why, "waits: budget") || !strings.Contains(why, "$0.0006 under way") {
			t.Errorf("it waits and says %q", why)
		}
		p.Settle(600, 550)
		err := <-over
		var e *OverError
		if !errors.As(err, &e) || !errors.Is(err, budget.ErrOver) || e.Need != 500 || e.Line.Left() != 450 {
			t.Fatalf("%v", err)
		}
		if want := "the budget of $0.001 is spent: $0.00045 are left and the next ask can cost $0.0005"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		// A smaller one still fits.
		if err := p.Reserve(t.Context(), 450); err != nil {
			t.Error(err)
		}
		p.Settle(450, 450)
		u.Done()
	})
}

func TestNoMoreIsUnderWayThanCrashesMayCost(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &Wallets{Dir: dir, Worker: "w", Authority: newBank()}
		defer closeAll(t, w)
		u := use(t, w, limited(1_000_000))
		p := purse(t, u, "t")
		var mu sync.Mutex
		now, most, asked := 0, 0, 0
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if !p.TryReserve(10_000) {
					if err := p.Reserve(t.Context(), 10_000); err != nil {
						t.Error(err)
						return
					}
				}
				mu.Lock()
				now++
				asked++
				most = max(most, now)
				mu.Unlock()
				pause(t.Context(), time.Second)
				mu.Lock()
				now--
				mu.Unlock()
				p.Settle(10_000, 100)
			})
		}
		all.Wait()
		u.Done()
		if asked != 100 || most != 12 {
			t.Errorf("%d asks, %d at once; want 100, 12 at once", asked, most)
		}
	})
}

func TestACancelledWaitReservesNothing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBank()
		w := &Wallets{Dir: dir, Worker: "w", Authority: b}
		defer closeAll(t, w)
		u := use(t, w, limited(1000))
		p := purse(t, u, "t")
		if err := p.Reserve(t.Context(), 900); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.Reserve(ctx, 900); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		p.Settle(900, 10)
		u.Done()
		if err := w.GiveBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l := b.book.Lines()[0]; l.Spent != 10 || l.Held != 0 {
			t.Errorf("%+v", l)
		}
	})
}

// A silent authority stops new asks when the lease is over, and what is under
// way goes on.
func TestASilentAuthorityStopsNewAsks(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBank()
		w := &Wallets{Dir: dir, Worker: "w", Authority: b}
		defer closeAll(t, w)
		u := use(t, w, limited(1_000_000))
		p := purse(t, u, "t")
		if err := p.Reserve(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		b.loss = 1
		b.mu.Unlock()
		pause(t.Context(), budget.LeaseFor)
		if p.TryReserve(100) {
			t.Fatal("reserved out of a lease that is over")
		}
		p.Settle(100, 100)
		got := make(chan error, 1)
		go func() { got <- p.Reserve(t.Context(), 100) }()
		pause(t.Context(), time.Minute)
		if why := w.Why("d", "t"); !strings.Contains(why, "its authority does not answer") {
			t.Errorf("it waits and says %q", why)
		}
		b.mu.Lock()
		b.loss = 0
		b.mu.Unlock()
		if err := <-got; err != nil {
			t.Error(err)
		}
		p.Settle(100, 100)
		u.Done()
	})
}

func TestWhatCostsNothingNeedsNoMoney(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &Wallets{Dir: dir, Worker: "w", Authority: newBank()}
		defer closeAll(t, w)
		u := use(t, w, limited(0))
		p := purse(t, u, "free")
		if !p.TryReserve(0) {
			t.Error("an ask that costs nothing was not let through")
		}
		p.Settle(0, 0)
		if err := p.Reserve(t.Context(), 1); !errors.Is(err, budget.ErrOver) {
			t.Errorf("%v", err)
		}
		u.Done()
	})
}

// A worker that is killed every three seconds and started again on its home
// spends most of its budget.
func TestKillsCostLittleOnTheSameHome(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "h")
	synctest.Test(t, func(t *testing.T) {
		b := newBank()
		open := limited(1_000_000)
		c := &truth{t: t, limits: open.Limits, teachers: map[string]int64{}}
		kills := 0
		for {
			h := startHome(t, b, dir, "h", open)
			p := purse(t, h.use, "t")
			for range 16 {
				h.asking.Go(func() {
					for h.ctx.Err() == nil && h.one(c, p, "t", 1200, 500, 100*time.Millisecond) {
						c.mu.Lock()
						over := c.over
						c.mu.Unlock()
						if over > 0 {
							return
						}
					}
				})
			}
			ended := make(chan struct{})
			go func() { h.asking.Wait(); close(ended) }()
			select {
			case <-ended:
				h.use.Done()
				closeAll(t, h.wallets)
				h.end()
				if c.billed < 800_000 || c.all > 1_000_000 {
					t.Errorf("%d kills: %d billed and %d charged of 1,000,000", kills, c.billed, c.all)
				}
				t.Logf("%d kills: %d billed, %d charged of 1,000,000 in %d calls", kills, c.billed, c.all, b.calls)
				return
			case <-time.After(3 * time.Second):
				h.kill()
				kills++
			}
		}
	})
}

// Builds of a dataset that change its teachers' limits regroup a wallet that is
// in use.
func TestLimitsOfTeachersChangeUnderWay(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBank()
		w := &Wallets{Dir: dir, Worker: "w", Authority: b}
		defer closeAll(t, w)
		first := use(t, w, limited(1_000_000))
		p := purse(t, first, "t")
		if err := p.Reserve(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		o := budget.Open{Job: "j", Build: "c", Limits: budget.Limits{Build: 1_000_000, Teachers: []budget.TeacherLimit{{Teacher: "t", Micros: 5000}}}}
		if err := b.Open(t.Context(), "d", o); err != nil {
			t.Fatal(err)
		}
		second := use(t, w, o)
		p.Settle(1000, 900)
		for range 4 {
			if err := p.Reserve(t.Context(), 1000); err != nil {
				t.Fatal(err)
			}
			p.Settle(1000, 1000)
		}
		if err := p.Reserve(t.Context(), 1000); !errors.Is(err, budget.ErrOver) {
			t.Errorf("%v", err)
		}
		if err := purse(t, second, "u").Reserve(t.Context(), 1000); err != nil {
			t.Errorf("another teacher: %v", err)
		}
		purse(t, second, "u").Settle(1000, 1000)
		first.Done()
		second.Done()
		if err := w.GiveBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l := b.book.Lines(); l[0].Spent != 5900 || l[1].Spent != 4900 {
			t.Errorf("%+v", l)
		}
	})
}

// What a batch can cost is spent at once: it waits for no ask to come back, and
// is no ask under way that others wait for.
func TestABatchIsNotUnderWay(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBank()
		w := &Wallets{Dir: dir, Worker: "w", Authority: b}
		defer closeAll(t, w)
		u := use(t, w, limited(1000))
		p := purse(t, u, "t")
		if err := p.Reserve(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		if err := p.Spend(t.Context(), 700); err != nil {
			t.Fatal(err)
		}
		p.Settle(100, 100)
		if err := p.Reserve(t.Context(), 300); !errors.Is(err, budget.ErrOver) {
			t.Fatalf("%v: a batch that runs holds up the verdict", err)
		}
		// Its rows are collected by a later process.
		u.Done()
		closeAll(t, w)
		later := &Wallets{Dir: dir, Worker: "w", Authority: b}
		defer closeAll(t, later)
		u = use(t, later, limited(1000))
		p = purse(t, u, "t")
		p.Settle(400, 50)
		p.Settle(300, 0)
		u.Done()
		if err := later.GiveBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l := b.book.Lines()[0]; l.Spent != 150 || l.Held != 0 {
			t.Errorf("%+v", l)
		}
	})
}

// A disk that fails ends all waiting and takes nothing more.
func TestABrokenDiskTakesNothingMore(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &Wallets{Dir: dir, Worker: "w", Authority: newBank()}
		u := use(t, w, limited(1_000_000))
		p := purse(t, u, "t")
		if err := p.Reserve(t.Context(), 100_000); err != nil {
			t.Fatal(err)
		}
		var got [3]error
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() { got[i] = p.Reserve(t.Context(), 90_000) })
		}
		pause(t.Context(), time.Second)
		one := w.open["d"]
		one.mu.Lock()
		if err := errors.Join(one.file.abandon(), one.file.f.Close()); err != nil {
			t.Fatal(err)
		}
		one.mu.Unlock()
		p.Settle(100_000, 0)
		all.Wait()
		for _, err := range got {
			if err == nil || errors.Is(err, budget.ErrOver) || !strings.Contains(err.Error(), "cannot be written") {
				t.Errorf("%v", err)
			}
		}
		if p.TryReserve(1) {
			t.Error("it reserves what it cannot remember")
		}
		if err := p.Reserve(t.Context(), 1); err == nil {
			t.Error("it reserves what it cannot remember")
		}
		u.Done()
		if err := w.Close(); err == nil {
			t.Error("a file that could not be written was closed well")
		}
	})
}

// A home that is put back to an earlier state does not know what it has spent:
// all that it had on loan stays charged.
func TestAWalletFromABackupIsNotBelieved(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBank()
		w := &Wallets{Dir: dir, Worker: "w", Authority: b}
		u := use(t, w, limited(10_000))
		p := purse(t, u, "t")
		if err := p.Reserve(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		p.Settle(100, 100)
		u.Done()
		if err := w.GiveBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		closeAll(t, w)
		files, err := filepath.Glob(filepath.Join(dir, "*.wallet"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		backup, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		spend := func(amount int64) {
			t.Helper()
			w := &Wallets{Dir: dir, Worker: "w", Authority: b}
			defer closeAll(t, w)
			u := use(t, w, limited(10_000))
			p := purse(t, u, "t")
			if err := p.Reserve(t.Context(), amount); err != nil {
				t.Fatal(err)
			}
			p.Settle(amount, amount)
			u.Done()
			if err := w.GiveBack(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		spend(5000)
		if err := os.WriteFile(files[0], backup, 0o600); err != nil {
			t.Fatal(err)
		}
		spend(1000)
		if l := b.book.Lines()[0]; l.Spent != 6100 || l.Held != 0 {
			t.Errorf("%+v, want 6,100 spent", l)
		}
	})
}
