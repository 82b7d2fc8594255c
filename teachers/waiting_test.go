package teachers_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// These tests run on synctest's clock: hours pass in no time. The endpoint is
// a script in place of the network.

func TestRetryAfterHoldsBackTheWholeEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{reply: func(n int, _ *http.Request) *http.Response {
			if n == 0 {
				return response(429, `{"error":{"message":"slow down"}}`, "Retry-After", "12")
			}
			return response(200, wholeStream)
		}}
		c := teachers.NewClient(withLimits(teachers.Limits{Concurrency: 8}), teachers.WithTransport(s))
		begin := time.Now()
		askOne := func() {
			if _, err := c.Ask(t.Context(), request(t, testConfig, "2+2?")); err != nil {
				t.Error(err)
			}
		}
		var wg sync.WaitGroup
		wg.Go(askOne)
		synctest.Wait() // the 429 has come
		for range 7 {
			wg.Go(askOne)
		}
		synctest.Wait()
		state := c.State()
		if state.Why != "429: waits 12s as asked" || !state.Until.Equal(begin.Add(12*time.Second)) || state.Waiting != 8 || state.InFlight != 0 {
			t.Errorf("state %+v while it waits", state)
		}
		wg.Wait()
		if len(s.sent) != 9 {
			t.Fatalf("%d requests, want 9", len(s.sent))
		}
		for _, at := range s.sent[1:] {
			if got := at.Sub(begin); got != 12*time.Second {
				t.Errorf("a request was sent after %s, want 12s", got)
			}
		}
		if state := c.State(); state.Why != "" || state.Done != 8 {
			t.Errorf("state %+v at the end", state)
		}
	})
}

func TestRetryAfterForms(t *testing.T) {
	date := func(t time.Time) string { return t.UTC().Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		headers func(now time.Time) []string
		want    time.Duration
	}{
		"seconds":      {func(time.Time) []string { return []string{"Retry-After", "3"} }, 3 * time.Second},
		"fraction":     {func(time.Time) []string { return []string{"Retry-After", "1.5"} }, 1500 * time.Millisecond},
		"milliseconds": {func(time.Time) []string { return []string{"Retry-After-Ms", "250", "Retry-After", "1"} }, 250 * time.Millisecond},
		"date":         {func(now time.Time) []string { return []string{"Retry-After", date(now.Add(20 * time.Second))} }, 20 * time.Second},
		"another clock": {func(now time.Time) []string {
			return []string{"Retry-After", date(now.Add(time.Hour)), "Date", date(now.Add(time.Hour - 7*time.Second))}
		}, 7 * time.Second},
		"overloaded 503": {func(time.Time) []string { return []string{"Retry-After", "4"} }, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				status := 429
				if strings.Contains(name, "503") {
					status = 503
				}
				s := &script{reply: func(n int, _ *http.Request) *http.Response {
					if n == 0 {
						return response(status, "", c.headers(time.Now())...)
					}
					return response(200, wholeStream)
				}}
				if _, err := teachers.NewClient(testConfig, teachers.WithTransport(s)).Ask(t.Context(), request(t, testConfig, "x")); err != nil {
					t.Fatal(err)
				}
				if got := s.sent[1].Sub(s.sent[0]); got != c.want {
					t.Errorf("asked again after %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestThrottlingUsesUpNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{reply: func(n int, _ *http.Request) *http.Response {
			switch {
			case n < 100:
				return response(429, "", "Retry-After", "1")
			case n < 120:
				return response(529, "")
			}
			return response(200, wholeStream)
		}}
		reply, err := teachers.NewClient(testConfig, teachers.WithTransport(s)).Ask(t.Context(), request(t, testConfig, "x"))
		if err != nil {
			t.Fatal(err)
		}
		if len(reply.Attempts) != 3 || teachers.Requests(reply.Attempts) != 121 {
			t.Errorf("attempts %+v, want 100 of 429, 20 of 529 and the answer", reply.Attempts)
		}
		for i := 101; i <= 120; i++ {
			if gap := s.sent[i].Sub(s.sent[i-1]); gap < 250*time.Millisecond || gap > 30*time.Second {
				t.Errorf("gap %s after a 529 without Retry-After, want 250ms to 30s", gap)
			}
		}
	})
}

func TestThrottlingEndsWhenPatienceDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{reply: func(int, *http.Request) *http.Response { return response(429, `{"error":{"message":"busy"}}`) }}
		begin := time.Now()
		_, err := teachers.NewClient(testConfig, teachers.WithTransport(s)).Ask(t.Context(), request(t, testConfig, "x"))
		e := asError(t, err, teachers.ClassRateLimited)
		if took := time.Since(begin); took < time.Hour || took > time.Hour+time.Minute || !e.Temporary() {
			t.Errorf("gave up after %s, temporary %v; want an hour and true", took, e.Temporary())
		}
		s.reply = func(int, *http.Request) *http.Response { return response(429, "", "Retry-After", "172800") }
		_, err = teachers.NewClient(testConfig, teachers.WithTransport(s)).Ask(t.Context(), request(t, testConfig, "x"))
		if e := asError(t, err, teachers.ClassRateLimited); e.RetryAfter != 48*time.Hour {
			t.Errorf("RetryAfter %s, want 48h: too long to sit out", e.RetryAfter)
		}
	})
}

func TestFailuresAreTriedFiveTimesWithGrowingWaits(t *testing.T) {
	for name, reply := range map[string]func() *http.Response{
		"500": func() *http.Response { return response(500, "oops") },
		"502": func() *http.Response { return response(502, "<html>nginx</html>") },
		"408": func() *http.Response { return response(408, "") },
		"409": func() *http.Response { return response(409, "") },
		"truncated": func() *http.Response {
			return response(200, "data: {\"choices\":[{\"delta\":{\"content\":\"fo\"}}]}\n\n")
		},
		"done only": func() *http.Response { return response(200, "data: [DONE]\n\n") },
		"half JSON": func() *http.Response { return response(200, `{"choices":[{"message":{"content":"half`) },
		"HTML":      func() *http.Response { return response(200, "<html>log in</html>") },
		"abort": func() *http.Response {
			return response(200, `{"choices":[{"message":{"content":"x"},"finish_reason":"abort"}]}`)
		},
		"empty": func() *http.Response { return response(200, "") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{reply: func(int, *http.Request) *http.Response { return reply() }}
				_, err := teachers.NewClient(testConfig, teachers.WithTransport(s)).Ask(t.Context(), request(t, testConfig, "x"))
				var e *teachers.Error
				if !errors.As(err, &e) || !e.Temporary() || e.StopsTeacher() || len(s.sent) != 5 || teachers.Requests(e.Attempts) != 5 {
					t.Fatalf("%d requests, error %v; want 5 and a temporary error", len(s.sent), err)
				}
				for i, least := range []time.Duration{125, 250, 500, 1000} {
					gap := s.sent[i+1].Sub(s.sent[i])
					if gap < least*time.Millisecond || gap > 2*least*time.Millisecond {
						t.Errorf("wait %d took %s, want %dms to %dms", i+1, gap, least, 2*least)
					}
				}
			})
		})
	}
}

func TestPermanentErrorsAreNotTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		status       int
		body, class  string
		stopsTeacher bool
	}{
		"401":                {401, `{"error":{"message":"bad key"}}`, teachers.ClassAuth, true},
		"403":                {403, ``, teachers.ClassAuth, true},
		"403 of a moderator": {403, `{"error":{"message":"input was flagged by moderation"}}`, teachers.ClassBadRequest, false},
		"402":                {402, `{"error":{"message":"Insufficient credits"}}`, teachers.ClassQuota, true},
		"429 quota":          {429, `{"error":{"message":"x","code":"insufficient_quota"}}`, teachers.ClassQuota, true},
		"400 no credit":      {400, `{"error":{"message":"Your credit balance is too low"}}`, teachers.ClassQuota, true},
		"404":                {404, `{"error":"model 'm' not found"}`, teachers.ClassNotFound, true},
		"400 no model":       {400, `{"error":{"message":"The model m does not exist","code":"model_not_found"}}`, teachers.ClassNotFound, true},
		"400":                {400, `{"error":{"message":"temperature must be 1"}}`, teachers.ClassBadRequest, false},
		"413":                {413, ``, teachers.ClassContextOverflow, false},
		"400 overflow":       {400, `{"error":{"message":"Input token length too long"}}`, teachers.ClassContextOverflow, false},
		"200 overflow":       {200, `{"error":{"message":"maximum context length is 10","code":400}}`, teachers.ClassContextOverflow, false},
		"200 bad key":        {200, `{"error":{"message":"no","type":"authentication_error"}}`, teachers.ClassAuth, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{reply: func(int, *http.Request) *http.Response { return response(c.status, c.body) }}
			_, err := teachers.NewClient(testConfig, teachers.WithTransport(s)).Ask(t.Context(), request(t, testConfig, "x"))
			e := asError(t, err, c.class)
			if e.Temporary() || e.StopsTeacher() != c.stopsTeacher || len(s.sent) != 1 {
				t.Errorf("%v: temporary %v, stops the teacher %v, %d requests", e, e.Temporary(), e.StopsTeacher(), len(s.sent))
			}
		})
	}
}

