package teachers

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// A Config is one teacher as a worker uses it.
type Config struct {
	ID      string // the teacher's id in the recipe; names it in messages
	API     string // wire form: openai
	BaseURL string // such as https://api.example.com/v1, without the dialect's path
	Model   string
	// Identity is what answers are kept under; "" means BaseURL.
	Identity string
	// Key resolves the API key before each request; nil means none. The key
	// is never stored and never logged, and goes out only over https or to
	// loopback.
	Key func() (string, error)
	// Renew reads the key anew after the endpoint refused used, and tells
	// whether there is another one now; then the request is sent once more.
	// nil means that a refused key stays refused.
	Renew func(used string) bool
	// Known are further secrets of this process, such as the keys of other
	// teachers: they are kept out of answers and messages too. nil: none.
	Known   func() []string
	Headers map[string]string // extra request headers
	Limits  Limits
	Price   *Price // nil: not priced
	// Profile is how this endpoint differs from others of its dialect; nil
	// means what GuessProfile makes of the address.
	Profile *Profile
}

// Limits bound what one client asks and how long it waits. The zero value of a
// field means its default.
type Limits struct {
	// Concurrency is how many requests may be in flight; 0 means that none is
	// declared: it is learned, from DefaultConcurrency up to MostConcurrency.
	Concurrency int
	RPM         float64       // requests started in a minute; 0: no limit
	TPM         float64       // tokens in a minute, of prompts and answers; 0: no limit
	Connect     time.Duration // to an open connection, TLS included; default 10s
	FirstByte   time.Duration // from the open connection to the response's headers; default 2m
	Idle        time.Duration // silence between two pieces of a response; default 5m
	// NoProgress bounds the time in which only keep-alives arrive: comments,
	// blank lines and empty deltas are not progress. Default twice Idle.
	NoProgress time.Duration
	Total      time.Duration // one attempt, from sending to the last byte; default 60m
	MaxBytes   int64         // of one response after decompression; default 64 MiB
}

// Defaults of Limits.
const (
	DefaultConcurrency = 8 // where learning begins
	DefaultConnect     = 10 * time.Second
	DefaultFirstByte   = 2 * time.Minute
	DefaultIdle        = 5 * time.Minute
	DefaultTotal       = time.Hour
	DefaultMaxBytes    = 64 << 20
)

// WithDefaults fills the fields that are not set.
func (l Limits) WithDefaults() Limits {
	l.Concurrency = max(l.Concurrency, 0)
	setDefault(&l.Connect, DefaultConnect)
	setDefault(&l.FirstByte, DefaultFirstByte)
	setDefault(&l.Idle, DefaultIdle)
	setDefault(&l.NoProgress, 2*l.Idle)
	setDefault(&l.Total, DefaultTotal)
	if l.MaxBytes <= 0 {
		l.MaxBytes = DefaultMaxBytes
	}
	return l
}

// mostInFlight is how many requests may ever be in flight.
func (l Limits) mostInFlight() int {
	if l.Concurrency > 0 {
		return l.Concurrency
	}
	return MostConcurrency
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d <= 0 {
		*d = to
	}
}

// An Option changes how a client works.
type Option func(*Client)

// WithTransport makes the client send through rt instead of a transport of its
// own. The caller closes it.
func WithTransport(rt http.RoundTripper) Option {
	return func(c *Client) { c.transport = rt }
}

// WithLimiter makes the client keep to the limits of l, which it shares with
// every other client of the same model at the same endpoint. Without it the
// client has a limiter of its own.
func WithLimiter(l *Limiter) Option {
	return func(c *Client) { c.limiter = l }
}

// WithImages gives the client the bytes of a prompt's images. Without it a
// prompt with images is refused.
func WithImages(load func(context.Context, chat.Image) ([]byte, error)) Option {
	return func(c *Client) { c.loadImage = load }
}

// WithRoots makes the client trust these authorities and no others; nil: those of
// the system.
func WithRoots(roots *x509.CertPool) Option {
	return func(c *Client) { c.roots = roots }
}

// name is the teacher as messages call it.
func (c *Config) name() string {
	if c.ID == "" {
		return fmt.Sprintf("teacher %s", c.Model)
	}
	return fmt.Sprintf("teacher %s", c.ID)
}
