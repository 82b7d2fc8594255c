package teacherstest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// finish ends a batch: it answers what is to be answered of it and writes the
// files of results. Rows come in the reverse order, as order is promised by
// nobody.
func (s *BatchServer) finish(j *batchJob) {
	j.ended = true
	j.outcome = Outcome{State: "completed"}
	switch {
	case j.cancelling:
		j.outcome = Outcome{State: "cancelled", Done: len(j.rows) / 2}
	case s.options.End != nil:
		j.outcome = s.options.End(j.BatchJob)
	}
	if j.outcome.State == "" || j.outcome.State == "completed" {
		j.outcome.State, j.outcome.Done = "completed", len(j.rows)
	}
	if j.outcome.State == "failed" {
		return
	}
	var output, errors []string
	for i := len(j.rows) - 1; i >= 0; i-- {
		row := &j.rows[i]
		if i >= j.outcome.Done {
			errors = append(errors, s.unanswered(j, row))
			continue
		}
		line, answered := s.answer(j, row)
		if !answered {
			errors = append(errors, line)
			continue
		}
		output = append(output, line)
		sum := sha256.Sum256(row.body())
		s.stats.Answered++
		if s.bodies[sum]++; s.bodies[sum] == 1 {
			s.stats.Unique++
		}
	}
	if j.anthropic {
		j.lines = s.changed(j, false, append(output, errors...))
		return
	}
	if output = s.changed(j, false, output); len(output) > 0 {
		j.output = s.store("", joined(output)).id
	}
	if errors = s.changed(j, true, errors); len(errors) > 0 {
		j.errors = s.store("", joined(errors)).id
	}
}

func (s *BatchServer) changed(j *batchJob, errors bool, lines []string) []string {
	if s.options.Results == nil {
		return lines
	}
	return s.options.Results(j.BatchJob, errors, lines)
}

