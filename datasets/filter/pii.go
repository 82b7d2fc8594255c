package filter

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// What the pii filter does with what it finds.
const (
	piiDrop = "drop" // the candidate is rejected
	piiMask = "mask" // it is kept, with [EMAIL] and the like in the place of it
)

// FlagPIIMasked marks a candidate of which something was masked.
const FlagPIIMasked = "pii_masked"

// Kinds of what may identify a person or open a door.
const (
	piiKey   = "key"
	piiEmail = "email"
	piiCard  = "card"
	piiPhone = "phone"
	piiIP    = "ip"
)

// piiKinds are in the order in which a reason names the first of several.
var piiKinds = []string{piiKey, piiEmail, piiCard, piiPhone, piiIP}

// pii keeps answers without addresses, numbers and keys that may be real ones,
// or masks them. Where the action is mask, verifiers and the other filters
// have seen the answer as it was; the tables hold it masked, in candidates as
// in train, and only the answer store has the raw response.
type pii struct {
	action string
	kinds  []string
	allow  []string // in lower case
}

func newPII(o *options.Set) Filter {
	f := &pii{action: oneOf(o, "action", piiDrop, piiMask), kinds: texts(o, "kinds", len(piiKinds)), allow: texts(o, "allow", maxNames)}
	for _, kind := range f.kinds {
		if !slices.Contains(piiKinds, kind) {
			o.Fail("kinds", "%q is unknown; %s", kind, options.Hint(kind, piiKinds))
		}
	}
	if len(f.kinds) == 0 {
		f.kinds = piiKinds
	}
	for i := range f.allow {
		f.allow[i] = strings.ToLower(f.allow[i])
	}
	return f
}

func (*pii) Name() string    { return "pii" }
func (*pii) Version() string { return "1" }

// Masks tells whether a filter takes text out of what it keeps, so that
// nothing else that spells out the answer, such as its tokens, may be kept.
func Masks(f Filter) bool {
	p, ok := f.(*pii)
	return ok && p.action == piiMask
}

// MaskText masks in a text what f masks in answers of a domain. It is for what
// others say of an answer, and may repeat of it, such as a judge. A filter that
// masks nothing leaves it as it is.
func MaskText(f Filter, text, domain string) string {
	if !Masks(f) {
		return text
	}
	return f.(*pii).mask(text, &Input{Candidate: &datasets.Candidate{Domain: domain}})
}

// Reject implements Filter.
func (f *pii) Reject(in *Input) string {
	if f.action == piiMask {
		return ""
	}
	first := ""
	see := func(text string) {
		for _, s := range f.find(text, in) {
			if first == "" || slices.Index(piiKinds, s.kind) < slices.Index(piiKinds, first) {
				first = s.kind
			}
		}
	}
	c := in.Candidate
	if c.Answer() == nil {
		return ""
	}
	for i := range c.Messages {
		m := &c.Messages[i]
		eachText(m, see)
		for _, call := range m.ToolCalls {
			seeArguments(call.Arguments, see)
		}
	}
	if first == "" {
		return ""
	}
	return "pii:" + first
}

// Change implements Changer: it masks what was found. The messages are copied
// before they are written to, since others may share them.
func (f *pii) Change(in *Input) {
	c := in.Candidate
	if f.action != piiMask {
		return
	}
	masked := false
	content := c.Content()
	extracted := func(text *string) *string { return f.withoutCutEnd(text, content, in) }
	mask := func(text string) string {
		out := f.mask(text, in)
		masked = masked || out != text
		return out
	}
	c.Messages = slices.Clone(c.Messages)
	for i := range c.Messages {
		m := &c.Messages[i]
		m.Content, m.ReasoningContent = maskedPointer(m.Content, mask), maskedPointer(m.ReasoningContent, mask)
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for j := range m.ToolCalls {
			m.ToolCalls[j].Arguments = maskedArguments(m.ToolCalls[j].Arguments, mask)
		}
	}
	c.Extracted, c.ErrorText = maskedPointer(extracted(c.Extracted), mask), maskedPointer(c.ErrorText, mask)
	c.Verdicts = slices.Clone(c.Verdicts)
	for i := range c.Verdicts {
		v := &c.Verdicts[i]
		v.Extracted, v.Reason = maskedPointer(extracted(v.Extracted), mask), mask(v.Reason)
	}
	if masked {
		addFlag(in, FlagPIIMasked)
	}
}

