package teachers

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// anthropicBatch is Anthropic's Message Batches API. Requests go up with the
// submission; a batch carries no key of ours, so that one whose answer was lost
// is known by its row count and proved by its rows' custom ids.
type anthropicBatch struct{}

func (anthropicBatch) row(dst []byte, customID string, body []byte) []byte {
	dst = append(dst, `{"custom_id":`...)
	dst = chat.AppendString(dst, customID)
	dst = append(dst, `,"params":`...)
	return append(append(dst, body...), '}')
}

func (anthropicBatch) uploads() bool { return false }

func (anthropicBatch) limits(string) BatchLimits {
	return BatchLimits{Rows: 100_000, Bytes: 256_000_000}
}

func (b *BatchClient) batchesPath() string { return b.client.dialect.path() + "/batches" }

func (anthropicBatch) resultPath(b *BatchClient, batch *Batch, _ BatchFile) string {
	return b.batchesPath() + "/" + url.PathEscape(batch.ID) + "/results"
}

func (anthropicBatch) create(ctx context.Context, b *BatchClient, o *BatchOrder) (*Batch, *Error) {
	file, err := o.Open()
	if err != nil {
		return nil, &Error{Class: ClassBadRequest, Excerpt: fmt.Sprintf("open the request file of batch %s: %v", o.Key, err), cause: err}
	}
	defer file.Close()
	const head, tail = `{"requests":[`, `]}`
	var got anthropicBatchObject
	// Of the file's lines the last end goes, and the others become commas.
	if e := b.call(ctx, &batchCall{
		method: http.MethodPost, path: b.batchesPath(), contentType: "application/json", long: true,
		body: io.MultiReader(bytes.NewReader([]byte(head)), &commaReader{r: bufio.NewReaderSize(file, 64<<10)}, bytes.NewReader([]byte(tail))),
		size: int64(len(head)) + max(o.Size-1, 0) + int64(len(tail)), idempotencyKey: "stillhouse-" + o.Key,
	}, &got); e != nil {
		return nil, e
	}
	return got.batch()
}

// A commaReader reads lines as elements of an array: every end of a line but
// the last is a comma.
type commaReader struct{ r *bufio.Reader }

func (c *commaReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	for i := range p[:n] {
		if p[i] != '\n' {
			continue
		}
		if i == n-1 {
			if _, perr := c.r.Peek(1); perr != nil {
				return n - 1, perr
			}
		}
		p[i] = ','
	}
	return n, err
}

// anthropicBatchObject is a batch as the API writes it.
type anthropicBatchObject struct {
	ID               string     `json:"id"`
	ProcessingStatus string     `json:"processing_status"`
	CreatedAt        time.Time  `json:"created_at"`
	CancelAt         *time.Time `json:"cancel_initiated_at"`
	ResultsURL       *string    `json:"results_url"`
	RequestCounts    struct {
		Processing int `json:"processing"`
		Succeeded  int `json:"succeeded"`
		Errored    int `json:"errored"`
		Canceled   int `json:"canceled"`
		Expired    int `json:"expired"`
	} `json:"request_counts"`
}

func (o *anthropicBatchObject) batch() (*Batch, *Error) {
	if o.ID == "" {
		return nil, &Error{Class: ClassMalformed, Excerpt: "a batch without an id came back"}
	}
	n := o.RequestCounts
	out := &Batch{
		ID: o.ID, Word: o.ProcessingStatus, Created: o.CreatedAt,
		Total: n.Processing + n.Succeeded + n.Errored + n.Canceled + n.Expired, Done: n.Succeeded, Failed: n.Errored + n.Canceled + n.Expired,
	}
	if o.ProcessingStatus != "ended" {
		return out, nil
	}
	switch {
	case n.Expired > 0:
		out.Ended = BatchExpired
	case n.Canceled > 0:
		out.Ended = BatchCancelled
	default:
		out.Ended = BatchCompleted
	}
	if o.ResultsURL != nil && *o.ResultsURL != "" || out.Total > 0 {
		out.Files = []BatchFile{{ID: o.ID}}
	}
	return out, nil
}

