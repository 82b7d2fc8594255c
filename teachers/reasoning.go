package teachers

import (
	"bytes"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// Where reasoning comes from besides a field of its own.
const (
	fieldParts   = "thinking_parts"
	originParts  = "thinking" // content parts of type thinking
	originInline = "inline"   // think tags in the content
)

// reasoningFields are the names under which reasoning comes, in order of
// preference where two hold texts of the same length.
var reasoningFields = [...]string{"reasoning_content", "reasoning", "thinking", fieldParts, "reasoning_details"}

// reasoningTexts accumulates each field apart: endpoints that changed the
// name send the same text under both, in the same event or not.
type reasoningTexts struct {
	text    [len(reasoningFields)][]byte
	summary bool // reasoning_details held summaries
}

func (r *reasoningTexts) size() int {
	n := 0
	for _, t := range r.text {
		n += len(t)
	}
	return n
}

func (r *reasoningTexts) add(field string, value []byte) {
	for i, name := range reasoningFields {
		if name != field {
			continue
		}
		if len(value) > 0 && value[0] == '[' {
			r.text[i] = r.appendParts(r.text[i], value)
		} else {
			r.text[i] = appendText(r.text[i], value)
		}
	}
}

// appendParts reads lists of {"type": "reasoning.text", "text": …},
// {"type": "reasoning.summary", "summary": …} and {"type": "text", "text": …}.
// Encrypted parts have no text; the raw response keeps them.
func (r *reasoningTexts) appendParts(dst, list []byte) []byte {
	l := walk(list)
	for l.next() {
		c := walk(l.value)
		for c.next() {
			switch string(c.name) {
			case "text", "thinking":
				dst = appendText(dst, c.value)
			case "summary":
				if isString(c.value) {
					r.summary = true
				}
				dst = appendText(dst, c.value)
			}
		}
	}
	return dst
}

// longest is the field with most text, -1 for none, and whether another field
// holds a text that is no part of it.
func (r *reasoningTexts) longest() (field int, conflict bool) {
	field = -1
	for i, t := range r.text {
		if len(t) > 0 && (field < 0 || len(t) > len(r.text[field])) {
			field = i
		}
	}
	if field < 0 {
		return field, false
	}
	for _, t := range r.text {
		conflict = conflict || !bytes.Contains(r.text[field], t)
	}
	return field, conflict
}

type splitReasoning struct {
	text    string
	content *string // what remains of the content; nil: all of it
}

// readReasoning fills the reasoning of an answer from its own field or from
// think tags in the content.
func (d *chatDecoder) readReasoning(a *Answer, content string) splitReasoning {
	var out splitReasoning
	field, conflict := d.reasoning.longest()
	if conflict {
		d.flag(FlagReasoningConflict)
	}
	kind := ReasoningFull
	if field >= 0 {
		out.text = d.text(d.reasoning.text[field])
		a.ReasoningField = reasoningFields[field]
		if a.ReasoningField == fieldParts {
			a.ReasoningField = originParts
		}
		if d.reasoning.summary && a.ReasoningField == "reasoning_details" {
			kind = ReasoningSummary
		}
	} else {
		text, rest, ok := splitThink(content)
		if !ok {
			return out
		}
		out.content = &rest
		if text == "" {
			return out // an empty think block is no reasoning
		}
		out.text = text
		a.ReasoningField = originInline
	}
	a.Message.ReasoningContent = chat.Text(out.text)
	a.Message.ReasoningKind = chat.Text(kind)
	return out
}

var thinkTags = [...]struct{ open, close string }{
	{"<think>", "</think>"},
	{"<thinking>", "</thinking>"},
	{"◁think▷", "◁/think▷"},
}

// mayHoldTags tells in one look that a text has no think tags, as most have none.
func mayHoldTags(s string) bool {
	return strings.IndexByte(s, '<') >= 0 || strings.Contains(s, "◁")
}

// splitThink takes inline reasoning out of a content. The opening tag may be
// missing, as when the chat template put it in the prompt; the closing one
// too, as when the answer was cut while it thought.
func splitThink(content string) (reasoning, rest string, ok bool) {
	if !mayHoldTags(content) {
		return "", content, false
	}
	trimmed := strings.TrimLeft(content, " \t\r\n")
	for _, tag := range thinkTags {
		if after, found := strings.CutPrefix(trimmed, tag.open); found {
			inside, rest, _ := strings.Cut(after, tag.close)
			return strings.TrimSpace(inside), strings.TrimLeft(rest, " \t\r\n"), true
		}
	}
	for _, tag := range thinkTags {
		inside, rest, found := strings.Cut(content, tag.close)
		// A tag that is opened or quoted before is talk about tags.
		if found && !strings.Contains(inside, tag.open) && !strings.HasSuffix(inside, "`") {
			return strings.TrimSpace(inside), strings.TrimLeft(rest, " \t\r\n"), true
		}
	}
	return "", content, false
}

func hasThinkTag(s string) bool {
	if !mayHoldTags(s) {
		return false
	}
	for _, tag := range thinkTags {
		if strings.Contains(s, tag.open) || strings.Contains(s, tag.close) {
			return true
		}
	}
	return false
}

// leakedMarkers are chat-template and tool-parser tokens that no answer should
// hold. Tokens of the form <|…|> are found by hasControlTokens itself.
var leakedMarkers = [...]string{
	"<｜", "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]", "<<SYS>>",
}

// hasControlTokens tells whether control tokens leaked into a text: the sign
// of a server whose parser failed.
func hasControlTokens(s string) bool {
	if strings.IndexByte(s, '<') < 0 && strings.IndexByte(s, '[') < 0 {
		return false // every marker has one of them
	}
	for _, m := range leakedMarkers {
		if strings.Contains(s, m) {
			return true
		}
	}
	for {
		k := strings.Index(s, "<|")
		if k < 0 {
			return false
		}
		s = s[k+2:]
		end := strings.IndexAny(s[:min(len(s), 64)], "> \n")
		if end >= 2 && s[end] == '>' && s[end-1] == '|' {
			return true
		}
	}
}
