package teachers

import (
	"net/http"
	"strconv"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// openAI is the chat-completions protocol as OpenAI, vLLM, SGLang, llama.cpp,
// Ollama, DeepSeek, Moonshot and OpenRouter speak it.
type openAI struct{}

func (openAI) path() string { return "/chat/completions" }

func (openAI) authorize(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

func (openAI) appendWire(dst []byte, p *Profile, r *Request) []byte {
	if r.CapField != "" {
		dst = append(chat.AppendString(dst, r.CapField), ':')
		dst = append(strconv.AppendInt(dst, r.Cap, 10), ',')
	}
	dst = append(dst, `"stream":true,`...)
	if p.UsageOption {
		dst = append(dst, `"stream_options":{"include_usage":true},`...)
	}
	return append(dst, r.transport...)
}

// answerHeader: beta headers switch features on, and routers choose the model
// or the provider by theirs.
func (openAI) answerHeader(name string) bool {
	switch name {
	case "openai-beta", "anthropic-beta", "anthropic-version", "x-provider", "x-model", "x-route":
		return true
	}
	return false
}

func (openAI) decoder() decoder { return &chatDecoder{} }

func (openAI) formats() (stream, plain string) { return FormatOpenAIStream, FormatOpenAIJSON }
