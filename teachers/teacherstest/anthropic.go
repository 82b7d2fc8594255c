package teacherstest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// messagesRequest is what the messages protocol adds to a request.
type messagesRequest struct {
	System    json.RawMessage `json:"system"`
	MaxTokens int64           `json:"max_tokens"`
}

// messages answers in Anthropic's form. It refuses, as Anthropic does, what
// the protocol requires and is not there.
func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 256<<20))
	var wire wireRequest
	var more messagesRequest
	if err != nil || json.Unmarshal(body, &wire) != nil || json.Unmarshal(body, &more) != nil {
		writeMessageError(w, Reply{Status: http.StatusBadRequest, Message: "bad JSON", Type: "invalid_request_error"})
		return
	}
	switch {
	case r.Header.Get("anthropic-version") == "":
		writeMessageError(w, Reply{Status: http.StatusBadRequest, Message: "anthropic-version: header is required", Type: "invalid_request_error"})
		return
	case more.MaxTokens <= 0:
		writeMessageError(w, Reply{Status: http.StatusBadRequest, Message: "max_tokens: Field required", Type: "invalid_request_error"})
		return
	}
	request := Request{Model: wire.Model, System: contentText(more.System), Stream: wire.Stream, Header: r.Header, Body: body, Done: r.Context().Done()}
	for _, m := range wire.Messages {
		switch m.Role {
		case chat.RoleUser:
			request.Prompt = contentText(m.Content)
		case chat.RoleSystem, chat.RoleTool:
			writeMessageError(w, Reply{Status: http.StatusBadRequest, Message: "messages: Unexpected role " + m.Role, Type: "invalid_request_error"})
			return
		}
	}
	acc := s.admit(&request)
	defer s.leave()
	reply := s.script(request)
	if s.writeMessage(w, r, &wire, request, reply) {
		s.bill(acc)
		return
	}
	s.holdBack(acc, reply)
}

// writeMessage answers and tells whether the answer is whole.
func (s *Server) writeMessage(w http.ResponseWriter, r *http.Request, wire *wireRequest, request Request, reply Reply) bool {
	switch {
	case reply.Fault == Empty:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
		return false
	case reply.Status != 0 && reply.Status != http.StatusOK && !reply.raw():
		for name, value := range reply.Header {
			w.Header().Set(name, value)
		}
		writeMessageError(w, reply)
		return false
	case reply.Fault == Reset, reply.raw():
		return s.write(w, r, wire, request, reply)
	}
	for name, value := range reply.Header {
		w.Header().Set(name, value)
	}
	if reply.Model == "" {
		reply.Model = request.Model
	}
	reply.Finish = stopReason(reply.Finish)
	if wire.Stream {
		return writeMessageStream(w, r, request, reply)
	}
	out := messageHead(reply)
	out["content"], out["stop_reason"] = messageBlocks(reply), reply.Finish
	if !reply.NoUsage {
		out["usage"] = messageUsage(request, reply)
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(out) == nil
}

// stopReason spells a finish reason of the other protocol in this one's way.
func stopReason(finish string) string {
	switch finish {
	case "", "stop":
		return "end_turn"
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	case "content_filter":
		return "refusal"
	}
	return finish
}

func messageHead(reply Reply) map[string]any {
	return map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": reply.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil}
}

func messageBlocks(reply Reply) []any {
	var blocks []any
	if reply.Reasoning != "" {
		blocks = append(blocks, map[string]any{"type": "thinking", "thinking": reply.Reasoning, "signature": Signature})
	}
	if reply.Content != "" || len(reply.ToolCalls) == 0 {
		blocks = append(blocks, map[string]any{"type": "text", "text": reply.Content})
	}
	for _, call := range reply.ToolCalls {
		blocks = append(blocks, map[string]any{"type": "tool_use", "id": call.ID, "name": call.Name, "input": json.RawMessage(call.Arguments)})
	}
	return blocks
}

// Signature is what the fake signs reasoning with.
const Signature = "c2lnbmF0dXJl"

func messageUsage(request Request, reply Reply) map[string]any {
	u := tokensOf(request, reply)
	return map[string]any{
		"input_tokens":            u.PromptTokens - u.CachedTokens - u.CacheWriteTokens,
		"cache_read_input_tokens": u.CachedTokens, "cache_creation_input_tokens": u.CacheWriteTokens,
		"cache_creation": map[string]any{"ephemeral_5m_input_tokens": u.CacheWriteTokens, "ephemeral_1h_input_tokens": 0},
		"output_tokens":  u.CompletionTokens, "output_tokens_details": map[string]any{"thinking_tokens": u.ReasoningTokens},
	}
}

func writeMessageError(w http.ResponseWriter, reply Reply) {
	retryAfterHeaders(w, reply)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(reply.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]any{"type": reply.Type, "message": reply.Message}, "request_id": "req_1"})
}

func writeMessageStream(w http.ResponseWriter, r *http.Request, request Request, reply Reply) bool {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := w.(http.Flusher).Flush
	send := func(kind string, event map[string]any) {
		event["type"] = kind
		b, _ := json.Marshal(event)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
	}
	head := messageHead(reply)
	usage := messageUsage(request, reply)
	if !reply.NoUsage {
		head["usage"] = map[string]any{"input_tokens": usage["input_tokens"], "cache_read_input_tokens": usage["cache_read_input_tokens"],
			"cache_creation_input_tokens": usage["cache_creation_input_tokens"], "output_tokens": 1}
	}
	send("message_start", map[string]any{"message": head})
	send("ping", map[string]any{})
	for i, b := range messageBlocks(reply) {
		if !writeBlock(w, r, send, flush, i, b.(map[string]any), reply) {
			return false
		}
	}
	if reply.Fault != NoFault {
		return false
	}
	end := map[string]any{"delta": map[string]any{"stop_reason": reply.Finish, "stop_sequence": nil}}
	if !reply.NoUsage {
		end["usage"] = usage
	}
	send("message_delta", end)
	_, err := io.WriteString(w, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	return err == nil
}

// writeBlock streams one content block; false where a fault ends the response.
func writeBlock(w http.ResponseWriter, r *http.Request, send func(string, map[string]any), flush func(), i int, b map[string]any, reply Reply) bool {
	delta := func(kind, field, value string) {
		send("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": kind, field: value}})
	}
	start := func(block map[string]any) {
		send("content_block_start", map[string]any{"index": i, "content_block": block})
	}
	switch b["type"] {
	case "thinking":
		start(map[string]any{"type": "thinking", "thinking": "", "signature": ""})
		delta("thinking_delta", "thinking", reply.Reasoning)
		delta("signature_delta", "signature", Signature)
	case "text":
		start(map[string]any{"type": "text", "text": ""})
		pieces := cut(reply.Content, reply.Pieces)
		for k, piece := range pieces {
			if k == len(pieces)/2 && reply.Fault != NoFault {
				flush()
				if failMessage(w, r, reply.Fault) {
					return false
				}
			}
			delta("text_delta", "text", piece)
		}
	case "tool_use":
		start(map[string]any{"type": "tool_use", "id": b["id"], "name": b["name"], "input": map[string]any{}})
		for _, piece := range cut(string(b["input"].(json.RawMessage)), reply.Pieces) {
			delta("input_json_delta", "partial_json", piece)
		}
	}
	send("content_block_stop", map[string]any{"index": i})
	return true
}

// failMessage makes a fault in this protocol's form.
func failMessage(w http.ResponseWriter, r *http.Request, f Fault) bool {
	if f != MidError {
		return fail(w, r, f)
	}
	_, _ = io.WriteString(w, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"upstream failed\"}}\n\n")
	return true
}
