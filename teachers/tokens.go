package teachers

import (
	"unicode"
	"unicode/utf8"
)

// Tokens of a text, guessed from its words. Measured against the vocabularies
// o200k, cl100k and r50k on English prose, grade-school mathematics, Go,
// Python, JSON, URLs, tables, hex, base64, and prose in Chinese, Japanese,
// Russian, Arabic and German: the guess is 0.8 to 1.5 times what o200k makes of
// running text and code, and down to half of it in base64 and tables; the floor
// was never above what any of the three made (at most 0.96 of it, in hex; 0.5
// to 0.7 in prose and code).

// TextTokens guesses how many tokens a text is. Plans, unreported usage and
// nothing else go by it.
func TextTokens(text string) int64 {
	c := countText(text)
	return c.words + c.numbers + c.others + (c.ideographs*4+4)/5 + (c.marks*3+3)/4 + (c.pieces*3+3)/4
}

// FloorTokens is below what any tokenizer makes of a text of more than a few
// words: a token never spans two words of an alphabet, four digits or three
// ideographs on average, and everything else is left out.
func FloorTokens(text string) int64 {
	c := countText(text)
	return c.words + c.numbers + c.others + c.ideographs*2/5
}

type textCount struct {
	words      int64 // runs of ASCII letters
	numbers    int64 // groups of up to four digits
	others     int64 // runs of other letters
	ideographs int64 // characters of scripts without spaces
	marks      int64 // runs of anything else that is seen
	pieces     int64 // further parts of long words
}

type charClass int

const (
	space charClass = iota
	letter
	digit
	ideograph
	otherLetter
	mark
)

var spaceless = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

// asciiClasses are those of the first 128 characters.
var asciiClasses = func() (classes [128]charClass) {
	for c := range classes {
		switch {
		case c|32 >= 'a' && c|32 <= 'z':
			classes[c] = letter
		case c >= '0' && c <= '9':
			classes[c] = digit
		case c > ' ':
			classes[c] = mark
		}
	}
	return classes
}()

func classOfChar(r rune) charClass {
	switch {
	case r >= 0x4e00 && r <= 0x9fff, r >= 0x3041 && r <= 0x30ff, r >= 0xac00 && r <= 0xd7a3: // most of what the tables below find
		return ideograph
	case r >= 0x00c0 && r <= 0x052f && r != 0x00d7 && r != 0x00f7: // Latin, Greek, Cyrillic
		return otherLetter
	case unicode.IsSpace(r):
		return space
	case unicode.In(r, spaceless...):
		return ideograph
	case unicode.IsLetter(r), unicode.IsMark(r):
		return otherLetter
	}
	return mark
}

func countText(text string) textCount {
	var c textCount
	before, run := space, 0
	for i := 0; i < len(text); {
		var class charClass
		if b := text[i]; b < utf8.RuneSelf {
			class = asciiClasses[b]
			i++
		} else {
			r, n := utf8.DecodeRuneInString(text[i:])
			class = classOfChar(r)
			i += n
		}
		if class != before {
			before, run = class, 1
			switch class {
			case letter:
				c.words++
			case digit:
				c.numbers++
			case otherLetter:
				c.others++
			case ideograph:
				c.ideographs++
			case mark:
				c.marks++
			}
			continue
		}
		run++
		switch {
		case class == letter && run > 6 && run%4 == 3, class == otherLetter && run%3 == 0:
			c.pieces++
		case class == digit && run%4 == 1:
			c.numbers++
		case class == ideograph:
			c.ideographs++
		}
	}
	return c
}

const (
	// truncatedMinFloor is the floor below which a prompt is never called cut:
	// what is left out of the floor, and templates, weigh too much there.
	truncatedMinFloor = 300
	// inflation is what a template and a hidden system text may add to a
	// prompt before the endpoint's count is called wrong.
	inflation        = 2000
	perMessageTokens = 64
)

// A PromptSize is what is known of a prompt's tokens without its tokenizer.
type PromptSize struct {
	Floor    int64 // FloorTokens of all of its text
	Bytes    int64 // of all of its text
	Messages int64
	Images   int64
}

// Truncated tells whether an endpoint read far fewer tokens than the prompt
// has: some servers cut a prompt that does not fit and answer what is left
// (ollama/ollama#4967). It takes a cut of half of running text, or a third of
// digits, to be sure without the tokenizer.
func (s PromptSize) Truncated(promptTokens int64) bool {
	return promptTokens > 0 && s.Floor >= truncatedMinFloor && promptTokens*4 < s.Floor*3
}

// Inflated is the reverse: more tokens than the prompt has bytes, and than
// templates and hidden system texts add, so that something else was read or
// the count is wrong. A prompt with images is never called so.
func (s PromptSize) Inflated(promptTokens int64) bool {
	return s.Images == 0 && promptTokens > s.Bytes+s.Messages*perMessageTokens+inflation
}
