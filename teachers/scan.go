package teachers

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// This file reads JSON as endpoints write it. It is not encoding/json because
// a stream of thousands of small events spends most of its time there, and
// because a tolerant reader loses less: bytes that are no UTF-8, a character
// cut in two between events, NaN and Infinity are read; what they mean is
// decided where the text is whole.

var (
	errJSONEnd    = errors.New("the JSON ends in the middle")
	errJSONSyntax = errors.New("not JSON")
)

// maxDepth bounds the nesting of JSON values; what endpoints send is below 20.
const maxDepth = 256

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipValue returns the index after the value that starts at b[i].
func skipValue(b []byte, i, depth int) (int, error) {
	if i >= len(b) {
		return i, errJSONEnd
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		if depth >= maxDepth {
			return i, errJSONSyntax
		}
		return skipComposite(b, i, depth)
	}
	return skipLiteral(b, i)
}

func skipComposite(b []byte, i, depth int) (int, error) {
	isObject := b[i] == '{'
	c := cursor{b: b, i: i + 1, object: isObject, depth: depth + 1}
	for c.next() {
	}
	return c.i, c.err
}

func skipString(b []byte, i int) (int, error) {
	for j := i + 1; ; {
		k := bytes.IndexByte(b[j:], '"')
		if k < 0 {
			return len(b), errJSONEnd
		}
		j += k
		slashes := 0
		for j-1-slashes > i && b[j-1-slashes] == '\\' {
			slashes++
		}
		j++
		if slashes%2 == 0 {
			return j, nil
		}
	}
}

func skipLiteral(b []byte, i int) (int, error) {
	j := i
	digits := true
	for j < len(b) && isLiteral(b[j]) {
		digits = digits && b[j] >= '0' && b[j] <= '9'
		j++
	}
	word := b[i:j]
	switch string(word) {
	case "true", "false", "null", "NaN", "Infinity", "-Infinity":
		return j, nil
	case "":
		digits = false
	}
	if digits {
		return j, nil
	}
	if len(word) > 0 && (word[0] == '-' || word[0] >= '0' && word[0] <= '9') {
		if _, err := strconv.ParseFloat(string(word), 64); err == nil || errors.Is(err, strconv.ErrRange) {
			return j, nil
		}
	}
	if j == len(b) && beginsLiteral(string(word)) {
		return j, errJSONEnd
	}
	return i, errJSONSyntax
}

// beginsLiteral tells whether a word could have become a literal.
func beginsLiteral(word string) bool {
	for _, known := range [...]string{"true", "false", "null", "NaN", "Infinity", "-Infinity"} {
		if strings.HasPrefix(known, word) {
			return true
		}
	}
	return word[0] == '-' || word[0] >= '0' && word[0] <= '9'
}

func isLiteral(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.'
}

// A cursor walks over the members of an object or the elements of an array.
type cursor struct {
	b      []byte
	i      int
	object bool
	depth  int
	known  bool   // to be JSON: see inside
	seen   bool   // a member came already
	name   []byte // between its quotes, escapes unread
	value  []byte
	err    error
}

// walk starts a cursor on a value; it yields nothing where the value is
// neither an object nor an array.
func walk(value []byte) cursor {
	if len(value) == 0 || value[0] != '{' && value[0] != '[' {
		return cursor{}
	}
	return cursor{b: value, i: 1, object: value[0] == '{', depth: 1}
}

// next moves to the next member; false at the end or at an error.
func (c *cursor) next() bool {
	if c.err != nil || c.b == nil {
		return false
	}
	b := c.b
	closing := byte(']')
	if c.object {
		closing = '}'
	}
	i := skipSpace(b, c.i)
	if i < len(b) && b[i] == closing {
		c.i, c.b = i+1, nil
		return false
	}
	if c.seen {
		if i >= len(b) {
			return c.fail(i, errJSONEnd)
		}
		if b[i] != ',' {
			return c.fail(i, errJSONSyntax)
		}
		i = skipSpace(b, i+1)
	}
	c.seen = true
	if c.object {
		if i >= len(b) {
			return c.fail(i, errJSONEnd)
		}
		if b[i] != '"' {
			return c.fail(i, errJSONSyntax)
		}
		end, err := skipString(b, i)
		if err != nil {
			return c.fail(end, err)
		}
		c.name = b[i+1 : end-1]
		i = skipSpace(b, end)
		if i >= len(b) {
			return c.fail(i, errJSONEnd)
		}
		if b[i] != ':' {
			return c.fail(i, errJSONSyntax)
		}
		i = skipSpace(b, i+1)
	}
	if c.known {
		end := endOfKnown(b, i)
		c.value, c.i = b[i:end], end
		return true
	}
	end, err := skipValue(b, i, c.depth)
	if err != nil {
		return c.fail(end, err)
	}
	c.value, c.i = b[i:end], end
	return true
}

