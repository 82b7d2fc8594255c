package teachers

import (
	"encoding/base64"
	"net/http"
	"strconv"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// anthropic is the messages protocol as Anthropic speaks it, and as Moonshot,
// DeepSeek, vLLM and llama.cpp offer it beside the other one.
type anthropic struct{}

// anthropicVersion is the protocol's version that this file was written for.
const anthropicVersion = "2023-06-01"

func (anthropic) path() string { return "/messages" }

func (anthropic) keyHeader() string { return keyInXAPIKey }

func (anthropic) headers() map[string]string {
	return map[string]string{"anthropic-version": anthropicVersion}
}

func (anthropic) appendWire(dst []byte, _ *Profile, r *Request) []byte {
	if r.CapField != "" {
		dst = append(chat.AppendString(dst, r.CapField), ':')
		dst = append(strconv.AppendInt(dst, r.Cap, 10), ',')
	}
	return append(append(dst, `"stream":true,`...), r.transport...)
}

// answerHeader: the version and the beta features change what is answered.
func (anthropic) answerHeader(name string) bool {
	switch name {
	case "anthropic-version", "anthropic-beta":
		return true
	}
	return false
}

func (anthropic) decoder() decoder { return messageDecoders.Get().(*messageDecoder) }

func (anthropic) formats() (stream, plain string) {
	return FormatAnthropicStream, FormatAnthropicJSON
}

// appendImage appends the source of an image block.
func (anthropic) appendImage(dst []byte, mediaType string, data []byte) []byte {
	dst = append(dst, `{"data":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, data)
	dst = append(dst, `","media_type":`...)
	dst = chat.AppendString(dst, mediaType)
	return append(dst, `,"type":"base64"}`...)
}

// The headers in which keys go.
const (
	keyInAuthorization = "authorization"
	keyInXAPIKey       = "x-api-key"
)

// authorize puts a key in the header that a profile names, else in the
// dialect's own.
func authorize(h http.Header, d dialect, p *Profile, key string) {
	header := p.KeyHeader
	if header == "" {
		header = d.keyHeader()
	}
	if header == keyInXAPIKey {
		h["X-Api-Key"] = []string{key}
		return
	}
	h["Authorization"] = []string{"Bearer " + key}
}
