package teachers

import (
	"math"
	"time"
)

// Pacing of requests and tokens. A minute's allowance is spent evenly: of any
// 60 seconds an endpoint may count a window of its own, so no 60 seconds ever
// hold more than the allowance. With a rate of f·A a minute and a depth of
// that rate times catchUp, a window holds at most f·A·(1+catchUp/60s) and one
// request in addition, which for a whole A is at most A.
const (
	// paceShare is the part of an allowance that is spent evenly; the rest
	// covers catchUp and what the network moves arrivals by.
	paceShare = 0.98
	// catchUp is how much unused time may be made good later.
	catchUp = time.Second
	// needMost is the part of a minute's tokens that one ask may need before
	// the pace no longer makes room for it.
	needMost = 0.5
)

// A bucket fills evenly and is emptied by requests. It may be in debt, which
// delays the next request. Pure: the clock is its caller's.
type bucket struct {
	allowance float64   // a minute; see set
	limited   bool      // whether there is one
	rate      float64   // a second
	depth     float64   // most that it holds
	level     float64   // what it holds; below 0: debt
	at        time.Time // of level
}

// setRequests changes the allowance of a bucket of requests.
func (b *bucket) setRequests(now time.Time, allowance float64) {
	rate := paceShare * allowance / 60
	b.set(now, allowance, rate, rate*catchUp.Seconds()+1, 1)
}

// setTokens changes the allowance of a bucket of tokens, of which one ask needs
// so many at once. Rate and depth together are at most the allowance, so that
// asks which do not need more than that keep to it in every minute.
func (b *bucket) setTokens(now time.Time, allowance, need float64) {
	need = min(need, allowance*needMost)
	rate := min(paceShare*allowance/(1+catchUp.Minutes()), allowance-need) / 60
	b.set(now, allowance, rate, max(rate*catchUp.Seconds(), need), need)
}

// set changes rate and depth. A bucket that was not limited before begins with
// what one request needs.
func (b *bucket) set(now time.Time, allowance, rate, depth, first float64) {
	b.advance(now)
	if !b.limited {
		b.limited, b.level = true, first
	}
	b.allowance, b.rate, b.depth = allowance, rate, depth
	b.level = min(b.level, depth)
}

// open lifts the limit.
func (b *bucket) open() { *b = bucket{} }

// advance lets the bucket fill until now.
func (b *bucket) advance(now time.Time) {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		if b.limited && !b.at.IsZero() {
			b.level = min(b.level+passed*b.rate, b.depth)
		}
		b.at = now
	}
}

// wait is how long until so much may be taken. What is more than the bucket
// ever holds may be taken from a full one, and leaves a debt.
func (b *bucket) wait(now time.Time, n float64) time.Duration {
	if !b.limited {
		return 0
	}
	b.advance(now)
	lacks := min(n, b.depth) - b.level
	switch {
	case b.rate <= 0:
		return forever
	case lacks <= 1e-9:
		return 0
	}
	return min(time.Duration(math.Ceil(lacks/b.rate*1e9)), forever)
}

// forever is longer than anything waits without being looked at again.
const forever = 24 * time.Hour

func (b *bucket) take(n float64) { b.level -= n }

// give puts back what was not used, or with n below 0 takes what was used in
// addition.
func (b *bucket) give(n float64) {
	if b.limited {
		b.level = min(b.level+n, b.depth)
	}
}

// A largest is the largest of the last minute or two: as long as a bucket may
// have been as deep as it asks for, the rate leaves room for that.
type largest struct {
	now, before float64
	since       time.Time // of now
}

func (l *largest) value() float64 { return max(l.now, l.before) }

// add tells whether the value grew.
func (l *largest) add(now time.Time, v float64) bool {
	l.age(now)
	grew := v > l.value()
	l.now = max(l.now, v)
	return grew
}

func (l *largest) age(now time.Time) {
	if passed := now.Sub(l.since); passed >= time.Minute {
		if l.before = l.now; passed >= 2*time.Minute {
			l.before = 0
		}
		l.now, l.since = 0, now
	}
}

// A tally counts over the last minute, by seconds.
type tally struct {
	counts  [60]float64
	seconds [60]int64
}

func (t *tally) add(at time.Time, n float64) {
	second := at.Unix()
	i := int(second % 60)
	if i < 0 {
		return
	}
	if t.seconds[i] != second {
		if t.seconds[i] > second {
			return // too old to matter
		}
		t.seconds[i], t.counts[i] = second, 0
	}
	t.counts[i] += n
}

// sum is the count of the last minute.
func (t *tally) sum(now time.Time) float64 {
	return t.since(now, 60)
}

// since is the count of the last seconds, at most 60.
func (t *tally) since(now time.Time, seconds int64) float64 {
	second, n := now.Unix(), 0.0
	for i, s := range t.seconds {
		if s > second-seconds && s <= second {
			n += t.counts[i]
		}
	}
	return max(n, 0)
}
