package teachers

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A BatchClient buys answers through an endpoint's batch API: a file of
// requests goes up, the endpoint works through it within a day at half the
// price, and a file of results comes down. It speaks OpenAI's form (also that
// of any server that has it) and Anthropic's.
//
// It holds no state: what was submitted, and whether, is its caller's to keep.
// Submitting is the one step that costs money, and the one whose answer can be
// lost; [BatchClient.Find] tells then what became of it.
type BatchClient struct {
	client *Client
	form   batchForm
}

// BatchLimits bound one batch file.
type BatchLimits struct {
	Rows  int
	Bytes int64
}

// A BatchOrder is a file of requests that is to be bought.
type BatchOrder struct {
	// Key names the order by its content: hex digits, the same for the same
	// requests. It goes to the endpoint as the file's name and as metadata, and
	// its first digits are in every row's custom id.
	Key    string
	Rows   int
	Size   int64         // bytes of the file
	Window time.Duration // in which the endpoint is to answer
	// Open reads the request file: one row of [BatchClient.AppendRow] a line.
	Open func() (io.ReadCloser, error)
	// File is what the upload gave; "" where the form uploads nothing.
	File string
}

// FileName is what the request file is called at the endpoint.
func (o *BatchOrder) FileName() string { return "stillhouse-" + o.Key + ".jsonl" }

// How a batch ended. The endpoint's own word for a batch that runs is Batch.Word.
const (
	BatchCompleted = "completed" // all of it was worked through
	BatchFailed    = "failed"    // it was refused as a whole: nothing of it ran
	BatchExpired   = "expired"   // the window passed; what had finished by then is kept
	BatchCancelled = "cancelled" // somebody cancelled it; what had finished by then is kept
)

// A Batch is what an endpoint says of a batch.
type Batch struct {
	ID      string
	Key     string // the order's, where the form keeps it
	Word    string // the state in the endpoint's own words, such as in_progress
	Ended   string // "" while it runs, else one of BatchCompleted and so on
	Created time.Time
	Total   int // rows, as the endpoint counts them; 0 while it has not
	Done    int // rows that have an answer
	Failed  int // rows that have an error
	Input   string
	Files   []BatchFile  // of results
	Errors  []BatchError // of a batch that was refused as a whole
}

// A BatchFile is one file of results.
type BatchFile struct {
	ID     string
	Errors bool // rows without an answer
}

// A BatchError is a fault of the request file.
type BatchError struct {
	Line    int // from 1; 0 where the endpoint names none
	Code    string
	Message string // bounded and redacted
	Class   string
}

// batchForm is how one API does it. The methods of the client put requests and
// errors around it.
type batchForm interface {
	// row appends one line of the request file, without its end.
	row(dst []byte, customID string, body []byte) []byte
	// uploads tells whether the file goes up by itself before the batch is made.
	uploads() bool
	create(ctx context.Context, b *BatchClient, o *BatchOrder) (*Batch, *Error)
	find(ctx context.Context, b *BatchClient, o *BatchOrder, since time.Time) (sure, maybe []*Batch, err *Error)
	status(ctx context.Context, b *BatchClient, id string) (*Batch, *Error)
	cancel(ctx context.Context, b *BatchClient, id string) *Error
	// resultPath is where a file of results is read, below the base URL.
	resultPath(b *BatchClient, batch *Batch, f BatchFile) string
	// read takes one line of a result file apart.
	read(line []byte, row *BatchRow)
	limits(host string) BatchLimits
}

// Batch APIs, as recipes call them.
const (
	APIOpenAIBatch    = "openai-batch"
	APIAnthropicBatch = "anthropic-batch"
)

// IsBatch tells whether an API is a batch API.
func IsBatch(api string) bool { return strings.HasSuffix(api, "-batch") }

// OnlineAPI is the API that answers one request at a time in the same family.
func OnlineAPI(api string) string { return strings.TrimSuffix(api, "-batch") }

// NewBatchClient makes a client for one teacher. The config's API may name the
// batch API or the online one of its family. Close it.
func NewBatchClient(config *Config, options ...Option) (*BatchClient, error) {
	c := *config
	c.API = OnlineAPI(config.API)
	b := &BatchClient{}
	switch c.API {
	case "openai":
		b.form = openAIBatch{}
	case "anthropic":
		b.form = anthropicBatch{}
	default:
		return nil, fmt.Errorf("api %q has no batch form", config.API)
	}
	b.client = NewClient(&c, options...)
	return b, nil
}