// OpenAI's rate-limit message speaks of billing, yet it is no quota error.
func TestRateLimitThatMentionsBillingIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{reply: func(n int, _ *http.Request) *http.Response {
			if n == 0 {
				return response(429, `{"error":{"message":"Rate limit reached for requests. You can increase your rate limit by adding a payment method to your account at https://example.com/account/billing.","code":"rate_limit_exceeded"}}`)
			}
			return response(200, wholeStream)
		}}
		if _, err := teachers.NewClient(testConfig, teachers.WithTransport(s)).Ask(t.Context(), request(t, testConfig, "x")); err != nil {
			t.Fatal(err)
		}
	})
}

func TestStoppedTeacherIsNotAskedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{reply: func(n int, _ *http.Request) *http.Response {
			if n == 0 {
				return response(401, `{"error":{"message":"bad key"}}`)
			}
			return response(200, wholeStream)
		}}
		c := teachers.NewClient(testConfig, teachers.WithTransport(s))
		for range 3 {
			_, err := c.Ask(t.Context(), request(t, testConfig, "x"))
			asError(t, err, teachers.ClassAuth)
		}
		if len(s.sent) != 1 || c.State().Why != "auth: stopped" {
			t.Errorf("%d requests, state %+v; want 1: the key is wrong for all", len(s.sent), c.State())
		}
		<-time.After(31 * time.Second) // the key was replaced meanwhile
		if _, err := c.Ask(t.Context(), request(t, testConfig, "x")); err != nil {
			t.Error(err)
		}
	})
}

func TestRequestsKeepTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rpm, n = 120, 400
		s := &script{reply: func(int, *http.Request) *http.Response { return response(200, wholeStream) }, block: 2 * time.Second}
		c := teachers.NewClient(withLimits(teachers.Limits{Concurrency: 50, RPM: rpm}), teachers.WithTransport(s))
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				if _, err := c.Ask(t.Context(), request(t, testConfig, "x")); err != nil {
					t.Error(err)
				}
			})
		}
		<-time.After(10 * time.Second)
		if state := c.State(); state.Why != "at its 120 rpm" || state.Until.Before(time.Now()) || state.Until.After(time.Now().Add(time.Second)) {
			t.Errorf("state %+v, want it to wait for its rate for less than a second", state)
		}
		wg.Wait()
		for i := range s.sent {
			j := i
			for j < n && s.sent[j].Sub(s.sent[i]) < time.Minute {
				j++
			}
			if j-i > rpm {
				t.Fatalf("%d requests in a minute, want at most %d", j-i, rpm)
			}
		}
		if rate := float64(n-1) / s.sent[n-1].Sub(s.sent[0]).Minutes(); rate < 0.9*rpm {
			t.Errorf("%.1f requests a minute, want at least 90%% of %d", rate, rpm)
		}
	})
}

func TestCancelledAskCountsAsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		limits teachers.Limits
		reply  func(r *http.Request) *http.Response
		asks   int
	}{
		"waits as asked": {reply: func(*http.Request) *http.Response { return response(429, "", "Retry-After", "3600") }, asks: 1},
		"backs off":      {reply: func(*http.Request) *http.Response { return response(429, "") }, asks: 1},
		"waits for rate": {limits: teachers.Limits{RPM: 1}, reply: func(*http.Request) *http.Response { return response(429, "", "Retry-After", "3600") }, asks: 2},
		"waits for turn": {limits: teachers.Limits{Concurrency: 1}, reply: func(*http.Request) *http.Response { return response(429, "", "Retry-After", "3600") }, asks: 2},
		"reads": {reply: func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: 200, Body: &slowBody{ctx: r.Context(), pieces: []string{"data: {\"choices\":[{\"delta\":{\"content\":\"fo\"}}]}\n\n"}}}
		}, asks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				s := &script{reply: func(_ int, r *http.Request) *http.Response { return c.reply(r) }}
				made := teachers.NewClient(withLimits(c.limits), teachers.WithTransport(s))
				var wg sync.WaitGroup
				for range c.asks {
					wg.Go(func() {
						_, err := made.Ask(ctx, request(t, testConfig, "x"))
						e := asError(t, err, teachers.ClassCancelled)
						if !errors.Is(e, context.Canceled) {
							t.Errorf("%v is not context.Canceled", e)
						}
					})
				}
				synctest.Wait()
				cancelled := time.Now()
				cancel()
				wg.Wait()
				if took := time.Since(cancelled); took != 0 {
					t.Errorf("it ended %s after the context did", took)
				}
				if state := made.State(); state.Failed != 0 || state.Done != 0 || state.InFlight != 0 || state.Waiting != 0 {
					t.Errorf("state %+v, want nothing counted", state)
				}
			})
		})
	}
}

// Two contexts: without admission nothing more is sent, but what was sent is
// waited for.
func TestNothingIsSentOnceAdmissionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		admit, stop := context.WithCancel(t.Context())
		s := &script{block: time.Minute, reply: func(n int, _ *http.Request) *http.Response {
			if n == 1 {
				return response(500, "oops")
			}
			return response(200, wholeStream)
		}}
		c := teachers.NewClient(withLimits(teachers.Limits{Concurrency: 2}), teachers.WithTransport(s))
		var answered, cancelled atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				err := c.AskAndKeep(t.Context(), admit, request(t, testConfig, "x"), func(*teachers.Reply) error { return nil })
				if err == nil {
					answered.Add(1)
					return
				}
				asError(t, err, teachers.ClassCancelled)
				cancelled.Add(1)
			})
		}
		synctest.Wait()
		stop()
		wg.Wait()
		if len(s.sent) != 2 || answered.Load() != 1 || cancelled.Load() != 3 {
			t.Errorf("%d requests, %d answered, %d cancelled; want 2, 1 and 3", len(s.sent), answered.Load(), cancelled.Load())
		}
	})
}

func TestLimitsOnTime(t *testing.T) {
	event := func(s string) string { return "data: {\"choices\":[{\"delta\":{\"content\":\"" + s + "\"}}]}\n\n" }
	many := func(piece string, n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = piece
		}
		return out
	}
	for name, c := range map[string]struct {
		block    time.Duration
		pieces   []string
		every    time.Duration
		words    string
		after    time.Duration // of one attempt
		requests int
	}{
		"first byte":               {block: 10 * time.Hour, words: "limits.first_byte", after: 2*time.Minute + 10*time.Second, requests: 5},
		"idle":                     {pieces: []string{event("a")}, words: "limits.idle", after: 5 * time.Minute, requests: 5},
		"comments":                 {pieces: many(": keep-alive\n\n", 1000), every: time.Minute, words: "limits.no_progress", after: 10 * time.Minute, requests: 5},
		"blank lines":              {pieces: many("\n", 1000), every: time.Minute, words: "limits.no_progress", after: 10 * time.Minute, requests: 5},
		"empty deltas":             {pieces: many(event(""), 1000), every: time.Minute, words: "limits.no_progress", after: 10 * time.Minute, requests: 5},
		"total, which is for good": {pieces: many(event("a"), 1000), every: time.Minute, words: "limits.total", after: time.Hour, requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{block: c.block, reply: func(_ int, r *http.Request) *http.Response {
					return &http.Response{StatusCode: 200, Body: &slowBody{ctx: r.Context(), pieces: c.pieces, every: c.every}}
				}}
				_, err := teachers.NewClient(testConfig, teachers.WithTransport(s)).Ask(t.Context(), request(t, testConfig, "x"))
				e := asError(t, err, teachers.ClassTimeout)
				if !strings.Contains(e.Error(), c.words) || len(s.sent) != c.requests {
					t.Errorf("%v after %d requests, want %s after %d", e, len(s.sent), c.words, c.requests)
				}
				if last := e.Attempts[len(e.Attempts)-1].Latency; last < c.after || last > c.after+time.Minute {
					t.Errorf("an attempt took %s, want %s", last, c.after)
				}
			})
		})
	}
}

