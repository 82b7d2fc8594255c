package teachers_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// An endpoint may claim any count. None makes a count or a cost negative, and the
// costs of a million such answers still add up.
func TestHostileCountsDoNotOverflow(t *testing.T) {
	const most = math.MaxInt64
	price := teachers.Price{Input: 1000, Output: 1000}
	openai := func(usage string) string {
		return `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],` + usage + `}`
	}
	for _, c := range []struct{ format, raw string }{
		{teachers.FormatOpenAIJSON, openai(fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, int64(most), int64(most), int64(most)))},
		{teachers.FormatOpenAIJSON, openai(fmt.Sprintf(`"usage":{"prompt_tokens":1,"completion_tokens":%d,"reasoning_tokens":%d}`, int64(most-1), int64(most)))},
		{teachers.FormatOpenAIJSON, openai(fmt.Sprintf(`"timings":{"prompt_n":%d,"cache_n":%d,"predicted_n":%d}`, int64(most), int64(most), int64(most)))},
		{teachers.FormatOpenAIJSON, openai(`"usage":{"prompt_tokens":-5,"completion_tokens":-9223372036854775808,"cached_tokens":-1}`)},
		{teachers.FormatAnthropicJSON, fmt.Sprintf(`{"type":"message","role":"assistant","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn",`+
			`"usage":{"input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,"output_tokens":%d}}`, int64(most), int64(most), int64(most), int64(most))},
	} {
		answer, err := teachers.Parse(c.format, []byte(c.raw))
		if err != nil {
			t.Errorf("%s: %v", c.raw, err)
			continue
		}
		var u chat.Usage
		if answer.Usage != nil {
			u = *answer.Usage
		}
		for _, n := range []int64{u.PromptTokens, u.CompletionTokens, u.CachedTokens, u.CacheWriteTokens, u.ReasoningTokens} {
			if n < 0 || n > math.MaxInt64/1_000_000 {
				t.Errorf("%s: a count of %d", c.raw, n)
			}
		}
		if cost := price.Cost(u); cost < 0 || cost > math.MaxInt64/100_000 {
			t.Errorf("%s: costs %d micro-dollars", c.raw, cost)
		}
	}
}