// cutBytes is how long a text is, at least, that was cut to fit: a verdict keeps
// a thousand bytes or a little more of what it read.
const cutBytes = 1000

// withoutCutEnd is a text that was read from an answer, without the first part
// of what is found there and goes on behind the text's end: a part of an address
// or a key looks like none.
func (f *pii) withoutCutEnd(text *string, content string, in *Input) *string {
	if text == nil || len(*text) < cutBytes {
		return text
	}
	at := strings.Index(content, *text)
	if at < 0 {
		return text
	}
	end := at + len(*text)
	for _, s := range f.find(content, in) {
		if s.from < end && s.to > end {
			cut := content[at:max(at, s.from)] + "[" + strings.ToUpper(s.kind) + "]"
			return &cut
		}
	}
	return text
}

// eachText gives the texts of a message that its writer wrote.
func eachText(m *chat.Message, see func(string)) {
	if m.Content != nil {
		see(*m.Content)
	}
	if m.ReasoningContent != nil {
		see(*m.ReasoningContent)
	}
}

func maskedPointer(text *string, mask func(string) string) *string {
	if text == nil {
		return nil
	}
	out := mask(*text)
	return &out
}

// seeArguments gives the texts within the JSON of a tool call, or all of it
// where it is none.
func seeArguments(arguments string, see func(string)) {
	if !json.Valid([]byte(arguments)) {
		see(arguments)
		return
	}
	_ = rewriteJSON(arguments, func(s string) string { see(s); return s })
}

// maskedArguments masks within the JSON of a tool call and leaves it JSON: a
// text that is not changed keeps its bytes.
func maskedArguments(arguments string, mask func(string) string) string {
	if !json.Valid([]byte(arguments)) {
		return mask(arguments)
	}
	return rewriteJSON(arguments, mask)
}

// rewriteJSON passes every text and every number of a valid JSON text through
// change. A number that changes becomes a text.
func rewriteJSON(text string, change func(string) string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		c := text[i]
		end := i + 1
		switch {
		case c == '"':
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
			var value string
			if json.Unmarshal([]byte(text[i:end]), &value) != nil {
				break
			}
			if out := change(value); out != value {
				quoted, _ := json.Marshal(out) // a string
				b.Write(quoted)
				i = end
				continue
			}
		case c == '-' || c >= '0' && c <= '9':
			for end < len(text) && strings.IndexByte("+-.eE0123456789", text[end]) >= 0 {
				end++
			}
			if out := change(text[i:end]); out != text[i:end] {
				quoted, _ := json.Marshal(out) // a string
				b.Write(quoted)
				i = end
				continue
			}
		}
		b.WriteString(text[i:end])
		i = end
	}
	return b.String()
}

// mask is a text with everything that was found replaced by its kind. What
// stood in the way of another find may be gone then, so it looks again.
func (f *pii) mask(text string, in *Input) string {
	for range maskRounds {
		spans := f.find(text, in)
		if len(spans) == 0 {
			break
		}
		text = f.replace(text, spans)
	}
	return text
}

// maskRounds bounds how often a text is looked at again.
const maskRounds = 8

func (f *pii) replace(text string, spans []piiSpan) string {
	var b strings.Builder
	at := 0
	for _, s := range spans {
		b.WriteString(text[at:s.from])
		b.WriteString("[" + strings.ToUpper(s.kind) + "]")
		at = s.to
	}
	b.WriteString(text[at:])
	return b.String()
}

// find gives what is in a text of the kinds that are asked for, in order and
// without overlaps.
func (f *pii) find(text string, in *Input) []piiSpan {
	var out []piiSpan
	for _, s := range piiSpans(text, technical(in.Candidate.Domain)) {
		if !slices.Contains(f.kinds, s.kind) {
			continue
		}
		found := strings.ToLower(text[s.from:s.to])
		if !slices.ContainsFunc(f.allow, func(a string) bool { return strings.Contains(found, a) }) {
			out = append(out, s)
		}
	}
	return out
}
