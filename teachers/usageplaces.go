package teachers

import (
	"strconv"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// timedTokens are counts that llama.cpp sends beside its timings: the tokens
// that it read anew, those that it had in its cache, and those that it wrote.
type timedTokens struct{ read, cached, written int64 }

// elsewhere reads token counts from where some servers put them instead of in
// usage: the timings of llama.cpp, the x_groq object of Groq's last event, and
// the top level of Ollama's own protocol.
func (t *usageTally) elsewhere(name string, value []byte) {
	switch name {
	case "prompt_eval_count":
		t.most(&t.prompt, value)
	case "eval_count":
		t.most(&t.completion, value)
	case "x_groq":
		c := walk(value)
		for c.next() {
			if string(c.name) == "usage" {
				t.add(c.value)
			}
		}
	case "timings":
		c := walk(value)
		for c.next() {
			switch string(c.name) {
			case "prompt_n":
				t.most(&t.timed.read, c.value)
			case "cache_n":
				t.most(&t.timed.cached, c.value)
			case "predicted_n":
				t.most(&t.timed.written, c.value)
			}
		}
	}
}

// withTimed uses the counts of timings for what nothing else tells. They agree
// with usage where a server sends both, or are not believed.
func (t *usageTally) withTimed() {
	prompt := t.timed.read + t.timed.cached
	if t.prompt == 0 {
		t.prompt = prompt
	}
	if t.completion == 0 {
		t.completion = t.timed.written
	}
	if t.cached == 0 && t.prompt == prompt {
		t.cached = t.timed.cached
	}
}

// Response headers that hold token counts: those of text-generation-inference
// and of gateways before it.
const (
	headerPromptTokens     = "x-prompt-tokens"
	headerCompletionTokens = "x-generated-tokens"
)

// FillUsage completes the usage of an answer, so that every answer has one: by
// the response's headers, and else by an estimate from texts, which is marked.
// prompt is what the model was sent, as far as it is text. An endpoint that
// counts no tokens of a text has not counted them.
func FillUsage(a *Answer, headers map[string]string, prompt func() int64) chat.Usage {
	var u chat.Usage
	if a.Usage != nil {
		u = *a.Usage
	}
	if u.PromptTokens == 0 {
		u.PromptTokens = headerCount(headers, headerPromptTokens)
	}
	if u.CompletionTokens == 0 {
		u.CompletionTokens = headerCount(headers, headerCompletionTokens)
	}
	if u.PromptTokens == 0 {
		if u.PromptTokens = prompt(); u.PromptTokens > 0 {
			u.Estimated = true
		}
	}
	if u.CompletionTokens == 0 {
		if u.CompletionTokens = writtenTokens(a); u.CompletionTokens > 0 {
			u.Estimated = true
		}
	}
	return u
}

// writtenTokens estimates what the model wrote.
func writtenTokens(a *Answer) int64 {
	var n int64
	if c := a.Message.Content; c != nil {
		n += TextTokens(*c)
	}
	if r := a.Message.ReasoningContent; r != nil {
		n += TextTokens(*r)
	}
	n += TextTokens(a.Refusal)
	for _, call := range a.Message.ToolCalls {
		n += TextTokens(call.Name) + TextTokens(call.Arguments)
	}
	return n
}

func headerCount(headers map[string]string, name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(headers[name]), 10, 64)
	if err != nil || n < 0 || n > maxCount {
		return 0
	}
	return n
}

// maxCount bounds a token count: no context is near it, and neither the counts of
// hostile answers nor what they cost add up to more than an int64 holds.
const maxCount = 1 << 32
