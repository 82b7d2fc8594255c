package teacherstest

import (
	"encoding/json"
	"fmt"
)

// A Token is one token of a reply with its log probability.
type Token struct {
	ID      int
	Text    string
	Logprob *float64 // nil: sent as null
	Top     []Token  // alternatives, the likeliest first
}

// Spell makes tokens of a text, one a character, with ids from 1, logprobs of
// -0.1, and k alternatives each.
func Spell(text string, k int) []Token {
	var out []Token
	for i, r := range []rune(text) {
		p := -0.1
		t := Token{ID: i + 1, Text: string(r), Logprob: &p}
		for j := range k {
			alternative := -0.1 - float64(j)*2.5
			t.Top = append(t.Top, Token{ID: i + 1 + j*1000, Text: string(r + rune(j)), Logprob: &alternative})
		}
		out = append(out, t)
	}
	return out
}

// logprobsWanted is how a request asks for logprobs.
type logprobsWanted struct {
	Logprobs    bool `json:"logprobs"`
	TopLogprobs int  `json:"top_logprobs"`
	AsIDs       bool `json:"return_tokens_as_token_ids"` // vLLM's
	IDs         bool `json:"return_token_ids"`           // vLLM's

	PromptLogprobs *int  `json:"prompt_logprobs"`       // vLLM's
	Generation     *bool `json:"add_generation_prompt"` // vLLM's
}

// members are those of a choice, each after a comma, as OpenAI or vLLM writes
// them; "" where nothing is asked for.
func (w *logprobsWanted) members(tokens []Token) string {
	out := ""
	if w.Logprobs && len(tokens) > 0 {
		list := make([]any, len(tokens))
		for i, t := range tokens {
			entry := w.entry(t, false)
			top := []any{}
			for _, alternative := range t.Top[:min(len(t.Top), w.TopLogprobs)] {
				top = append(top, w.entry(alternative, true))
			}
			entry["top_logprobs"] = top
			list[i] = entry
		}
		out += `,"logprobs":` + jsonOf(map[string]any{"content": list})
	}
	if w.IDs && len(tokens) > 0 {
		ids := make([]int, len(tokens))
		for i, t := range tokens {
			ids[i] = t.ID
		}
		out += `,"token_ids":` + jsonOf(ids)
	}
	return out
}

func (w *logprobsWanted) entry(t Token, alternative bool) map[string]any {
	text := t.Text
	shown := t.Text
	if w.AsIDs {
		shown = fmt.Sprintf("token_id:%d", t.ID)
		if alternative {
			text = shown // vLLM gives the bytes of these words
		}
	}
	bytes := make([]int, len(text))
	for i := range len(text) {
		bytes[i] = int(text[i])
	}
	return map[string]any{"token": shown, "logprob": t.Logprob, "bytes": bytes}
}

func jsonOf(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
