package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// maxRequest bounds a request's body, in bytes.
const maxRequest = 1 << 20

// simulated is said wherever the protocol has room for it.
const simulated = "simulated"

// request is the part of the chat-completions protocol that a demo teacher
// reads. Other parameters are accepted and change nothing.
type request struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Stream        bool `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	N                   *int            `json:"n"`
	Seed                json.RawMessage `json:"seed"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
}

// question is the last user message.
func (r *request) question() (string, error) {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "user" {
			return contentText(r.Messages[i].Content)
		}
	}
	return "", errors.New("messages: there is no user message")
}

// contentText reads a message's content: a string, or a list of text parts.
func contentText(raw json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", errors.New("messages: content is neither a string nor a list of parts")
	}
	for _, p := range parts {
		if p.Type != "text" {
			return "", fmt.Errorf("messages: parts of type %q are not simulated", p.Type)
		}
		text += p.Text
	}
	return text, nil
}

func (r *request) prompt() string {
	var b strings.Builder
	for _, m := range r.Messages {
		b.Write(m.Content)
	}
	return b.String()
}

// handler is one teacher's endpoint.
func (c *character) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", c.models)
	mux.HandleFunc("POST /v1/chat/completions", c.complete)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, "unknown_url", fmt.Sprintf("%s %s is not here; this simulated teacher has GET /v1/models and POST /v1/chat/completions", r.Method, r.URL.Path))
	})
	return mux
}

func (c *character) models(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, map[string]any{
		"object": "list",
		"data": []any{map[string]any{
			"id":          c.model(),
			"object":      "model",
			"created":     0,
			"owned_by":    "stillhouse demo (" + simulated + ")",
			"description": "A program that looks answers up and gets some of them wrong on purpose; no language model.",
			"simulated":   true,
		}},
	})
}

func (c *character) complete(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		fail(w, http.StatusUnsupportedMediaType, "invalid_request_error", "the body must be application/json")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		fail(w, http.StatusRequestEntityTooLarge, "invalid_request_error", "read the body: "+err.Error())
		return
	}
	var in request
	if err := json.Unmarshal(body, &in); err != nil {
		fail(w, http.StatusBadRequest, "invalid_request_error", "the body is not a chat completion request: "+err.Error())
		return
	}
	if in.Model != c.model() {
		fail(w, http.StatusNotFound, "model_not_found", fmt.Sprintf("the model %q does not exist here; this is %s (%s)", in.Model, c.model(), simulated))
		return
	}
	if in.N != nil && *in.N != 1 {
		fail(w, http.StatusBadRequest, "invalid_request_error", "n must be 1")
		return
	}
	question, err := in.question()
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	out := c.completion(&in, question)
	if in.Stream {
		out.sendStream(r.Context(), w, in.StreamOptions.IncludeUsage)
		return
	}
	out.sendWhole(r.Context(), w)
}

// completion is a reply in the protocol's terms.
type completion struct {
	reply
	id, model, finish string
	usage             map[string]any
}

func (c *character) completion(in *request, question string) *completion {
	out := &completion{reply: c.answer(question, string(in.Seed)), model: c.model(), finish: "stop"}
	limit := in.MaxTokens
	if in.MaxCompletionTokens > 0 {
		limit = in.MaxCompletionTokens
	}
	if !out.cut(limit) {
		out.finish = "length"
	}
	d := diceOf("id", c.model(), question, string(in.Seed))
	out.id = fmt.Sprintf("chatcmpl-demo-%016x", d.next())
	prompt, thought, said := tokens(in.prompt()), tokens(out.reasoning), tokens(out.content)
	out.usage = map[string]any{
		"prompt_tokens":             prompt,
		"completion_tokens":         thought + said,
		"total_tokens":              prompt + thought + said,
		"completion_tokens_details": map[string]any{"reasoning_tokens": thought},
	}
	return out
}

func (o *completion) envelope(object string, choices []any) map[string]any {
	return map[string]any{
		"id": o.id, "object": object, "created": 0, "model": o.model,
		"system_fingerprint": simulated, "choices": choices,
	}
}

func (o *completion) sendWhole(ctx context.Context, w http.ResponseWriter) {
	if !wait(ctx, o.firstToken+o.stream) {
		return
	}
	body := o.envelope("chat.completion", []any{map[string]any{
		"index":         0,
		"message":       map[string]any{"role": "assistant", "content": o.content, "reasoning_content": o.reasoning},
		"finish_reason": o.finish,
	}})
	body["usage"] = o.usage
	send(w, http.StatusOK, body)
}

// pieces is how many events a stream is spread over, at most.
const pieces = 12

func (o *completion) sendStream(ctx context.Context, w http.ResponseWriter, withUsage bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	event := func(body map[string]any) bool {
		text, err := json.Marshal(body)
		if err != nil {
			return false
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	delta := func(d map[string]any, finish any) bool {
		return event(o.envelope("chat.completion.chunk", []any{map[string]any{"index": 0, "delta": d, "finish_reason": finish}}))
	}
	if !wait(ctx, o.firstToken) || !delta(map[string]any{"role": "assistant", "content": ""}, nil) {
		return
	}
	parts := o.parts()
	for _, part := range parts {
		if !wait(ctx, o.stream/time.Duration(len(parts))) || !delta(part, nil) {
			return
		}
	}
	if !delta(map[string]any{}, o.finish) {
		return
	}
	if withUsage {
		last := o.envelope("chat.completion.chunk", []any{})
		last["usage"] = o.usage
		if !event(last) {
			return
		}
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
	_ = out.Flush()
}

// parts cut the reasoning and then the content into deltas.
func (o *completion) parts() []map[string]any {
	size := max(16, (len(o.reasoning)+len(o.content))/pieces+1)
	var parts []map[string]any
	for _, half := range []struct{ field, text string }{{"reasoning_content", o.reasoning}, {"content", o.content}} {
		for rest := half.text; rest != ""; {
			piece := prefix(rest, size)
			parts = append(parts, map[string]any{half.field: piece})
			rest = rest[len(piece):]
		}
	}
	return parts
}

// wait is false where the client went away.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func send(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that went away
}

func fail(w http.ResponseWriter, status int, code, message string) {
	send(w, status, map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error", "code": code}})
}
