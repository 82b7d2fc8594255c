package teachers

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A reason is what an endpoint says is used up when it refuses a request.
type reason int

const (
	reasonUnknown reason = iota
	reasonRequests
	reasonTokens
	reasonConcurrency
	reasonDay // a day's allowance: nothing that a pace could help with
)

// reasonOf reads the words of a refusal, then its headers. "Too many requests"
// is the name of the status and says nothing.
func reasonOf(words string, h http.Header) reason {
	words = strings.ToLower(words)
	has := func(list ...string) bool {
		for _, s := range list {
			if strings.Contains(words, s) {
				return true
			}
		}
		return false
	}
	switch {
	case has("per day", "rpd", "tpd", "daily"):
		return reasonDay
	case has("concurren", "parallel", "simultaneous", "at the same time"):
		return reasonConcurrency
	case has("tokens per min", "tpm", "for tokens", "token rate", "tokens/min", "token limit per", "tokens per second"):
		return reasonTokens
	case has("requests per min", "rpm", "for requests", "request rate", "requests/min", "requests per second"):
		return reasonRequests
	}
	requests, tokens := h.Get("X-Ratelimit-Remaining-Requests"), h.Get("X-Ratelimit-Remaining-Tokens")
	switch {
	case tokens == "0" && requests != "" && requests != "0":
		return reasonTokens
	case requests == "0" && tokens != "" && tokens != "0":
		return reasonRequests
	}
	return reasonUnknown
}

// resetHeaders are where endpoints say what is left and when there is more.
var resetHeaders = []struct{ left, reset string }{
	{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
	{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	{"X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
	{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
	{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
	{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
}

// refusedFor is how long an endpoint that refused a request asks us to wait:
// what Retry-After says, or else when the allowance that is used up comes back.
// 0 means that it does not say.
func refusedFor(h http.Header, now time.Time) time.Duration {
	if wait := retryAfter(h, now); wait > 0 {
		return wait
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	var wait time.Duration
	for _, r := range resetHeaders {
		if h.Get(r.left) == "0" {
			wait = max(wait, resetIn(h.Get(r.reset), now))
		}
	}
	return wait
}

// resetIn reads a reset: a duration as "6m0s" or "1.2s", seconds, a time in
// seconds or milliseconds since 1970, or an RFC 3339 time. 0: none of those.
func resetIn(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if n, err := strconv.ParseFloat(value, 64); err == nil {
		switch {
		case !(n > 0): // NaN too
			return 0
		case n >= 1e11:
			return max(time.UnixMilli(int64(min(n, 1e15))).Sub(now), 0)
		case n >= 5e8:
			return max(time.Unix(int64(n), 0).Sub(now), 0)
		}
		return time.Duration(n * float64(time.Second))
	}
	if d, err := time.ParseDuration(value); err == nil {
		return max(d, 0)
	}
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// overloads tells whether an error says that the endpoint has too much to do: a
// 429, 503 or 529, or a connection that it reset before an answer began.
func (e *Error) overloads() bool {
	switch e.Class {
	case ClassRateLimited, ClassOverloaded:
		return true
	case ClassNetwork:
		return errors.Is(e.cause, syscall.ECONNRESET) || errors.Is(e.cause, syscall.EPIPE) ||
			errors.Is(e.cause, io.EOF) || errors.Is(e.cause, io.ErrUnexpectedEOF)
	}
	return false
}
