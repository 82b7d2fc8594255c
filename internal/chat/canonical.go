package chat

import (
	"fmt"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// AppendCanonical appends the RFC 8785 form of the prompt to dst. Keys that
// hold nothing are absent. It is written out by hand because it runs for every
// prompt of every plan; a test holds it to the library's form.
func (p *Prompt) AppendCanonical(dst []byte) ([]byte, error) {
	dst = append(dst, '{')
	if len(p.Images) > 0 {
		dst = append(dst, `"images":[`...)
		for i, im := range p.Images {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendString(dst, im.Digest)
		}
		dst = append(dst, `],`...)
	}
	dst = append(dst, `"messages":`...)
	dst = AppendMessages(dst, p.Messages)
	if p.System != "" {
		dst = append(dst, `,"system":`...)
		dst = AppendString(dst, p.System)
	}
	if p.Tools != "" {
		tools, err := jcs.Transform([]byte(p.Tools))
		if err != nil {
			return dst, fmt.Errorf("tools: %w", err)
		}
		dst = append(dst, `,"tools":`...)
		dst = append(dst, tools...)
	}
	return append(dst, '}'), nil
}

// AppendMessages appends the RFC 8785 form of the messages, as the
// chat-completions protocol spells them (tool calls as functions). Train and
// ReasoningKind are ours and stay out.
func AppendMessages(dst []byte, messages []Message) []byte {
	return AppendMessagesAs(dst, messages, "reasoning_content")
}

// AppendMessagesAs is AppendMessages with another name for the reasoning of
// earlier turns: reasoning_content or reasoning; "" leaves it out. Endpoints
// differ in it.
func AppendMessagesAs(dst []byte, messages []Message, reasoning string) []byte {
	dst = append(dst, '[')
	for i := range messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendMessage(dst, &messages[i], reasoning)
	}
	return append(dst, ']')
}

func appendMessage(dst []byte, m *Message, reasoning string) []byte {
	dst = append(dst, `{"content":`...)
	dst = appendOptional(dst, m.Content)
	if m.Name != nil {
		dst = append(dst, `,"name":`...)
		dst = AppendString(dst, *m.Name)
	}
	if m.ReasoningContent != nil && reasoning != "" {
		dst = append(AppendString(append(dst, ','), reasoning), ':')
		dst = AppendString(dst, *m.ReasoningContent)
	}
	dst = append(dst, `,"role":`...)
	dst = AppendString(dst, m.Role)
	if m.ToolCallID != nil {
		dst = append(dst, `,"tool_call_id":`...)
		dst = AppendString(dst, *m.ToolCallID)
	}
	if len(m.ToolCalls) > 0 {
		dst = append(dst, `,"tool_calls":[`...)
		for i := range m.ToolCalls {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendToolCall(dst, &m.ToolCalls[i])
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func appendToolCall(dst []byte, c *ToolCall) []byte {
	dst = append(dst, `{"function":{"arguments":`...)
	dst = AppendString(dst, c.Arguments)
	dst = append(dst, `,"name":`...)
	dst = AppendString(dst, c.Name)
	dst = append(dst, `},"id":`...)
	dst = AppendString(dst, c.ID)
	dst = append(dst, `,"type":`...)
	dst = AppendString(dst, c.Type)
	return append(dst, '}')
}

func appendOptional(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, "null"...)
	}
	return AppendString(dst, *s)
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as an RFC 8785 JSON string: the short escapes, \u00xx
// for the other control characters, and every other character as itself.
// Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\uFFFD"...)
				start = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// Canonical returns the RFC 8785 form of a JSON text. Integers beyond 2^53
// have no exact form there and are refused by the recipe before they get here.
func Canonical(text []byte) ([]byte, error) { return jcs.Transform(text) }
