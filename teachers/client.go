package teachers

import (
	"context"
	"net/http"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// A Client asks one teacher for one worker. It owns its connections, its
// permits and its gate; it is safe for concurrent use.
type Client struct {
	config    *Config
	transport http.RoundTripper
	loadImage func(context.Context, chat.Image) ([]byte, error)
}

// State is what a client is doing, for progress.
type State struct {
	InFlight int       // requests sent and not answered
	Waiting  int       // asks that wait for a permit
	Done     int64     // asks that brought a reply
	Failed   int64     // asks that ended in an error, cancelled ones apart
	Why      string    // why asks wait, such as "429: waits 12 s as asked"; "" where they do not
	Until    time.Time // when that ends; zero where it is not known
}

// NewClient makes a client; Close it.
func NewClient(c *Config, options ...Option) *Client {
	client := &Client{config: c}
	for _, o := range options {
		o(client)
	}
	return client
}

// Ask asks once and waits for the whole answer, however long permits, retries
// and the endpoint's Retry-After take. Every error is an *Error.
func (c *Client) Ask(ctx context.Context, r *Request) (*Reply, error) {
	return nil, &Error{Class: ClassServer}
}

// State says what the client is doing.
func (c *Client) State() State { return State{} }

// Close closes idle connections. No Ask may be running.
func (c *Client) Close() {}

// Parse reads a raw response. It is pure: the same bytes give the same answer.
// Its errors are of type *Error; success needs a terminal finish reason.
func Parse(format string, raw []byte) (*Answer, error) { return nil, &Error{Class: ClassMalformed} }

type chatDecoder struct{}

func (*chatDecoder) event(name, data []byte) (bool, error) { return false, nil }
func (*chatDecoder) whole([]byte) error                    { return nil }
func (*chatDecoder) finished() bool                        { return false }
func (*chatDecoder) closed() bool                          { return false }
func (*chatDecoder) answer() (*Answer, error)              { return nil, nil }
