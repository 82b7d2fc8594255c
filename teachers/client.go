package teachers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// How often and after what wait a failed request is sent again.
const (
	maxAttempts      = 5 // failures of one ask, throttling apart
	backoffFirst     = 250 * time.Millisecond
	backoffMost      = 10 * time.Second
	throttleFirst    = 500 * time.Millisecond // after a 429, 503 or 529 that names no time
	throttleMost     = 30 * time.Second
	throttlePatience = time.Hour      // for which an ask is throttled without a time named
	longestWait      = 24 * time.Hour // that an endpoint may ask for
	stopFor          = 30 * time.Second
)

// A Client asks one teacher for one worker. It owns its connections, its
// permits and its gate; it is safe for concurrent use.
type Client struct {
	config    *Config
	dialect   dialect
	profile   *Profile
	limits    Limits
	url       string
	shownURL  string
	target    *url.URL    // of every request
	headers   http.Header // of every request; the key is added
	keyed     atomic.Pointer[keyedHeader]
	secrets   secrets // those of the configuration; the key is added for each request
	unusable  error   // why nothing can be asked
	transport http.RoundTripper
	owned     *http.Transport // nil with WithTransport
	roots     *x509.CertPool  // nil: the system's
	http      *http.Client
	loadImage func(context.Context, chat.Image) ([]byte, error)
	limiter   *Limiter // shared with whoever asks the same model of the same endpoint
	permits   *permits
	flights   flights // requests under way
	share     *share  // nil where nobody pays by the hour
}

// NewClient makes a client for one teacher. Close it.
func NewClient(config *Config, options ...Option) *Client {
	limits := config.Limits.WithDefaults()
	c := &Client{config: config, limits: limits, secrets: config.secrets("")}
	c.dialect, c.unusable = dialectOf(config.API)
	if c.unusable == nil {
		c.profile = config.profile()
		c.url, c.unusable = requestURL(config.BaseURL, c.dialect.path())
		c.headers = requestHeaders(c.dialect.headers(), config.Headers)
	}
	c.shownURL = redactURL(c.url)
	if config.Price != nil && config.Price.GPUHour > 0 {
		c.share = &share{}
	}
	for _, o := range options {
		o(c)
	}
	if c.transport == nil {
		c.owned = newTransport(limits)
		if c.roots != nil {
			c.owned.TLSClientConfig = &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}
		}
		c.transport = c.owned
	}
	c.http = &http.Client{Transport: c.transport, CheckRedirect: sameHost}
	if c.target, _ = url.Parse(c.url); c.target != nil {
		basicAuth(c.target, c.headers)
	}
	if c.limiter == nil {
		c.limiter = NewLimiter()
	}
	c.permits = newPermits(limits, c.limiter, c.profile != nil && c.profile.CapReserved)
	return c
}

// transportBuffer is what each connection reads and writes through. What is
// larger goes past it, and ten thousand connections have two each.
const transportBuffer = 4 << 10

// maxHeaderBytes bounds the headers of one response.
const maxHeaderBytes = 256 << 10

func newTransport(l Limits) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: l.Connect, KeepAlive: 30 * time.Second, ControlContext: RefuseMetadata}).DialContext,
		TLSHandshakeTimeout:   l.Connect,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          l.mostInFlight(),
		MaxIdleConnsPerHost:   l.mostInFlight(),
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		// What endpoints send is below 10 KiB, and thousands may answer at once.
		MaxResponseHeaderBytes: maxHeaderBytes,
		ReadBufferSize:         transportBuffer,
		WriteBufferSize:        transportBuffer,
	}
}

func requestHeaders(dialect, extra map[string]string) http.Header {
	h := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"text/event-stream, application/json"},
		"User-Agent":   {"stillhouse"},
	}
	for name, value := range dialect {
		h.Set(name, value)
	}
	for name, value := range extra {
		h.Set(name, value)
	}
	return h
}

// sameHost follows a redirect only to the same scheme and host and only where
// the request stays what it is; elsewhere neither key nor prompt may go.
func sameHost(r *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) >= 5 || r.Method != first.Method || r.URL.Scheme != first.URL.Scheme || !strings.EqualFold(r.URL.Host, first.URL.Host) {
		return http.ErrUseLastResponse
	}
	return nil
}

