package workflows

import (
	"math"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// nearEnough is how far a worker's part of what is learned may be from what it
// has itself before it is told: every change makes it rest anew.
const nearEnough = 0.1

// learned is the i-th worker's part of what refusals have taught all workers
// together. Each learns alone what the others leave it; together that is what
// the endpoint takes, and it is shared as if it were declared, so that one that
// came late gets its part, and those that stay take over from one that went.
func (a *authority) learned(now time.Time, i int) wire.Declared {
	l := &a.in.Lessees[i]
	said, all := l.Learned, &a.in.Learned
	all.Concurrency = together(all.Concurrency, l.Base.Concurrency, said.Concurrency)
	all.RPM = a.rate(i, all.RPM, func(l *wire.Lessee) rates { return rates{l.Learned.RPM, l.Base.RPM, l.Minute.RPM, &l.Counted.RPM} })
	all.TPM = a.rate(i, all.TPM, func(l *wire.Lessee) rates { return rates{l.Learned.TPM, l.Base.TPM, l.Minute.TPM, &l.Counted.TPM} })

	var part wire.Declared
	if n := all.Concurrency; n > 0 && a.taught(i, func(l *wire.Lessee) (bool, bool) { return l.Learned.Concurrency > 0, l.InFlight > 0 }) {
		part.Concurrency = int(another(a.places(now, n)[i], float64(said.Concurrency)))
	}
	order := a.order(now, len(a.in.Lessees))
	if all.RPM > 0 && a.taught(i, func(l *wire.Lessee) (bool, bool) { return l.Learned.RPM > 0, l.RPM > 0 }) {
		part.RPM = another(a.fill(all.RPM, order, func(l *wire.Lessee) float64 { return l.RPM })[i], said.RPM)
	}
	if all.TPM > 0 && a.taught(i, func(l *wire.Lessee) (bool, bool) { return l.Learned.TPM > 0, l.TPM > 0 }) {
		part.TPM = another(a.fill(all.TPM, order, func(l *wire.Lessee) float64 { return l.TPM })[i], said.TPM)
	}
	return part
}

// taught tells whether what all have learned can be shared out to the i-th
// worker: one that was refused keeps its own while there are others that use the
// endpoint and never were, as nobody knows yet what those have; and to them
// nothing is taught.
func (a *authority) taught(i int, of func(*wire.Lessee) (learned, uses bool)) bool {
	if learned, uses := of(&a.in.Lessees[i]); !learned {
		return !uses
	}
	for j := range a.in.Lessees {
		if learned, uses := of(&a.in.Lessees[j]); uses && !learned {
			return false
		}
	}
	return true
}

// rates are what is known of one rate of a worker.
type rates struct {
	said, base, minute float64
	counted            *float64
}

// rate is what all have learned of a rate, after the i-th worker said what it
// has. The first that is refused tells of the end of a minute which others have
// used too, also those that had nothing more to send when it came.
func (a *authority) rate(i int, all float64, of func(*wire.Lessee) rates) float64 {
	r := of(&a.in.Lessees[i])
	if r.said == 0 {
		return all
	}
	if r.base == 0 {
		r.base = *r.counted
	}
	*r.counted = 0
	first := all == 0
	all = together(all, r.base, r.said)
	for j := range a.in.Lessees {
		if o := of(&a.in.Lessees[j]); first && j != i && o.said == 0 {
			*o.counted = o.minute
			all += o.minute
		}
	}
	return all
}

// together is what all have learned, after a worker said what it has: it grows
// with what one has tried and was not refused, and shrinks with what one was.
func together[N int | float64](all, base, said N) N {
	if said == 0 {
		return all
	}
	return max(all+said-base, said)
}

// another is a part that differs from what a worker has; 0 where it is near
// enough.
func another(part, has float64) float64 {
	part = max(cents(part), 1)
	if math.Abs(part-has) <= nearEnough*has {
		return 0
	}
	return part
}
