package teachers

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"sync"
	"unicode/utf8"
)

// A secretForms is one secret in the ways in which it is written: as it is, in
// JSON with any of its characters escaped and however deep, in a URL with any
// of them percent-encoded, in base64 alone or as a part of something, and in
// hexadecimal digits.
type secretForms struct {
	text    string
	plain   bool     // it reads the same in text, in JSON and in a URL
	encoded [][]byte // base64 and hexadecimal
}

// knownForms keeps the forms of secrets that were seen, since every answer is
// searched for them. It is bounded; what does not fit is made anew.
var knownForms struct {
	sync.RWMutex
	of map[string]*secretForms
}

const mostForms = 4096

func formsOf(secret string) *secretForms {
	knownForms.RLock()
	f := knownForms.of[secret]
	knownForms.RUnlock()
	if f != nil {
		return f
	}
	f = newForms(secret)
	knownForms.Lock()
	defer knownForms.Unlock()
	if knownForms.of == nil || len(knownForms.of) >= mostForms {
		knownForms.of = map[string]*secretForms{}
	}
	knownForms.of[secret] = f
	return f
}

// leastEncoded is the shortest encoded form that is looked for: shorter ones
// are found in innocent text.
const leastEncoded = 12

func newForms(secret string) *secretForms {
	f := &secretForms{text: secret, plain: plainSecret.MatchString(secret)}
	add := func(form string) {
		if len(form) < leastEncoded {
			return
		}
		for _, have := range f.encoded {
			if string(have) == form {
				return
			}
		}
		f.encoded = append(f.encoded, []byte(form))
	}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			// The characters at both ends depend on what stands beside it.
			whole := encoding.EncodeToString(append(make([]byte, before), secret...))
			add(whole[(before*8+5)/6 : (before+len(secret))*8/6])
		}
	}
	digits := hex.EncodeToString([]byte(secret))
	add(digits)
	add(strings.ToUpper(digits))
	return f
}

// find is the first place of the secret in b, in any form, from an index on.
func (f *secretForms) find(b []byte, from int) (start, end int, ok bool) {
	start = len(b)
	if i := bytes.Index(b[from:], []byte(f.text)); i >= 0 {
		start, end, ok = from+i, from+i+len(f.text), true
	}
	for _, form := range f.encoded {
		if i := bytes.Index(b[from:start], form); i >= 0 {
			start, end, ok = from+i, from+i+len(form), true
		}
	}
	if f.plain && !escapes(b[from:start]) {
		return start, end, ok // nothing of it can be written in another way
	}
	for i := from; i < start; i++ {
		if c := b[i]; c != f.text[0] && c != '\\' && c != '%' {
			continue
		}
		if n := f.escapedAt(b[i:]); n > 0 {
			return i, i + n, true
		}
	}
	return start, end, ok
}

// escapes tells whether a text has escapes of plain characters, which no usual
// encoder makes.
func escapes(b []byte) bool {
	for _, mark := range []string{`\u00`, "%2", "%3", "%4", "%5", "%6", "%7"} {
		if bytes.Contains(b, []byte(mark)) {
			return true
		}
	}
	return false
}

// escapedAt is the length of the secret at the beginning of b where any of its
// characters may be escaped; 0 where it is not there.
func (f *secretForms) escapedAt(b []byte) int {
	i := 0
	for at, r := range f.text {
		if at == 0 && b[0] == '\\' && !strings.ContainsRune(`"/\`, r) && !bytes.HasPrefix(bytes.TrimLeft(b, `\`), []byte("u")) {
			return 0 // the backslashes belong to what stands before it
		}
		n := runeAt(b[i:], r)
		if n == 0 {
			return 0
		}
		i += n
	}
	return i
}

// runeAt is the length of one character at the beginning of b, written as it
// is, after any number of backslashes, as \uXXXX or percent-encoded; 0 where
// another one stands there.
func runeAt(b []byte, r rune) int {
	slashes := 0
	for slashes < len(b) && b[slashes] == '\\' {
		slashes++
	}
	rest := b[slashes:]
	if r == '\\' && slashes > 0 {
		return slashes
	}
	if slashes > 0 && len(rest) >= 5 && rest[0] == 'u' {
		if u, ok := hex4(rest[1:]); ok && u == r {
			return slashes + 5
		}
	}
	if got, n := utf8.DecodeRune(rest); n > 0 && got == r {
		return slashes + n
	}
	if slashes > 0 {
		return 0
	}
	var raw [utf8.UTFMax]byte
	size := utf8.EncodeRune(raw[:], r)
	for i := range size {
		if len(b) < 3*i+3 || b[3*i] != '%' {
			return 0
		}
		var one [1]byte
		if _, err := hex.Decode(one[:], b[3*i+1:3*i+3]); err != nil || one[0] != raw[i] {
			return 0
		}
	}
	return 3 * size
}

// replace puts a mark in the place of the secret wherever it stands. The same
// slice comes back where it does not.
func (f *secretForms) replace(b []byte, mark string) []byte {
	start, end, ok := f.find(b, 0)
	if !ok {
		return b
	}
	out := make([]byte, 0, len(b)+len(mark))
	from := 0
	for ok {
		out = append(append(out, b[from:start]...), mark...)
		from = end
		start, end, ok = f.find(b, from)
	}
	return append(out, b[from:]...)
}