func (anthropicBatch) status(ctx context.Context, b *BatchClient, id string) (*Batch, *Error) {
	var got anthropicBatchObject
	if e := b.call(ctx, &batchCall{method: http.MethodGet, path: b.batchesPath() + "/" + url.PathEscape(id)}, &got); e != nil {
		return nil, e
	}
	return got.batch()
}

func (anthropicBatch) cancel(ctx context.Context, b *BatchClient, id string) *Error {
	return ignoreEnded(b.call(ctx, &batchCall{method: http.MethodPost, path: b.batchesPath() + "/" + url.PathEscape(id) + "/cancel"}, nil))
}

func (anthropicBatch) find(ctx context.Context, b *BatchClient, o *BatchOrder, since time.Time) (_, maybe []*Batch, _ *Error) {
	after := ""
	for range listPages {
		var page struct {
			Data    []anthropicBatchObject `json:"data"`
			HasMore bool                   `json:"has_more"`
			LastID  string                 `json:"last_id"`
		}
		if e := b.call(ctx, &batchCall{method: http.MethodGet, path: b.batchesPath() + "?limit=" + strconv.Itoa(listPage) + afterQuery("after_id", after)}, &page); e != nil {
			return nil, nil, e
		}
		old := false
		for i := range page.Data {
			batch, e := page.Data[i].batch()
			if e != nil {
				return nil, nil, e
			}
			switch {
			case batch.Created.Before(since.Add(-clockSkew)):
				old = true
			case batch.Total == o.Rows:
				maybe = append(maybe, batch)
			}
		}
		if !page.HasMore || len(page.Data) == 0 || old {
			return nil, maybe, nil
		}
		if after = page.LastID; after == "" {
			after = page.Data[len(page.Data)-1].ID
		}
	}
	return nil, maybe, nil
}

func (anthropicBatch) read(line []byte, row *BatchRow) {
	var kind string
	var message, failure []byte
	c := walk(line)
	for c.next() {
		switch string(c.name) {
		case "custom_id":
			row.CustomID = textOf(c.value)
		case "result":
			r := walk(c.value)
			for r.next() {
				switch string(r.name) {
				case "type":
					kind = textOf(r.value)
				case "message":
					message = r.value
				case "error":
					failure = r.value
				}
			}
		}
	}
	switch kind {
	case "succeeded":
		if len(message) == 0 || message[0] != '{' {
			row.fail(ClassMalformed, "the row succeeded and holds no message")
			return
		}
		row.Status, row.Body = http.StatusOK, message
	case "errored":
		w := readErrorBody(innerError(failure))
		row.Status = anthropicStatus[w.kind]
		row.fail(classOf(max(row.Status, http.StatusBadRequest), w), w.message)
		if row.Status == 0 {
			row.Failure.Class = ClassServer
		}
	case "canceled", "cancelled":
		row.fail(ClassCancelled, "the batch was cancelled before this row was answered")
	case "expired":
		row.fail(ClassExpired, "the batch expired before this row was answered")
	default:
		row.fail(ClassMalformed, "the row holds neither an answer nor an error")
	}
}

// innerError takes the envelope {"type": "error", "error": {…}} off.
func innerError(value []byte) []byte {
	c := walk(value)
	for c.next() {
		if string(c.name) == "error" && len(c.value) > 0 && c.value[0] == '{' {
			return c.value
		}
	}
	return value
}

// anthropicStatus are the statuses that the types of errors stand for.
var anthropicStatus = map[string]int{
	"invalid_request_error": http.StatusBadRequest, "authentication_error": http.StatusUnauthorized,
	"billing_error": http.StatusPaymentRequired, "permission_error": http.StatusForbidden, "not_found_error": http.StatusNotFound,
	"request_too_large": http.StatusRequestEntityTooLarge, "rate_limit_error": http.StatusTooManyRequests,
	"api_error": http.StatusInternalServerError, "timeout_error": http.StatusGatewayTimeout, "overloaded_error": statusOverloaded,
}
