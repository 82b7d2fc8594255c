package teachers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Sizes of what is read.
const (
	errorBodyBytes = 64 << 10 // of a response that is no 200
	firstBuffer    = 16 << 10
	keptBuffer     = 1 << 20 // larger buffers are not kept for the next response
	headerBytes    = 256     // of one response header that is kept
	keptMost       = 32      // response headers that are kept
)

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, firstBuffer); return &b }}

// attempt sends the request once; used is set to the key that it goes out with.
func (c *Client) attempt(parent context.Context, body []byte, used *string) (got *Reply, failed *Error) {
	key, failure := c.key()
	if failure != nil {
		return nil, failure
	}
	*used = key
	secrets := c.hidden(key)
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	dog := watch(&c.limits, cancel)
	defer dog.stop()
	defer c.flights.add(dog)()
	defer func() {
		if failed != nil {
			// Another's transport need not tell when it has a connection.
			failed.sent = c.owned == nil || dog.phase.Load() >= phaseSent
		}
	}()
	traceOf(parent).sent()
	response, err := c.send(ctx, body, key, dog)
	if err != nil {
		return nil, lost(parent, ctx, secrets, err)
	}
	defer response.Body.Close()
	dog.enter(phaseReading)
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, c.refused(response, secrets)
	}
	in := incoming{dog: dog, dec: c.dialect.decoder(), max: c.limits.MaxBytes, trace: traceOf(parent)}
	defer in.free()
	answer, failure, readErr := in.all(response.Body)
	if failure != nil {
		if readErr != nil && failure.Class != ClassTooLarge && in.reported == nil {
			lost := lost(parent, ctx, secrets, readErr)
			if lost.Class == ClassNetwork && in.text {
				lost.Class = ClassTruncated
			}
			failure = lost
		}
		e := *failure
		e.Status = response.StatusCode
		e.Excerpt = secrets.excerpt(e.Excerpt)
		if !in.blank() {
			e.Partial, e.Format = secrets.partial(bytes.Clone(in.buf)), c.formatOf(in.kind)
		}
		e.RetryAfter = retryAfter(response.Header, time.Now())
		e.reason = reasonOf(e.Excerpt, response.Header)
		return nil, &e
	}
	return c.reply(response, &in, answer, secrets)
}

func (c *Client) reply(response *http.Response, in *incoming, answer *Answer, secrets secrets) (*Reply, *Error) {
	raw := bytes.Clone(in.buf)
	r := &Reply{
		Status: response.StatusCode, Headers: secrets.redactHeaders(keptHeaders(response.Header)),
		Started: in.dog.start, TTFT: in.ttft, Latency: in.latency,
	}
	stream, plain := c.dialect.formats()
	r.Format = plain
	if in.kind == bodyStream {
		r.Format = stream
	}
	var ok bool
	if r.Raw, r.answer, ok = secrets.withoutSecrets(r.Format, raw, answer); !ok {
		return nil, keyInAnswer(response.StatusCode)
	}
	return r, nil
}

// lost is a request or a response that the network, a limit or our own context
// ended.
func lost(parent, ctx context.Context, secrets secrets, err error) *Error {
	if parent.Err() != nil {
		return &Error{Class: ClassCancelled, Excerpt: context.Cause(parent).Error(), cause: parent.Err()}
	}
	var limit *limitError
	if errors.As(context.Cause(ctx), &limit) {
		return &Error{Class: ClassTimeout, Excerpt: limit.Error(), final: limit.final, cause: limit}
	}
	if errors.Is(err, errMetadata) {
		return &Error{Class: ClassNotFound, Excerpt: errMetadata.Error(), final: true, cause: errMetadata}
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the URL, which may hold a secret
	}
	class := ClassNetwork
	if errors.Is(err, context.DeadlineExceeded) {
		class = ClassTimeout
	}
	return &Error{Class: class, Excerpt: secrets.excerpt(err.Error()), cause: err}
}

// refused is a response with another status than 2xx.
func (c *Client) refused(response *http.Response, secrets secrets) *Error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, errorBodyBytes))
	words := readErrorBody(bytes.TrimSpace(body))
	e := &Error{Status: response.StatusCode, RetryAfter: refusedFor(response.Header, time.Now())}
	if response.StatusCode < 400 {
		e.Class = ClassBadRequest
		e.Excerpt = "it redirects to " + secrets.excerpt(redactURL(response.Header.Get("Location"))) +
			"; keys and prompts never follow a redirect to another host: set base_url to the right one"
		return e
	}
	e.Class = classOf(response.StatusCode, words)
	e.reason = reasonOf(words.message, response.Header)
	e.Excerpt = secrets.excerpt(words.message)
	if e.Excerpt == "" {
		e.Excerpt = http.StatusText(response.StatusCode)
	}
	return e
}

// retryAfter reads how long an endpoint asks us to wait: retry-after-ms, or
// Retry-After as seconds or as a date, which counts from the endpoint's own
// clock where it sends one. 0 means that it does not say.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(min(ms, 1e12) * float64(time.Millisecond))
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		if !(s > 0) {
			return 0
		}
		return time.Duration(min(s, 1e9) * float64(time.Second))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	return max(at.Sub(now), 0)
}

