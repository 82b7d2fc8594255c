package sources

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting bounds the depth of a row.
const maxNesting = 128

// parseJSON reads one JSON text (RFC 8259) that is valid UTF-8. Objects are
// map[string]any, of equal keys the last counts; numbers are json.Number with
// every digit; strings share s. It reads the prompts of every plan, where
// encoding/json would take most of the time; a fuzz test holds it to the same
// results. Unlike it, half a surrogate pair is an error, not a lost character.
func parseJSON(s string) (any, error) {
	p := jsonParser{s: s}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.i < len(s) {
		return nil, p.unexpected()
	}
	return v, nil
}

type jsonParser struct {
	s string
	i int
}

func (p *jsonParser) unexpected() error {
	if p.i >= len(p.s) {
		return errors.New("it ends too early")
	}
	r, _ := utf8.DecodeRuneInString(p.s[p.i:])
	return fmt.Errorf("unexpected %q at byte %d", r, p.i+1)
}

func (p *jsonParser) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

func (p *jsonParser) value(depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested more than %d deep", maxNesting)
	}
	p.space()
	if p.i >= len(p.s) {
		return nil, p.unexpected()
	}
	switch c := p.s[p.i]; {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		return p.text()
	case c == 't' && p.word("true"):
		return true, nil
	case c == 'f' && p.word("false"):
		return false, nil
	case c == 'n' && p.word("null"):
		return nil, nil
	case c == '-' || isDigit(c):
		return p.number()
	}
	return nil, p.unexpected()
}

func (p *jsonParser) word(w string) bool {
	if !strings.HasPrefix(p.s[p.i:], w) {
		return false
	}
	p.i += len(w)
	return true
}

// after reads the separator after an item: more is false at the end.
func (p *jsonParser) after(end byte) (more bool, err error) {
	p.space()
	if p.i >= len(p.s) || p.s[p.i] != ',' && p.s[p.i] != end {
		return false, p.unexpected()
	}
	p.i++
	return p.s[p.i-1] == ',', nil
}

func (p *jsonParser) object(depth int) (any, error) {
	p.i++
	out := make(map[string]any, 4)
	if p.space(); p.i < len(p.s) && p.s[p.i] == '}' {
		p.i++
		return out, nil
	}
	for {
		if p.space(); p.i >= len(p.s) || p.s[p.i] != '"' {
			return nil, p.unexpected()
		}
		key, err := p.text()
		if err != nil {
			return nil, err
		}
		if p.space(); p.i >= len(p.s) || p.s[p.i] != ':' {
			return nil, p.unexpected()
		}
		p.i++
		if out[key], err = p.value(depth + 1); err != nil {
			return nil, err
		}
		if more, err := p.after('}'); err != nil || !more {
			return out, err
		}
	}
}

