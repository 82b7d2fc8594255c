package dedup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
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

// PromptKey is the same for prompts of a domain that are exact duplicates:
// their messages, system text, tools and images say the same. The ids of tool
// calls are not part of it.
func PromptKey(domain string, p *chat.Prompt) Key {
	style := StyleOf(domain)
	b := appendField(nil, appendNormal(nil, style, p.System))
	b = appendContext(b, p)
	for i := range p.Messages {
		b = appendMessage(b, style, &p.Messages[i])
	}
	return keyOf(b)
}

// PromptDocument is a prompt for the search for near-duplicates. Its text is
// what the messages say; system text, tools and images must be equal, because
// they are long, shared by many prompts, and decide what a prompt asks for.
func PromptDocument(order uint64, domain string, p *chat.Prompt) Document {
	style := StyleOf(domain)
	context := keyOf(appendContext(appendField(nil, appendNormal(nil, style, p.System)), p))
	var text strings.Builder
	for i := range p.Messages {
		writeMessage(&text, &p.Messages[i])
	}
	return Document{Order: order, Text: text.String(), Context: binary.LittleEndian.Uint64(context[:]), Style: style}
}

// AnswerKey is the same for answers to one task that are exact duplicates:
// text, reasoning and tool calls say the same. Case and punctuation count,
// whatever the domain: an answer is short of nothing that it could be told by.
// An ask that failed equals no other.
func AnswerKey(c *datasets.Candidate) Key {
	m := c.Answer()
	if m == nil {
		return keyOf(appendField([]byte("none"), []byte(c.SampleID)))
	}
	return keyOf(appendMessage(nil, Verbatim, m))
}

// AnswerDocument is an answer for the search for near-duplicates among the
// answers to one task. Tool calls must be equal.
func AnswerDocument(order uint64, c *datasets.Candidate) Document {
	m := c.Answer()
	if m == nil {
		return Document{Order: order}
	}
	var text strings.Builder
	for _, part := range []*string{m.ReasoningContent, m.Content} {
		if part != nil {
			text.WriteString(*part)
			text.WriteByte('\n')
		}
	}
	calls := keyOf(appendCalls(nil, m))
	return Document{Order: order, Text: text.String(), Context: binary.LittleEndian.Uint64(calls[:]), Style: StyleOf(c.Domain)}
}

func keyOf(b []byte) Key {
	sum := sha256.Sum256(b)
	return Key(sum[:16])
}

// appendField adds a text so that where it ends can be told.
func appendField(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// appendContext adds what a prompt has beside its messages.
func appendContext(dst []byte, p *chat.Prompt) []byte {
	tools := []byte(p.Tools)
	if canonical, err := chat.Canonical(tools); err == nil {
		tools = canonical
	}
	dst = appendField(dst, tools)
	dst = binary.AppendUvarint(dst, uint64(len(p.Images)))
	for i := range p.Images {
		dst = appendField(dst, []byte(p.Images[i].Digest))
	}
	return dst
}

func appendMessage(dst []byte, style Style, m *chat.Message) []byte {
	dst = appendField(dst, []byte(m.Role))
	for _, part := range []*string{m.Content, m.ReasoningContent} {
		text := ""
		if part != nil {
			text = *part
		}
		dst = appendField(dst, appendNormal(nil, style, text))
	}
	return appendCalls(dst, m)
}

// appendCalls adds the calls of tools: names, and arguments as canonical JSON.
func appendCalls(dst []byte, m *chat.Message) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(m.ToolCalls)))
	for i := range m.ToolCalls {
		call := &m.ToolCalls[i]
		arguments := []byte(call.Arguments)
		if canonical, err := chat.Canonical(arguments); err == nil {
			arguments = canonical
		}
		dst = appendField(appendField(dst, []byte(call.Name)), arguments)
	}
	return dst
}

// writeMessage writes what is said in a message, with its calls of tools.
func writeMessage(w *strings.Builder, m *chat.Message) {
	if m.Content != nil {
		w.WriteString(*m.Content)
		w.WriteByte('\n')
	}
	for i := range m.ToolCalls {
		w.WriteString(m.ToolCalls[i].Name)
		w.WriteByte(' ')
		w.WriteString(m.ToolCalls[i].Arguments)
		w.WriteByte('\n')
	}
}
