package teachers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// openAIBatch is OpenAI's batch API: files and batches.
type openAIBatch struct{}

// batchKeyField is the member of a batch's metadata that holds its order's key.
const batchKeyField = "stillhouse"

// chatEndpoint is the path that every row names.
const chatEndpoint = "/v1/chat/completions"

// listPages bounds how far back batches and files are looked through, and
// listPage is how many come at once.
const (
	listPages = 100
	listPage  = 100
)

func (openAIBatch) row(dst []byte, customID string, body []byte) []byte {
	dst = append(dst, `{"custom_id":`...)
	dst = chat.AppendString(dst, customID)
	dst = append(dst, `,"method":"POST","url":"`+chatEndpoint+`","body":`...)
	return append(append(dst, body...), '}')
}

func (openAIBatch) uploads() bool { return true }

func (openAIBatch) limits(host string) BatchLimits {
	if l, ok := vendorLimits[host]; ok {
		return l
	}
	return BatchLimits{Rows: 50_000, Bytes: 200_000_000}
}

func (openAIBatch) resultPath(_ *BatchClient, _ *Batch, f BatchFile) string {
	return "/files/" + url.PathEscape(f.ID) + "/content"
}

// Upload sends the request file and gives its id.
func (b *BatchClient) Upload(ctx context.Context, o *BatchOrder) (string, error) {
	if !b.form.uploads() {
		return "", nil
	}
	file, err := o.Open()
	if err != nil {
		return "", fmt.Errorf("open the request file of batch %s: %w", o.Key, err)
	}
	defer file.Close()
	var head bytes.Buffer
	w := multipart.NewWriter(&head)
	if err := w.WriteField("purpose", "batch"); err != nil {
		return "", err
	}
	if _, err := w.CreateFormFile("file", o.FileName()); err != nil {
		return "", err
	}
	tail := "\r\n--" + w.Boundary() + "--\r\n"
	body := io.MultiReader(bytes.NewReader(head.Bytes()), file, strings.NewReader(tail))
	var got struct {
		ID string `json:"id"`
	}
	if err := b.call(ctx, &batchCall{
		method: http.MethodPost, path: "/files", body: body, size: int64(head.Len()) + o.Size + int64(len(tail)),
		contentType: w.FormDataContentType(), long: true,
	}, &got); err != nil {
		return "", b.failed(err)
	}
	if got.ID == "" {
		return "", b.failed(&Error{Class: ClassMalformed, Excerpt: "the upload of the request file brought no file id"})
	}
	if err := b.checkID("file", got.ID, b.secrets()); err != nil {
		return "", b.failed(err)
	}
	return got.ID, nil
}

// FindUpload looks for the order's request file among those that were uploaded
// before; "" where there is none. A server that lists no files has none.
func (b *BatchClient) FindUpload(ctx context.Context, o *BatchOrder) (string, error) {
	if !b.form.uploads() {
		return "", nil
	}
	after := ""
	for range listPages {
		var page struct {
			Data []struct {
				ID       string `json:"id"`
				Filename string `json:"filename"`
				Bytes    int64  `json:"bytes"`
			} `json:"data"`
			HasMore bool `json:"has_more"`
		}
		err := b.call(ctx, &batchCall{method: http.MethodGet, path: "/files?purpose=batch&limit=" + strconv.Itoa(listPage) + afterQuery("after", after)}, &page)
		if err != nil && (err.Class == ClassNotFound || err.Class == ClassBadRequest) {
			return "", nil
		}
		if err != nil {
			return "", b.failed(err)
		}
		for _, f := range page.Data {
			if f.Filename == o.FileName() && f.Bytes == o.Size && b.checkID("file", f.ID, b.secrets()) == nil {
				return f.ID, nil
			}
		}
		if !page.HasMore || len(page.Data) == 0 {
			return "", nil
		}
		after = page.Data[len(page.Data)-1].ID
	}
	return "", nil
}

func afterQuery(name, id string) string {
	if id == "" {
		return ""
	}
	return "&" + name + "=" + url.QueryEscape(id)
}

