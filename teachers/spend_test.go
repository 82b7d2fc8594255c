package teachers_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// A till is a Purse that writes down what happens to it.
type till struct {
	mu      sync.Mutex
	left    int64
	free    chan struct{} // closed when a Reserve may go on; nil: at once
	over    error         // what Reserve fails with
	settled [][2]int64
	under   int
}

func (p *till) TryReserve(micros int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if micros > p.left {
		return false
	}
	p.left -= micros
	p.under++
	return true
}

func (p *till) Reserve(ctx context.Context, micros int64) error {
	if p.free != nil {
		select {
		case <-p.free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if p.over != nil {
		return p.over
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.under++
	return nil
}

func (p *till) Spend(ctx context.Context, micros int64) error { return p.Reserve(ctx, micros) }

func (p *till) Settle(reserved, cost int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left += reserved - cost
	p.under--
	p.settled = append(p.settled, [2]int64{reserved, cost})
}

const (
	usageStream = `data: {"choices":[{"index":0,"delta":{"content":"four"},"finish_reason":"stop"}]}` + "\n\n" +
		`data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":10}}}` + "\n\ndata: [DONE]\n\n"
	cutStream = `data: {"choices":[{"index":0,"delta":{"content":"fo"}}]}` + "\n\n"
)

var spendPrice = teachers.Price{Input: 2, CachedInput: 1, Output: 10}

// spendConfig is a teacher with a price, asked one at a time.
func spendConfig(url string) *teachers.Config {
	c := *testConfig
	c.BaseURL, c.Price = url, &spendPrice
	c.Limits = teachers.Limits{Concurrency: 1}
	return &c
}

func spendRequest(t *testing.T, c *teachers.Config, p teachers.Purse) *teachers.Request {
	t.Helper()
	text := "2+2?"
	r, err := teachers.BuildRequest(c, &chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: &text}}}, map[string]any{"max_tokens": 100}, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.Purse = p
	return r
}

func TestMostCostIsAnUpperBound(t *testing.T) {
	c := spendConfig("http://127.0.0.1/v1")
	r := spendRequest(t, c, nil)
	if bytes := int64(len(r.Body)); r.MostPromptTokens() < bytes || r.MostPromptTokens() > bytes+100 {
		t.Errorf("%d tokens at most for %d bytes", r.MostPromptTokens(), bytes)
	}
	if want := 2*r.MostPromptTokens() + 10*100; r.MostCost() != want {
		t.Errorf("%d micro-dollars at most, want %d", r.MostCost(), want)
	}
	written := teachers.Price{Input: 2, CachedInput: 1, CacheWrite: 6, Output: 10}
	if got := written.Most(100, 10); got != 700 {
		t.Errorf("writing a cache costs more than not using it: %d, want 700", got)
	}
	r.Images = []string{"a"}
	if r.MostPromptTokens() < 16384 {
		t.Error("an image is bounded by its digest's length")
	}
	r.Price = nil
	if r.MostCost() != 0 {
		t.Error("a request without a price costs something")
	}
}

// Every attempt is reserved before it is sent and settled with what it cost, or
// may have cost.
func TestAttemptsAreReservedAndSettled(t *testing.T) {
	for _, tc := range []struct {
		name    string
		replies []func() *http.Response // one an attempt; the last for all others
		most    []bool                  // whether an attempt stays charged at its most
		cost    []int64                 // else its cost
	}{
		{"an answer", []func() *http.Response{func() *http.Response { return response(200, usageStream) }}, []bool{false}, []int64{80}},
		{"an answer without usage", []func() *http.Response{func() *http.Response { return response(200, wholeStream) }}, []bool{true}, []int64{0}},
		{"refused, then an answer", []func() *http.Response{
			func() *http.Response { return response(429, `{"error":{"message":"slow down"}}`) },
			func() *http.Response { return response(500, `{"error":{"message":"no"}}`) },
			func() *http.Response { return response(200, usageStream) },
		}, []bool{false, false, false}, []int64{0, 0, 80}},
		{"cut off, then an answer", []func() *http.Response{
			func() *http.Response { return response(200, cutStream) },
			func() *http.Response { return response(504, "upstream timed out") },
			func() *http.Response { return response(200, usageStream) },
		}, []bool{true, true, false}, []int64{0, 0, 80}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &till{left: 1e6}
				c := spendConfig("http://127.0.0.1/v1")
				s := &script{reply: func(n int, _ *http.Request) *http.Response {
					p.mu.Lock()
					defer p.mu.Unlock()
					if p.under != 1 {
						t.Errorf("request %d was sent with %d reservations", n, p.under)
					}
					return tc.replies[min(n, len(tc.replies)-1)]()
				}}
				cl := teachers.NewClient(c, teachers.WithTransport(s))
				defer cl.Close()
				r := spendRequest(t, c, p)
				reply, err := cl.Ask(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				var want [][2]int64
				for i, most := range tc.most {
					cost := tc.cost[i]
					if most {
						cost = r.MostCost()
					}
					want = append(want, [2]int64{r.MostCost(), cost})
				}
				if d := cmp.Diff(want, p.settled); d != "" {
					t.Error(d)
				}
				charged := int64(0)
				for _, a := range reply.Attempts {
					charged += a.Charged
				}
				if charged != 1e6-p.left {
					t.Errorf("attempts are charged %d, the purse %d", charged, 1e6-p.left)
				}
			})
		})
	}
}

