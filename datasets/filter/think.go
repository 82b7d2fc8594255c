package filter

import (
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// Reasons of the think filter.
const (
	ReasonThinkOpen     = "think:open"      // thoughts that were begun and never ended
	ReasonThinkTags     = "think:tags"      // more than one block, or tags in the wrong order
	ReasonThinkNoAnswer = "think:no_answer" // nothing after the thoughts
	ReasonThinkNone     = "think:none"      // no thoughts, where they are required
)

// FlagThinkTwice marks an answer with reasoning in a field of its own and a
// think block in its text as well.
const FlagThinkTwice = "think_twice"

// think keeps answers whose reasoning is whole: one block that is opened once,
// closed once and followed by an answer, or a field of its own. What stands in
// code spans and code blocks is talk about tags and does not count.
type think struct{ required bool }

func newThink(o *options.Set) Filter { return think{required: o.Bool("required", false)} }

func (think) Name() string    { return "think" }
func (think) Version() string { return "1" }

func (f think) Reject(in *Input) string {
	if in.Candidate.Answer() == nil {
		return "" // for finish to say
	}
	content, reasoning := in.Candidate.Content(), strings.TrimSpace(in.reasoning())
	t := readThink(content)
	after := content
	switch {
	case t.opened == 0 && t.closed == 0:
		if reasoning == "" {
			if f.required {
				return ReasonThinkNone
			}
			return ""
		}
	case t.opened > 1 || t.closed > 1 || t.closed == 1 && t.opened == 0 || t.crossed || strings.ContainsFunc(t.before, seen):
		return ReasonThinkTags
	case t.closed == 0:
		return ReasonThinkOpen
	default:
		after = t.after
		if f.required && reasoning == "" && strings.TrimSpace(t.inside) == "" {
			return ReasonThinkNone
		}
	}
	if len(in.message().ToolCalls) == 0 && !strings.ContainsFunc(after, seen) {
		return ReasonThinkNoAnswer
	}
	return ""
}

// Change implements Changer.
func (f think) Change(in *Input) {
	if strings.TrimSpace(in.reasoning()) == "" {
		return
	}
	if t := readThink(in.Candidate.Content()); t.opened+t.closed > 0 {
		addFlag(in, FlagThinkTwice)
	}
}

// addFlag adds a flag to a candidate; its flags are sorted.
func addFlag(in *Input, flag string) {
	c := in.Candidate
	if at, found := slices.BinarySearch(c.Flags, flag); !found {
		c.Flags = slices.Insert(slices.Clone(c.Flags), at, flag)
	}
}

// thinkMarks are the tags around thoughts of the known families.
var thinkMarks = [...]struct{ open, close string }{
	{"<think>", "</think>"},
	{"<thinking>", "</thinking>"},
	{"◁think▷", "◁/think▷"},
}

// A thinkBlock is what think tags make of a text.
type thinkBlock struct {
	opened, closed        int
	crossed               bool // a tag is closed before it is opened, or by another's
	before, inside, after string
}

// readThink finds the think tags of a text outside of code.
func readThink(text string) thinkBlock {
	t := thinkBlock{after: text}
	if strings.IndexByte(text, '<') < 0 && !strings.Contains(text, "◁") {
		return t
	}
	found := false
	for _, mark := range thinkMarks {
		found = found || strings.Contains(text, mark.open) || strings.Contains(text, mark.close)
	}
	if !found {
		return t
	}
	text = withoutCode(text)
	t.after = text
	family := -1
	start := 0
	for at := 0; at < len(text); {
		which, closing, n := thinkMarkAt(text[at:])
		if which < 0 {
			at++
			continue
		}
		switch {
		case closing:
			if t.closed == 0 && t.opened == 1 && which == family {
				t.inside, t.after = text[start:at], text[at+n:]
			} else {
				t.crossed = true
			}
			t.closed++
		default:
			if t.opened == 0 {
				t.before, start, family = text[:at], at+n, which
			}
			t.crossed = t.crossed || t.closed > 0
			t.opened++
		}
		at += n
	}
	return t
}

// thinkMarkAt is the tag that a text begins with; -1 for none.
func thinkMarkAt(text string) (which int, closing bool, n int) {
	if text[0] != '<' && text[0] != "◁"[0] {
		return -1, false, 0
	}
	for i, mark := range thinkMarks {
		if strings.HasPrefix(text, mark.open) {
			return i, false, len(mark.open)
		}
		if strings.HasPrefix(text, mark.close) {
			return i, true, len(mark.close)
		}
	}
	return -1, false, 0
}
