package activities

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/batches"
	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/wallet"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// A ledgerBank is a budget's authority in this process.
type ledgerBank struct {
	mu   sync.Mutex
	book budget.Book
}

func (b *ledgerBank) Open(_ context.Context, _ string, o budget.Open) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.book.Open(time.Now(), o)
	return nil
}

func (b *ledgerBank) Lease(_ context.Context, _ string, r budget.Request) (budget.Reply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text, err := json.Marshal(b.book)
	if err != nil {
		return budget.Reply{}, err
	}
	b.book = budget.Book{}
	if err := json.Unmarshal(text, &b.book); err != nil {
		return budget.Reply{}, err
	}
	return b.book.Lease(time.Now(), r), nil
}

// withBudget gives a world wallets of its own.
func (w *world) withBudget() *world {
	w.a.Wallets = &wallet.Wallets{Dir: w.t.TempDir(), Worker: "w", Authority: &ledgerBank{}}
	w.t.Cleanup(func() {
		if err := w.a.Wallets.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return w
}

// A batch reserves the most that it can cost and settles what it did cost: one
// after the other all go through a budget that has room for one of them.
func TestABudgetOfBatches(t *testing.T) {
	t.Parallel() // it waits more than it works
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{})
	w := newWorld(t).withBudget()
	w.file("p.jsonl", sums(40))
	// A row can cost about 90 tokens in and 64 out at half the price: about 110
	// micro-dollars; it costs about 4.
	recipe := batchRecipe("a", teachers.APIOpenAIBatch, server.URL, ", batch: {rows: 10}") + "ask: {budget: {usd: 0.002}}\n"
	b := w.startBatches(recipe)
	p := b.prepare(false)
	if len(p.Submit) != 4 {
		t.Fatalf("%+v", p)
	}
	submitted, over := 0, 0
	for _, key := range p.Submit {
		out := do[wire.BatchSubmitOutput](b, wire.ActivityBatchSubmit, b.in(key))
		switch {
		case out.Submitted:
			submitted++
			b.round(wire.BatchPrepareOutput{Open: []string{key}})
		case out.Gone && out.Most > 0:
			over++
		default:
			t.Fatalf("%+v", out)
		}
	}
	if submitted != 4 || over != 0 || b.counts.New != 40 || b.counts.CostMicros > 2000 {
		t.Errorf("%d submitted, %d over; %+v", submitted, over, b.counts)
	}
}

// A batch that the budget has no room for becomes smaller ones; where not even a
// row fits, the teacher stops at the budget.
func TestABatchThatABudgetHasNoRoomFor(t *testing.T) {
	t.Parallel() // it waits more than it works
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{})
	w := newWorld(t).withBudget()
	w.file("p.jsonl", sums(16))
	b := w.startBatches(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, "") + "ask: {budget: {usd: 0.001}}\n")
	p, most, rounds := b.prepare(false), int64(0), 0
	for len(p.Submit) > 0 && b.stopped == nil {
		if rounds++; rounds > 100 {
			t.Fatal("no end")
		}
		out := do[wire.BatchSubmitOutput](b, wire.ActivityBatchSubmit, b.in(p.Submit[0]))
		switch {
		case out.Submitted:
			b.round(wire.BatchPrepareOutput{Open: p.Submit})
		case out.Gone:
			if most > 0 && out.Most >= most {
				t.Fatalf("a batch of at most %d does not fit, and the next is of %d", most, out.Most)
			}
			most = out.Most
		default:
			b.stopped = out.Stopped
		}
		p = do[wire.BatchPrepareOutput](b, wire.ActivityBatchPrepare, wire.BatchPrepareInput{BuildRef: b.ref, PlanKey: b.plan.Key, Teacher: "t", Most: most})
	}
	s := server.Stats()
	if b.stopped != nil || b.counts.New != 16 || s.SubmittedTwice != 0 || s.Submitted < 2 || b.counts.CostMicros > 1000 {
		t.Errorf("%+v %+v %+v", b.counts, s, b.stopped)
	}
	for _, j := range server.Jobs() {
		if j.Rows > 9 {
			t.Errorf("a batch of %d rows can cost more than the budget", j.Rows)
		}
	}

	poor := newWorld(t).withBudget()
	poor.file("p.jsonl", sums(2))
	c := poor.startBatches(batchRecipe("b", teachers.APIOpenAIBatch, server.URL, ", batch: {rows: 1}") + "ask: {budget: {usd: 0.00005}}\n").all(2)
	if c.stopped == nil || c.stopped.Class != teachers.ClassBudget || !strings.Contains(c.stopped.Text, "the budget of $0.00005 is spent") || server.Stats().Submitted != s.Submitted {
		t.Errorf("%+v", c.stopped)
	}
}