// keptHeaders are the response headers worth keeping beside an answer.
func keptHeaders(h http.Header) map[string]string {
	var names []string
	for name, values := range h {
		if len(values) > 0 && len(name) <= headerBytes && keptHeader(name) {
			names = append(names, name)
		}
	}
	if names == nil {
		return nil
	}
	slices.Sort(names)
	out := make(map[string]string, min(len(names), keptMost))
	for _, name := range names[:min(len(names), keptMost)] {
		out[strings.ToLower(name)] = h[name][0][:min(len(h[name][0]), headerBytes)]
	}
	return out
}

// keptHeader tells by a header's canonical name whether it is kept.
func keptHeader(name string) bool {
	switch name {
	case "X-Request-Id", "Request-Id", "Openai-Processing-Ms", "Openai-Version", "Openai-Model", "Cf-Ray", "X-Generation-Id":
		return true
	}
	return strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Anthropic-Ratelimit-")
}

// incoming is a response that is being read.
type incoming struct {
	dog      *watchdog
	dec      decoder
	max      int64
	pooled   *[]byte
	buf      []byte
	kind     bodyKind
	start    int // of a JSON body
	events   sseReader
	text     bool // the model's text began
	ttft     time.Duration
	trace    *Trace
	latency  time.Duration
	tooLarge bool
	reported error // the decoder's, in the middle of a stream
}

// all reads the body and what it says. A fault of our own decoder must not cost
// the worker all that it has in flight, nor be paid for again at once.
func (in *incoming) all(body io.Reader) (answer *Answer, failure *Error, readErr error) {
	defer func() {
		if r := recover(); r != nil {
			answer, failure = nil, decoderFault(r)
		}
	}()
	readErr = in.read(body)
	answer, failure = in.answer()
	return answer, failure, readErr
}

// read takes in the body until it ends, the decoder reports an error, or a
// limit passes. Its error is that of the connection.
func (in *incoming) read(body io.Reader) error {
	in.pooled = buffers.Get().(*[]byte)
	in.buf = (*in.pooled)[:0]
	for {
		if len(in.buf) == cap(in.buf) {
			in.buf = append(in.buf, 0)[:len(in.buf)]
		}
		n, err := body.Read(in.buf[len(in.buf):cap(in.buf)])
		in.buf = in.buf[:len(in.buf)+n]
		if int64(len(in.buf)) > in.max {
			in.tooLarge = true
			return nil
		}
		ended := err != nil
		if n > 0 || ended {
			in.take(n, ended)
		}
		switch {
		case err == io.EOF:
			return nil
		case ended:
			return err
		case in.reported != nil:
			return nil
		}
	}
}

// take looks at what is new in the buffer.
func (in *incoming) take(n int, ended bool) {
	now := in.dog.now()
	in.dog.byteAt.Store(now)
	if in.kind == bodyUnknown {
		in.kind, in.start = sniff(in.buf, in.start, ended)
	}
	switch in.kind {
	case bodyStream:
		in.takeEvents(now, ended)
	case bodyJSON:
		if !in.text {
			in.text, in.ttft = true, time.Duration(now)
			in.trace.firstText()
		}
		in.latency = time.Duration(now)
		in.dog.progress.Store(now)
	}
}

func (in *incoming) takeEvents(now int64, ended bool) {
	in.decode(now, ended)
	if in.events.midData(in.buf) {
		in.dog.progress.Store(now)
	}
}

func (in *incoming) decode(now int64, ended bool) {
	for in.reported == nil && !in.dec.closed() {
		name, data, ok := in.events.next(in.buf, ended)
		if !ok {
			return
		}
		progress, err := in.dec.event(name, data)
		if err != nil {
			in.reported = err
			return
		}
		in.latency = time.Duration(now)
		if progress {
			in.dog.progress.Store(now)
			if !in.text {
				in.text, in.ttft = true, time.Duration(now)
				in.trace.firstText()
			}
		}
		switch {
		case in.dec.closed():
			in.dog.enter(phaseDone)
		case in.dec.finished():
			in.dog.enter(phaseFinished)
		}
	}
}

func (in *incoming) blank() bool { return len(bytes.TrimSpace(in.buf)) == 0 }

// answer is what the whole body says.
func (in *incoming) answer() (*Answer, *Error) {
	if in.tooLarge {
		return nil, &Error{Class: ClassTooLarge, Excerpt: "the response is larger than limits.max_bytes"}
	}
	err := in.reported
	switch in.kind {
	case bodyUnknown:
		err = emptyBody()
	case bodyOther:
		err = &Error{Class: ClassMalformed, Excerpt: string(in.buf[:min(len(in.buf), errorBodyBytes)])}
	case bodyJSON:
		err = in.dec.whole(in.buf[in.start:])
	}
	var answer *Answer
	if err == nil {
		answer, err = marked(in.dec.answer())
	}
	var e *Error
	if errors.As(err, &e) {
		return nil, e
	}
	return answer, nil
}

// free gives the memory back.
func (in *incoming) free() {
	if d, ok := in.dec.(interface{ release() }); ok {
		d.release()
	}
	if cap(in.buf) <= keptBuffer {
		*in.pooled = in.buf[:0]
		buffers.Put(in.pooled)
	}
}
