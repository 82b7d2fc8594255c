package mathexpr

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A lexer splits a statement, plain or LaTeX, into tokens. Text commands,
// spacing and sizes vanish; typographic forms of an operator become the ASCII
// one.
type lexer struct {
	s      string
	i      int
	tokens []token
	spaced bool
	// open holds what each open bracket is: 'g' groups LaTeX, 't' is a text
	// command's brace, 'b' a box's, 'e' an environment. In the others commas
	// separate elements: '(' for ( and [, '{', 's' for \{, '<' for \langle.
	open  []byte
	prose int // open text commands
}

func lex(s string) ([]token, error) {
	if len(s) > maxStatement {
		return nil, ErrTooLarge
	}
	l := &lexer{s: s, tokens: make([]token, 0, 8)}
	for l.i < len(l.s) {
		if len(l.tokens) > maxTokens || len(l.open) > maxDepth {
			return nil, ErrTooLarge
		}
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	return l.tokens, nil
}

func (l *lexer) emit(t token) {
	t.spaced, l.spaced = l.spaced, false
	t.prose = l.prose > 0
	l.tokens = append(l.tokens, t)
}

func (l *lexer) symbol(text string) { l.emit(token{kind: tokSymbol, text: text}) }

func (l *lexer) last() token {
	if len(l.tokens) == 0 {
		return token{}
	}
	return l.tokens[len(l.tokens)-1]
}

func (l *lexer) next() error {
	r, n := utf8.DecodeRuneInString(l.s[l.i:])
	switch {
	case r == utf8.RuneError && n <= 1:
		return ErrUnreadable
	case unicode.IsSpace(r) || r == '~':
		l.spaced = true
		l.i += n
	case isDigit(r) || r == '.' && l.i+1 < len(l.s) && isDigit(rune(l.s[l.i+1])):
		return l.number()
	case r >= '０' && r <= '９':
		return l.wideNumber()
	case strings.HasPrefix(l.s[l.i:], "<<"):
		return l.annotation()
	case r == '\\':
		return l.command()
	case r == 'π':
		l.i += n
		l.emit(token{kind: tokCommand, text: "pi"})
	case greek[r] != "":
		l.i += n
		l.emit(token{kind: tokVar, text: greek[r]})
	case isLetter(r):
		l.word()
	case typographic[r] != "":
		l.i += n
		return l.bracketOrSymbol(typographic[r])
	case money[r] != "":
		l.i += n
		l.emit(token{kind: tokMoney, text: money[r]})
	case r > utf8.RuneSelf:
		l.i += n
		return l.sign(r)
	default:
		l.i += n
		return l.ascii(r)
	}
	return nil
}

// sign reads the other characters beyond ASCII that mean something.
func (l *lexer) sign(r rune) error {
	switch r {
	case '√':
		l.emit(token{kind: tokCommand, text: "sqrt"})
	case '∞':
		l.emit(token{kind: tokCommand, text: "infty"})
	case '∅':
		l.emit(token{kind: tokCommand, text: "emptyset"})
	case '°':
		l.emit(token{kind: tokWord, text: "degree", raw: "degree"})
	case '′':
		l.symbol("'")
	default:
		if v, ok := vulgar[r]; ok {
			l.emit(token{kind: tokVulgar, num: big.NewRat(v[0], v[1]), decimals: -1})
			return nil
		}
		return l.script(r)
	}
	return nil
}

// script reads a raised or lowered number: x², a₁₂.
func (l *lexer) script(r rune) error {
	script, mark := superscripts, "^"
	if scriptDigit(script, r) < 0 {
		script, mark = subscripts, "_"
	}
	first := scriptDigit(script, r)
	if first < 0 {
		return ErrUnreadable
	}
	text := []byte{byte('0' + first)}
	for l.i < len(l.s) && len(text) < 6 {
		r, n := utf8.DecodeRuneInString(l.s[l.i:])
		d := scriptDigit(script, r)
		if d < 0 {
			break
		}
		text = append(text, byte('0'+d))
		l.i += n
	}
	num, _ := new(big.Rat).SetString(string(text))
	l.symbol(mark)
	l.emit(token{kind: tokNumber, num: num, decimals: -1, raw: string(text)})
	return nil
}

// ascii reads a symbol of one or two characters.
func (l *lexer) ascii(r rune) error {
	two := ""
	if l.i < len(l.s) {
		two = string(r) + l.s[l.i:l.i+1]
	}
	switch two {
	case "<=", ">=", "!=", "==", "**":
		l.i++
		l.symbol(map[string]string{"<=": "<=", ">=": ">=", "!=": "!=", "==": "=", "**": "^"}[two])
		return nil
	}
	if !strings.ContainsRune("+-*/^=()[]{},;:%|<>!_&'", r) {
		return ErrUnreadable
	}
	return l.bracketOrSymbol(string(r))
}

// bracketOrSymbol emits a symbol and keeps count of what is open.
func (l *lexer) bracketOrSymbol(text string) error {
	switch text {
	case "(", "[":
		l.open = append(l.open, '(')
	case "langle":
		l.open = append(l.open, '<')
	case "{":
		before := l.last()
		if before.kind == tokCommand || before.is("^") || before.is("_") || before.is("}") || before.is("]") {
			l.open = append(l.open, 'g')
		} else {
			l.open = append(l.open, '{')
		}
	case ")", "]", "}", "rangle":
		was, err := l.shut(map[string]string{")": "(", "]": "(", "}": "{gtb", "rangle": "<"}[text])
		if err != nil {
			return err
		}
		if was == 't' || was == 'b' {
			if was == 't' {
				l.prose--
			}
			l.spaced = true
			return nil
		}
	}
	l.symbol(text)
	return nil
}

// shut takes the last open bracket, which must be one of these.
func (l *lexer) shut(of string) (was byte, err error) {
	n := len(l.open)
	if n == 0 || strings.IndexByte(of, l.open[n-1]) < 0 {
		return 0, ErrUnreadable
	}
	was = l.open[n-1]
	l.open = l.open[:n-1]
	return was, nil
}

// number reads digits with thousands separators, a point and an exponent. A
// comma separates thousands only where every group after it has three digits;
// inside brackets it separates elements, so that (1,234) is a pair.
func (l *lexer) number() error {
	rest := l.s[l.i:]
	n := digits(rest)
	text := rest[:n]
	used := n
	if n >= 1 && n <= 3 && rest[0] != '0' {
		for separator := l.separator(rest[used:]); separator != ""; {
			tail, ok := strings.CutPrefix(rest[used:], separator)
			if !ok || digits(tail) != 3 {
				break
			}
			text += tail[:3]
			used += len(separator) + 3
		}
	}
	decimals := -1
	if tail, ok := strings.CutPrefix(rest[used:], "."); ok {
		d := digits(tail)
		if d == 0 {
			return ErrUnreadable
		}
		text += "." + tail[:d]
		used += 1 + d
		decimals = d
	}
	if len(text) > maxDigits {
		return ErrTooLarge
	}
	if e := exponentOf(rest[used:]); e > 0 {
		if e > 7 {
			return ErrTooLarge
		}
		if power, _ := strconv.Atoi(rest[used+1 : used+e]); power > maxExponent || power < -maxExponent {
			return ErrTooLarge
		}
		text += rest[used : used+e]
		used += e
		decimals = -1
	}
	if strings.HasPrefix(rest[used:], ".") {
		return ErrUnreadable // 1.2.3
	}
	num, ok := new(big.Rat).SetString(text)
	if !ok {
		return ErrUnreadable
	}
	if tooLarge(num) {
		return ErrTooLarge
	}
	l.i += used
	l.emit(token{kind: tokNumber, num: num, decimals: decimals, raw: text})
	return nil
}

// exponentOf is the length of an exponent such as e-12, or 0.
func exponentOf(s string) int {
	if len(s) < 2 || s[0] != 'e' && s[0] != 'E' {
		return 0
	}
	n := 1
	if s[1] == '+' || s[1] == '-' {
		n = 2
	}
	d := digits(s[n:])
	if d == 0 {
		return 0
	}
	return n + d
}

var separators = []string{"{,}", `\,`, `\!\,`, `\,\!`, `\!,\!`, `,\! `, `,\!`, "\u00a0", "\u202f", "\u2009", "_", "'", "’"}

// separator is the thousands separator that s begins with, or "".
func (l *lexer) separator(s string) string {
	if s == "" {
		return ""
	}
	if s[0] == ',' || strings.HasPrefix(s, "，") {
		if n := len(l.open); n > 0 && strings.IndexByte("({s<", l.open[n-1]) >= 0 && !strings.HasPrefix(s, `,\!`) {
			return ""
		}
	}
	for _, c := range separators {
		if strings.HasPrefix(s, c) {
			return c
		}
	}
	for _, c := range []string{",", "，"} {
		if strings.HasPrefix(s, c) {
			return c
		}
	}
	return ""
}

// wideNumber reads full-width digits.
func (l *lexer) wideNumber() error {
	var narrow strings.Builder
	for _, r := range l.s[l.i:] {
		if r < '０' || r > '９' {
			break
		}
		narrow.WriteRune(r - '０' + '0')
	}
	text := narrow.String()
	if len(text) > maxDigits {
		return ErrTooLarge
	}
	num, _ := new(big.Rat).SetString(text)
	l.i += len(text) * len("０")
	l.emit(token{kind: tokNumber, num: num, decimals: -1, raw: text})
	return nil
}

// annotation skips a calculator's note, <<9*2=18>>.
func (l *lexer) annotation() error {
	end := strings.Index(l.s[l.i:], ">>")
	if end < 0 {
		return ErrUnreadable
	}
	l.i += end + 2
	return nil
}

// word reads letters with the apostrophes and hyphens of a word. A hyphen
// between fewer than three letters is a minus.
func (l *lexer) word() {
	start := l.i
	for l.i < len(l.s) {
		r, n := utf8.DecodeRuneInString(l.s[l.i:])
		if r == 'π' || greek[r] != "" {
			break
		}
		letterFollows := l.i+n < len(l.s) && isLetter(rune(l.s[l.i+n]))
		switch {
		case isLetter(r):
		case (r == '\'' || r == '’') && l.i > start:
		case r == '-' && l.i-start >= 3 && letterFollows && letters(l.s[l.i+n:]) >= 3:
		default:
			l.finishWord(start)
			return
		}
		l.i += n
	}
	l.finishWord(start)
}

func (l *lexer) finishWord(start int) {
	raw := strings.ReplaceAll(l.s[start:l.i], "’", "'")
	l.emit(token{kind: tokWord, text: strings.ToLower(raw), raw: raw})
}

func letters(s string) int {
	n := 0
	for n < len(s) && (s[n]|0x20 >= 'a' && s[n]|0x20 <= 'z') {
		n++
	}
	return n
}