func (p *jsonParser) array(depth int) (any, error) {
	p.i++
	out := []any{}
	if p.space(); p.i < len(p.s) && p.s[p.i] == ']' {
		p.i++
		return out, nil
	}
	for {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if more, err := p.after(']'); err != nil || !more {
			return out, err
		}
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (p *jsonParser) digits() bool {
	start := p.i
	for p.i < len(p.s) && isDigit(p.s[p.i]) {
		p.i++
	}
	return p.i > start
}

func (p *jsonParser) number() (any, error) {
	start := p.i
	if p.s[p.i] == '-' {
		p.i++
	}
	if p.i < len(p.s) && p.s[p.i] == '0' {
		p.i++
	} else if !p.digits() {
		return nil, p.unexpected()
	}
	if p.i < len(p.s) && p.s[p.i] == '.' {
		if p.i++; !p.digits() {
			return nil, p.unexpected()
		}
	}
	if p.i < len(p.s) && (p.s[p.i] == 'e' || p.s[p.i] == 'E') {
		if p.i++; p.i < len(p.s) && (p.s[p.i] == '+' || p.s[p.i] == '-') {
			p.i++
		}
		if !p.digits() {
			return nil, p.unexpected()
		}
	}
	return json.Number(p.s[start:p.i]), nil
}

// text reads a string. Without escapes it is a part of the input.
func (p *jsonParser) text() (string, error) {
	p.i++
	start := p.i
	for ; p.i < len(p.s); p.i++ {
		switch c := p.s[p.i]; {
		case c == '"':
			p.i++
			return p.s[start : p.i-1], nil
		case c == '\\':
			return p.escaped(start)
		case c < 0x20:
			return "", p.unexpected()
		}
	}
	return "", p.unexpected()
}

func (p *jsonParser) escaped(start int) (string, error) {
	var b strings.Builder
	b.Grow(len(p.s[start:p.i]) + 64)
	for p.i < len(p.s) {
		b.WriteString(p.s[start:p.i])
		if p.s[p.i] == '"' {
			p.i++
			return b.String(), nil
		}
		if p.s[p.i] < 0x20 {
			return "", p.unexpected()
		}
		p.i++ // the backslash
		if err := p.escape(&b); err != nil {
			return "", err
		}
		start = p.i
		for p.i < len(p.s) && p.s[p.i] != '"' && p.s[p.i] != '\\' && p.s[p.i] >= 0x20 {
			p.i++
		}
	}
	return "", p.unexpected()
}

const escapes = "\"\\/bfnrt"
const escapeMeans = "\"\\/\b\f\n\r\t"

func (p *jsonParser) escape(b *strings.Builder) error {
	if p.i >= len(p.s) {
		return p.unexpected()
	}
	c := p.s[p.i]
	if k := strings.IndexByte(escapes, c); k >= 0 {
		p.i++
		b.WriteByte(escapeMeans[k])
		return nil
	}
	if c != 'u' {
		return p.unexpected()
	}
	p.i++
	r, err := p.unit()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(r) {
		if !strings.HasPrefix(p.s[p.i:], `\u`) {
			return fmt.Errorf("half a surrogate pair at byte %d", p.i)
		}
		p.i += 2
		low, err := p.unit()
		if err != nil {
			return err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return fmt.Errorf("half a surrogate pair at byte %d", p.i)
		}
	}
	b.WriteRune(r)
	return nil
}

// unit reads the four digits of a \u escape.
func (p *jsonParser) unit() (rune, error) {
	var r rune
	for range 4 {
		if p.i >= len(p.s) {
			return 0, p.unexpected()
		}
		c := p.s[p.i]
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, p.unexpected()
		}
		p.i++
	}
	return r, nil
}

// jsonRows reads an array element by element.
func jsonRows(e *emitter, r *bufio.Reader, longest int) error {
	c, err := firstByte(r)
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("holds nothing but white space; fill it or remove it")
	case err != nil:
		return err
	case c == '{':
		return errors.New("holds an object, want an array of rows; one object a line belongs in a .jsonl file")
	case c != '[':
		return errors.New("is no JSON array of rows; start it with [")
	}
	a := arrayReader{r: r, max: longest}
	for n := 1; ; n++ {
		raw, last, err := a.next(n == 1)
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the array ends too early, in row %d; the file may be cut off", n)
		}
		if err != nil && !errors.Is(err, errTooLong) {
			return err
		}
		if last && raw == nil && err == nil {
			return onlySpaceFollows(r)
		}
		var values map[string]any
		reason := fmt.Errorf("the row is larger than %d bytes; shorten it or split it", longest)
		if err == nil {
			values, reason = parseObject(raw)
		}
		if err := e.row(rowWhere(e.name, n), values, reason); err != nil {
			return err
		}
		if last {
			return onlySpaceFollows(r)
		}
	}
}

func firstByte(r *bufio.Reader) (byte, error) {
	for {
		c, err := r.ReadByte()
		if err != nil || !isBlank([]byte{c}) && c != '\n' {
			return c, err
		}
	}
}

func onlySpaceFollows(r *bufio.Reader) error {
	if c, err := firstByte(r); err == nil {
		return fmt.Errorf("%q follows the array; one array a file", rune(c))
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// An arrayReader cuts an array into its elements, by brackets and quotes only.
type arrayReader struct {
	r   *bufio.Reader
	max int
	buf []byte
}

// next returns the bytes of the next element, valid until the next call, and
// whether the array ends after it. An empty array is (nil, true, nil).
func (a *arrayReader) next(first bool) (raw []byte, last bool, err error) {
	a.buf = a.buf[:0]
	depth, quoted, escaped, size := 0, false, false, 0
	for {
		c, err := a.r.ReadByte()
		if err != nil {
			return nil, false, err
		}
		if !quoted && depth == 0 && (c == ',' || c == ']') {
			empty := size == 0 || isBlank(a.buf) && size <= a.max
			if c == ']' && first && empty {
				return nil, true, nil
			}
			if size > a.max {
				return nil, c == ']', errTooLong
			}
			return a.buf, c == ']', nil
		}
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == '\n':
			c = ' '
		}
		if size++; size <= a.max {
			a.buf = append(a.buf, c)
		} else {
			a.buf = nil
		}
	}
}
