package dedup

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A Style says what of a text counts.
type Style uint8

const (
	// Prose: case does not count, nor does punctuation away from digits and
	// symbols.
	Prose Style = iota
	// Verbatim: everything counts but white space. For maths and code.
	Verbatim
)

// verbatimWords are words of domain names in which case and punctuation count.
var verbatimWords = map[string]bool{
	"math": true, "maths": true, "mathematics": true, "algebra": true, "arithmetic": true, "calculus": true,
	"geometry": true, "statistics": true, "gsm8k": true, "aime": true, "olympiad": true,
	"physics": true, "chemistry": true, "logic": true, "stem": true,
	"code": true, "coding": true, "coder": true, "programming": true, "software": true, "swe": true,
	"python": true, "go": true, "golang": true, "rust": true, "java": true, "javascript": true, "typescript": true,
	"sql": true, "bash": true, "shell": true, "regex": true, "humaneval": true,
	"tool": true, "tools": true, "function": true, "functions": true, "api": true,
}

// StyleOf is Verbatim for domains of maths, code and tools, told by the words
// of their name ("math", "hard-maths", "agents/coding"), else Prose.
func StyleOf(domain string) Style {
	for _, word := range strings.FieldsFunc(strings.ToLower(domain), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if verbatimWords[word] {
			return Verbatim
		}
	}
	return Prose
}

// Normal is the form in which texts of a style are compared: two texts are
// equal where their normal forms are.
func Normal(style Style, text string) string {
	return string(appendNormal(nil, style, text))
}

func appendNormal(dst []byte, style Style, text string) []byte {
	start := len(dst)
	if style == Prose {
		s := scanner{}
		s.scan(composed(text), func(t *token) {
			if len(dst) > start {
				dst = append(dst, ' ')
			}
			dst = append(dst, t.form...)
		})
		if len(dst) > start {
			if form := dst[start:]; !norm.NFC.IsNormal(form) { // some compose as small letters only
				dst = append(dst[:start], norm.NFC.Bytes(form)...)
			}
			return dst
		}
		// All of it is punctuation: "???" is not "!!!".
	}
	gap := false
	for _, r := range composed(text) {
		switch {
		case unicode.IsSpace(r):
			gap = len(dst) > start
		case ignorable(r):
		default:
			if gap {
				dst = append(dst, ' ')
				gap = false
			}
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

// composed is the text in Unicode NFC.
func composed(text string) string {
	if simple(text) || norm.NFC.IsNormalString(text) {
		return text
	}
	return norm.NFC.String(text)
}

// simple tells, faster than the tables of package norm, texts of characters
// that composition never touches: Latin, Cyrillic and Greek letters as one
// types them, Han, Hangul syllables, and punctuation.
func simple(text string) bool {
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r < 0x300, r >= 0x4e00 && r <= 0x9fff, r >= 0xac00 && r <= 0xd7a3, r >= 0x3001 && r <= 0x3020,
			r >= 0xff01 && r <= 0xff60, r >= 0x2010 && r <= 0x2027, r >= 0x400 && r <= 0x482, r >= 0x391 && r <= 0x3ce:
		default:
			return false
		}
		i += n
	}
	return true
}

// ignorable tells characters that nobody sees and that join or part nothing:
// soft hyphen, zero-width space, word joiner, byte order mark, marks of
// direction.
func ignorable(r rune) bool {
	switch {
	case r < 0xad:
		return false
	case r == 0xad, r == 0x200b, r == 0x2060, r == 0xfeff, r == 0x200e, r == 0x200f:
		return true
	}
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// unspaced are scripts that are written without spaces between words: each of
// their characters is a token.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Yi,
	unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan,
	unicode.Javanese, unicode.Balinese, unicode.Tai_Le, unicode.New_Tai_Lue, unicode.Tai_Tham, unicode.Tai_Viet,
}

// A kind is what a character is to the comparison; kinds of a word are or-ed.
type kind uint8

const (
	lower    kind = 1 << iota // letters without case are lower
	upper                     // and title case
	digit                     // every kind of number
	symbol                    // mathematical, currency, emoji, and those below
	punct                     //
	space                     //
	wide                      // not ASCII, to be looked at rune by rune; or a character of an unspaced script
	skipping                  // ignorable
)

// ascii holds the kinds of the characters below 128. # @ % & and _ count as
// symbols though Unicode calls them punctuation: C# is not C, and names of
// programs hold them.
var ascii = func() (t [256]kind) {
	for c := range 128 {
		switch r := rune(c); {
		case strings.ContainsRune("#@%&_", r), unicode.IsSymbol(r):
			t[c] = symbol
		case unicode.IsSpace(r):
			t[c] = space
		case unicode.IsLower(r):
			t[c] = lower
		case unicode.IsUpper(r):
			t[c] = upper
		case unicode.IsDigit(r):
			t[c] = digit
		case unicode.IsPunct(r):
			t[c] = punct
		default: // control characters
			t[c] = space
		}
	}
	for c := 128; c < 256; c++ {
		t[c] = wide
	}
	return t
}()

// basic holds the kinds of the characters below 65536, made when one beyond
// ASCII is first met.
var basic = sync.OnceValue(func() *[1 << 16]kind {
	t := new([1 << 16]kind)
	for r := range t {
		t[r] = lookUp(rune(r))
	}
	return t
})

// kindOf is the kind of one character.
func kindOf(r rune) kind {
	switch {
	case r < 128:
		return ascii[r]
	case r < 1<<16:
		return basic()[r]
	}
	return lookUp(r)
}

func lookUp(r rune) kind {
	switch {
	case r < 128:
		return ascii[r]
	case unicode.IsSpace(r):
		return space
	case ignorable(r):
		return skipping
	case unicode.IsUpper(r), unicode.IsTitle(r):
		return upper
	case unicode.IsLower(r):
		return lower
	case unicode.IsNumber(r):
		return digit
	case unicode.IsPunct(r):
		return punct
	case unicode.IsSymbol(r):
		return symbol
	case unicode.In(r, unspaced...):
		return wide
	}
	return lower
}
