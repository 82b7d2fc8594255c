package workflows

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

const (
	// pacedFor is how long a worker counts among those that use a rate after it
	// could last: the minute that an endpoint may look back over.
	pacedFor = time.Minute
	// fewestRequests is the least rate worth a worker's while: each that paces
	// costs one request of every minute.
	fewestRequests = 10
	// turnLasts is how long a worker keeps its turn where not all can have one.
	turnLasts = time.Minute
	// spareWants is what a worker is taken to want of a rate beside what it has
	// used, so that it can use more.
	spareWants = 1.25
)

// The rule that keeps the sum within a limit: what a worker may be using is the
// larger of the slice that it said it works with and the one that it was given
// since, until their time is over; and nobody is given more than what is left
// over by all others. So a reply that is lost, or a worker that is dead, costs
// the others time and never the endpoint a request too many.

// take notes a request. What it does not work with it never will.
func (a *authority) take(now time.Time, l *wire.Lessee, r wire.LeaseRequest) {
	switch h := r.Holds; {
	case h == nil:
		l.Have = nil
	case l.Offer != nil && h.Seq == l.Offer.Seq:
		l.Have = l.Offer
	case l.Have == nil || h.Seq != l.Have.Seq:
		// Another authority gave it, whose end nobody noticed. What it gave to
		// others is not known until they come or their time is over.
		until := now.Add(wire.LeaseTime + wire.LeaseGrace).UnixMilli()
		l.Have = &wire.Held{Seq: h.Seq, Concurrency: h.Concurrency, RPM: h.RPM, TPM: h.TPM, Until: until}
		if a.in.Careful == 0 {
			a.in.Careful = until
		}
	}
	l.LeaseRequest, l.Offer, l.Holds = r, nil, nil
}

// expire forgets the slices whose time is over, and their workers.
func (a *authority) expire(now time.Time) {
	ms := now.UnixMilli()
	kept := a.in.Lessees[:0]
	for _, l := range a.in.Lessees {
		if l.Have != nil && l.Have.Until <= ms {
			l.Have = nil
		}
		if l.Offer != nil && l.Offer.Until <= ms {
			l.Offer = nil
		}
		if l.Have != nil || l.Offer != nil {
			kept = append(kept, l)
		} else {
			a.past(now, l)
		}
	}
	a.in.Lessees = kept
	a.in.Past = slices.DeleteFunc(a.in.Past, func(p wire.Past) bool { return p.Until <= ms })
}

// past remembers a worker that has used a rate.
func (a *authority) past(now time.Time, l wire.Lessee) {
	if l.Paced > now.UnixMilli() {
		a.forget(l.Worker)
		a.in.Past = append(a.in.Past, wire.Past{Worker: l.Worker, Until: l.Paced})
	}
}

func (a *authority) forget(worker string) {
	a.in.Past = slices.DeleteFunc(a.in.Past, func(p wire.Past) bool { return p.Worker == worker })
}

// release takes a worker's slices back; i is -1 for one that has none.
func (a *authority) release(now time.Time, i int) {
	if i < 0 {
		return
	}
	l := a.in.Lessees[i]
	if l.Paced > 0 {
		l.Paced = now.Add(pacedFor).UnixMilli()
	}
	a.past(now, l)
	a.in.Lessees = slices.Delete(a.in.Lessees, i, i+1)
}

// declared is the lowest of what the workers' builds declare.
func (a *authority) declared() wire.Declared {
	var d wire.Declared
	for _, l := range a.in.Lessees {
		d.Concurrency = lowest(d.Concurrency, l.Declared.Concurrency)
		d.RPM = lowest(d.RPM, l.Declared.RPM)
		d.TPM = lowest(d.TPM, l.Declared.TPM)
	}
	return d
}

// lowest is the lower of two limits of which 0 is none.
func lowest[N int | float64](x, y N) N {
	if x == 0 || y != 0 && y < x {
		return y
	}
	return x
}

// grant gives the i-th worker its slice: its share, as far as the others have
// left it.
func (a *authority) grant(now time.Time, i int) wire.LeaseGrant {
	l := &a.in.Lessees[i]
	if slices.ContainsFunc(a.in.Past, func(p wire.Past) bool { return p.Worker == l.Worker }) {
		a.forget(l.Worker)
		l.Paced = now.Add(pacedFor).UnixMilli()
	}
	limits := a.declared()
	a.in.Seq++
	until := now.Add(wire.LeaseTime + wire.LeaseGrace)
	h := &wire.Held{Seq: a.in.Seq, Concurrency: wire.NoLimit, RPM: wire.NoLimit, TPM: wire.NoLimit, Until: until.UnixMilli()}
	soon := false
	give := func(limit float64, shares []float64, held func(*wire.Lessee) float64) float64 {
		left := limit
		for j := range a.in.Lessees {
			if j != i {
				left -= held(&a.in.Lessees[j])
			}
		}
		given := max(min(shares[i], left), 0)
		if now.UnixMilli() < a.in.Careful {
			given = min(given, held(&wire.Lessee{Have: l.Have}))
		}
		soon = soon || given < shares[i]
		for j := range a.in.Lessees {
			soon = soon || j != i && hungry(&a.in.Lessees[j]) && held(&a.in.Lessees[j]) < shares[j]
		}
		return given
	}
	if limits.Concurrency > 0 {
		h.Concurrency = int(give(float64(limits.Concurrency), a.places(now, limits.Concurrency), placesOf))
	}
	if limits.RPM > 0 {
		rate, shares := a.requests(now, limits.RPM, i)
		if h.RPM = give(rate, shares, requestsOf); h.RPM > 0 {
			l.Paced = until.Add(pacedFor).UnixMilli()
		}
	}
	if limits.TPM > 0 {
		h.TPM = give(limits.TPM, a.tokens(limits.TPM), tokensOf)
	}
	l.Offer = h
	renew := wire.LeaseRenew
	switch {
	case soon:
		renew = wire.LeaseRenewSoon
	case len(a.in.Lessees) > 1:
		renew = wire.LeaseRenewShared
	}
	h.RPM, h.TPM = cents(h.RPM), cents(h.TPM)
	return wire.LeaseGrant{Seq: h.Seq, Concurrency: h.Concurrency, RPM: h.RPM, TPM: h.TPM, Renew: renew, Learned: a.learned(now, i)}
}

