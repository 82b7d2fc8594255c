package teachers

import "context"

// A Trace is told of moments within an ask, by whoever orders asks. Its
// functions are called at most once for each request of the ask, from the
// goroutine that sends it, and must not block. Either may be nil.
type Trace struct {
	// Sent: the request goes out now; permits, pace and money were there.
	Sent func()
	// FirstText: the first text of the answer has arrived. The endpoint has read
	// the whole prompt by then, so its context cache holds it.
	FirstText func()
}

type traceKey struct{}

// WithTrace gives a context with which an ask tells t of its moments.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

func traceOf(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}

func (t *Trace) sent() {
	if t != nil && t.Sent != nil {
		t.Sent()
	}
}

func (t *Trace) firstText() {
	if t != nil && t.FirstText != nil {
		t.FirstText()
	}
}