// Close closes idle connections. No call may be under way.
func (b *BatchClient) Close() { b.client.Close() }

// Limits are the vendor's limits of one file, or OpenAI's where the vendor is
// not known.
func (b *BatchClient) Limits() BatchLimits {
	host := ""
	if u, err := url.Parse(b.client.config.BaseURL); err == nil {
		host = strings.ToLower(u.Hostname())
	}
	return b.form.limits(host)
}

// AppendRow appends one line of a request file, its end included.
func (b *BatchClient) AppendRow(ctx context.Context, dst []byte, customID string, r *Request) ([]byte, error) {
	if b.client.unusable != nil {
		return dst, b.failed(&Error{Class: ClassBadRequest, Excerpt: b.client.unusable.Error(), cause: b.client.unusable})
	}
	body, err := b.client.wireBody(ctx, r)
	if err != nil {
		return dst, b.failed(err)
	}
	return append(b.form.row(dst, customID, unstreamed(body)), '\n'), nil
}

// unstreamed takes what only a streamed request may hold out of a body.
func unstreamed(body []byte) []byte {
	out := make([]byte, 1, len(body))
	out[0] = '{'
	c := walk(body)
	for c.next() {
		if name := string(c.name); name == "stream" || name == "stream_options" {
			continue
		}
		out = append(out, '"')
		out = append(append(out, c.name...), '"', ':')
		out = append(append(out, c.value...), ',')
	}
	if len(out) == 1 {
		return body // no object; the endpoint says what it thinks of it
	}
	out[len(out)-1] = '}'
	return out
}

// Uploads tells whether the form uploads the file before the batch is made.
func (b *BatchClient) Uploads() bool { return b.form.uploads() }

// Create submits the order: from here on it is paid for. An error for which
// [Refused] holds means that nothing was submitted. After any other it is not
// known: wait until the endpoint must have done with the request, then
// [BatchClient.Find] it.
func (b *BatchClient) Create(ctx context.Context, o *BatchOrder) (*Batch, error) {
	batch, err := b.form.create(ctx, b, o)
	if err == nil {
		err = b.check(batch)
	}
	if err != nil {
		return nil, b.failed(err)
	}
	return batch, nil
}

// Find looks for an order at the endpoint, among what was made since a moment.
// Sure ones carry the order's key. Where the form keeps no key, maybe ones have
// as many rows; whose they are shows in their results.
func (b *BatchClient) Find(ctx context.Context, o *BatchOrder, since time.Time) (sure, maybe []*Batch, err error) {
	sure, maybe, e := b.form.find(ctx, b, o, since)
	if e == nil {
		e = b.check(slices.Concat(sure, maybe)...)
	}
	if e != nil {
		return nil, nil, b.failed(e)
	}
	return sure, maybe, nil
}

// Status asks how a batch stands.
func (b *BatchClient) Status(ctx context.Context, id string) (*Batch, error) {
	batch, err := b.form.status(ctx, b, id)
	if err == nil {
		err = b.check(batch)
	}
	if err != nil {
		return nil, b.failed(err)
	}
	return batch, nil
}

// Cancel asks the endpoint to stop. What has finished by then is kept and
// paid for. A batch that has ended already is no error.
func (b *BatchClient) Cancel(ctx context.Context, id string) error {
	if err := b.form.cancel(ctx, b, id); err != nil {
		return b.failed(err)
	}
	return nil
}

// Refused tells whether an error of Create is the endpoint's clear no, after
// which nothing was submitted.
func Refused(err error) bool {
	e, ok := asError(err)
	if !ok {
		return false
	}
	switch e.Status {
	case 0:
		return e.Class == ClassAuth || e.Class == ClassBadRequest // never sent
	case 408, 409, 425:
		return false
	}
	return e.Status >= 400 && e.Status < 500 || e.Status >= 300 && e.Status < 400
}

func (b *BatchClient) failed(e *Error) *Error {
	e.Teacher = b.client.config.name()
	if e.URL == "" {
		e.URL = redactURL(b.client.config.BaseURL)
	}
	return e
}

// vendorLimits are the limits of vendors whose batch files are smaller than
// OpenAI's (platform.moonshot.ai, batch API: 100 MB).
var vendorLimits = map[string]BatchLimits{
	"api.moonshot.ai": {Rows: 50_000, Bytes: 100_000_000},
	"api.moonshot.cn": {Rows: 50_000, Bytes: 100_000_000},
}