func (c *cursor) fail(i int, err error) bool {
	c.i, c.err = i, err
	return false
}

func isNull(value []byte) bool { return string(value) == "null" }

func isString(value []byte) bool { return len(value) >= 2 && value[0] == '"' }

// appendText appends what a JSON string says, and nothing for another value.
// Bytes that are no UTF-8 stay, and half of a surrogate pair becomes three
// bytes of its own, so that a character cut between two events heals when
// they are joined; cleanText deals with the rest.
func appendText(dst, value []byte) []byte {
	if !isString(value) {
		return dst
	}
	s := value[1 : len(value)-1]
	for {
		k := bytes.IndexByte(s, '\\')
		if k < 0 || k+1 >= len(s) {
			return append(dst, s...)
		}
		dst = append(dst, s[:k]...)
		c := s[k+1]
		s = s[k+2:]
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, ok := hex4(s)
			if !ok {
				dst = append(dst, `\u`...)
				continue
			}
			s = s[4:]
			if utf16.IsSurrogate(r) && len(s) >= 6 && s[0] == '\\' && s[1] == 'u' {
				if low, ok := hex4(s[2:]); ok {
					if joined := utf16.DecodeRune(r, low); joined != utf8.RuneError {
						dst = utf8.AppendRune(dst, joined)
						s = s[6:]
						continue
					}
				}
			}
			dst = appendUnit(dst, r)
		default: // quote, slash, backslash, and what no escape should be
			dst = append(dst, c)
		}
	}
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// appendUnit appends one UTF-16 code unit, a surrogate in the three bytes that
// UTF-8 would give it if it were a character.
func appendUnit(dst []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0xBF, 0x80|byte(r)&0xBF)
	}
	return utf8.AppendRune(dst, r)
}

// surrogateAt reads a surrogate as appendUnit wrote it.
func surrogateAt(b []byte) (rune, bool) {
	if len(b) < 3 || b[0] != 0xED || b[1] < 0xA0 || b[1] > 0xBF || b[2]&0xC0 != 0x80 {
		return 0, false
	}
	return 0xD000 | rune(b[1]&0x3F)<<6 | rune(b[2]&0x3F), true
}

// cleanText is accumulated text as valid UTF-8. It tells whether bytes had to
// be replaced by U+FFFD.
func cleanText(b []byte) (text string, replaced bool) {
	if utf8.Valid(b) {
		return string(b), false
	}
	out := make([]byte, 0, len(b)+8)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r != utf8.RuneError || n > 1 {
			out = append(out, b[:n]...)
			b = b[n:]
			continue
		}
		if high, ok := surrogateAt(b); ok {
			if low, ok := surrogateAt(b[3:]); ok {
				if joined := utf16.DecodeRune(high, low); joined != utf8.RuneError {
					out = utf8.AppendRune(out, joined)
					b = b[6:]
					continue
				}
			}
			n = 3
		}
		out = append(out, "\uFFFD"...)
		replaced = true
		b = b[n:]
	}
	return string(out), replaced
}

// textOf is a JSON string as text, "" for another value.
func textOf(value []byte) string {
	if !isString(value) {
		return ""
	}
	s, _ := cleanText(appendText(nil, value))
	return s
}

// wholeNumber reads a JSON number as a count: also 13.0 and "13"; ok is false
// for null, negative and other values.
func wholeNumber(value []byte) (n int64, ok bool) {
	if isString(value) {
		value = value[1 : len(value)-1]
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return n, n >= 0
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(f >= 0 && f < 1e15) {
		return 0, false
	}
	return int64(f), true
}
