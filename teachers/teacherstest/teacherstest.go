// Package teacherstest is a working fake endpoint for tests: a real HTTP server
// on loopback that speaks chat completions and messages, answers what a script says, fails
// as a script says, and keeps the accounts on the server's side.
//
//	s := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
//		return teacherstest.Reply{Content: "42"}
//	})
//	config := &teachers.Config{API: "openai", BaseURL: s.URL, Model: "m"}
//	…
//	if s.Stats().PaidTwice > 0 { … }
package teacherstest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// A Request is what a client sent.
type Request struct {
	Model   string
	System  string // text of the first system message
	Prompt  string // text of the last user message
	Judged  string // the answer that a scoring endpoint is asked about
	Seed    *int64
	Stream  bool
	Attempt int // how many times this body came before
	Header  http.Header
	Body    []byte
	// Context ends when the client goes away.
	Done <-chan struct{}
}

// A Fault is a way in which a reply goes wrong.
type Fault int

// Faults.
const (
	NoFault  Fault = iota
	Reset          // the connection is reset before an answer
	MidReset       // and in the middle of one
	MidError       // an error object in a stream with status 200
	NoFinish       // the stream ends cleanly without a finish reason
	Stall          // half an answer, then silence until the client goes away
	Drip           // half an answer, then only comments
	Empty          // status 200 and no choice
)

// A Reply is what the fake answers. The zero value is an empty answer that
// ends with stop.
type Reply struct {
	Content        string
	Reasoning      string
	ReasoningField string // default reasoning_content
	ToolCalls      []chat.ToolCall
	Logprobs       []Token     // sent where the request asks for them
	Scores         []float64   // of a scoring endpoint
	Finish         string      // default stop
	Usage          *chat.Usage // default: counted from the bytes
	NoUsage        bool
	Model          string // default: the model asked for
	Pieces         int    // events that the content is cut into; default 2

	Status     int           // another status than 200 makes an error reply
	Message    string        // of an error reply
	Type, Code string        // of an error reply
	RetryAfter time.Duration // 0: no Retry-After; otherwise sent in milliseconds and in whole seconds
	Header     map[string]string

	Fault Fault
	// Raw, where set, is the response body, byte for byte, with ContentType.
	Raw, ContentType string
	// RawStream are further pieces of it, flushed one after another; Fault may
	// then say what follows them.
	RawStream []string
}

// raw tells whether the script gives the response's bytes.
func (r *Reply) raw() bool { return r.Raw != "" || r.RawStream != nil }

// Stats are the server's accounts.
type Stats struct {
	Requests        int
	Completed       int // whole answers: what would be billed
	UniqueCompleted int // distinct bodies among them
	PaidTwice       int // completed beyond the first for the same body
	EarlyRetries    int // bodies asked again before their Retry-After
	PeakConcurrency int
}

// A Server is a fake endpoint.
type Server struct {
	URL string // the base URL, with /v1

	script func(Request) Reply
	mu     sync.Mutex
	stats  Stats
	active int
	bodies map[[32]byte]*account
}

type account struct {
	requests, completed int
	notBefore           time.Time
}

// New starts a fake that answers by a script until the test ends. The script
// may block; it runs once for each request, concurrently.
func New(t testing.TB, script func(Request) Reply) *Server {
	t.Helper()
	s := &Server{script: script, bodies: map[[32]byte]*account{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("POST /v1/messages", s.messages)
	s.scoringRoutes(mux)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[]}`)
	})
	server := httptest.NewServer(mux)
	s.URL = server.URL + "/v1"
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// Stats are the accounts so far.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

type wireRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Seed     *int64 `json:"seed"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	logprobsWanted
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 256<<20))
	var wire wireRequest
	if err != nil || json.Unmarshal(body, &wire) != nil {
		writeError(w, Reply{Status: http.StatusBadRequest, Message: "bad JSON", Type: "invalid_request_error"})
		return
	}
	request := Request{Model: wire.Model, Seed: wire.Seed, Stream: wire.Stream, Header: r.Header, Body: body, Done: r.Context().Done()}
	for _, m := range wire.Messages {
		switch m.Role {
		case chat.RoleSystem:
			request.System = contentText(m.Content)
		case chat.RoleUser:
			request.Prompt = contentText(m.Content)
		}
	}
	acc := s.admit(&request)
	defer s.leave()
	reply := s.script(request)
	if wire.ofPrompt() && !reply.raw() && reply.Fault == NoFault && reply.Status == 0 {
		if writePrompt(w, &wire, request) {
			s.bill(acc)
		}
		return
	}
	if s.write(w, r, &wire, request, reply) {
		s.bill(acc)
		return
	}
	s.holdBack(acc, reply)
}

