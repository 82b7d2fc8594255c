// Package answers keeps what teachers were paid for: raw answers, by ask
// identity, across builds and recipes. It promises that an answer which had
// fully arrived is neither lost nor asked for again.
//
// An [Ask] names one request for one sample ([Identify]). A [Record] is what
// came back. [Store.Append] makes it durable in a journal on the local disk,
// within milliseconds; [Store.Flush] moves it into sorted Parquet segments in
// the object store, ordered by an index that is changed by compare-and-swap.
// Where two answers exist for one ask, the one that the index names first
// stays the answer, for ever and for every reader.
//
// Between the two a mover copies finished journal pieces to the store every
// second, so that losing the disk loses one second. [Open] indexes what a
// crash left in the local journal; [Store.AdoptOrphans] indexes what workers
// that are gone left in the store.
//
// Keys under the store's prefix:
//
//	answers/<endpoint>/<range>/<sha256>.parquet   immutable, sorted by key
//	answers/<endpoint>/<range>/index.json         moved with If-Match
//	answers/journal/<worker>/<seq>.zst            until its records are indexed
//
// A range is "b" and the leading bits of the keys that it holds. It is closed
// when it is full; later answers go to its two children, and its own segments
// stay and come first.
package answers

import (
	"encoding/hex"
	"fmt"
	"time"
)

// A Key is what answers are looked up by: SHA-256 of an ask's identity without
// its token cap, because an answer that ended by itself serves every cap that
// would have let it.
type Key [32]byte

// String is the key in hex.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// bit is the key's bit i, counted from the most significant.
func (k *Key) bit(i int) int { return int(k[i/8]>>(7-i%8)) & 1 }

// An Ask is one request for one sample of one task. Make it with [Identify].
type Ask struct {
	Endpoint string // endpoint identity, 32 hex digits
	Key      Key    // identity without the token cap
	ID       string // full identity, 64 hex digits
	Cap      int64  // token cap; 0: none
	Sample   int    // sample index, from 0
}

// A Record is one request for an ask that may have been paid for: an answer, or
// a failure. What is charged to nobody, such as a 429, is in the [Ledger] of the
// record after it. Records are immutable once they were
// appended or looked up: they may be shared.
type Record struct {
	Ask
	Teacher string
	Model   string // as asked

	// Complete: a terminal finish reason was seen. A record that is not
	// complete is a failure; it never serves an ask.
	Complete bool
	Finish   string            // finish reason in the endpoint's words
	Format   string            // what Raw is, such as openai-sse
	Raw      []byte            // the answer as it arrived; of a failure, what had arrived
	Status   int               // HTTP status; 0: none was received
	Headers  map[string]string // response headers worth keeping

	Started  time.Time     // kept to the microsecond, UTC
	TTFT     time.Duration // request sent to first token, kept to the millisecond
	Latency  time.Duration // request sent to answer whole, kept to the millisecond
	Attempts int32         // which request of its ask it is, from 1, each time that it was asked

	ErrorClass string // of a failure
	ErrorText  string // of a failure: bounded and redacted by the caller

	// Ledger is the text of a [Ledger]; "" for most records: one request was
	// sent, and it is this one.
	Ledger string
}

// Serves tells whether the record is an answer to the ask: its key is the
// ask's, and either it ended by itself under a cap not above the ask's (the
// larger cap would have changed nothing) or it was asked with exactly this cap.
// An answer that was cut off (length) under another cap does not serve, nor
// does one that ended by itself under a larger cap: it might have been cut off.
func (r *Record) Serves(a Ask) bool {
	return r.Endpoint == a.Endpoint && r.Key == a.Key && r.kind().serves(r.Cap, a.Cap)
}

// A kind is all of a record, next to its cap, that the serving rule looks at.
type kind byte

const (
	failed  kind = iota // no terminal finish reason
	stopped             // ended by itself
	ended               // complete for any other reason: length, content_filter
	purged              // a tombstone: there were records, and they were erased
)

func (r *Record) kind() kind {
	if !r.Complete {
		return failed
	}
	switch r.Finish {
	case purgedFinish:
		return purged
	case "stop", "tool_calls", "function_call", "end_turn", "stop_sequence", "tool_use":
		return stopped
	}
	return ended
}

func (k kind) serves(had, asked int64) bool {
	switch {
	case k == failed:
		return false
	case k == purged, had == asked:
		return true
	case k == stopped:
		return atMost(had, asked)
	}
	return false
}

// atMost compares caps; 0 is no cap and above all others.
func atMost(a, b int64) bool {
	return b == 0 || (a != 0 && a <= b)
}

// validate refuses what can't be kept under a key.
func (a *Ask) validate() error {
	if !isHex(a.Endpoint, 32) {
		return fmt.Errorf("endpoint identity %q: want 32 hex digits", a.Endpoint)
	}
	if a.Cap < 0 {
		return fmt.Errorf("token cap %d: want 0 (none) or more", a.Cap)
	}
	return nil
}

func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
