package wallet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/budget"
)

// A bank is an authority in this process: a book behind a network that loses
// and delays what goes over it.
type bank struct {
	mu    sync.Mutex
	book  budget.Book
	rng   *rand.Rand
	loss  float64 // of requests and of replies
	calls int
}

var errNetwork = errors.New("the network lost it")

func (b *bank) travel(ctx context.Context) error {
	b.mu.Lock()
	lost := b.rng.Float64() < b.loss
	wait := time.Duration(b.rng.IntN(40)) * time.Millisecond
	if b.rng.Float64() < b.loss {
		wait += time.Duration(b.rng.IntN(8)) * time.Second
	}
	b.mu.Unlock()
	if !pause(ctx, wait+time.Microsecond) {
		return ctx.Err()
	}
	if lost {
		return errNetwork
	}
	return nil
}

func (b *bank) Open(ctx context.Context, _ string, o budget.Open) error {
	if err := b.travel(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	b.book.Open(time.Now(), o)
	b.mu.Unlock()
	return b.travel(ctx)
}

func (b *bank) Lease(ctx context.Context, _ string, r budget.Request) (budget.Reply, error) {
	if err := b.travel(ctx); err != nil {
		return budget.Reply{}, err
	}
	b.mu.Lock()
	b.calls++
	// The book goes through its text, as when its workflow continues.
	text, err := json.Marshal(b.book)
	if err != nil {
		panic(err)
	}
	b.book = budget.Book{}
	if err := json.Unmarshal(text, &b.book); err != nil {
		panic(err)
	}
	reply := b.book.Lease(time.Now(), r)
	b.mu.Unlock()
	return reply, b.travel(ctx)
}

// A truth is what the endpoints may have charged: the most of what is under way
// and of what got lost, and the cost of what is over.
type truth struct {
	mu       sync.Mutex
	t        *testing.T
	limits   budget.Limits
	all      int64
	teachers map[string]int64
	billed   int64 // of what is over
	asks     int
	over     int
}

func (c *truth) charge(teacher string, micros int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all += micros
	c.teachers[teacher] += micros
	if c.all > c.limits.Build {
		c.t.Errorf("%d charged of %d", c.all, c.limits.Build)
	}
	if most, limited := c.limits.Teacher(teacher); limited && c.teachers[teacher] > most {
		c.t.Errorf("teacher %s: %d charged of %d", teacher, c.teachers[teacher], most)
	}
}

// A home is a worker that can be killed and started again.
type home struct {
	dir     string
	name    string
	bank    *bank
	wallets *Wallets
	use     *Use
	asking  sync.WaitGroup
	end     context.CancelFunc
	ctx     context.Context
}

func startHome(t *testing.T, b *bank, dir, name string, open budget.Open) *home {
	t.Helper()
	h := &home{dir: dir, name: name, bank: b, wallets: &Wallets{Dir: dir, Worker: name, Authority: b}}
	use, err := h.wallets.Use("d", open)
	if err != nil {
		t.Fatal(err)
	}
	h.use = use
	h.ctx, h.end = context.WithCancel(context.Background())
	return h
}

// kill ends the worker as SIGKILL does: nothing is written any more.
func (h *home) kill() {
	for _, w := range h.wallets.open {
		w.stop()
		<-w.stopped
		w.mu.Lock()
		w.fail(errors.New("killed"))
		if err := errors.Join(w.file.abandon(), w.file.f.Close()); err != nil {
			panic(err)
		}
		w.mu.Unlock()
	}
	h.end()
	h.asking.Wait()
}

// ask asks as many asks as given, so many at once.
func (h *home) ask(c *truth, rng *rand.Rand, teacher string, asks, atOnce int) {
	purse, err := h.use.Purse(teacher)
	if err != nil {
		c.t.Error(err)
		return
	}
	todo := make(chan [3]int64, asks)
	for range asks {
		most := 500 + rng.Int64N(3000)
		todo <- [3]int64{most, rng.Int64N(most + 1), 1 + rng.Int64N(400)}
	}
	close(todo)
	for range atOnce {
		h.asking.Go(func() {
			for one := range todo {
				if !h.one(c, purse, teacher, one[0], one[1], time.Duration(one[2])*10*time.Millisecond) {
					return
				}
			}
		})
	}
}

// one asks once; false when no more is to be asked.
func (h *home) one(c *truth, p *Purse, teacher string, most, cost int64, lasts time.Duration) bool {
	if !p.TryReserve(most) {
		if err := p.Reserve(h.ctx, most); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			if errors.Is(err, budget.ErrOver) {
				c.over++
			}
			return errors.Is(err, budget.ErrOver)
		}
	}
	c.charge(teacher, most)
	if !pause(h.ctx, lasts) {
		return false // killed: it may have been charged
	}
	// Settled, it may be another's at once.
	c.charge(teacher, cost-most)
	p.Settle(most, cost)
	c.mu.Lock()
	c.billed += cost
	c.asks++
	c.mu.Unlock()
	return true
}

