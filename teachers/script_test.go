package teachers_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers"
)

const wholeStream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"four\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"

// A script answers the n-th request, counted from 0.
type script struct {
	reply func(n int, r *http.Request) *http.Response

	mu    sync.Mutex
	sent  []time.Time
	peak  int
	in    int
	block time.Duration // every request takes so long
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	n := len(s.sent)
	s.sent = append(s.sent, time.Now())
	s.in++
	s.peak = max(s.peak, s.in)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.in--
		s.mu.Unlock()
	}()
	if s.block > 0 {
		select {
		case <-time.After(s.block):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return s.reply(n, r), nil
}

func response(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// A slowBody gives its pieces one every interval and then stays open until the
// request ends.
type slowBody struct {
	ctx    context.Context
	pieces []string
	every  time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	if len(b.pieces) == 0 {
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	select {
	case <-time.After(b.every):
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	n := copy(p, b.pieces[0])
	b.pieces = b.pieces[1:]
	return n, nil
}

func (b *slowBody) Close() error { return nil }

var testConfig = &teachers.Config{ID: "t", API: "openai", BaseURL: "http://127.0.0.1/v1", Model: "m"}

func withLimits(l teachers.Limits) *teachers.Config {
	c := *testConfig
	c.Limits = l
	return &c
}

func asError(t *testing.T, err error, class string) *teachers.Error {
	t.Helper()
	var e *teachers.Error
	if !errors.As(err, &e) || e.Class != class {
		t.Fatalf("error %v, want class %s", err, class)
	}
	return e
}