// Discard deletes a file at the endpoint that is of no more use: some vendors
// keep only so many.
func (b *BatchClient) Discard(ctx context.Context, fileID string) error {
	if fileID == "" || !b.form.uploads() {
		return nil
	}
	if err := b.call(ctx, &batchCall{method: http.MethodDelete, path: "/files/" + url.PathEscape(fileID)}, nil); err != nil && err.Class != ClassNotFound {
		return b.failed(err)
	}
	return nil
}

func (openAIBatch) create(ctx context.Context, b *BatchClient, o *BatchOrder) (*Batch, *Error) {
	body, err := json.Marshal(map[string]any{
		"input_file_id": o.File, "endpoint": chatEndpoint, "completion_window": window(o.Window),
		"metadata": map[string]string{batchKeyField: o.Key},
	})
	if err != nil {
		return nil, &Error{Class: ClassBadRequest, Excerpt: err.Error(), cause: err}
	}
	var got openAIBatchObject
	if e := b.call(ctx, &batchCall{
		method: http.MethodPost, path: "/batches", body: bytes.NewReader(body), size: int64(len(body)),
		contentType: "application/json", idempotencyKey: "stillhouse-" + o.Key,
	}, &got); e != nil {
		return nil, e
	}
	return got.batch(b)
}

// window writes a duration as the API does: 24h, 7d.
func window(d time.Duration) string {
	if d <= 0 {
		d = 24 * time.Hour
	}
	if d > 24*time.Hour && d%(24*time.Hour) == 0 {
		return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
	}
	return strconv.FormatInt(int64(max(d/time.Hour, 1)), 10) + "h"
}

// openAIBatchObject is a batch as the API writes it.
type openAIBatchObject struct {
	ID            string            `json:"id"`
	Status        string            `json:"status"`
	CreatedAt     int64             `json:"created_at"`
	InputFileID   string            `json:"input_file_id"`
	OutputFileID  *string           `json:"output_file_id"`
	ErrorFileID   *string           `json:"error_file_id"`
	Metadata      map[string]string `json:"metadata"`
	RequestCounts struct {
		Total     int `json:"total"`
		Completed int `json:"completed"`
		Failed    int `json:"failed"`
	} `json:"request_counts"`
	Errors *struct {
		Data []struct {
			Code    json.RawMessage `json:"code"`
			Line    *int            `json:"line"`
			Message string          `json:"message"`
		} `json:"data"`
	} `json:"errors"`
}

func (o *openAIBatchObject) batch(b *BatchClient) (*Batch, *Error) {
	if o.ID == "" {
		return nil, &Error{Class: ClassMalformed, Excerpt: "a batch without an id came back"}
	}
	out := &Batch{
		ID: o.ID, Key: o.Metadata[batchKeyField], Word: o.Status, Created: time.Unix(o.CreatedAt, 0).UTC(), Input: o.InputFileID,
		Total: o.RequestCounts.Total, Done: o.RequestCounts.Completed, Failed: o.RequestCounts.Failed,
	}
	switch o.Status {
	case "completed":
		out.Ended = BatchCompleted
	case "failed":
		out.Ended = BatchFailed
	case "expired":
		out.Ended = BatchExpired
	case "cancelled", "canceled":
		out.Ended = BatchCancelled
	}
	if o.OutputFileID != nil && *o.OutputFileID != "" {
		out.Files = append(out.Files, BatchFile{ID: *o.OutputFileID})
	}
	if o.ErrorFileID != nil && *o.ErrorFileID != "" {
		out.Files = append(out.Files, BatchFile{ID: *o.ErrorFileID, Errors: true})
	}
	if o.Errors != nil {
		for _, e := range o.Errors.Data {
			if len(out.Errors) == mostBatchErrors {
				break
			}
			words := errorWords{message: e.Message, code: strings.Trim(string(e.Code), `"`)}
			be := BatchError{Code: b.client.secrets.excerpt(words.code), Message: b.client.secrets.excerpt(e.Message), Class: batchErrorClass(words)}
			if e.Line != nil && *e.Line > 0 {
				be.Line = *e.Line
			}
			out.Errors = append(out.Errors, be)
		}
	}
	return out, nil
}

// mostBatchErrors bounds the faults that are kept of one batch.
const mostBatchErrors = 1000

