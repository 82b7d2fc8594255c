package filter

import (
	"strings"
	"unicode"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// Reasons of the finish filter. Two more carry what happened:
// "error:<class>" and "finish:<reason>".
const (
	ReasonTruncated     = "truncated"
	ReasonContentFilter = "content_filter"
	ReasonEmpty         = "empty"
)

// maxReasonTail bounds what a reason repeats of an endpoint's word, in bytes.
const maxReasonTail = 48

// finish keeps answers that came to their own end. An answer without a finish
// reason (recorded ones have none) is kept if it says something.
type finish struct{}

func newFinish(*options.Set) Filter { return finish{} }

func (finish) Name() string    { return "finish" }
func (finish) Version() string { return "1" }

func (finish) Reject(in *Input) string {
	c := in.Candidate
	if c.Error != nil {
		return "error:" + tame(*c.Error)
	}
	if c.FinishReason != nil {
		if reason := ended(*c.FinishReason); reason != "" {
			return reason
		}
	}
	m := c.Answer()
	if m == nil || len(m.ToolCalls) == 0 && (m.Content == nil || strings.TrimSpace(*m.Content) == "") {
		return ReasonEmpty
	}
	return ""
}

// ended is "" for the words by which the chat-completions and the messages
// protocol say that an answer is whole.
func ended(finish string) string {
	switch word := strings.ToLower(strings.TrimSpace(finish)); word {
	case "stop", "tool_calls", "function_call", "end_turn", "stop_sequence", "tool_use":
		return ""
	case "length", "max_tokens", "model_context_window_exceeded":
		return ReasonTruncated
	case "content_filter", "refusal":
		return ReasonContentFilter
	default:
		return "finish:" + tame(word)
	}
}

// tame makes an endpoint's word fit to be counted and printed: lower case
// letters, digits and _ - . only, bounded.
func tame(word string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(word)) {
		if b.Len() >= maxReasonTail {
			break
		}
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '-' || r == '.') {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	if b.Len() == 0 {
		return "none"
	}
	return b.String()
}