// A row that a completed batch's files do not mention may have been charged:
// the budget counts the most that it can have cost, as the ledger counts it as
// billable.
func TestABudgetCountsRowsThatMayBeCharged(t *testing.T) {
	t.Parallel() // it waits more than it works
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{
		Results: func(_ teacherstest.BatchJob, errors bool, lines []string) []string {
			if errors || len(lines) < 4 {
				return lines
			}
			return lines[:len(lines)-2]
		},
	})
	w := newWorld(t)
	d := w.withBudgets()
	w.file("p.jsonl", sums(10))
	b := w.startBatches(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, "") + "ask: {budget: {usd: 1}}\n")
	p := b.prepare(false)
	b.round(p)
	w.givesBack()
	line := d.book.Lines()[0]
	// Eight answers cost about 4 each; a row can cost more than 64.
	if b.counts.New != 8 || line.Spent < b.counts.CostMicros+2*64 || line.Held != 0 {
		t.Errorf("%+v of the budget, %+v", line, b.counts)
	}
}

// A busyDesk is an authority during whose first loan something else happens.
type busyDesk struct {
	*desk
	once      sync.Once
	meanwhile func()
}

func (d *busyDesk) Lease(ctx context.Context, dataset string, r budget.Request) (budget.Reply, error) {
	d.once.Do(d.meanwhile)
	return d.desk.Lease(ctx, dataset, r)
}

// A submission that another worker moved on meanwhile is charged once.
func TestABatchThatAnotherWorkerMovedOnIsReservedOnce(t *testing.T) {
	t.Parallel() // it waits more than it works
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{})
	w := newWorld(t)
	d := &busyDesk{desk: &desk{}}
	w.a.Wallets = &wallet.Wallets{Dir: t.TempDir(), Worker: "w", Authority: d}
	t.Cleanup(func() {
		if err := w.a.Wallets.Close(); err != nil {
			t.Error(err)
		}
	})
	w.file("p.jsonl", sums(10))
	b := w.startBatches(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, "") + "ask: {budget: {usd: 1}}\n")
	key := b.prepare(false).Submit[0]
	rt, err := w.a.runtime(context.Background(), b.ref)
	if err != nil {
		t.Fatal(err)
	}
	d.meanwhile = func() {
		// The other worker was told to come back later.
		store := batches.Open(w.bucket, rt.teachers["t"].endpoint)
		st, err := store.Load(context.Background(), key)
		if err == nil {
			st.Try, st.Since = "another", time.Now()
			err = store.Save(context.Background(), st)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if out := do[wire.BatchSubmitOutput](b, wire.ActivityBatchSubmit, b.in(key)); out.Submitted || out.WaitMS == 0 {
		t.Errorf("%+v", out)
	}
	w.givesBack()
	if l := d.book.Lines()[0]; l.Spent != 0 || l.Held != 0 {
		t.Errorf("nothing is submitted, and the budget says %+v", l)
	}
	b.round(wire.BatchPrepareOutput{Submit: []string{key}})
	w.givesBack()
	if l := d.book.Lines()[0]; b.counts.New != 10 || l.Spent != b.counts.CostMicros || l.Held != 0 {
		t.Errorf("%+v after %+v", l, b.counts)
	}
}

// The next run goes on with the account of one that was cancelled: what a batch
// held of it, and did not cost, comes back. Of an account that has ended nothing
// comes into another.
func TestTheNextRunSettlesWhatABatchHeld(t *testing.T) {
	t.Parallel() // it waits more than it works
	for _, ended := range []bool{false, true} {
		server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{})
		w := newWorld(t)
		d := w.withBudgets()
		w.file("p.jsonl", sums(10))
		recipe := batchRecipe("a", teachers.APIOpenAIBatch, server.URL, "") + "ask: {budget: {usd: 1}}\n"
		first := w.startBatches(recipe)
		for _, key := range first.prepare(false).Submit {
			first.submit(key)
		}
		w.givesBack()
		held := d.book.Lines()[0].Spent
		if held < 10*64 {
			t.Fatalf("%+v", d.book.Lines())
		}
		want := int64(0)
		if ended {
			o := opening(first.ref, budget.Limits{})
			d.book.Close(time.Now(), budget.Close{Job: o.Job, Build: o.Build, Complete: true})
		}
		next := w.startBatches(recipe)
		next.round(next.prepare(false))
		w.givesBack()
		if !ended {
			want = next.counts.CostMicros
		}
		if l := d.book.Lines()[0]; next.counts.New != 10 || l.Spent != want || l.Held != 0 || server.Stats().SubmittedTwice != 0 {
			t.Errorf("account ended: %v: %+v after %+v, %d were held", ended, l, next.counts, held)
		}
	}
}
