package teachers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// untaught is a decoder that learns no shapes.
func untaught(format string) decoder {
	if strings.HasPrefix(format, "openai") {
		return &chatDecoder{same: template{misses: templateMisses + 1}}
	}
	return &messageDecoder{chat: chatDecoder{same: template{misses: templateMisses + 1}}}
}

// readWith gives what a decoder makes of a stream, as text to compare.
func readWith(d decoder, stream []byte) string {
	var events sseReader
	var progress []bool
	for !d.closed() {
		name, data, ok := events.next(stream, true)
		if !ok {
			break
		}
		moved, err := d.event(name, data)
		progress = append(progress, moved)
		if err != nil {
			return fmt.Sprintf("%v: %v", progress, err)
		}
	}
	a, err := d.answer()
	text, _ := json.Marshal(a)
	return fmt.Sprintf("%v: %s, %v", progress, text, err)
}

// Whatever a stream holds, learning the shape of its events changes nothing in
// what is read.
func TestShapesChangeNothing(t *testing.T) {
	members := []string{
		`"id":"c1"`, `"id":"c2"`, `"created":1`, `"model":"m"`, `"model":"n"`, `"usage":null`, `"usage":{"prompt_tokens":3}`, `"error":null`, `"x":[]`,
	}
	deltas := []string{
		`{"content":"a"}`, `{"content":"bc\n\"d\\"}`, `{"content":"\ud83d"}`, `{"content":""}`, `{"content":null}`, `{"reasoning_content":"r"}`,
		`{"reasoning":"s"}`, `{"reasoning_content":"r","content":"a"}`, `{"content":"a","content":"b"}`, `{"role":"assistant","content":"x"}`,
		`{"content":"a","tool_calls":[]}`, `{"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"{}"}}]}`, `{"content":["p"]}`, `{"refusal":"no"}`, `{}`,
	}
	ends := []string{
		``, `,"finish_reason":null`, `,"finish_reason":"stop"`, `,"logprobs":null`, `,"logprobs":{"content":[{"token":"a","logprob":-1}]}`, `,"usage":{"completion_tokens":4}`,
	}
	chunk := rapid.Custom(func(t *rapid.T) string {
		event := fmt.Sprintf(`{%s,"choices":[{"index":%d,"delta":%s%s}]}`, rapid.SampledFrom(members).Draw(t, "member"),
			rapid.SampledFrom([]int{0, 0, 0, 0, 1}).Draw(t, "index"), rapid.SampledFrom(deltas).Draw(t, "delta"), rapid.SampledFrom(ends).Draw(t, "end"))
		return "data: " + event + rapid.SampledFrom([]string{"\n\n", "\n\n", "\n\n", " \n\n", "{}\n\n"}).Draw(t, "tail")
	})
	block := rapid.Custom(func(t *rapid.T) string {
		kind := rapid.SampledFrom([]string{"content_block_delta", "content_block_delta", "content_block_start", "message_delta", "other"}).Draw(t, "kind")
		delta := rapid.SampledFrom([]string{
			`{"type":"text_delta","text":"a"}`, `{"type":"text_delta","text":"b\n"}`, `{"type":"thinking_delta","thinking":"t"}`, `{"type":"text_delta","thinking":"t"}`,
			`{"type":"signature_delta","signature":"s"}`, `{"type":"input_json_delta","partial_json":"{}"}`, `{"stop_reason":"end_turn"}`, `{"type":"text_delta","text":"a","text":"b"}`, `{}`,
		}).Draw(t, "delta")
		more := rapid.SampledFrom([]string{``, ``, `,"usage":{"output_tokens":3}`, `,"content_block":{"type":"thinking","thinking":"u"}`, `,"error":{"message":"no"}`}).Draw(t, "more")
		return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"index\":%d,\"delta\":%s%s}\n\n", kind, kind, rapid.IntRange(0, 2).Draw(t, "index"), delta, more)
	})
	for format, events := range map[string]*rapid.Generator[string]{FormatOpenAIStream: chunk, FormatAnthropicStream: block} {
		t.Run(format, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var stream []byte
				// Events come in runs, so that shapes repeat.
				for range rapid.IntRange(1, 8).Draw(t, "runs") {
					event := events.Draw(t, "event")
					stream = append(stream, strings.Repeat(event, rapid.IntRange(1, 4).Draw(t, "times"))...)
				}
				d, _, err := dialectOfFormat(format)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(readWith(untaught(format), stream), readWith(d.decoder(), stream)); diff != "" {
					t.Fatalf("read plainly (-) and by shape (+):\n%s\n%s", diff, stream)
				}
			})
		})
	}
}

// The shape of a long stream is learnt at once and used for the rest of it.
func TestShapesAreUsed(t *testing.T) {
	d := &chatDecoder{}
	for i := range 100 {
		data := fmt.Appendf(nil, `{"id":"c","choices":[{"index":0,"delta":{"content":"token %d \"q\""},"finish_reason":null}]}`, i)
		known := d.same.known
		if _, ok := d.same.match(nil, data); ok != known {
			t.Fatalf("event %d: matched %v, known %v", i, ok, known)
		}
		if _, err := d.event(nil, data); err != nil {
			t.Fatal(err)
		}
	}
	if !d.same.known || d.same.misses != 0 || bytes.Count(d.content, []byte("token")) != 100 {
		t.Errorf("known %v, %d misses, content %.50s", d.same.known, d.same.misses, d.content)
	}
}
