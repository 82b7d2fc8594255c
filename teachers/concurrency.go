package teachers

import "time"

// How concurrency is learned.
const (
	// MostConcurrency bounds what is learned where limits.concurrency is not
	// declared.
	MostConcurrency = 512
	// searchFast is up to where the search doubles; from there it goes up by an
	// eighth. A step takes a round trip, and searchPace at least: an endpoint
	// needs time to refuse.
	searchFast = 64
	searchPace = 3 * time.Second
	// kneeHold is how long the concurrency rests just below where the endpoint
	// refused, the first time; it doubles with every time that it refuses there
	// again, up to kneeHoldMost.
	kneeHold     = 30 * time.Second
	kneeHoldMost = 10 * time.Minute
	// calm is how many answers in a row end a storm: what is refused after
	// them says something new about the endpoint.
	calm = 5
	// trip is the fewest answers that make a mean time to the first text.
	trip = 16
	// Where nothing is declared, the time to the first byte of text tells an
	// endpoint that queues what it cannot do at once: the search stops where
	// it is queueFactor times what it was at its best, and queueSlack more.
	queueFactor = 2
	queueSlack  = 250 * time.Millisecond
	queueRest   = time.Minute
)

// A concurrency is how many requests may be in flight: it grows while all goes
// well and is halved when the endpoint is overloaded, at most once a round
// trip (additive increase, multiplicative decrease: Chiu and Jain 1989). It
// remembers where it was refused (knee): up to there it comes back within a few
// round trips, there it rests, and beyond it goes in steps that grow. Pure.
type concurrency struct {
	limit    float64
	ceiling  float64
	declared bool // the ceiling is the recipe's and is where it begins

	goal float64   // of the search's current step
	next time.Time // when it may take the next

	cutAt time.Time // requests sent before it halve nothing more
	row   int       // answers since the last refusal
	knee  float64   // 0: never refused
	hold  time.Duration
	until time.Time // to which it rests at the knee
	clean float64   // answers since it passed the knee

	fine  float64       // the highest limit at which the endpoint did not queue
	quiet time.Duration // the shortest mean time to the first text
	first time.Duration // sum of the current round trip's
	count int
	size  int // answers of this round trip
}

func newConcurrency(declared int) *concurrency {
	c := &concurrency{limit: DefaultConcurrency}
	c.declare(declared)
	return c
}

// declare sets the ceiling; 0 is none. What is declared is gone up to at once
// where nothing was refused yet.
func (c *concurrency) declare(n int) {
	c.declared, c.ceiling = n > 0, float64(n)
	if !c.declared {
		c.ceiling = MostConcurrency
	}
	if c.declared && c.knee == 0 {
		c.limit = c.ceiling
	}
	c.limit = max(min(c.limit, c.ceiling), 1)
}

// allowed is how many requests may be in flight.
func (c *concurrency) allowed() int { return int(c.limit) }

// refused halves after a request that was sent at sent met an overload. known
// tells that the endpoint named another reason than concurrency: then nothing is
// learned of where its concurrency ends. inFlight counts the others.
func (c *concurrency) refused(sent, now time.Time, inFlight int, known bool) bool {
	if !c.cutAt.IsZero() && !sent.After(c.cutAt) {
		return false
	}
	if news := c.knee == 0 || c.row >= calm; news && !known {
		c.hold = kneeHold
		if c.knee > 0 && float64(inFlight) >= c.knee {
			c.hold = min(2*c.hold, kneeHoldMost)
		}
		c.knee = max(min(float64(inFlight), c.limit), 1)
	} else if c.knee == 0 {
		c.knee = c.limit
	}
	c.limit = max(c.limit/2, 1)
	c.cutAt, c.row, c.clean, c.until = now, 0, 0, time.Time{}
	return true
}

// succeeded grows after an answer, where all places were taken when it came:
// what is not used needs no more. first is the time to its first text; 0 where
// that says nothing.
func (c *concurrency) succeeded(now time.Time, full bool, first time.Duration) {
	c.row++
	if !c.declared && first > 0 && c.queues(now, first) {
		return
	}
	if !full {
		return
	}
	step := c.limit // doubles within a round trip
	switch {
	case c.knee == 0:
		if step = c.search(now); step == 0 {
			return
		}
	case c.limit < c.knee/2:
	case c.limit < c.knee:
		step = max(c.knee/8, 1)
	case now.Before(c.until):
		return
	case c.until.IsZero():
		c.until = now.Add(c.hold)
		return
	default:
		c.clean += 1 / c.limit
		step = 1 + c.clean
	}
	grown := min(c.limit+step/c.limit, c.ceiling)
	if c.knee > 0 && c.limit < c.knee && grown >= c.knee {
		grown = min(c.knee, c.ceiling)
		c.until = now.Add(c.hold)
	}
	c.limit = grown
}

// search is the step of a search that was not refused yet; 0: not now.
func (c *concurrency) search(now time.Time) float64 {
	if c.limit < c.goal {
		return c.limit
	}
	if now.Before(c.next) {
		return 0
	}
	c.next = now.Add(searchPace)
	if c.goal = 2 * c.limit; c.limit >= searchFast {
		c.goal = c.limit * 9 / 8
	}
	return c.limit
}

// claim is how many places this worker has learned to be there for it; 0 where
// it was never refused.
func (c *concurrency) claim() int {
	if c.knee == 0 {
		return 0
	}
	return int(max(c.knee, c.limit))
}

// assign takes a part of what all workers of a cluster have learned together in
// place of what this one has: there it rests, as if it had been refused there.
func (c *concurrency) assign(now time.Time, n int) {
	if knee := float64(max(n, 1)); c.claim() != n {
		if c.hold == 0 {
			c.hold = kneeHold
		}
		c.knee, c.clean, c.until = knee, 0, now.Add(c.hold)
		c.limit = min(c.limit, max(knee, 1))
	}
}

// queues notes a time to the first text and tells whether the endpoint queues.
func (c *concurrency) queues(now time.Time, first time.Duration) bool {
	c.first += first
	c.count++
	if c.count == 1 {
		c.size = max(int(c.limit), trip)
	}
	if c.count < c.size {
		return now.Before(c.until) && c.knee > 0 && c.limit >= c.knee
	}
	mean := c.first / time.Duration(c.count)
	c.first, c.count = 0, 0
	if c.quiet == 0 || mean < c.quiet {
		c.quiet = mean
	}
	if mean <= queueFactor*c.quiet+queueSlack {
		c.fine = c.limit
		return false
	}
	c.limit = max(min(c.fine, c.limit), 1)
	c.hold = min(max(2*c.hold, queueRest), kneeHoldMost)
	c.knee, c.clean, c.until = c.limit, 0, now.Add(c.hold)
	return true
}