func requestURL(base, path string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(base))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("base_url %s: want http:// or https:// and a host", redactURL(base))
	}
	u.Path = strings.TrimRight(u.Path, "/") + path
	u.RawPath = ""
	return u.String(), nil
}

// Close closes idle connections. No Ask may be running.
func (c *Client) Close() {
	if c.owned != nil {
		c.owned.CloseIdleConnections()
	}
	c.limiter.leave(c.permits)
}

// Ask asks once and waits for the whole answer, however long permits, retries
// and the endpoint's Retry-After take. A 429, 503 or 529 uses up no attempt.
// Every error is an *Error.
func (c *Client) Ask(ctx context.Context, r *Request) (*Reply, error) {
	var got *Reply
	err := c.AskAndKeep(ctx, ctx, r, func(reply *Reply) error { got = reply; return nil })
	return got, err
}

// AskAndKeep is Ask for a caller who must lose no answer. keep gets the reply;
// at most as many answers are being kept at once as requests may be in flight,
// and while that many are, no further request is sent: what a crash can cost is
// bounded by the teacher's concurrency. An error of keep is returned as it is.
// The caller stops in two steps: once admit ends no request is sent any more,
// and one that is under way goes on until ctx ends, because its answer is paid
// for. admit must end no later than ctx.
func (c *Client) AskAndKeep(ctx, admit context.Context, r *Request, keep func(*Reply) error) error {
	return c.AskKeeping(ctx, admit, r, Keeper{Answer: keep})
}

// AskKeeping is AskAndKeep that also tells of every failed request which may
// be charged.
func (c *Client) AskKeeping(ctx, admit context.Context, r *Request, k Keeper) error {
	t := c.permits.turn(r)
	if err := t.start(admit); err != nil {
		return c.cancelled(admit)
	}
	reply, err := c.askAdmitted(ctx, admit, r, t, k.Lost)
	if err != nil {
		t.release()
		return err
	}
	defer t.keep()()
	return k.Answer(reply)
}

// askAdmitted asks once, with a permit for the first request.
func (c *Client) askAdmitted(ctx, admit context.Context, r *Request, t *turn, lost func(*Error) error) (*Reply, error) {
	if c.unusable != nil {
		return nil, c.failed(&Error{Class: ClassBadRequest, Excerpt: c.unusable.Error(), cause: c.unusable})
	}
	body, err := c.wireBody(ctx, r)
	if err != nil {
		return nil, c.failed(err)
	}
	a := asking{client: c, body: body, request: r, turn: t, most: r.MostCost(), lost: lost}
	reply, err := a.run(ctx, admit)
	if a.unkept != nil {
		return nil, a.unkept
	}
	if err != nil {
		err.Attempts = a.attempts
		return nil, c.failed(err)
	}
	reply.Attempts = a.attempts
	c.permits.succeeded()
	return reply, nil
}

// failed completes an error that leaves Ask.
func (c *Client) failed(e *Error) *Error {
	e.Teacher = c.config.name()
	e.URL = c.shownURL
	if e.Class != ClassCancelled {
		c.permits.failed(e)
	}
	return e
}

func (c *Client) cancelled(ctx context.Context) *Error {
	cause := context.Cause(ctx)
	return &Error{Class: ClassCancelled, Teacher: c.config.name(), URL: c.shownURL, Excerpt: cause.Error(), cause: ctx.Err()}
}

