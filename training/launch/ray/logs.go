package ray

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch/rest"
)

// logTail reads {"logs": "…"}, however long it is, and returns the last bytes of
// the text, at most tail, from the start of a line where there is one.
func logTail(r io.Reader, tail int) (string, error) {
	if tail <= 0 {
		return "", nil
	}
	in := bufio.NewReader(r)
	if err := expect(in, `{"logs":"`); err != nil {
		return "", err
	}
	keep := make([]byte, 0, 2*tail+utf8.UTFMax)
	cut := false
	for {
		c, end, err := nextRune(in)
		if err != nil {
			return "", err
		}
		if end {
			break
		}
		if keep = utf8.AppendRune(keep, c); len(keep) > 2*tail {
			keep, cut = keep[:copy(keep, keep[len(keep)-tail-1:])], true
		}
	}
	text := keep
	if over := len(text) - tail; over > 0 {
		starts := text[over-1] == '\n'
		text, cut = text[over:], !starts
	}
	out := strings.ToValidUTF8(string(text), "")
	if _, rest, found := strings.Cut(out, "\n"); cut && found && rest != "" {
		out = rest
	}
	return rest.WithoutQueries(training.Printable(out)), nil
}

// expect skips white space between the tokens of want.
func expect(in *bufio.Reader, want string) error {
	for i := 0; i < len(want); {
		c, err := in.ReadByte()
		switch {
		case err != nil:
			return fmt.Errorf("no log: %w", noEOF(err))
		case c == want[i]:
			i++
		case c != ' ' && c != '\n' && c != '\r' && c != '\t':
			return errors.New("it is no log of a Ray job")
		}
	}
	return nil
}

// nextRune reads a character of a JSON string; end is the closing quote.
func nextRune(in *bufio.Reader) (c rune, end bool, err error) {
	c, _, err = in.ReadRune()
	if err != nil {
		return 0, false, noEOF(err)
	}
	switch c {
	case '"':
		return 0, true, nil
	case '\\':
	default:
		return c, false, nil
	}
	e, err := in.ReadByte()
	if err != nil {
		return 0, false, noEOF(err)
	}
	switch e {
	case 'n':
		return '\n', false, nil
	case 't':
		return '\t', false, nil
	case 'r':
		return '\r', false, nil
	case 'b':
		return '\b', false, nil
	case 'f':
		return '\f', false, nil
	case '"', '\\', '/':
		return rune(e), false, nil
	case 'u':
		c, err := unicodeEscape(in)
		return c, false, err
	}
	return 0, false, fmt.Errorf("the log has an escape \\%c", e)
}

// unicodeEscape reads what follows \u, and the second half of a pair.
func unicodeEscape(in *bufio.Reader) (rune, error) {
	first, err := hex4(in)
	if err != nil || !utf16.IsSurrogate(first) {
		return first, err
	}
	if next, err := in.Peek(2); err != nil || string(next) != `\u` {
		return utf8.RuneError, nil //nolint:nilerr // half a pair; the end comes up again
	}
	if _, err := in.Discard(2); err != nil {
		return 0, err
	}
	second, err := hex4(in)
	return utf16.DecodeRune(first, second), err
}

func hex4(in *bufio.Reader) (rune, error) {
	var digits [4]byte
	if _, err := io.ReadFull(in, digits[:]); err != nil {
		return 0, noEOF(err)
	}
	n, err := strconv.ParseUint(string(digits[:]), 16, 16)
	if err != nil {
		return 0, fmt.Errorf("the log has an escape \\u%q", digits)
	}
	return rune(n), nil
}

// noEOF keeps an answer that broke off from looking like a whole one.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
