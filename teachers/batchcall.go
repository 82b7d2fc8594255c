package teachers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// controlTime bounds a call that moves no file.
	controlTime = 2 * time.Minute
	// controlBytes bounds what such a call may answer: a page of a list.
	controlBytes = 8 << 20
	// fileTime bounds a call that moves one, besides the limit of silence.
	fileTime = 6 * time.Hour
	// mostResultBytes bounds one file of results.
	mostResultBytes = 32 << 30
)

// A batchCall is one request to a batch API.
type batchCall struct {
	method, path   string
	body           io.Reader
	size           int64
	contentType    string
	idempotencyKey string
	long           bool // it moves a file
}

// call sends a request once and decodes its answer into out, unless that is nil.
func (b *BatchClient) call(ctx context.Context, c *batchCall, out any) *Error {
	return b.send(ctx, c, func(body io.Reader, secrets secrets) *Error {
		text, err := io.ReadAll(io.LimitReader(body, controlBytes+1))
		switch {
		case err != nil:
			return &Error{Class: ClassNetwork, Excerpt: secrets.excerpt(err.Error()), cause: err}
		case len(text) > controlBytes:
			return &Error{Class: ClassMalformed, Excerpt: "the answer of the batch API is larger than any that it should give"}
		case out == nil:
			return nil
		}
		if err := json.Unmarshal(text, out); err != nil {
			return &Error{Class: ClassMalformed, Excerpt: secrets.excerpt(string(text[:min(len(text), excerptBytes)])), cause: err}
		}
		return nil
	})
}

// send sends a request once and hands over the body of a 2xx.
func (b *BatchClient) send(parent context.Context, c *batchCall, take func(io.Reader, secrets) *Error) (failure *Error) {
	shown := ""
	defer func() {
		if failure != nil && failure.URL == "" {
			failure.URL = shown
		}
	}()
	cl := b.client
	if cl.unusable != nil {
		return &Error{Class: ClassBadRequest, Excerpt: cl.unusable.Error(), cause: cl.unusable}
	}
	// The path may hold a query, which requestURL would escape.
	path, query, _ := bytes.Cut([]byte(c.path), []byte("?"))
	address, err := requestURL(cl.config.BaseURL, string(path))
	if err != nil {
		return &Error{Class: ClassBadRequest, Excerpt: err.Error(), cause: err}
	}
	shown = redactURL(address)
	key, failure := cl.key()
	if failure != nil {
		return failure
	}
	secrets := cl.hidden(key)
	ctx, guard, stop := b.guard(parent, c.long)
	defer stop()
	if len(query) > 0 {
		address += "?" + string(query)
	}
	r, err := http.NewRequestWithContext(ctx, c.method, address, nil)
	if err != nil {
		err = cmpError(errors.Unwrap(err), err) // without the URL
		return &Error{Class: ClassBadRequest, Excerpt: secrets.excerpt(err.Error()), cause: err}
	}
	// As an ask it carries the key, the recipe's headers and the dialect's own.
	r.Header = cl.header(key).Clone()
	if c.body != nil {
		r.Body, r.ContentLength = io.NopCloser(&guardedReader{c.body, guard}), c.size
	}
	r.Header.Del("Content-Type")
	if c.contentType != "" {
		r.Header.Set("Content-Type", c.contentType)
	}
	r.Header.Set("Accept", "application/json, */*")
	if c.idempotencyKey != "" {
		r.Header.Set("Idempotency-Key", c.idempotencyKey)
	}
	response, err := cl.http.Do(r)
	if err != nil {
		return lost(parent, ctx, secrets, err)
	}
	defer response.Body.Close()
	guard()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		e := cl.refused(response, secrets)
		if e.Status == http.StatusUnauthorized && cl.config.Renew != nil && cl.config.Renew(key) {
			e.Class = ClassServer // the key was rotated; the next try has the new one
		}
		return e
	}
	e := take(&guardedReader{response.Body, guard}, secrets)
	if e != nil && e.Class == ClassNetwork {
		// A limit of ours that passed ends the connection.
		e = lost(parent, ctx, secrets, cmpError(e.cause, e))
	}
	if e != nil {
		e.Status = response.StatusCode
		e.RetryAfter = retryAfter(response.Header, time.Now())
	}
	return e
}

func cmpError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// guard ends a call that is silent for longer than limits.idle, or too long in
// all. touch says that something moved.
func (b *BatchClient) guard(parent context.Context, long bool) (ctx context.Context, touch, stop func()) {
	total := controlTime
	if long {
		total = fileTime
	}
	ctx, cancel := context.WithCancelCause(parent)
	idle := max(b.client.limits.Idle, b.client.limits.FirstByte)
	all := time.AfterFunc(total, func() { cancel(&limitError{limit: limitTotal, after: total}) })
	silent := time.AfterFunc(idle, func() { cancel(&limitError{limit: "idle", after: idle}) })
	return ctx, func() { silent.Reset(idle) }, func() {
		all.Stop()
		silent.Stop()
		cancel(nil)
	}
}

// A guardedReader touches its guard with every piece.
type guardedReader struct {
	r     io.Reader
	touch func()
}

func (g *guardedReader) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	if n > 0 {
		g.touch()
	}
	return n, err
}

// Fetch writes one file of results, as it comes, and gives its bytes. A file
// whose end did not come is an error; what was written is then of no use.
func (b *BatchClient) Fetch(ctx context.Context, batch *Batch, f BatchFile, to io.Writer) (int64, error) {
	var n int64
	e := b.send(ctx, &batchCall{method: http.MethodGet, path: b.form.resultPath(b, batch, f), long: true}, func(body io.Reader, secrets secrets) *Error {
		in := &readFailure{r: body}
		var err error
		n, err = io.Copy(to, io.LimitReader(in, mostResultBytes+1))
		switch {
		case in.err != nil:
			return &Error{Class: ClassNetwork, Excerpt: secrets.excerpt(in.err.Error()), cause: in.err}
		case err != nil:
			return &Error{Class: ClassCancelled, Excerpt: "keep the file of results: " + err.Error(), cause: err}
		case n > mostResultBytes:
			return &Error{Class: ClassTooLarge, Excerpt: fmt.Sprintf("the file of results is larger than %d bytes", int64(mostResultBytes))}
		}
		return nil
	})
	if e != nil {
		return n, b.failed(e)
	}
	return n, nil
}

// readFailure tells a connection's failure from the writer's.
type readFailure struct {
	r   io.Reader
	err error
}

func (f *readFailure) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

func asError(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}