// What never had a connection costs nothing; what had one may.
func TestARequestThatWasNotSentCostsNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String() + "/v1"
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	p := &till{left: 1e6}
	c := spendConfig(closed)
	if _, err := client(t, c).Ask(t.Context(), spendRequest(t, c, p)); err == nil {
		t.Fatal("somebody answered")
	}
	if p.left != 1e6 || len(p.settled) == 0 || p.under != 0 {
		t.Errorf("%d left, %v", p.left, p.settled)
	}

	hanging := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler) // the connection is reset
	}))
	defer hanging.Close()
	p = &till{left: 1e6}
	c = spendConfig(hanging.URL + "/v1")
	r := spendRequest(t, c, p)
	_, err = client(t, c).Ask(t.Context(), r)
	e := asError(t, err, teachers.ClassNetwork)
	if want := int64(teachers.Requests(e.Attempts)) * r.MostCost(); 1e6-p.left != want {
		t.Errorf("%d requests that were read are charged %d, want %d", teachers.Requests(e.Attempts), 1e6-p.left, want)
	}
}

func TestWhatTheBudgetHasNoRoomForIsNotSent(t *testing.T) {
	s := &script{reply: func(int, *http.Request) *http.Response { return response(200, usageStream) }}
	c := spendConfig("http://127.0.0.1/v1")
	cl := teachers.NewClient(c, teachers.WithTransport(s))
	defer cl.Close()
	_, err := cl.Ask(t.Context(), spendRequest(t, c, &till{over: errors.Join(errors.New("$0.10 of $1.00 are left"), budget.ErrOver)}))
	e := asError(t, err, teachers.ClassBudget)
	if len(s.sent) != 0 || len(e.Attempts) != 0 {
		t.Errorf("sent %d requests", len(s.sent))
	}
	for _, want := range []string{"$0.10 of $1.00", "raise the budget"} {
		if !strings.Contains(e.Error(), want) {
			t.Errorf("%q does not say %q", e.Error(), want)
		}
	}
	if e.StopsTeacher() {
		t.Error("one build's budget stops the teacher for every build of this worker")
	}
	if e.MayBeBilled() {
		t.Error("what was not sent may be billed")
	}
	// A wallet that cannot be written is no budget that is spent.
	_, err = cl.Ask(t.Context(), spendRequest(t, c, &till{over: errors.New("the disk is full")}))
	if e := asError(t, err, teachers.ClassCancelled); !strings.Contains(e.Error(), "the disk is full") {
		t.Error(e)
	}
}

// An ask that waits for money holds up nobody else.
func TestWaitingForMoneyHoldsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{reply: func(int, *http.Request) *http.Response { return response(200, usageStream) }}
		c := spendConfig("http://127.0.0.1/v1")
		cl := teachers.NewClient(c, teachers.WithTransport(s))
		defer cl.Close()
		p := &till{free: make(chan struct{})}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := cl.Ask(t.Context(), spendRequest(t, c, p)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		begin := time.Now()
		if _, err := cl.Ask(t.Context(), spendRequest(t, c, nil)); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d > time.Second || len(s.sent) != 1 {
			t.Errorf("another build's ask took %s", d)
		}
		close(p.free)
		wg.Wait()
		if len(s.sent) != 2 || len(p.settled) != 1 {
			t.Errorf("%d requests, settled %v", len(s.sent), p.settled)
		}
		// One that gives up waiting leaves nothing behind.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		stuck := &till{free: make(chan struct{})}
		_, err := cl.Ask(ctx, spendRequest(t, c, stuck))
		asError(t, err, teachers.ClassCancelled)
		if _, err := cl.Ask(t.Context(), spendRequest(t, c, nil)); err != nil {
			t.Error(err)
		}
	})
}
