package teachers

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// RedactedInAnswer stands in an answer where a secret of this machine was. It
// is not a word that models write, so that whoever reads the stored bytes again
// can tell the rows that held one.
const RedactedInAnswer = "[stillhouse: a key was here]"

// FlagSecretRedacted marks an answer in which a secret stood: it is no longer
// what the model wrote.
const FlagSecretRedacted = "secret_redacted"

// markRedacted flags an answer that a secret was taken out of.
func markRedacted(a *Answer) {
	if a == nil || slices.Contains(a.Flags, FlagSecretRedacted) {
		return
	}
	for text := range texts(a) {
		if strings.Contains(text, RedactedInAnswer) {
			a.Flags = append(a.Flags, FlagSecretRedacted)
			slices.Sort(a.Flags)
			return
		}
	}
}

// marked is what a decoder read, with that flag.
func marked(a *Answer, err error) (*Answer, error) {
	markRedacted(a)
	return a, err
}

// texts are all texts of an answer that came from the endpoint, tokens apart:
// those are the content once more.
func texts(a *Answer) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		m := &a.Message
		for _, s := range []*string{m.Content, m.ReasoningContent, m.Name} {
			if s != nil && !yield(*s) {
				return
			}
		}
		for _, s := range []string{a.Refusal, a.Model, a.Fingerprint, a.Finish} {
			if s != "" && !yield(s) {
				return
			}
		}
		for i := range m.ToolCalls {
			call := &m.ToolCalls[i]
			if !yield(call.Arguments) || !yield(call.Name) || !yield(call.ID) {
				return
			}
		}
	}
}

// inAnswer tells whether a secret stands in what an answer says, though its
// bytes hold none in one piece.
func (s secrets) inAnswer(a *Answer) bool {
	for text := range texts(a) {
		if s.in(text) {
			return true
		}
	}
	return false
}

func (s secrets) in(text string) bool {
	v := s.sieve()
	return v != nil && v.holds([]byte(text))
}

// tokenLists are members that repeat an answer token by token: where a secret
// stood in the answer they hold it in pieces, also as numbers of bytes.
var tokenLists = []string{"logprobs", "output_token_logprobs", "output_top_logprobs", "token_ids"}

// A piece is one JSON string of a response: a part of a longer text that comes
// in several events.
type piece struct {
	at    int // of its first byte in the text
	value int // of its opening quote in the response
	end   int // after its closing quote
}

// A cutText is a text that a response brings in pieces under one path.
type cutText struct {
	text   []byte
	pieces []piece
}

// An edit puts a text in the place of a range of a response.
type edit struct {
	from, to int
	text     string
}

// acrossPieces takes out secrets that a response holds in pieces, such as a
// stream whose events cut the answer between any two characters. The pieces of
// each text are joined, the secret is found there, and its bytes are taken out
// of the events that brought them. With found, one was found in the response
// already. Where there is any, the lists of tokens go as well; where there is
// none, the same slice comes back.
func (s secrets) acrossPieces(raw []byte, found bool) []byte {
	c := &pieceCollector{raw: raw, texts: map[string]*cutText{}}
	c.collect()
	var edits []edit
	for _, t := range c.texts {
		edits = append(edits, s.editsOf(raw, t)...)
	}
	if len(edits) > 0 || found {
		edits = append(edits, c.tokens...)
	}
	if len(edits) == 0 {
		return raw
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.from - b.from })
	out := make([]byte, 0, len(raw)+len(edits)*len(RedactedInAnswer))
	from := 0
	for _, e := range edits {
		if e.from < from {
			continue // within one that was taken out already
		}
		out = append(append(out, raw[from:e.from]...), e.text...)
		from = e.to
	}
	return append(out, raw[from:]...)
}

func (s secrets) editsOf(raw []byte, t *cutText) []edit {
	var edits []edit
	for _, secret := range s {
		if len(secret) < minSecretInAnswer {
			continue
		}
		forms := formsOf(secret)
		for from := 0; ; {
			start, end, ok := forms.find(t.text, from)
			if !ok {
				break
			}
			edits = append(edits, t.cut(raw, start, end)...)
			from = end
		}
	}
	return edits
}

// cut takes a range of a text out of the pieces that it came in; a mark stands
// where it began.
func (t *cutText) cut(raw []byte, start, end int) []edit {
	var edits []edit
	mark := RedactedInAnswer
	first, _ := slices.BinarySearchFunc(t.pieces, start, func(p piece, at int) int { return p.at - at })
	for i := max(first-1, 0); i < len(t.pieces) && t.pieces[i].at < end; i++ {
		p := &t.pieces[i]
		from, to := spanOf(raw[p.value:p.end], start-p.at, end-p.at)
		if from == to {
			continue
		}
		edits = append(edits, edit{from: p.value + from, to: p.value + to, text: mark})
		mark = ""
	}
	return edits
}