// An answer that is whole is kept, whatever the connection does afterwards.
func TestNothingAfterTheFinishReasonLosesTheAnswer(t *testing.T) {
	finish := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"four\"},\"finish_reason\":\"stop\"}]}\n\n"
	for name, c := range map[string]struct {
		pieces []string
		most   time.Duration
		flags  int
	}{
		"silence":             {[]string{finish}, 11 * time.Second, 0},
		"open after the end":  {[]string{finish, "data: [DONE]\n\n"}, time.Second, 0},
		"an error":            {[]string{finish, "event: error\ndata: {\"message\":\"500 after full output\"}\n\n", "data: [DONE]\n\n"}, time.Second, 1},
		"half an event":       {[]string{finish, "data: {\"choi"}, 11 * time.Second, 1},
		"an empty finish":     {[]string{finish, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"\"}]}\n\n", "data: [DONE]\n\n"}, time.Second, 0},
		"comments for ever":   {append([]string{finish}, strings.Split(strings.Repeat(": x\n", 999), " x")...), 11 * time.Second, 0},
		"the finish repeated": {[]string{finish, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", "data: [DONE]\n\n"}, time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{reply: func(_ int, r *http.Request) *http.Response {
					return &http.Response{StatusCode: 200, Body: &slowBody{ctx: r.Context(), pieces: c.pieces, every: time.Millisecond}}
				}}
				begin := time.Now()
				reply, err := teachers.NewClient(testConfig, teachers.WithTransport(s)).Ask(t.Context(), request(t, testConfig, "x"))
				if err != nil {
					t.Fatal(err)
				}
				if a := parsed(t, reply); deref(a.Message.Content) != "four" || len(a.Flags) != c.flags {
					t.Errorf("content %q, flags %v", deref(a.Message.Content), a.Flags)
				}
				if took := time.Since(begin); took > c.most || len(s.sent) != 1 {
					t.Errorf("took %s and %d requests, want at most %s and 1", took, len(s.sent), c.most)
				}
			})
		})
	}
}

func TestReplyTellsTimesAndHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{block: 3 * time.Second, reply: func(_ int, r *http.Request) *http.Response {
			h := http.Header{}
			h.Set("X-Request-Id", "r1")
			h.Set("X-Ratelimit-Remaining-Tokens", strconv.Itoa(7))
			h.Set("Set-Cookie", "secret")
			return &http.Response{StatusCode: 200, Header: h, Body: &slowBody{ctx: r.Context(), every: time.Second, pieces: []string{
				": wait\n\n", "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n", wholeStream[:strings.Index(wholeStream, "data: [DONE]")], "data: [DONE]\n\n"}}}
		}}
		begin := time.Now()
		reply, err := teachers.NewClient(testConfig, teachers.WithTransport(s)).Ask(t.Context(), request(t, testConfig, "x"))
		if err != nil {
			t.Fatal(err)
		}
		if !reply.Started.Equal(begin) || reply.TTFT != 6*time.Second || reply.Latency != 7*time.Second {
			t.Errorf("started %s, first token after %s, whole after %s; want now, 6s, 7s", reply.Started, reply.TTFT, reply.Latency)
		}
		if len(reply.Headers) != 2 || reply.Headers["x-request-id"] != "r1" || reply.Headers["x-ratelimit-remaining-tokens"] != "7" {
			t.Errorf("headers %v", reply.Headers)
		}
	})
}

// An endpoint must not be able to fill the answer store with its headers.
func TestKeptHeadersAreBounded(t *testing.T) {
	s := &script{reply: func(int, *http.Request) *http.Response {
		h := http.Header{"X-Request-Id": {strings.Repeat("r", 5000)}, "X-Ratelimit-" + strings.Repeat("A", 5000): {"1"}}
		for i := range 5000 {
			h.Set("X-Ratelimit-"+strconv.Itoa(i), "1")
		}
		return &http.Response{StatusCode: 200, Header: h, Body: io.NopCloser(strings.NewReader(wholeStream))}
	}}
	reply, err := teachers.NewClient(testConfig, teachers.WithTransport(s)).Ask(t.Context(), request(t, testConfig, "x"))
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for name, value := range reply.Headers {
		size += len(name) + len(value)
	}
	if len(reply.Headers) == 0 || len(reply.Headers) > 32 || size > 32*512 {
		t.Errorf("%d headers of %d bytes are kept", len(reply.Headers), size)
	}
}
