package teachers

import (
	"encoding/base64"
	"errors"
	"strconv"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// openAI is the chat-completions protocol as OpenAI, vLLM, SGLang, llama.cpp,
// Ollama, DeepSeek, Moonshot and OpenRouter speak it.
type openAI struct{}

func (openAI) path() string { return "/chat/completions" }

func (openAI) keyHeader() string { return keyInAuthorization }

func (openAI) headers() map[string]string { return nil }

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

func (openAI) decoder() decoder { return chatDecoders.Get().(*chatDecoder) }

func (openAI) formats() (stream, plain string) { return FormatOpenAIStream, FormatOpenAIJSON }

func (openAI) appendImage(dst []byte, mediaType string, data []byte) []byte {
	dst = append(dst, `"data:`...)
	quoted := chat.AppendString(nil, mediaType)
	dst = append(dst, quoted[1:len(quoted)-1]...)
	dst = append(dst, `;base64,`...)
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

// system: the system text is the first message.
func (openAI) system(dst []byte, _ *chat.Prompt) []byte { return dst }

func (openAI) tools(list []byte) ([]byte, error) { return list, nil }

// messages appends the messages as they are sent: the system text first, the
// images before the text of the last user message.
func (openAI) messages(dst []byte, r *Request, p *chat.Prompt, profile *Profile) ([]byte, error) {
	if len(p.Messages) == 0 {
		return nil, errors.New("prompt without messages")
	}
	rest := p.Messages
	dst = append(dst, '[')
	if p.System != "" {
		dst = append(dst, `{"content":`...)
		dst = chat.AppendString(dst, p.System)
		dst = append(dst, `,"role":"system"},`...)
	}
	if len(p.Images) > 0 {
		last := lastUser(p.Messages)
		if last < 0 {
			return nil, errors.New("prompt with images but without a user message")
		}
		if last > 0 {
			dst = appendUnwrapped(dst, p.Messages[:last], profile)
		}
		dst = r.appendWithImages(dst, &p.Messages[last], p.Images)
		rest = p.Messages[last+1:]
	}
	if len(rest) > 0 {
		dst = appendUnwrapped(dst, rest, profile)
	}
	dst[len(dst)-1] = ']'
	return dst, nil
}

// appendUnwrapped appends the messages without the brackets, each followed by
// a comma.
func appendUnwrapped(dst []byte, messages []chat.Message, profile *Profile) []byte {
	at := len(dst) - 1
	last := dst[at]
	dst = chat.AppendMessagesAs(dst[:at], messages, profile.ReasoningHistory)
	dst[at] = last // in place of the opening bracket
	dst[len(dst)-1] = ','
	return dst
}

func (r *Request) appendWithImages(dst []byte, m *chat.Message, images []chat.Image) []byte {
	dst = append(dst, `{"content":[`...)
	for _, image := range images {
		dst = append(dst, `{"image_url":{"url":`...)
		start := len(dst)
		dst = chat.AppendString(dst, "sha256:"+image.Digest)
		r.images = append(r.images, imageSlot{start: start, end: len(dst), image: image})
		r.Images = append(r.Images, image.Digest)
		dst = append(dst, `},"type":"image_url"},`...)
	}
	if m.Content != nil {
		dst = append(dst, `{"text":`...)
		dst = chat.AppendString(dst, *m.Content)
		dst = append(dst, `,"type":"text"},`...)
	}
	dst[len(dst)-1] = ']'
	if m.Name != nil {
		dst = append(dst, `,"name":`...)
		dst = chat.AppendString(dst, *m.Name)
	}
	return append(dst, `,"role":"user"},`...)
}