func joined(lines []string) []byte {
	if len(lines) == 0 {
		return nil
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// unanswered is the line of a row that the batch's end left out.
func (s *BatchServer) unanswered(j *batchJob, row *batchRow) string {
	expired := j.outcome.State == "expired"
	if j.anthropic {
		kind := "canceled"
		j.counts[2]++
		if expired {
			kind = "expired"
			j.counts[2]--
			j.counts[3]++
		}
		return encode(map[string]any{"custom_id": row.CustomID, "result": map[string]any{"type": kind}})
	}
	j.counts[1]++
	code, message := "batch_cancelled", "This request was not executed because the batch was cancelled."
	if expired {
		code, message = "batch_expired", "This request could not be executed before the completion window expired."
	}
	return encode(map[string]any{"id": "batch_req_" + row.CustomID, "custom_id": row.CustomID, "response": nil, "error": map[string]any{"code": code, "message": message}})
}

// answer is the line of a row by the script.
func (s *BatchServer) answer(j *batchJob, row *batchRow) (line string, answered bool) {
	request := requestOf(row.body())
	request.Attempt = s.bodies[sha256.Sum256(row.body())]
	reply := s.script(request)
	if reply.Model == "" {
		reply.Model = request.Model
	}
	if reply.Status != 0 && reply.Status != 200 {
		j.counts[1]++
		return errorRow(j.anthropic, row, reply), false
	}
	j.counts[0]++
	if j.anthropic {
		return encode(map[string]any{"custom_id": row.CustomID, "result": map[string]any{"type": "succeeded", "message": messageOf(request, reply)}}), true
	}
	return encode(map[string]any{"id": "batch_req_" + row.CustomID, "custom_id": row.CustomID, "error": nil,
		"response": map[string]any{"status_code": 200, "request_id": "req_" + row.CustomID, "body": completionOf(request, reply)}}), true
}

// requestOf reads a body as the online fake does.
func requestOf(body []byte) Request {
	var wire wireRequest
	_ = json.Unmarshal(body, &wire) // it was read when the batch came in
	request := Request{Model: wire.Model, Seed: wire.Seed, Body: body}
	var system struct {
		System json.RawMessage `json:"system"`
	}
	_ = json.Unmarshal(body, &system)
	request.System = contentText(system.System)
	for _, m := range wire.Messages {
		switch m.Role {
		case chat.RoleSystem:
			request.System = contentText(m.Content)
		case chat.RoleUser:
			request.Prompt = contentText(m.Content)
		}
	}
	return request
}

func completionOf(request Request, reply Reply) json.RawMessage {
	if reply.Raw != "" {
		return json.RawMessage(reply.Raw)
	}
	if reply.Finish == "" {
		reply.Finish = "stop"
	}
	w := httptest.NewRecorder()
	writeWhole(w, request, reply)
	return bytes.TrimSpace(w.Body.Bytes())
}

// messageOf is a message as Anthropic writes it.
func messageOf(request Request, reply Reply) map[string]any {
	var content []any
	if reply.Reasoning != "" {
		content = append(content, map[string]any{"type": "thinking", "thinking": reply.Reasoning, "signature": "c2ln"})
	}
	content = append(content, map[string]any{"type": "text", "text": reply.Content})
	finish := reply.Finish
	if finish == "" {
		finish = "end_turn"
	}
	out := map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": reply.Model, "content": content, "stop_reason": finish, "stop_sequence": nil}
	if !reply.NoUsage {
		u := usage(request, reply)
		out["usage"] = map[string]any{"input_tokens": u["prompt_tokens"], "output_tokens": u["completion_tokens"]}
	}
	return out
}

func errorRow(anthropic bool, row *batchRow, reply Reply) string {
	if anthropic {
		kind := reply.Type
		if kind == "" {
			kind = "api_error"
		}
		return encode(map[string]any{"custom_id": row.CustomID, "result": map[string]any{"type": "errored",
			"error": map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": reply.Message}}}})
	}
	return encode(map[string]any{"id": "batch_req_" + row.CustomID, "custom_id": row.CustomID, "error": nil,
		"response": map[string]any{"status_code": reply.Status, "request_id": "req_" + row.CustomID,
			"body": map[string]any{"error": map[string]any{"message": reply.Message, "type": reply.Type, "code": reply.Code}}}})
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain maps and strings
	}
	return string(text)
}

// object is a batch as its API writes it.
func (j *batchJob) object() map[string]any {
	if j.anthropic {
		return j.anthropicObject()
	}
	state := "in_progress"
	switch {
	case j.ended:
		state = j.outcome.State
	case j.cancelling:
		state = "cancelling"
	case j.polls == 0:
		state = "validating"
	}
	out := map[string]any{"id": j.ID, "object": "batch", "status": state, "created_at": j.Created.Unix(), "input_file_id": j.input,
		"output_file_id": nil, "error_file_id": nil, "errors": nil,
		"request_counts": map[string]any{"total": len(j.rows), "completed": j.counts[0], "failed": j.counts[1]}}
	if j.Key != "" {
		out["metadata"] = map[string]string{"stillhouse": j.Key}
	}
	if j.output != "" {
		out["output_file_id"] = j.output
	}
	if j.errors != "" {
		out["error_file_id"] = j.errors
	}
	if j.ended && j.outcome.State == "failed" {
		one := map[string]any{"code": j.outcome.Code, "message": j.outcome.Reason, "param": nil, "line": nil}
		if j.outcome.Line > 0 {
			one["line"] = j.outcome.Line
		}
		out["errors"] = map[string]any{"object": "list", "data": []any{one}}
	}
	return out
}

func (j *batchJob) anthropicObject() map[string]any {
	state, url := "in_progress", any(nil)
	running := len(j.rows)
	switch {
	case j.ended:
		state, url, running = "ended", "/v1/messages/batches/"+j.ID+"/results", 0
	case j.cancelling:
		state = "canceling"
	}
	return map[string]any{"id": j.ID, "type": "message_batch", "processing_status": state, "created_at": j.Created.UTC().Format(time.RFC3339Nano),
		"results_url": url, "request_counts": map[string]any{"processing": running, "succeeded": j.counts[0], "errored": j.counts[1],
			"canceled": j.counts[2], "expired": j.counts[3]}}
}

// RunBatch answers a file of requests as a server's offline runner does, such
// as vllm run-batch, and gives the file of results.
func RunBatch(requests []byte, script func(Request) Reply) []byte {
	var out []string
	s := &BatchServer{script: script, bodies: map[[32]byte]int{}}
	for line := range strings.Lines(string(requests)) {
		var row batchRow
		if json.Unmarshal([]byte(line), &row) != nil {
			continue
		}
		text, _ := s.answer(&batchJob{}, &row)
		out = append(out, text)
	}
	return joined(out)
}
