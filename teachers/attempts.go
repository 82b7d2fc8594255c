package teachers

import "time"

// A Keeper makes durable what comes of an ask.
type Keeper struct {
	// Answer is called with the reply. Its error is that of the ask.
	Answer func(*Reply) error
	// Lost is called with each failed request that may be charged
	// ([Error.MayBeBilled]) and is going to be sent again, before it is. The
	// last of the error's Attempts is that request. An error ends the ask and
	// is returned as it is. May be nil.
	Lost func(*Error) error
}

// An Attempt is a request that was sent, or a run of such in a row that failed
// in the same way and are charged by nobody.
type Attempt struct {
	Times   int // how many in a row; at least 1
	Started time.Time
	Latency time.Duration // of the last of them
	Status  int           // 0 where there was no response
	Class   string        // "" for success
	Bytes   int           // of an answer that had arrived: a failed attempt may be charged
	Excerpt string        // the endpoint's words in the first of them; bounded and redacted
	Unsent  bool          // none of them left this machine
	Charged int64         // micro-dollars that a budget is charged for all of them ([Price.Charge]); 0 without a price
	// Sent has one entry for each of a run, oldest first, as far as an ask
	// keeps them; nil for a single request.
	Sent []Sent

	billed bool
}

// Sent is when a request was sent, and how long it took.
type Sent struct {
	Started time.Time
	Latency time.Duration
}

// Each lists the attempt's requests, oldest first. It may be fewer than Times.
func (a *Attempt) Each() []Sent {
	if a.Sent == nil {
		return []Sent{{a.Started, a.Latency}}
	}
	return a.Sent
}

// Requests counts the requests of all attempts.
func Requests(attempts []Attempt) int {
	n := 0
	for _, a := range attempts {
		n += a.Times
	}
	return n
}

// keptSent bounds the requests of one ask whose times are kept: an endpoint may
// throttle for a day.
const keptSent = 1000

// record adds a request to the list of the ask's attempts.
func (a *asking) record(started time.Time, reply *Reply, e *Error) {
	at := Attempt{Times: 1, Started: started, Latency: time.Since(started), Charged: a.charged}
	if e == nil {
		at.Status, at.Bytes, at.Latency = reply.Status, len(reply.Raw), reply.Latency
		a.attempts = append(a.attempts, at)
		return
	}
	at.Status, at.Class, at.Bytes = e.Status, e.Class, len(e.Partial)
	at.Excerpt, at.Unsent, at.billed = e.Excerpt, !e.sent, e.MayBeBilled()
	e.Started, e.Latency = at.Started, at.Latency
	if n := len(a.attempts); n > 0 && a.attempts[n-1].joins(&at, a.sent < keptSent) {
		a.sent++
		return
	}
	a.attempts = append(a.attempts, at)
}

// joins makes a run of two failures of the same kind that cost nothing.
func (a *Attempt) joins(next *Attempt, keep bool) bool {
	if a.Class == "" || a.Class != next.Class || a.Status != next.Status || a.Unsent != next.Unsent ||
		a.billed || next.billed || a.Bytes > 0 || next.Bytes > 0 {
		return false
	}
	if keep {
		a.Sent = append(a.Each(), Sent{next.Started, next.Latency})
	}
	a.Times++
	a.Charged += next.Charged
	a.Latency = next.Latency
	return true
}

// told hands a failed request that may be charged to the keeper.
func (a *asking) told(e *Error) error {
	if a.lost == nil || !e.MayBeBilled() {
		return nil
	}
	told := *e
	told.Teacher, told.URL, told.Attempts = a.client.config.name(), a.client.shownURL, a.attempts
	return a.lost(&told)
}

// MayBeBilled tells whether an endpoint may charge for a request that failed
// with this status; 0 is no response.
func MayBeBilled(status int, sent bool) bool {
	return (&Error{Status: status, sent: sent}).MayBeBilled()
}

// Sent tells whether the request that failed left this machine.
func (e *Error) Sent() bool { return e.sent }

// notSent is the error of an ask that was not sent because of an earlier one's
// failure.
func (e *Error) notSent() *Error {
	e.Started, e.Latency, e.Share, e.sent = time.Time{}, 0, 0, false
	return e
}

// formatOf names how a body of the given kind reads; "" where it is no form of
// an answer.
func (c *Client) formatOf(kind bodyKind) string {
	stream, plain := c.dialect.formats()
	switch kind {
	case bodyStream:
		return stream
	case bodyJSON:
		return plain
	}
	return ""
}
