package teacherstest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// scoringRoutes are the endpoints that score texts: vLLM's and those of
// text-embeddings-inference. A reply's Scores are what they answer.
func (s *Server) scoringRoutes(mux *http.ServeMux) {
	for _, path := range []string{"/v1/score", "/pooling", "/classify", "/rerank"} {
		mux.HandleFunc("POST "+path, s.score)
	}
}

type scoringRequest struct {
	Model    string          `json:"model"`
	Text1    string          `json:"text_1"`
	Text2    string          `json:"text_2"`
	Query    string          `json:"query"`
	Texts    []string        `json:"texts"`
	Messages []scoredMessage `json:"messages"`
}

type scoredMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

func (s *Server) score(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 256<<20))
	var wire scoringRequest
	if err != nil || json.Unmarshal(body, &wire) != nil {
		writeError(w, Reply{Status: http.StatusBadRequest, Message: "bad JSON", Type: "invalid_request_error"})
		return
	}
	request := Request{Model: wire.Model, Prompt: wire.Text1 + wire.Query, Judged: wire.Text2 + strings.Join(wire.Texts, "\n"), Header: r.Header, Body: body, Done: r.Context().Done()}
	for _, m := range wire.Messages {
		switch m.Role {
		case chat.RoleUser:
			request.Prompt = contentText(m.Content)
		case chat.RoleAssistant:
			request.Judged = contentText(m.Content)
		}
	}
	acc := s.admit(&request)
	defer s.leave()
	reply := s.script(request)
	if reply.Raw != "" || reply.Fault != NoFault || reply.Status != 0 && reply.Status != http.StatusOK {
		if s.write(w, r, &wireRequest{}, request, reply) {
			s.bill(acc)
		} else {
			s.holdBack(acc, reply)
		}
		return
	}
	w.Header().Set("Content-Type", "application/json")
	n := (len(request.Prompt) + len(request.Judged) + 3) / 4
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":0}`, n, n)
	scores := jsonOf(reply.Scores)
	switch r.URL.Path {
	case "/rerank":
		_, err = fmt.Fprintf(w, `[{"index":0,"score":%s}]`, jsonOf(reply.Scores[0]))
	case "/v1/score":
		_, err = fmt.Fprintf(w, `{"id":"score-1","object":"list","model":%s,"data":[{"index":0,"object":"score","score":%s}],%s}`, jsonOf(request.Model), jsonOf(reply.Scores[0]), usage)
	case "/classify":
		_, err = fmt.Fprintf(w, `{"id":"classify-1","object":"list","model":%s,"data":[{"index":0,"label":"LABEL_1","probs":%s,"num_classes":%d}],%s}`, jsonOf(request.Model), scores, len(reply.Scores), usage)
	default: // a number for each token
		each := make([][]float64, len(reply.Scores))
		for i, v := range reply.Scores {
			each[i] = []float64{v}
		}
		_, err = fmt.Fprintf(w, `{"id":"pool-1","object":"list","model":%s,"data":[{"index":0,"object":"pooling","data":%s}],%s}`, jsonOf(request.Model), jsonOf(each), usage)
	}
	if err == nil {
		s.bill(acc)
	}
}

// Rendered is a conversation as the fake's chat template renders it: a token
// for each role, one for each character, and one that ends a turn. add is the
// role that the model is to speak next as, "" for none.
func Rendered(messages []chat.Message, add string) []int {
	roles := map[string]int{chat.RoleSystem: 11, chat.RoleUser: 12, chat.RoleAssistant: 13, chat.RoleTool: 14}
	var ids []int
	for _, m := range messages {
		ids = append(ids, roles[m.Role])
		if m.Content != nil {
			for _, r := range *m.Content {
				ids = append(ids, 1000+int(r))
			}
		}
		ids = append(ids, 2)
	}
	if add != "" {
		ids = append(ids, roles[add])
	}
	return ids
}

// writePrompt answers a request for the logprobs of a prompt, as vLLM does: the
// token at position i has -i/100 and is the likeliest, but where i is divisible
// by 7 it is the ninth.
func writePrompt(w http.ResponseWriter, wire *wireRequest, request Request) bool {
	var messages []chat.Message
	for _, m := range wire.Messages {
		messages = append(messages, chat.Message{Role: m.Role, Content: chat.Text(contentText(m.Content))})
	}
	add := ""
	if wire.Generation == nil || *wire.Generation {
		add = chat.RoleAssistant
	}
	ids := Rendered(messages, add)
	out := map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "model": request.Model, "prompt_token_ids": ids,
		"choices": []any{map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": "x"}, "finish_reason": "length"}},
		"usage":   map[string]any{"prompt_tokens": len(ids), "completion_tokens": 1, "total_tokens": len(ids) + 1},
	}
	if wire.PromptLogprobs != nil {
		out["prompt_logprobs"] = promptLogprobs(ids, *wire.PromptLogprobs)
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(out) == nil
}

// promptLogprobs is written by hand: the order of its keys says which token is
// the prompt's own.
func promptLogprobs(ids []int, top int) json.RawMessage {
	var b strings.Builder
	b.WriteString("[null")
	for i, id := range ids[1:] {
		at := i + 1
		rank := 1
		if at%7 == 0 {
			rank = 9
		}
		fmt.Fprintf(&b, `,{"%d":{"logprob":%g,"rank":%d,"decoded_token":%s}`, id, -float64(at)/100, rank, jsonOf(decoded(id)))
		for k := 1; k <= top; k++ {
			if k != rank {
				fmt.Fprintf(&b, `,"%d":{"logprob":%g,"rank":%d,"decoded_token":"t%d"}`, 500+k, -float64(at)/100-float64(k), k, k)
			}
		}
		b.WriteString("}")
	}
	b.WriteString("]")
	return json.RawMessage(b.String())
}

func decoded(id int) string {
	if id < 1000 {
		return fmt.Sprintf("<%d>", id)
	}
	return string(rune(id - 1000))
}

// ofPrompt tells whether a request asks about its prompt, not for an answer.
func (w *wireRequest) ofPrompt() bool {
	return !w.Stream && (w.PromptLogprobs != nil || w.IDs && w.Generation != nil)
}
