package activities

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// A leaseDesk is an authority that a test directs. It answers as EndpointLimits
// does to a worker that is alone, unless it is told otherwise.
type leaseDesk struct {
	mu    sync.Mutex
	seq   int64
	asked []wire.LeaseRequest
	at    []time.Time
	// answer may change a grant, delay it or lose it.
	answer func(n int, g *wire.LeaseGrant) error
}

func (d *leaseDesk) Lease(ctx context.Context, _, _ string, r wire.LeaseRequest) (*wire.LeaseGrant, error) {
	d.mu.Lock()
	n := len(d.asked)
	d.asked, d.at = append(d.asked, r), append(d.at, time.Now())
	d.seq++
	g := &wire.LeaseGrant{Seq: d.seq, Concurrency: 4, RPM: wire.NoLimit, TPM: wire.NoLimit, Renew: wire.LeaseRenew}
	answer := d.answer
	d.mu.Unlock()
	if r.Release {
		return &wire.LeaseGrant{}, nil
	}
	if answer != nil {
		if err := answer(n, g); err != nil {
			return nil, err
		}
	}
	return g, ctx.Err()
}

func (d *leaseDesk) requests() []wire.LeaseRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]wire.LeaseRequest(nil), d.asked...)
}

func (d *leaseDesk) last() wire.LeaseRequest {
	all := d.requests()
	return all[len(all)-1]
}

// A leasedClient asks an endpoint that answers after a while, with leases.
type leasedClient struct {
	t       *testing.T
	desk    *leaseDesk
	leases  *leases
	client  *teachers.Client
	request *teachers.Request

	mu   sync.Mutex
	sent []time.Time
	in   int
	peak int
	took time.Duration
}

func newLeasedClient(t *testing.T, desk *leaseDesk) *leasedClient {
	c := &leasedClient{t: t, desk: desk, took: time.Second}
	var authority Authority
	if desk != nil {
		authority = desk
	}
	c.leases = newLeases(authority, "home-1", time.Now(), slog.New(slog.DiscardHandler))
	config := &teachers.Config{ID: "t", API: "openai", BaseURL: "http://127.0.0.1/v1", Model: "m", Limits: teachers.Limits{Concurrency: 100}}
	c.client = teachers.NewClient(config, teachers.WithTransport(c), teachers.WithLimiter(c.leases.limiter("e", "m")))
	var err error
	if c.request, err = teachers.BuildRequest(config, &chat.Prompt{Messages: []chat.Message{{Role: "user", Content: chat.Text("2+2?")}}}, nil, 0); err != nil {
		t.Fatal(err)
	}
	return c
}

// RoundTrip is the endpoint.
func (c *leasedClient) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	c.sent = append(c.sent, time.Now())
	c.in++
	c.peak = max(c.peak, c.in)
	c.mu.Unlock()
	<-time.After(c.took) // the endpoint thinks, on synctest's clock
	c.mu.Lock()
	c.in--
	c.mu.Unlock()
	body := `{"choices":[{"message":{"content":"4"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1}}`
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func (c *leasedClient) ask(ctx context.Context, wg *sync.WaitGroup, n int) {
	for range n {
		wg.Go(func() {
			if _, err := c.client.Ask(ctx, c.request); err != nil && ctx.Err() == nil {
				c.t.Error(err)
			}
		})
	}
}

func (c *leasedClient) count() (sent, peak int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sent), c.peak
}

func TestAsksKeepToTheirLeaseAndGiveItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk := &leaseDesk{}
		c := newLeasedClient(t, desk)
		end := c.leases.use("e", "m")
		var wg sync.WaitGroup
		c.ask(t.Context(), &wg, 100) // 25 s at 4 at once
		wg.Wait()
		if sent, peak := c.count(); sent != 100 || peak != 4 {
			t.Errorf("%d requests, %d at once; want 100 and 4", sent, peak)
		}
		n := len(desk.requests())
		if n < 3 || n > 6 {
			t.Errorf("%d requests for leases in 25 s", n)
		}
		end()
		<-time.After(leaseLinger + time.Second)
		if last := desk.last(); !last.Release {
			t.Errorf("the last request is %+v, want it to give the lease back", last)
		}
		n = len(desk.requests())
		<-time.After(time.Hour)
		if got := len(desk.requests()); got != n {
			t.Errorf("%d requests while nobody asks", got-n)
		}
		c.ask(t.Context(), &wg, 1) // also one without a batch gets its lease
		wg.Wait()
		c.leases.close()
		if last := desk.last(); !last.Release {
			t.Errorf("closed without giving its lease back: %+v", last)
		}
	})
}

func TestUnrenewedLeaseStopsNewAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var down bool
		var mu sync.Mutex
		desk := &leaseDesk{}
		desk.answer = func(int, *wire.LeaseGrant) error {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return errors.New("unreachable")
			}
			return nil
		}
		c := newLeasedClient(t, desk)
		end := c.leases.use("e", "m")
		var wg sync.WaitGroup
		c.ask(t.Context(), &wg, 600)
		<-time.After(15 * time.Second)
		mu.Lock()
		down = true
		mu.Unlock()
		<-time.After(2 * time.Minute)
		sent, _ := c.count()
		c.mu.Lock()
		last := c.sent[len(c.sent)-1].Sub(begin)
		c.mu.Unlock()
		if last > 10*time.Second+wire.LeaseTime+time.Second {
			t.Errorf("a request was sent after %s: the last lease ended 40s in", last)
		}
		if why := c.client.State().Why; !strings.Contains(why, "waits for a lease") {
			t.Errorf("it waits, and says %q", why)
		}
		mu.Lock()
		down = false
		mu.Unlock()
		<-time.After(leaseRetryMost + time.Second)
		if more, _ := c.count(); more == sent {
			t.Error("nothing was sent after the authority was back")
		}
		wg.Wait()
		end()
		c.leases.close()
	})
}

// The time of a lease counts from before it was asked for: however late an
// answer comes, and whatever the clocks say, the worker stops first.
func TestLeaseTimeCountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		desk := &leaseDesk{}
		desk.answer = func(n int, _ *wire.LeaseGrant) error {
			if n > 0 {
				return errors.New("lost")
			}
			<-time.After(9 * time.Second)
			return nil
		}
		c := newLeasedClient(t, desk)
		end := c.leases.use("e", "m")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		c.ask(ctx, &wg, 1000)
		<-time.After(2 * time.Minute)
		c.mu.Lock()
		last := c.sent[len(c.sent)-1].Sub(begin)
		c.mu.Unlock()
		if last >= wire.LeaseTime || last < wire.LeaseTime-2*time.Second {
			t.Errorf("the last request was sent %s after the lease was asked for, want just under %s", last, wire.LeaseTime)
		}
		cancel()
		wg.Wait()
		end()
		c.leases.close()
	})
}

func TestPauseTakesTheLeaseAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk := &leaseDesk{}
		c := newLeasedClient(t, desk)
		c.took = 31 * time.Minute
		end := c.leases.use("e", "m")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_ = c.client.AskAndKeep(t.Context(), ctx, c.request, func(*teachers.Reply) error { return nil })
			})
		}
		<-time.After(time.Minute)
		if r := desk.last(); r.InFlight != 4 || !r.Hungry || r.Holds == nil {
			t.Errorf("while it asks: %+v", r)
		}
		paused := time.Now()
		cancel()
		end()
		<-time.After(time.Second)
		r := desk.last()
		if r.InFlight != 4 || r.Hungry || time.Since(paused) > time.Second {
			t.Errorf("paused: %+v, want what is in flight and nothing more", r)
		}
		wg.Wait()
		<-time.After(leaseLinger + wire.LeaseRenew)
		if r := desk.last(); !r.Release {
			t.Errorf("all is over, and the lease is not given back: %+v", r)
		}
		c.leases.close()
	})
}

func TestALimiterIsOneModelsAtOneEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeases(&leaseDesk{}, "home-1", time.Now(), slog.New(slog.DiscardHandler))
		x, y := l.limiter("e", "m"), l.limiter("e", "other")
		if x == y || x != l.limiter("e", "m") || x == l.limiter("f", "m") {
			t.Error("a limiter is one model's at one endpoint")
		}
		l.close()
	})
}

func TestLongWorkerNamesAreDigested(t *testing.T) {
	if got := leaseName("home-1"); got != "home-1" {
		t.Error(got)
	}
	long := strings.Repeat("x", 100)
	if got := leaseName(long); len(got) != wire.MaxLesseeName || got == leaseName(long+"y") {
		t.Error(got)
	}
}
