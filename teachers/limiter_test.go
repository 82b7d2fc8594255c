package teachers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// answerOf is a whole answer that took so many tokens.
func answerOf(prompt, completion int) *http.Response {
	return response(200, fmt.Sprintf(`{"choices":[{"message":{"content":"4"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, prompt, completion))
}

func askMany(t *testing.T, c *teachers.Client, n int) *sync.WaitGroup {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := c.Ask(t.Context(), request(t, testConfig, "x")); err != nil {
				t.Error(err)
			}
		})
	}
	return &wg
}

// The resets that vendors send with a 429 are waited for where there is no
// Retry-After: of what is used up, and of nothing else.
func TestResetHeadersAreObeyed(t *testing.T) {
	for name, c := range map[string]struct {
		headers func(now time.Time) []string
		want    time.Duration
	}{
		"requests": {func(time.Time) []string {
			return []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "1.2s",
				"x-ratelimit-remaining-tokens", "99", "x-ratelimit-reset-tokens", "6m0s"}
		}, 1200 * time.Millisecond},
		"tokens": {func(time.Time) []string {
			return []string{"x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "6m0s"}
		}, 6 * time.Minute},
		"both": {func(time.Time) []string {
			return []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "8.64s",
				"x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "300ms"}
		}, 8640 * time.Millisecond},
		"anthropic": {func(now time.Time) []string {
			return []string{"anthropic-ratelimit-output-tokens-remaining", "0", "anthropic-ratelimit-output-tokens-reset", now.Add(20 * time.Second).UTC().Format(time.RFC3339)}
		}, 20 * time.Second},
		"a time in milliseconds": {func(now time.Time) []string {
			return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(now.Add(45 * time.Second).UnixMilli())}
		}, 45 * time.Second},
		"a time in seconds": {func(now time.Time) []string {
			return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(now.Add(45 * time.Second).Unix())}
		}, 45 * time.Second},
		"seconds": {func(time.Time) []string {
			return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "7"}
		}, 7 * time.Second},
		"Retry-After goes first": {func(time.Time) []string {
			return []string{"Retry-After", "2", "x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "6m0s"}
		}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{reply: func(n int, _ *http.Request) *http.Response {
					if n == 0 {
						return response(429, "", c.headers(time.Now())...)
					}
					return response(200, wholeStream)
				}}
				client := teachers.NewClient(testConfig, teachers.WithTransport(s))
				askMany(t, client, 1).Wait()
				if got := s.sent[1].Sub(s.sent[0]); got != c.want {
					t.Errorf("asked again after %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestTokensKeepTheirRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tpm, prompt = 120_000, 200
		var mu sync.Mutex
		var counted []time.Time
		var took []int
		s := &script{block: 2 * time.Second}
		s.reply = func(int, *http.Request) *http.Response {
			n := 50 + rand.N(600)
			mu.Lock()
			counted, took = append(counted, time.Now()), append(took, prompt+n)
			mu.Unlock()
			return answerOf(prompt, n)
		}
		c := teachers.NewClient(withLimits(teachers.Limits{Concurrency: 64, TPM: tpm}), teachers.WithTransport(s))
		wg := askMany(t, c, 1200) // about 660,000 tokens: five and a half minutes
		<-time.After(30 * time.Second)
		if why := c.State().Why; why != "at its 120000 tpm" {
			t.Errorf("it waits, and says %q", why)
		}
		wg.Wait()
		sum, worst := 0, 0
		for i := range counted {
			sum += took[i]
			window := 0
			for j := i; j < len(counted) && counted[j].Sub(counted[i]) < time.Minute; j++ {
				window += took[j]
			}
			worst = max(worst, window)
		}
		if worst > tpm {
			t.Errorf("%d tokens in a minute, want at most %d", worst, tpm)
		}
		if rate := float64(sum) / counted[len(counted)-1].Sub(counted[0]).Minutes(); rate < 0.9*tpm {
			t.Errorf("%.0f tokens a minute, want at least 90%% of %d", rate, tpm)
		}
	})
}

// All teachers of a worker that ask one model at one endpoint share its limits:
// the lower of what they declare, while they both ask.
func TestTeachersOfOneModelShareItsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{reply: func(int, *http.Request) *http.Response { return response(200, wholeStream) }, block: 10 * time.Second}
		l := teachers.NewLimiter()
		a := teachers.NewClient(withLimits(teachers.Limits{Concurrency: 20}), teachers.WithTransport(s), teachers.WithLimiter(l))
		b := teachers.NewClient(withLimits(teachers.Limits{Concurrency: 6}), teachers.WithTransport(s), teachers.WithLimiter(l))
		askMany(t, a, 40).Wait()
		if s.peak != 20 {
			t.Errorf("%d at once, want the 20 of the one that asks", s.peak)
		}
		s.peak = 0
		wb := askMany(t, b, 30)
		synctest.Wait()
		wa := askMany(t, a, 30)
		wa.Wait()
		wb.Wait()
		if s.peak != 6 {
			t.Errorf("%d at once, want the lower 6 of both", s.peak)
		}
		b.Close()
		s.peak = 0
		askMany(t, a, 40).Wait()
		if s.peak != 20 {
			t.Errorf("%d at once once the other is gone, want 20", s.peak)
		}
		if got := a.State(); got.Done != 110 || got.InFlight != 0 || got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestOldestAskGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		var mu sync.Mutex
		s := &script{block: time.Second}
		s.reply = func(n int, r *http.Request) *http.Response {
			mu.Lock()
			order = append(order, r.Header.Get("X-Ask"))
			mu.Unlock()
			if n == 0 {
				return response(500, "once")
			}
			return response(200, wholeStream)
		}
		limits := teachers.Limits{Concurrency: 1}
		l := teachers.NewLimiter()
		var wg sync.WaitGroup
		for i := range 20 {
			config := withLimits(limits)
			config.Headers = map[string]string{"X-Ask": fmt.Sprint(i)}
			c := teachers.NewClient(config, teachers.WithTransport(s), teachers.WithLimiter(l))
			wg.Go(func() {
				if _, err := c.Ask(t.Context(), request(t, testConfig, "x")); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		want := "0 1 0 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"
		if got := strings.Join(order, " "); got != want {
			t.Errorf("asked in the order %s, want %s: who came first and failed goes before those behind", got, want)
		}
	})
}

// A storm of refusals on one teacher and an answer of half an hour on another:
// no ask fails, no attempt is used up, and the third is as fast as alone.
func TestStormsAndLongAnswersSlowNobodyElse(t *testing.T) {
	alone := thirdTeacher(t, false)
	beside := thirdTeacher(t, true)
	if beside != alone {
		t.Errorf("the third teacher took %s beside a storm, and %s alone", beside, alone)
	}
}

func thirdTeacher(t *testing.T, trouble bool) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var group sync.WaitGroup
		ask := func(c *teachers.Client, n int, check func(*teachers.Reply)) {
			for range n {
				group.Go(func() {
					reply, err := c.Ask(t.Context(), request(t, testConfig, "x"))
					if err != nil {
						t.Error(err)
						return
					}
					check(reply)
				})
			}
		}
		limits := teachers.Limits{Concurrency: 8}
		if trouble {
			random := rand.New(rand.NewPCG(1, 2))
			var mu sync.Mutex
			storm := &script{block: 50 * time.Millisecond, reply: func(int, *http.Request) *http.Response {
				mu.Lock()
				refuse := time.Since(begin) < time.Minute && random.Float64() < 0.9
				mu.Unlock()
				if refuse {
					return response(429, `{"error":{"message":"Rate limit reached"}}`, "Retry-After", "1")
				}
				return response(200, wholeStream)
			}}
			c := teachers.NewClient(withLimits(limits), teachers.WithTransport(storm))
			var failed atomic.Int32
			ask(c, 400, func(r *teachers.Reply) {
				for _, a := range r.Attempts {
					if a.Class != "" && a.Class != teachers.ClassRateLimited {
						failed.Add(1)
					}
				}
			})
			slow := &script{block: 31 * time.Minute, reply: func(int, *http.Request) *http.Response { return response(200, wholeStream) }}
			long := withLimits(teachers.Limits{Concurrency: 2, FirstByte: time.Hour})
			ask(teachers.NewClient(long, teachers.WithTransport(slow)), 2, func(r *teachers.Reply) {
				if len(r.Attempts) != 1 || r.Latency < 31*time.Minute {
					t.Errorf("the long answer: %d attempts, %s", len(r.Attempts), r.Latency)
				}
			})
			defer func() {
				if failed.Load() != 0 {
					t.Errorf("%d attempts of the storm were used up", failed.Load())
				}
			}()
		}
		quick := &script{block: time.Second, reply: func(int, *http.Request) *http.Response { return response(200, wholeStream) }}
		var last time.Time
		var mu sync.Mutex
		ask(teachers.NewClient(withLimits(limits), teachers.WithTransport(quick)), 800, func(*teachers.Reply) {
			mu.Lock()
			last = time.Now()
			mu.Unlock()
		})
		group.Wait()
		took = last.Sub(begin)
	})
	return took
}

// After a storm the throughput is what it was before, within a few round trips.
func TestThroughputComesBackAfterAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := &script{block: time.Second, reply: func(int, *http.Request) *http.Response {
			if at := time.Since(begin); at > time.Minute && at < 2*time.Minute {
				return response(503, "")
			}
			return response(200, wholeStream)
		}}
		c := teachers.NewClient(withLimits(teachers.Limits{Concurrency: 32}), teachers.WithTransport(s))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if _, err := c.Ask(ctx, request(t, testConfig, "x")); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
		count := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.sent)
		}
		<-time.After(90 * time.Second)
		during := count()
		<-time.After(20 * time.Second)
		if n := count() - during; n > 20*4 {
			t.Errorf("%d requests in 20 s of a storm", n)
		}
		<-time.After(70 * time.Second) // a minute after its end
		before := count()
		<-time.After(30 * time.Second)
		if n := count() - before; n < 30*32*9/10 {
			t.Errorf("%d requests in 30 s after the storm, want about %d", n, 30*32)
		}
		cancel()
		wg.Wait()
	})
}

func TestLeasedLimiterAsksForASlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{reply: func(int, *http.Request) *http.Response { return response(200, wholeStream) }, block: time.Second}
		l := teachers.NewLimiter()
		var needed atomic.Int32
		l.Lease(func() { needed.Add(1) })
		c := teachers.NewClient(withLimits(teachers.Limits{Concurrency: 50, RPM: 6000}), teachers.WithTransport(s), teachers.WithLimiter(l))
		wg := askMany(t, c, 60)
		synctest.Wait()
		if len(s.sent) != 0 || needed.Load() == 0 {
			t.Fatalf("%d requests without a slice, asked for one %d times", len(s.sent), needed.Load())
		}
		if why := c.State().Why; !strings.Contains(why, "lease") {
			t.Errorf("it waits, and says %q", why)
		}
		d := l.Demand()
		if d.Waiting != 60 || d.Declared.Concurrency != 50 || d.Declared.RPM != 6000 {
			t.Errorf("demand %+v", d)
		}
		l.Grant(teachers.Slice{Concurrency: 0, RPM: 0, TPM: teachers.Unlimited, Until: time.Now().Add(30 * time.Second)})
		<-time.After(time.Second)
		if why := c.State().Why; len(s.sent) != 0 || !strings.Contains(why, "other workers") {
			t.Errorf("%d requests on an empty slice; it says %q", len(s.sent), why)
		}
		l.Grant(teachers.Slice{Concurrency: 3, RPM: 6000, TPM: teachers.Unlimited, Until: time.Now().Add(5*time.Second + time.Millisecond)})
		<-time.After(10 * time.Second)
		if len(s.sent) < 15 || len(s.sent) > 18 || s.peak != 3 {
			t.Errorf("%d requests, %d at once, in 5 s with 3 places", len(s.sent), s.peak)
		}
		l.Grant(teachers.Slice{Concurrency: teachers.Unlimited, RPM: teachers.Unlimited, TPM: teachers.Unlimited, Until: time.Now().Add(time.Hour)})
		wg.Wait()
	})
}