// wireBody is what is sent: the canonical body with the transport fields and
// the cap before it and the images' bytes in it.
func (c *Client) wireBody(ctx context.Context, r *Request) ([]byte, *Error) {
	if len(r.Body) < 2 || r.Body[0] != '{' {
		return nil, &Error{Class: ClassBadRequest, Excerpt: "the request has no body; build it with a Builder"}
	}
	if r.unsendable != "" {
		return nil, &Error{Class: ClassBadRequest, Excerpt: c.secrets.excerpt(r.unsendable)}
	}
	dst := make([]byte, 1, len(r.Body)+160+len(r.transport))
	dst[0] = '{'
	dst = c.dialect.appendWire(dst, c.profile, r)
	rest := 1
	for _, slot := range r.images {
		if c.loadImage == nil {
			return nil, &Error{Class: ClassBadRequest, Excerpt: "the prompt has images and this client has no access to them"}
		}
		data, err := c.loadImage(ctx, slot.image)
		if err != nil {
			return nil, &Error{Class: ClassBadRequest, Excerpt: c.secrets.excerpt(fmt.Sprintf("image %s: %v", slot.image.Digest, err)), cause: err}
		}
		dst = append(dst, r.Body[rest:slot.start]...)
		dst = c.dialect.appendImage(dst, slot.image.MediaType, data)
		rest = slot.end
	}
	return append(dst, r.Body[rest:]...), nil
}

// asking is one Ask under way.
type asking struct {
	client         *Client
	body           []byte
	request        *Request
	turn           *turn
	most           int64              // micro-dollars that one attempt can cost
	charged        int64              // what the last one is charged
	lost           func(*Error) error // see Keeper
	unkept         error              // what lost said
	attempts       []Attempt
	sent           int // requests of runs among them whose times are kept
	failures       int
	throttles      int
	throttledSince time.Time
	key            string // that the last request went out with
	renewed        bool   // a refused key was read anew
}

// run sends the request until there is an answer or no more reason to try.
func (a *asking) run(ctx, admit context.Context) (*Reply, *Error) {
	for {
		if err := a.client.permits.stopped(); err != nil {
			return nil, err.notSent()
		}
		if err := a.turn.start(admit); err != nil {
			return nil, a.client.cancelled(admit)
		}
		if err := a.pay(admit); err != nil {
			return nil, err
		}
		started := time.Now()
		taken := a.client.share.begin()
		reply, err := a.client.attempt(ctx, a.body, &a.key)
		a.client.share.end(taken, reply, err)
		a.turn.over(a.client.permits.outcome(a.request, reply, err))
		a.settle(reply, err)
		a.record(started, reply, err)
		if err == nil {
			return reply, nil
		}
		wait, again := a.next(err)
		if !again {
			return nil, err
		}
		if a.unkept = a.told(err); a.unkept != nil {
			return nil, err
		}
		a.turn.release()
		if sleep(admit, wait) != nil {
			return nil, a.client.cancelled(admit)
		}
	}
}

// next decides whether a failed request is sent again, and after what wait.
func (a *asking) next(e *Error) (wait time.Duration, again bool) {
	switch {
	case a.renews(e):
		return 0, true
	case e.RetryAfter > longestWait, !e.Temporary(), e.final, e.Class == ClassCancelled:
		return 0, false
	case e.Class == ClassRateLimited || e.Class == ClassOverloaded:
		return a.throttled(e)
	}
	a.failures++
	if a.failures >= maxAttempts {
		return 0, false
	}
	wait = max(backoff(backoffFirst, backoffMost, a.failures-1), e.RetryAfter)
	a.client.permits.backsOff(time.Now().Add(wait), e)
	return wait, true
}

// throttled waits as the endpoint asked, with every other ask to it; where it
// named no time only this ask backs off, while the limiter lets in half as many.
func (a *asking) throttled(e *Error) (wait time.Duration, again bool) {
	now := time.Now()
	if a.throttledSince.IsZero() {
		a.throttledSince = now
	}
	if e.RetryAfter > 0 {
		return 0, now.Sub(a.throttledSince) < longestWait
	}
	if now.Sub(a.throttledSince) > throttlePatience {
		return 0, false
	}
	wait = backoff(throttleFirst, throttleMost, a.throttles)
	a.throttles++
	a.client.permits.backsOff(now.Add(wait), e)
	return wait, true
}

// backoff doubles with every failure and is spread over the upper half of the
// interval, so that asks which failed together do not come back together.
func backoff(first, most time.Duration, failures int) time.Duration {
	d := min(first<<min(failures, 20), most)
	return d/2 + rand.N(d/2+1)
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
