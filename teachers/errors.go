package teachers

import (
	"fmt"
	"strings"
	"time"
)

// Classes of an Error.
const (
	ClassAuth            = "auth"             // the key is missing, wrong, or must not be sent there
	ClassQuota           = "quota"            // the account has no money or no plan left
	ClassBadRequest      = "bad_request"      // the endpoint refuses this request
	ClassContextOverflow = "context_overflow" // the prompt does not fit the model
	ClassNotFound        = "not_found"        // no such model, or no such path
	ClassRateLimited     = "rate_limited"     // 429 for longer than we are ready to wait
	ClassOverloaded      = "overloaded"       // 503 or 529 for longer than we are ready to wait
	ClassServer          = "server"           // the endpoint failed
	ClassNetwork         = "network"          // no connection, or it was lost before an answer
	ClassTimeout         = "timeout"          // one of the limits on time
	ClassTruncated       = "truncated"        // the answer stopped without a finish reason
	ClassMalformed       = "malformed"        // the response is not what the protocol says
	ClassTooLarge        = "too_large"        // more than Limits.MaxBytes
	ClassEmpty           = "empty"            // status 200 and no answer in it
	ClassCancelled       = "cancelled"        // our own context ended
	ClassBudget          = "budget"           // it does not fit what may be spent; nothing was sent
)

// An Error is an ask that brought no answer. It never holds a key.
type Error struct {
	Teacher    string // as messages call it
	Class      string
	Status     int           // HTTP status; 0 where there was no response
	URL        string        // without user information and query
	Excerpt    string        // the endpoint's words, or what failed; bounded and redacted
	Partial    []byte        // what had arrived of an answer: it may be charged
	RetryAfter time.Duration // as the endpoint asked; 0 where it did not
	Attempts   []Attempt     // every request that was sent for this ask
	Format     string        // how Partial reads; "" where it is no form of an answer
	Started    time.Time     // when the request that failed was sent
	Latency    time.Duration // how long it took to fail
	Share      time.Duration // as in Reply
	cause      error
	final      bool   // not to be asked again by this Ask, though it is temporary
	sent       bool   // the request had a connection, so that the endpoint may have read it
	reason     reason // what is used up, as a refusal says
}

// Temporary tells whether asking again later can bring an answer.
func (e *Error) Temporary() bool {
	switch e.Class {
	case ClassAuth, ClassQuota, ClassBadRequest, ClassContextOverflow, ClassNotFound, ClassMismatch, ClassTooLarge:
		return false
	}
	return true
}

// StopsTeacher tells whether every further ask to this teacher would fail the
// same way until somebody changes the key, the account or the recipe.
func (e *Error) StopsTeacher() bool {
	return e.Class == ClassAuth || e.Class == ClassQuota || e.Class == ClassNotFound
}

// Unwrap gives the cause: the context's error for a cancelled ask.
func (e *Error) Unwrap() error { return e.cause }

// Error says what was asked of whom, what happened and what to do next.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Teacher != "" {
		b.WriteString(e.Teacher)
		b.WriteString(": ")
	}
	if e.URL != "" {
		fmt.Fprintf(&b, "ask %s: ", e.URL)
	}
	b.WriteString(e.Class)
	if e.Status != 0 {
		fmt.Fprintf(&b, " (HTTP %d)", e.Status)
	}
	if e.Excerpt != "" {
		b.WriteString(": ")
		b.WriteString(e.Excerpt)
	}
	if next := nextSteps[e.Class]; next != "" {
		b.WriteString("; ")
		b.WriteString(next)
	}
	return b.String()
}

var nextSteps = map[string]string{
	ClassAuth:            "check the key that api_key_env, api_key_file or api_key_secret names, and that it belongs to this endpoint",
	ClassQuota:           "add credit or wait for the plan to renew, then run the same command again",
	ClassBadRequest:      "compare the teacher's params with what the endpoint accepts",
	ClassContextOverflow: "shorten the prompt, lower the token cap, or serve it with a longer context",
	ClassNotFound:        "check base_url and model; the endpoint lists its models under /models",
	ClassRateLimited:     "lower limits.rpm or limits.concurrency; the next run asks again",
	ClassOverloaded:      "lower limits.concurrency; the next run asks again",
	ClassServer:          "look at the endpoint's own log; the next run asks again",
	ClassNetwork:         "check that the endpoint is up and reachable; the next run asks again",
	ClassTimeout:         "raise the limit that passed under limits, or look why the endpoint is slow",
	ClassTruncated:       "check that nothing on the way cuts long responses off; the next run asks again",
	ClassMalformed:       "check that base_url speaks this api; the next run asks again",
	ClassTooLarge:        "raise limits.max_bytes or lower the token cap",
	ClassEmpty:           "check model and params with one request of your own; the next run asks again",
	ClassCancelled:       "",
	ClassBudget:          "raise the budget and run the same command again: it asks only for what is missing",
}
