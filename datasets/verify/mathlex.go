package verify

import (
	"errors"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what the math verifier reads. What exceeds one is unknown.
const (
	maxTokens   = 1024 // of a statement
	maxDepth    = 32   // of brackets, fractions, roots and powers
	maxDigits   = 1000 // of one number
	maxExponent = 1000 // of one number in scientific notation, and of a power
	maxBits     = 4096 // of a numerator or a denominator, about 1,233 digits
)

var (
	errUnreadable = errors.New("not readable")
	errTooLarge   = errors.New("too large")
)

type tokenKind int

const (
	tokEnd     tokenKind = iota
	tokNumber            // num, decimals
	tokVulgar            // ½ and the like: num
	tokWord              // text: letters
	tokCommand           // text: frac, sqrt, infty
	tokSymbol            // text: one of + - * / ^ = ( ) [ ] { } , ; % | and \{ \} as "set{" "set}"
	tokMoney             // text: the currency
)

type token struct {
	kind     tokenKind
	text     string
	num      *big.Rat
	decimals int  // digits after the point as written, -1 without a point
	spaced   bool // white space precedes
}

func (t token) is(symbol string) bool { return t.kind == tokSymbol && t.text == symbol }

// A lexer splits a statement, plain or LaTeX, into tokens. Text commands,
// spacing and sizes vanish; typographic forms of an operator become the ASCII
// one.
type lexer struct {
	s      string
	i      int
	tokens []token
	spaced bool
	// open holds what each open bracket is: 'g' groups LaTeX, 't' is a text
	// command's brace, 'c' holds elements that commas separate, 'p' is any
	// other.
	open []byte
}

func lex(s string) ([]token, error) {
	if len(s) > maxStatement {
		return nil, errTooLarge
	}
	l := &lexer{s: s}
	for l.i < len(l.s) {
		if len(l.tokens) > maxTokens || len(l.open) > maxDepth {
			return nil, errTooLarge
		}
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	return l.tokens, nil
}

func (l *lexer) emit(t token) {
	t.spaced, l.spaced = l.spaced, false
	l.tokens = append(l.tokens, t)
}

func (l *lexer) symbol(text string) { l.emit(token{kind: tokSymbol, text: text}) }

func (l *lexer) last() token {
	if len(l.tokens) == 0 {
		return token{}
	}
	return l.tokens[len(l.tokens)-1]
}

// typographic maps a character to the ASCII that means the same.
var typographic = map[rune]string{
	'−': "-", '×': "*", '·': "*", '⋅': "*", '∙': "*", '÷': "/", '∕': "/", '⁄': "/",
	'％': "%", '，': ",", '（': "(", '）': ")", '＝': "=", '＋': "+", '－': "-", '．': ".",
}

// vulgar are the fractions that have a character of their own.
var vulgar = map[rune][2]int64{
	'½': {1, 2}, '⅓': {1, 3}, '⅔': {2, 3}, '¼': {1, 4}, '¾': {3, 4}, '⅕': {1, 5}, '⅖': {2, 5}, '⅗': {3, 5},
	'⅘': {4, 5}, '⅙': {1, 6}, '⅚': {5, 6}, '⅐': {1, 7}, '⅛': {1, 8}, '⅜': {3, 8}, '⅝': {5, 8}, '⅞': {7, 8}, '⅑': {1, 9}, '⅒': {1, 10},
}

var superscripts = map[rune]int64{'⁰': 0, '¹': 1, '²': 2, '³': 3, '⁴': 4, '⁵': 5, '⁶': 6, '⁷': 7, '⁸': 8, '⁹': 9}

// money names each currency sign as its unit word is named.
var money = map[rune]string{'$': "dollar", '€': "euro", '£': "pound", '¥': "yen", '₹': "rupee", '₽': "ruble", '₩': "won", '¢': "cent"}

func (l *lexer) next() error {
	r, n := utf8.DecodeRuneInString(l.s[l.i:])
	switch {
	case r == utf8.RuneError && n <= 1:
		return errUnreadable
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
	case unicode.IsLetter(r):
		l.word()
	case typographic[r] != "":
		l.i += n
		return l.bracketOrSymbol(typographic[r])
	case money[r] != "":
		l.i += n
		l.emit(token{kind: tokMoney, text: money[r]})
	case vulgar[r] != [2]int64{}:
		l.i += n
		l.emit(token{kind: tokVulgar, num: big.NewRat(vulgar[r][0], vulgar[r][1]), decimals: -1})
	case r == '√':
		l.i += n
		l.emit(token{kind: tokCommand, text: "sqrt"})
	case r == '∞':
		l.i += n
		l.emit(token{kind: tokCommand, text: "infty"})
	case r == '≈':
		l.i += n
		l.emit(token{kind: tokWord, text: "approximately"})
	case r == '°':
		l.i += n
		l.emit(token{kind: tokWord, text: "degree"})
	default:
		if e, ok := superscripts[r]; ok {
			l.i += n
			l.symbol("^")
			l.emit(token{kind: tokNumber, num: big.NewRat(e, 1), decimals: -1})
			return nil
		}
		if !strings.ContainsRune("+-*/^=()[]{},;%|", r) {
			return errUnreadable
		}
		l.i += n
		return l.bracketOrSymbol(string(r))
	}
	return nil
}

// bracketOrSymbol emits a symbol and keeps count of what is open.
func (l *lexer) bracketOrSymbol(text string) error {
	switch text {
	case "(", "[":
		l.open = append(l.open, 'c')
	case "{":
		if before := l.last(); before.kind == tokCommand || before.is("^") || before.is("}") || before.is("]") {
			l.open = append(l.open, 'g')
		} else {
			l.open = append(l.open, 'c')
		}
	case ")", "]", "}":
		if len(l.open) == 0 {
			return errUnreadable
		}
		was := l.open[len(l.open)-1]
		l.open = l.open[:len(l.open)-1]
		if was == 't' {
			l.spaced = true
			return nil
		}
	case "*":
		if strings.HasPrefix(l.s[l.i:], "*") { // 2**3, as in Python
			l.i++
			text = "^"
		}
	}
	l.symbol(text)
	return nil
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func digits(s string) int {
	n := 0
	for n < len(s) && isDigit(rune(s[n])) {
		n++
	}
	return n
}

// number reads digits with thousands separators, a point and an exponent. A
// comma separates thousands only where every group after it has three digits;
// inside brackets it separates elements, so that (1,234) is a pair.
func (l *lexer) number() error {
	rest := l.s[l.i:]
	n := digits(rest)
	text := rest[:n]
	used := n
	if n >= 1 && n <= 3 {
		separator := l.separator(rest[used:])
		for separator != "" {
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
			return errUnreadable
		}
		text += "." + tail[:d]
		used += 1 + d
		decimals = d
	}
	if len(text) > maxDigits {
		return errTooLarge
	}
	if e := exponentOf(rest[used:]); e > 0 {
		if e > 7 {
			return errTooLarge
		}
		if power, _ := strconv.Atoi(rest[used+1 : used+e]); power > maxExponent || power < -maxExponent {
			return errTooLarge
		}
		text += rest[used : used+e]
		used += e
		decimals = -1
	}
	if strings.HasPrefix(rest[used:], ".") {
		return errUnreadable // 1.2.3
	}
	num, ok := new(big.Rat).SetString(text)
	if !ok {
		return errUnreadable
	}
	if tooLarge(num) {
		return errTooLarge
	}
	l.i += used
	l.emit(token{kind: tokNumber, num: num, decimals: decimals})
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

// separator is the thousands separator that s begins with, or "".
func (l *lexer) separator(s string) string {
	candidates := []string{"{,}", `\,`, `\!,\!`, ",\\!", "\u00a0", "\u202f", "\u2009", "_", "'", "’"}
	if len(l.open) == 0 || l.open[len(l.open)-1] == 'g' || l.open[len(l.open)-1] == 't' {
		candidates = append(candidates, ",", "，")
	}
	for _, c := range candidates {
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
		if r >= '０' && r <= '９' {
			narrow.WriteRune(r - '０' + '0')
			continue
		}
		break
	}
	text := narrow.String()
	if len(text) > maxDigits {
		return errTooLarge
	}
	num, _ := new(big.Rat).SetString(text)
	l.i += len(text) * len("０")
	l.emit(token{kind: tokNumber, num: num, decimals: -1})
	return nil
}

// annotation skips a calculator's note, <<9*2=18>>.
func (l *lexer) annotation() error {
	end := strings.Index(l.s[l.i:], ">>")
	if end < 0 {
		return errUnreadable
	}
	l.i += end + 2
	return nil
}

func (l *lexer) word() {
	start := l.i
	for l.i < len(l.s) {
		r, n := utf8.DecodeRuneInString(l.s[l.i:])
		inside := (r == '\'' || r == '’' || r == '-') && l.i > start && l.i+n < len(l.s) && unicode.IsLetter(rune(l.s[l.i+n]))
		if !unicode.IsLetter(r) && !inside {
			break
		}
		l.i += n
	}
	l.emit(token{kind: tokWord, text: strings.ToLower(l.s[start:l.i])})
}

// command reads a LaTeX command.
func (l *lexer) command() error {
	rest := l.s[l.i+1:]
	n := 0
	for n < len(rest) && (rest[n] >= 'a' && rest[n] <= 'z' || rest[n] >= 'A' && rest[n] <= 'Z') {
		n++
	}
	if n == 0 {
		return l.shortCommand(rest)
	}
	l.i += 1 + n
	switch name := rest[:n]; name {
	case "frac", "dfrac", "tfrac", "cfrac":
		l.emit(token{kind: tokCommand, text: "frac"})
	case "sqrt", "infty":
		l.emit(token{kind: tokCommand, text: name})
	case "cdot", "times", "ast":
		l.symbol("*")
	case "div":
		l.symbol("/")
	case "lbrace":
		return l.set("set{")
	case "rbrace":
		return l.set("set}")
	case "approx", "simeq":
		l.emit(token{kind: tokWord, text: "approximately"})
	case "circ", "degree":
		if l.last().is("{") {
			return errUnreadable
		}
		if l.last().is("^") {
			l.tokens = l.tokens[:len(l.tokens)-1]
		}
		l.emit(token{kind: tokWord, text: "degree"})
	case "text", "textbf", "textit", "textrm", "mathrm", "mathbf", "mathit", "mbox", "operatorname", "boxed", "fbox":
		tail := strings.TrimLeft(l.s[l.i:], " ")
		if !strings.HasPrefix(tail, "{") {
			return errUnreadable
		}
		l.i = len(l.s) - len(tail) + 1
		l.open = append(l.open, 't')
		l.spaced = true
	case "left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "displaystyle", "quad", "qquad":
		l.spaced = true
	default:
		return errUnreadable
	}
	return nil
}

// shortCommand reads a command of one character that is no letter.
func (l *lexer) shortCommand(rest string) error {
	if rest == "" {
		return errUnreadable
	}
	l.i += 2
	switch rest[0] {
	case ',', ';', ':', '!', ' ', '(', ')', '[', ']', '\\':
		l.spaced = true
	case '%':
		l.symbol("%")
	case '$':
		l.emit(token{kind: tokMoney, text: money['$']})
	case '{':
		return l.set("set{")
	case '}':
		return l.set("set}")
	default:
		return errUnreadable
	}
	return nil
}

func (l *lexer) set(text string) error {
	if text == "set{" {
		l.open = append(l.open, 'c')
	} else if len(l.open) == 0 {
		return errUnreadable
	} else {
		l.open = l.open[:len(l.open)-1]
	}
	l.symbol(text)
	return nil
}
