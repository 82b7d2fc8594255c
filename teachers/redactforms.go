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
	encoded [][]byte // base64 and hexadecimal
}

// A memo keeps what was made for a key. It is bounded; what does not fit is made
// anew. It is safe for concurrent use.
type memo[V any] struct {
	most int

	mu sync.RWMutex
	of map[string]V
}

func (m *memo[V]) get(key string, fresh func() V) V {
	m.mu.RLock()
	v, ok := m.of[key]
	m.mu.RUnlock()
	if ok {
		return v
	}
	v = fresh()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil || len(m.of) >= m.most {
		m.of = map[string]V{}
	}
	m.of[key] = v
	return v
}

// knownForms keeps the forms of secrets that were seen, since every answer is
// searched for them.
var knownForms = memo[*secretForms]{most: 4096}

func formsOf(secret string) *secretForms {
	return knownForms.get(secret, func() *secretForms { return newForms(secret) })
}

// leastEncoded is the shortest encoded form that is looked for: shorter ones
// are found in innocent text.
const leastEncoded = 12

func newForms(secret string) *secretForms {
	f := &secretForms{text: secret}
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
	if at, n := f.escaped(b, from, start); n > 0 {
		return at, at + n, true
	}
	return start, end, ok
}

// escaped is the first place before an index at which the secret stands with
// some of its characters escaped, and its length there; 0 for none. It looks at
// escapes alone: at what each stands for, and whether what lies before it is
// the beginning of the secret.
func (f *secretForms) escaped(b []byte, from, before int) (at, n int) {
	for i := from; i < before; {
		next := bytes.IndexByte(b[i:before], '%')
		if next < 0 {
			next = before - i
		}
		if slash := bytes.IndexByte(b[i:i+next], '\\'); slash >= 0 {
			next = slash
		}
		if i += next; i >= before {
			return 0, 0
		}
		r, size := escapeAt(b[i:])
		if size > 0 {
			for k, c := range f.text {
				if c != r || k > i-from || !bytes.HasSuffix(b[from:i], []byte(f.text[:k])) {
					continue
				}
				if n := f.escapedAt(b[i-k:]); n > 0 {
					return i - k, n
				}
			}
		}
		i += max(size, 1)
		for i < before && b[i-1] == '\\' && b[i] == '\\' {
			i++
		}
	}
	return 0, 0
}

// escapedAt is the length of the secret at the beginning of b where any of its
// characters may be escaped; 0 where it is not there.
func (f *secretForms) escapedAt(b []byte) int {
	i := 0
	for _, r := range f.text {
		got, n := escapeAt(b[i:])
		if n == 0 {
			got, n = utf8.DecodeRune(b[i:])
		}
		if n == 0 || got != r {
			return 0
		}
		i += n
	}
	return i
}

// escapeAt reads an escape at the beginning of b: \uXXXX, or a quotation mark,
// a slash or a backslash after backslashes, or percent-encoded bytes. Any
// number of backslashes counts, as JSON within JSON has them. n is 0 where there
// is no escape.
func escapeAt(b []byte) (r rune, n int) {
	if len(b) == 0 {
		return 0, 0
	}
	if b[0] == '%' {
		var raw [utf8.UTFMax]byte
		for i := range raw {
			if len(b) < 3*i+3 || b[3*i] != '%' {
				return 0, 0
			}
			if _, err := hex.Decode(raw[i:i+1], b[3*i+1:3*i+3]); err != nil {
				return 0, 0
			}
			if utf8.FullRune(raw[:i+1]) {
				if r, size := utf8.DecodeRune(raw[:i+1]); size == i+1 && r != utf8.RuneError {
					return r, 3 * size
				}
				return 0, 0
			}
		}
		return 0, 0
	}
	slashes := 0
	for slashes < len(b) && b[slashes] == '\\' {
		slashes++
	}
	if slashes == 0 {
		return 0, 0
	}
	rest := b[slashes:]
	if len(rest) >= 5 && rest[0] == 'u' {
		if u, ok := hex4(rest[1:]); ok {
			return u, slashes + 5
		}
	}
	if len(rest) > 0 && (rest[0] == '"' || rest[0] == '/' || rest[0] == '\'') {
		return rune(rest[0]), slashes + 1
	}
	return '\\', slashes
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
