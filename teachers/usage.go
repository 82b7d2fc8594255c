package teachers

import "github.com/stillhouse-data/stillhouse/internal/chat"

// usageTally reads usage from every place that it comes in: the top level, the
// choice, the last event, every event. Counts only grow while a stream goes
// on, and repeats are equal, so the largest of each count is the right one and
// nothing is ever added up.
type usageTally struct {
	sent                                            bool
	prompt, completion, total, cached, write, think int64
	timed                                           timedTokens
}

func (t *usageTally) add(value []byte) {
	c := walk(value)
	for c.next() {
		switch string(c.name) {
		case "prompt_tokens", "input_tokens":
			t.most(&t.prompt, c.value)
		case "completion_tokens", "output_tokens":
			t.most(&t.completion, c.value)
		case "total_tokens":
			t.most(&t.total, c.value)
		case "cached_tokens", "prompt_cache_hit_tokens":
			t.most(&t.cached, c.value)
		case "cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens":
			t.most(&t.write, c.value)
		case "reasoning_tokens":
			t.most(&t.think, c.value)
		case "prompt_tokens_details", "input_tokens_details":
			t.details(c.value)
		case "completion_tokens_details", "output_tokens_details":
			t.details(c.value)
		}
	}
}

func (t *usageTally) details(value []byte) {
	c := walk(value)
	for c.next() {
		switch string(c.name) {
		case "cached_tokens":
			t.most(&t.cached, c.value)
		case "cache_write_tokens", "cache_creation_tokens":
			t.most(&t.write, c.value)
		case "reasoning_tokens", "thinking_tokens":
			t.most(&t.think, c.value)
		}
	}
}

func (t *usageTally) most(to *int64, value []byte) {
	if n, ok := wholeNumber(value); ok && n > *to {
		*to = min(n, maxCount)
		t.sent = true
	}
}

// result is nil where no usage came: zero tokens for an answer mean that the
// endpoint does not count, not that it was free.
func (t *usageTally) result() *chat.Usage {
	t.withTimed()
	if !t.sent || t.prompt == 0 && t.completion == 0 {
		return nil
	}
	// Some endpoints count reasoning beside the completion, most within it.
	beside := t.think > 0 && (t.think > t.completion || t.total == t.prompt+t.completion+t.think)
	if beside {
		t.completion += t.think
	}
	u := &chat.Usage{PromptTokens: t.prompt, CompletionTokens: t.completion, ReasoningTokens: t.think}
	u.CachedTokens = min(t.cached, t.prompt)
	u.CacheWriteTokens = min(t.write, t.prompt-u.CachedTokens)
	return u
}