// cents cuts off what would only make payloads longer.
func cents(n float64) float64 { return math.Floor(n*100) / 100 }

func hungry(l *wire.Lessee) bool { return l.Hungry }

// most is the larger part of what a worker may be using: all there is where it
// was given its slice before anybody declared a limit.
func most(l *wire.Lessee, part func(*wire.Held) float64) float64 {
	n := 0.0
	for _, h := range []*wire.Held{l.Have, l.Offer} {
		if h == nil {
			continue
		}
		if p := part(h); p != wire.NoLimit {
			n = max(n, p)
		} else {
			n = math.Inf(1)
		}
	}
	return n
}

func placesOf(l *wire.Lessee) float64 {
	return max(most(l, func(h *wire.Held) float64 { return float64(h.Concurrency) }), float64(l.InFlight))
}

func requestsOf(l *wire.Lessee) float64 { return most(l, func(h *wire.Held) float64 { return h.RPM }) }

func tokensOf(l *wire.Lessee) float64 { return most(l, func(h *wire.Held) float64 { return h.TPM }) }

// places shares the requests in flight, in whole ones.
func (a *authority) places(now time.Time, limit int) []float64 {
	wants := make([]float64, len(a.in.Lessees))
	for i := range a.in.Lessees {
		l := &a.in.Lessees[i]
		if wants[i] = float64(l.InFlight); l.Hungry {
			wants[i] = float64(limit)
		}
	}
	order := a.order(now, limit)
	shares := make([]float64, len(wants))
	left := limit
	// One place at a time would do; whole rounds of them are as fair and fast.
	for left > 0 && len(order) > 0 {
		open := slices.DeleteFunc(slices.Clone(order), func(i int) bool { return shares[i] >= wants[i] })
		if len(open) == 0 {
			for _, i := range order { // nobody wants the rest: all may come to
				wants[i] = float64(limit)
			}
			continue
		}
		each := max(left/len(open), 1)
		for _, i := range open {
			n := min(each, left, max(int(wants[i]-shares[i]), 1))
			shares[i] += float64(n)
			left -= n
		}
	}
	return shares
}

// requests shares the rate. Workers that each pace their part may together send
// one request each more than the parts add up to, in an unlucky minute; so that
// much is left out of it.
func (a *authority) requests(now time.Time, limit float64, asks int) (rate float64, shares []float64) {
	order := a.order(now, max(int(limit/fewestRequests), 1))
	pacing := len(a.in.Past)
	for i := range a.in.Lessees {
		l := &a.in.Lessees[i]
		if requestsOf(l) > 0 || l.Paced > now.UnixMilli() || i == asks || slices.Contains(order, i) {
			pacing++
		}
	}
	rate = limit
	if pacing > 1 {
		rate = max(limit-float64(pacing), 0)
	}
	return rate, a.fill(rate, order, func(l *wire.Lessee) float64 { return l.RPM })
}

func (a *authority) tokens(limit float64) []float64 {
	order := make([]int, len(a.in.Lessees))
	for i := range order {
		order[i] = i
	}
	return a.fill(limit, order, func(l *wire.Lessee) float64 { return l.TPM })
}

// fill shares a rate among the workers of order: to each what it wants while
// that is no more than an even part of what is left, and the rest evenly.
func (a *authority) fill(rate float64, order []int, used func(*wire.Lessee) float64) []float64 {
	shares := make([]float64, len(a.in.Lessees))
	wants := func(i int) float64 {
		if l := &a.in.Lessees[i]; !l.Hungry {
			return spareWants * used(l)
		}
		return rate
	}
	sorted := slices.Clone(order)
	slices.SortStableFunc(sorted, func(x, y int) int { return cmp.Compare(wants(x), wants(y)) })
	left := rate
	for n, i := range sorted {
		shares[i] = min(wants(i), left/float64(len(sorted)-n))
		left -= shares[i]
	}
	for _, i := range sorted {
		shares[i] += left / float64(len(sorted))
	}
	return shares
}

// order lists the workers that have a turn, by name: all of them, or where there
// are more than most, as many as that, and others a minute later.
func (a *authority) order(now time.Time, most int) []int {
	order := make([]int, len(a.in.Lessees))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int {
		return cmp.Compare(a.in.Lessees[x].Worker, a.in.Lessees[y].Worker)
	})
	if len(order) <= most {
		return order
	}
	// Those that want nothing need no turn while others do.
	if some := slices.DeleteFunc(slices.Clone(order), func(i int) bool { return !hungry(&a.in.Lessees[i]) }); len(some) > 0 {
		order = some
	}
	if len(order) <= most {
		return order
	}
	first := int(now.Unix()/int64(turnLasts.Seconds())*int64(most)) % len(order)
	return append(slices.Clone(order[first:]), order[:first]...)[:most]
}
