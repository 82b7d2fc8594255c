package wallet

import (
	"context"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/budget"
)

// A treasury lends whatever is asked for.
type treasury struct{}

func (treasury) Open(context.Context, string, budget.Open) error { return nil }

func (treasury) Lease(_ context.Context, _ string, r budget.Request) (budget.Reply, error) {
	reply := budget.Reply{Period: 1, HeldMost: 1 << 50}
	for _, p := range r.Pockets {
		reply.Loans = append(reply.Loans, budget.Loan{Pocket: p.Pocket, Granted: 1 << 50})
	}
	return reply, nil
}

// BenchmarkAsk is what a budget adds to one ask: a reservation and a settlement.
func BenchmarkAsk(b *testing.B) {
	w := &Wallets{Dir: b.TempDir(), Worker: "w", Authority: treasury{}}
	use, err := w.Use("d", budget.Open{Job: "j", Build: "b", Limits: budget.Limits{Build: 1 << 50}})
	if err != nil {
		b.Fatal(err)
	}
	p, err := use.Purse("t")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	if err := p.Reserve(ctx, 1000); err != nil {
		b.Fatal(err)
	}
	p.Settle(1000, 10)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !p.TryReserve(1000) {
				b.Error("it does not fit")
				return
			}
			p.Settle(1000, 10)
		}
	})
	use.Done()
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}