// holdBack notes when a body may be asked again.
func (s *Server) holdBack(acc *account, reply Reply) {
	if reply.RetryAfter > 0 {
		s.mu.Lock()
		acc.notBefore = time.Now().Add(reply.RetryAfter)
		s.mu.Unlock()
	}
}

func (s *Server) admit(r *Request) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sha256.Sum256(r.Body)
	acc := s.bodies[key]
	if acc == nil {
		acc = &account{}
		s.bodies[key] = acc
	}
	r.Attempt = acc.requests
	acc.requests++
	s.stats.Requests++
	if time.Now().Before(acc.notBefore) {
		s.stats.EarlyRetries++
	}
	s.active++
	s.stats.PeakConcurrency = max(s.stats.PeakConcurrency, s.active)
	return acc
}

func (s *Server) leave() {
	s.mu.Lock()
	s.active--
	s.mu.Unlock()
}

func (s *Server) bill(acc *account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Completed++
	if acc.completed == 0 {
		s.stats.UniqueCompleted++
	} else {
		s.stats.PaidTwice++
	}
	acc.completed++
}

// write answers and tells whether the answer is whole.
func (s *Server) write(w http.ResponseWriter, r *http.Request, wire *wireRequest, request Request, reply Reply) bool {
	for name, value := range reply.Header {
		w.Header().Set(name, value)
	}
	switch {
	case reply.Fault == Reset:
		reset(w)
		return false
	case reply.raw():
		w.Header().Set("Content-Type", reply.ContentType)
		w.WriteHeader(max(reply.Status, http.StatusOK))
		_, _ = io.WriteString(w, reply.Raw)
		for _, piece := range reply.RawStream {
			_, _ = io.WriteString(w, piece)
			w.(http.Flusher).Flush()
		}
		if reply.Fault != NoFault && fail(w, r, reply.Fault) {
			return false
		}
		return reply.Status == 0 || reply.Status == http.StatusOK
	case reply.Status != 0 && reply.Status != http.StatusOK:
		writeError(w, reply)
		return false
	case reply.Fault == Empty:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"chat.completion","choices":[]}`)
		return false
	}
	if reply.Model == "" {
		reply.Model = request.Model
	}
	if reply.Finish == "" {
		reply.Finish = "stop"
	}
	if !wire.Stream {
		return writeWhole(w, request, reply)
	}
	return writeStream(w, r, wire, request, reply)
}

func writeError(w http.ResponseWriter, reply Reply) {
	retryAfterHeaders(w, reply)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(reply.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": reply.Message, "type": reply.Type, "code": reply.Code}})
}

func retryAfterHeaders(w http.ResponseWriter, reply Reply) {
	if reply.RetryAfter > 0 {
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(reply.RetryAfter.Milliseconds(), 10))
		w.Header().Set("Retry-After", strconv.FormatInt(int64((reply.RetryAfter+time.Second-1)/time.Second), 10))
	}
}

func writeWhole(w http.ResponseWriter, request Request, reply Reply) bool {
	message := map[string]any{"role": "assistant", "content": reply.Content}
	if reply.Reasoning != "" {
		message[reply.reasoningField()] = reply.Reasoning
	}
	if len(reply.ToolCalls) > 0 {
		message["tool_calls"] = toolCalls(reply.ToolCalls)
	}
	out := map[string]any{"id": "chatcmpl-1", "object": "chat.completion", "model": reply.Model,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": reply.Finish}}}
	if !reply.NoUsage {
		out["usage"] = usage(request, reply)
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(out) == nil
}

func writeStream(w http.ResponseWriter, r *http.Request, wire *wireRequest, request Request, reply Reply) bool {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := w.(http.Flusher).Flush
	model, _ := json.Marshal(reply.Model)
	send := func(choices, more string) {
		fmt.Fprintf(w, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"model\":%s,\"choices\":[%s]%s}\n\n", model, choices, more)
	}
	delta := func(field string, value any) {
		b, _ := json.Marshal(map[string]any{"index": 0, "delta": map[string]any{field: value}, "finish_reason": nil})
		send(string(b), "")
	}
	if reply.Reasoning != "" {
		delta(reply.reasoningField(), reply.Reasoning)
	}
	pieces := cut(reply.Content, reply.Pieces)
	for i, piece := range pieces {
		if i == len(pieces)/2 && reply.Fault != NoFault {
			flush()
			if fail(w, r, reply.Fault) {
				return false
			}
		}
		delta("content", piece)
	}
	if len(reply.ToolCalls) > 0 {
		delta("tool_calls", toolCalls(reply.ToolCalls))
	}
	if more := wire.members(reply.Logprobs); more != "" {
		send(`{"index":0,"delta":{},"finish_reason":null`+more+`}`, "")
	}
	if reply.Fault != NoFault {
		return false
	}
	finish, _ := json.Marshal(reply.Finish)
	send(`{"index":0,"delta":{},"finish_reason":`+string(finish)+`}`, "")
	if !reply.NoUsage && wire.StreamOptions.IncludeUsage {
		b, _ := json.Marshal(usage(request, reply))
		send("", `,"usage":`+string(b))
	}
	_, err := io.WriteString(w, "data: [DONE]\n\n")
	return err == nil
}

// fail makes a fault in the middle of a stream; false for those that only
// leave out the end.
func fail(w http.ResponseWriter, r *http.Request, f Fault) bool {
	switch f {
	case MidReset:
		reset(w)
	case MidError:
		_, _ = io.WriteString(w, "data: {\"error\":{\"message\":\"upstream failed\",\"code\":502}}\n\n")
	case Stall:
		<-r.Context().Done()
	case Drip:
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-r.Context().Done():
				return true
			case <-tick.C:
				_, _ = io.WriteString(w, ": keep-alive\n\n")
				w.(http.Flusher).Flush()
			}
		}
	default:
		return false
	}
	return true
}

// reset closes the connection so that the client sees a reset.
func reset(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func (r *Reply) reasoningField() string {
	if r.ReasoningField == "" {
		return "reasoning_content"
	}
	return r.ReasoningField
}

func toolCalls(calls []chat.ToolCall) []any {
	out := make([]any, len(calls))
	for i, c := range calls {
		out[i] = map[string]any{"index": i, "id": c.ID, "type": "function",
			"function": map[string]any{"name": c.Name, "arguments": c.Arguments}}
	}
	return out
}

// tokensOf is the usage of a reply: the script's, or counted from the bytes.
func tokensOf(request Request, reply Reply) *chat.Usage {
	if reply.Usage != nil {
		return reply.Usage
	}
	think := int64(len(reply.Reasoning)+3) / 4
	return &chat.Usage{PromptTokens: int64(len(request.System)+len(request.Prompt)+3)/4 + 4,
		CompletionTokens: max(int64(len(reply.Content)+3)/4+think, 1), ReasoningTokens: think}
}

func usage(request Request, reply Reply) map[string]any {
	u := tokensOf(request, reply)
	return map[string]any{
		"prompt_tokens": u.PromptTokens, "completion_tokens": u.CompletionTokens, "total_tokens": u.PromptTokens + u.CompletionTokens,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.CachedTokens},
		"completion_tokens_details": map[string]any{"reasoning_tokens": u.ReasoningTokens},
	}
}

// cut splits a text into about n pieces between characters.
func cut(s string, n int) []string {
	if n <= 0 {
		n = 2
	}
	runes := []rune(s)
	size := max((len(runes)+n-1)/n, 1)
	var out []string
	for len(runes) > size {
		out, runes = append(out, string(runes[:size])), runes[size:]
	}
	return append(out, string(runes))
}

func contentText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct{ Type, Text string }
	_ = json.Unmarshal(raw, &parts)
	var b bytes.Buffer
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}