// batchErrorClass reads why a whole batch was refused.
func batchErrorClass(w errorWords) string {
	words := strings.ToLower(w.code + " " + w.message)
	for _, s := range []string{"token_limit_exceeded", "enqueued token limit", "rate_limit", "too many batches", "queue is full"} {
		if strings.Contains(words, s) {
			return ClassRateLimited
		}
	}
	return classOf(http.StatusBadRequest, w)
}

func (openAIBatch) status(ctx context.Context, b *BatchClient, id string) (*Batch, *Error) {
	var got openAIBatchObject
	if e := b.call(ctx, &batchCall{method: http.MethodGet, path: "/batches/" + url.PathEscape(id)}, &got); e != nil {
		return nil, e
	}
	return got.batch(b)
}

func (openAIBatch) cancel(ctx context.Context, b *BatchClient, id string) *Error {
	return ignoreEnded(b.call(ctx, &batchCall{method: http.MethodPost, path: "/batches/" + url.PathEscape(id) + "/cancel"}, nil))
}

// ignoreEnded passes over the refusal to cancel what has ended.
func ignoreEnded(e *Error) *Error {
	if e != nil && (e.Status == http.StatusConflict || e.Status == http.StatusBadRequest) {
		return nil
	}
	return e
}

func (openAIBatch) find(ctx context.Context, b *BatchClient, o *BatchOrder, since time.Time) (sure, _ []*Batch, _ *Error) {
	after := ""
	for range listPages {
		var page struct {
			Data    []openAIBatchObject `json:"data"`
			HasMore bool                `json:"has_more"`
		}
		if e := b.call(ctx, &batchCall{method: http.MethodGet, path: "/batches?limit=" + strconv.Itoa(listPage) + afterQuery("after", after)}, &page); e != nil {
			return nil, nil, e
		}
		old := false
		for i := range page.Data {
			p := &page.Data[i]
			// Servers that keep no metadata show the file that was uploaded under
			// the order's name.
			if p.Metadata[batchKeyField] == o.Key || len(p.Metadata) == 0 && o.File != "" && p.InputFileID == o.File {
				batch, e := p.batch(b)
				if e != nil {
					return nil, nil, e
				}
				sure = append(sure, batch)
			}
			old = old || p.CreatedAt > 0 && time.Unix(p.CreatedAt, 0).Before(since.Add(-clockSkew))
		}
		if !page.HasMore || len(page.Data) == 0 || old {
			return sure, nil, nil
		}
		after = page.Data[len(page.Data)-1].ID
	}
	return sure, nil, nil
}

// clockSkew is how far an endpoint's clock may be from ours.
const clockSkew = time.Hour

func (openAIBatch) read(line []byte, row *BatchRow) {
	var status int64
	var body, failure []byte
	c := walk(line)
	for c.next() {
		switch string(c.name) {
		case "custom_id":
			row.CustomID = textOf(c.value)
		case "error":
			if !isNull(c.value) {
				failure = c.value
			}
		case "response":
			r := walk(c.value)
			for r.next() {
				switch string(r.name) {
				case "status_code":
					status, _ = wholeNumber(r.value)
				case "request_id":
					row.RequestID = textOf(r.value)
				case "body":
					body = r.value
				}
			}
		}
	}
	if status < 0 || status > 999 {
		status = 0
	}
	row.Status = int(status)
	switch {
	case failure != nil:
		w := readErrorBody(failure)
		row.fail(rowClass(row.Status, w), w.message)
	case status >= 300:
		w := readErrorBody(body)
		row.fail(classOf(row.Status, w), w.message)
	case len(body) == 0 || body[0] != '{':
		row.fail(ClassMalformed, "the row holds neither an answer nor an error")
	default:
		row.Body = body
	}
}

// rowClass reads why a row has no response.
func rowClass(status int, w errorWords) string {
	words := strings.ToLower(w.code + " " + w.kind)
	switch {
	case strings.Contains(words, "expired"):
		return ClassExpired
	case strings.Contains(words, "cancel"):
		return ClassCancelled
	case status >= 400:
		return classOf(status, w)
	case w.status >= 400:
		return classOf(int(w.status), w)
	}
	return classOf(http.StatusInternalServerError, w)
}