// TestNothingIsEverOverdrawn lets workers ask over a bad network, kills them at
// any moment, brings some back and loses others, and counts what the endpoints
// may have charged.
func TestNothingIsEverOverdrawn(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			root := t.TempDir()
			synctest.Test(t, func(t *testing.T) { simulate(t, root, seed) })
		})
	}
}

func simulate(t *testing.T, root string, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := &bank{rng: rand.New(rand.NewPCG(seed, 2)), loss: []float64{0, 0, 0.1, 0.3}[rng.IntN(4)]}
	limits := budget.Limits{Build: 200_000 + rng.Int64N(800_000)}
	if rng.IntN(2) == 0 {
		limits.Teachers = []budget.TeacherLimit{{Teacher: "a", Micros: limits.Build / 4}}
	}
	if rng.IntN(3) == 0 {
		month := limits.Build - rng.Int64N(limits.Build/2)
		limits.Month = &month
		limits.Build, month = month, limits.Build // the truth is held to the smaller
		limits.Month = &month
	}
	open := budget.Open{Job: "j", Build: "b", Limits: limits}
	c := &truth{t: t, limits: limits, teachers: map[string]int64{}}
	homes := make([]*home, 1+rng.IntN(3))
	names := 0
	start := func(i int, dir string) {
		names++
		homes[i] = startHome(t, b, dir, filepath.Base(dir), open)
		for _, teacher := range []string{"a", "b", "c"}[:1+rng.IntN(3)] {
			homes[i].ask(c, rng, teacher, 2000, 1+rng.IntN(20))
		}
	}
	for i := range homes {
		start(i, filepath.Join(root, fmt.Sprintf("h%d", i)))
	}
	for range 1 + rng.IntN(12) {
		pause(t.Context(), time.Duration(100+rng.IntN(6000))*time.Millisecond)
		i := rng.IntN(len(homes))
		homes[i].kill()
		dir := homes[i].dir
		if rng.IntN(4) == 0 {
			dir = filepath.Join(root, fmt.Sprintf("n%d", names)) // the machine is lost
		}
		start(i, dir)
	}
	for _, h := range homes {
		h.asking.Wait()
		h.use.Done()
	}
	b.mu.Lock()
	b.loss = 0
	b.mu.Unlock()
	for _, h := range homes {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		if err := h.wallets.GiveBack(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		if err := h.wallets.Close(); err != nil {
			t.Error(err)
		}
		h.end()
	}
	lines := b.book.Lines()
	if lines[0].Spent+lines[0].Held < c.all {
		t.Errorf("the book knows of %d spent and %d on loan, and %d may have been charged", lines[0].Spent, lines[0].Held, c.all)
	}
	t.Logf("limit %d: %d charged at most, %d billed in %d asks, %d over; book %+v; %d calls",
		limits.Build, c.all, c.billed, c.asks, c.over, lines[0], b.calls)
}
