package teachers_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// longLogprobs is a stream of so many tokens with k alternatives each.
func longLogprobs(tokens, k int) []byte {
	var b bytes.Buffer
	for i := range tokens {
		fmt.Fprintf(&b, `data: {"choices":[{"index":0,"delta":{"content":"t"},"logprobs":{"content":[{"token":"token_id:%d","logprob":-%d.5,"bytes":[116],"top_logprobs":[`, i, i%9)
		for j := range k {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"token":"token_id:%d","logprob":-%d.25,"bytes":[116,111,107,101,110]}`, j, j)
		}
		b.WriteString("]}]}}]}\n\n")
	}
	b.WriteString(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	return b.Bytes()
}

func BenchmarkParseLogprobs(b *testing.B) {
	raw := longLogprobs(3000, 20)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := teachers.Parse(teachers.FormatOpenAIStream, raw); err != nil {
			b.Fatal(err)
		}
	}
}
