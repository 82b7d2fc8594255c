package teachers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A decoder that is used again knows nothing of the answer before, and an
// answer does not change when its decoder is used again.
func TestDecodersForget(t *testing.T) {
	full := map[string][]string{
		FormatOpenAIStream: {
			"data: {\"model\":\"a\",\"system_fingerprint\":\"f\",\"choices\":[{\"index\":1,\"delta\":{\"reasoning_content\":\"because\",\"content\":\"one <|x|>\",\"tool_calls\":[{\"index\":0,\"id\":\"t\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},\"logprobs\":{\"content\":[{\"token\":\"one\",\"logprob\":-1}]},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n",
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"two\"},\"finish_reason\":\"stop\"}]}\n\n",
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"u\",\"function\":{\"name\":\"g\",\"arguments\":\"[]\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n",
		},
		FormatAnthropicStream: {
			"data: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-9\",\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":2}}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"s\"}}\n\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"redacted_thinking\",\"data\":\"x\"}}\n\ndata: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":9}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
			"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"two\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
			"data: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"x\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
		},
	}
	for format, streams := range full {
		t.Run(format, func(t *testing.T) {
			fresh, used := make([]*Answer, len(streams)), make([]*Answer, len(streams))
			var again decoder
			for i, stream := range streams {
				d, _, err := dialectOfFormat(format)
				if err != nil {
					t.Fatal(err)
				}
				fresh[i] = readAnswer(t, untaught(format), stream)
				if again == nil {
					again = d.decoder() // never released, so that nobody else gets it
				}
				used[i] = readAnswer(t, again, stream)
				again.(interface{ reset() }).reset()
			}
			if diff := cmp.Diff(fresh, used); diff != "" {
				t.Errorf("by fresh decoders (-) and by one (+):\n%s", diff)
			}
		})
	}
}

func readAnswer(t *testing.T, d decoder, stream string) *Answer {
	t.Helper()
	var events sseReader
	for !d.closed() {
		name, data, ok := events.next([]byte(stream), true)
		if !ok {
			break
		}
		if _, err := d.event(name, data); err != nil {
			t.Fatal(err)
		}
	}
	a, err := d.answer()
	if err != nil {
		t.Fatal(err)
	}
	return a
}