// spanOf is where a JSON string holds the bytes from start to end of what it
// says; both are cut to the string.
func spanOf(value []byte, start, end int) (from, to int) {
	last := len(value) - 1 // the closing quote
	from, to = last, last
	said := 0
	for i := 1; i < last; {
		n := 1
		if value[i] == '\\' {
			n = 2
			if i+1 < last && value[i+1] == 'u' {
				n = 6
				if r, ok := hex4(value[min(i+2, last):last]); ok && r >= 0xD800 && r < 0xDC00 && i+12 <= last && value[i+6] == '\\' {
					n = 12
				}
			}
		}
		n = min(n, last-i)
		if said >= start && from == last {
			from = i
		}
		if said >= end {
			return min(from, i), i
		}
		said += len(appendText(nil, append(append([]byte{'"'}, value[i:i+n]...), '"')))
		i += n
	}
	return from, to
}

// A pieceCollector joins the texts of a response by their paths.
type pieceCollector struct {
	raw    []byte
	texts  map[string]*cutText
	tokens []edit // that take out lists of tokens
}

func (c *pieceCollector) collect() {
	kind, start := sniff(c.raw, 0, true)
	if kind == bodyJSON {
		c.values(start, len(c.raw))
		return
	}
	for at := 0; at < len(c.raw); {
		end := at + bytes.IndexByte(c.raw[at:], '\n')
		if end < at {
			end = len(c.raw)
		}
		if bytes.HasPrefix(c.raw[at:end], []byte("data:")) {
			c.values(at+len("data:"), end)
		}
		at = end + 1
	}
}

// values reads the JSON values of a range; what is no JSON is passed over.
func (c *pieceCollector) values(at, end int) {
	for {
		at = skipSpace(c.raw[:end], at)
		next, err := skipValue(c.raw[:end], at, 0)
		if err != nil || next <= at {
			return
		}
		c.value("", at, next)
		at = next
	}
}

func (c *pieceCollector) value(path string, at, end int) {
	value := c.raw[at:end]
	switch {
	case isString(value):
		t := c.texts[path]
		if t == nil {
			t = &cutText{}
			c.texts[path] = t
		}
		t.pieces = append(t.pieces, piece{at: len(t.text), value: at, end: end})
		t.text = appendText(t.text, value)
	case len(value) > 0 && value[0] == '{':
		members := walk(value)
		for members.next() {
			from := at + members.i - len(members.value)
			if slices.Contains(tokenLists, string(members.name)) && !isNull(members.value) {
				c.tokens = append(c.tokens, edit{from: from, to: at + members.i, text: "null"})
				continue
			}
			c.value(path+"."+string(members.name), from, at+members.i)
		}
	case len(value) > 0 && value[0] == '[':
		elements := walk(value)
		for i := 0; elements.next(); i++ {
			from := at + elements.i - len(elements.value)
			c.value(path+"["+strconv.FormatInt(indexOf(elements.value, int64(i)), 10)+"]", from, at+elements.i)
		}
	}
}

// indexOf is what an element calls its index, such as a choice or a tool call,
// else its place in the list.
func indexOf(element []byte, place int64) int64 {
	if len(element) == 0 || element[0] != '{' {
		return place
	}
	members := walk(element)
	for members.next() {
		if string(members.name) == "index" {
			if n, ok := wholeNumber(members.value); ok {
				return n
			}
		}
	}
	return place
}

// withoutSecrets is a response as it may be kept: its bytes and what they say.
// ok is false where a secret cannot be taken out of it; then nothing of it may
// be kept.
func (s secrets) withoutSecrets(format string, raw []byte, answer *Answer) (clean []byte, said *Answer, ok bool) {
	clean, found := s.wholeOnes(raw)
	if !found && (answer == nil || !s.inAnswer(answer)) {
		return raw, answer, true
	}
	clean = s.acrossPieces(clean, found)
	said, _ = Parse(format, clean)
	return clean, said, said == nil || !s.inAnswer(said)
}

// partial is what had arrived of an answer, as it may be kept.
func (s secrets) partial(raw []byte) []byte {
	if !slices.ContainsFunc(s, func(secret string) bool { return len(secret) >= minSecretInAnswer }) {
		return raw
	}
	clean, found := s.wholeOnes(raw)
	return s.acrossPieces(clean, found)
}

// wholeOnes takes out the secrets that stand in one piece.
func (s secrets) wholeOnes(raw []byte) (clean []byte, found bool) {
	clean = s.answer(raw)
	return clean, len(clean) != len(raw) || len(raw) > 0 && &clean[0] != &raw[0]
}

// redactHeaders takes secrets out of response headers that are kept.
func (s secrets) redactHeaders(h map[string]string) map[string]string {
	for name, value := range h {
		value = s.replace(value)
		if len(h[name]) == headerBytes { // it was cut, perhaps in the middle of one
			value = s.trimPartial(value)
		}
		h[name] = value
	}
	return h
}
