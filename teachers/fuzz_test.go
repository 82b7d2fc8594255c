package teachers

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// piecewise gives a text in pieces of sizes that the fuzzer chooses.
type piecewise struct {
	text  []byte
	sizes []byte
	n     int
}

func (p *piecewise) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	size := 1
	if len(p.sizes) > 0 {
		size += int(p.sizes[p.n%len(p.sizes)])
		p.n++
	}
	n := copy(b, p.text[:min(size, len(p.text))])
	p.text = p.text[n:]
	return n, nil
}

// textsOf are all that an answer gives to tables.
func textsOf(a *Answer) []string {
	out := []string{a.Finish, a.Model, a.Fingerprint, a.Refusal}
	for _, s := range []*string{a.Message.Content, a.Message.ReasoningContent, a.Message.ReasoningSignature} {
		if s != nil {
			out = append(out, *s)
		}
	}
	for _, c := range a.Message.ToolCalls {
		out = append(out, c.ID, c.Type, c.Name, c.Arguments)
	}
	return out
}

// FuzzResponses: however a response comes in, in whatever pieces, the client
// reads what Parse reads from the whole; learning the shape of events changes
// nothing; texts are UTF-8 and no longer than what came; counts add up.
func FuzzResponses(f *testing.F) {
	seeds := []string{
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"fo\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ur\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
		`{"choices":[{"message":{"content":"four","tool_calls":[{"function":{"name":"a","arguments":{"x":1}}}]},"finish_reason":"stop"}]}`,
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":9e30}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":4}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\\ud83d\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"\\ude00\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
		`{"type":"message","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"four"}],"stop_reason":"end_turn","usage":{"input_tokens":1}}`,
		"\xEF\xBB\xBF: c\r\n\r\n{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}",
	}
	for _, seed := range seeds {
		f.Add([]byte(seed), []byte{0, 7, 255})
	}
	f.Fuzz(func(t *testing.T, raw, sizes []byte) {
		for _, d := range []dialect{openAI{}, anthropic{}} {
			stream, plain := d.formats()
			in := incoming{dog: &watchdog{limits: &Limits{}}, dec: d.decoder(), max: 1 << 20}
			in.dog.phase.Store(phaseDone) // nothing is timed
			live, failure, _ := in.all(&piecewise{text: bytes.Clone(raw), sizes: sizes})
			format := plain
			if in.kind == bodyStream {
				format = stream
			}
			whole, err := Parse(format, raw)
			if in.kind == bodyStream || in.kind == bodyJSON {
				if (failure == nil) != (err == nil) {
					t.Fatalf("%s: in pieces: %v; whole: %v", format, failure, err)
				}
				if diff := cmp.Diff(whole, live); failure == nil && diff != "" {
					t.Fatalf("%s: whole (-) and in pieces (+):\n%s", format, diff)
				}
			}
			if in.kind == bodyStream {
				if diff := cmp.Diff(readWith(untaught(format), raw), readWith(d.decoder(), raw)); diff != "" {
					t.Fatalf("%s: read plainly (-) and by shape (+):\n%s", format, diff)
				}
			}
			if whole == nil || err != nil {
				continue
			}
			for _, text := range textsOf(whole) {
				if !utf8.ValidString(text) || len(text) > 3*len(raw)+16 {
					t.Fatalf("%s: a text of %d bytes from %d: %.60q", format, len(text), len(raw), text)
				}
			}
			if u := whole.Usage; u != nil && !addsUp(*u) {
				t.Fatalf("%s: usage %+v", format, *u)
			}
		}
	})
}

// addsUp tells whether parts are no more than their wholes.
func addsUp(u chat.Usage) bool {
	return u.PromptTokens >= 0 && u.CompletionTokens >= 0 && u.CachedTokens >= 0 && u.CacheWriteTokens >= 0 && u.ReasoningTokens >= 0 &&
		u.CachedTokens+u.CacheWriteTokens <= u.PromptTokens && u.ReasoningTokens <= u.CompletionTokens
}

// FuzzMessagesRequest: whatever a prompt holds, the request of the messages
// protocol is JSON whose members are in RFC 8785's order, but for arguments,
// which stay as the model wrote them.
func FuzzMessagesRequest(f *testing.F) {
	f.Add("be brief", "2+2?", "hm", `{"b":1, "a":[]}`, `[{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}]`)
	f.Add("", "\xff", "\u2028", `{"x":`, ``)
	f.Add("s", "", "", `12345678901234567890`, `[1]`)
	f.Fuzz(func(t *testing.T, system, text, reasoning, args, tools string) {
		config := &Config{API: "anthropic", BaseURL: "https://h/v1", Model: "m"}
		p := &chat.Prompt{System: system, Tools: tools, Images: []chat.Image{{Digest: "ab", MediaType: "image/png"}}, Messages: []chat.Message{
			{Role: chat.RoleUser, Content: &text}, {Role: chat.RoleAssistant, ReasoningContent: &reasoning, ToolCalls: []chat.ToolCall{{ID: text, Name: "f", Arguments: args}}},
			{Role: chat.RoleTool, ToolCallID: &text, Content: &reasoning}, {Role: chat.RoleUser, Content: &text},
		}}
		r, err := BuildRequest(config, p, map[string]any{"temperature": 1}, 0)
		if err != nil {
			return
		}
		if !json.Valid(r.Body) {
			t.Fatalf("no JSON: %s", r.Body)
		}
		object := strings.HasPrefix(strings.TrimSpace(args), "{") && json.Valid([]byte(args)) && utf8.ValidString(args)
		if wanted := !object && strings.TrimSpace(args) != ""; wanted != (r.unsendable != "") {
			t.Fatalf("arguments %q: unsendable %q", args, r.unsendable)
		}
		again, err := BuildRequest(config, p, map[string]any{"temperature": 1}, 0)
		if err != nil || !bytes.Equal(r.Body, again.Body) {
			t.Fatalf("two requests of one prompt differ: %v", err)
		}
	})
}
