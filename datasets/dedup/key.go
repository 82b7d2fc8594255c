package dedup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// Versions of what equality means, for the manifest. They change when the same
// texts would be found where they were not, or the other way around.
const (
	ExactVersion = "1"
	NearVersion  = "1"
)

// A Key is the first 16 bytes of SHA-256 over the normal form of what is
// compared.
type Key [16]byte

// String is the key in hex, 32 characters.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// PromptKey is the same for prompts that are exact duplicates: their domains
// are of one style, their system text, tools and images are the same, and their
// turns say the same. The ids of tool calls are no part of it.
func PromptKey(domain string, p *chat.Prompt) Key {
	style, context := StyleOf(domain), contextOf(p)
	b := append([]byte{byte(style)}, context[:]...)
	return keyOf(appendNormal(b, style, promptText(p)))
}

// PromptDocument is a prompt for the search for near-duplicates. Its text is
// what its turns say. System text, tools, images and who speaks when must be
// equal: they are long, many prompts share them, and they decide what a prompt
// asks for.
func PromptDocument(order uint64, domain string, p *chat.Prompt) Document {
	context := contextOf(p)
	return Document{Order: order, Text: promptText(p), Context: binary.LittleEndian.Uint64(context[:]), Style: StyleOf(domain)}
}

// promptText is what the turns of a prompt say, with their calls of tools.
func promptText(p *chat.Prompt) string {
	if len(p.Messages) == 1 && len(p.Messages[0].ToolCalls) == 0 && p.Messages[0].Content != nil {
		return *p.Messages[0].Content
	}
	var text strings.Builder
	for i := range p.Messages {
		m := &p.Messages[i]
		if m.Content != nil {
			text.WriteString(*m.Content)
			text.WriteByte('\n')
		}
		for j := range m.ToolCalls {
			text.WriteString(m.ToolCalls[j].Name)
			text.WriteByte(' ')
			text.WriteString(m.ToolCalls[j].Arguments)
			text.WriteByte('\n')
		}
	}
	return text.String()
}

// contextOf is a key of all that a prompt has beside what its turns say.
func contextOf(p *chat.Prompt) Key {
	b := appendField(nil, appendNormal(nil, Verbatim, p.System))
	b = appendField(b, canonical(p.Tools))
	b = binary.AppendUvarint(b, uint64(len(p.Images)))
	for i := range p.Images {
		b = appendField(b, []byte(p.Images[i].Digest))
	}
	for i := range p.Messages {
		b = appendField(b, []byte(p.Messages[i].Role))
	}
	return keyOf(b)
}

// canonical is a JSON text in the form of RFC 8785; what is not JSON stays.
func canonical(text string) []byte {
	b := []byte(text)
	if c, err := chat.Canonical(b); err == nil {
		return c
	}
	return b
}

func keyOf(b []byte) Key {
	sum := sha256.Sum256(b)
	return Key(sum[:16])
}

// appendField adds a text so that where it ends can be told.
func appendField(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}
