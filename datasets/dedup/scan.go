package dedup

import (
	"unicode"
	"unicode/utf8"
)

// A token is a word, a number or a symbol of a text in its normal form; in
// scripts without spaces a character.
type token struct {
	form  []byte // lower case; valid until the next token
	kinds kind   // of its characters, or-ed
	camel bool   // a capital after a small letter, as in getWeather
	first bool   // of a sentence, so that its capital says nothing
	tail  bool   // after an apostrophe: the s of it's
}

// A scanner reads texts token by token. The zero value is ready; it may be used
// for one text after the other.
type scanner struct {
	// split makes each character of an unspaced script a token.
	split bool
	// chunk, where set, is given every run without white space as it is
	// written, before its tokens.
	chunk func(chunk string, kinds kind)

	token token
	form  []byte
	runes []rune
	kinds []kind
	first bool
}

// scan gives the tokens of text, which is in NFC: runs without white space, cut
// at punctuation that touches neither digit nor symbol.
func (s *scanner) scan(text string, emit func(*token)) {
	s.first = true
	for i := 0; i < len(text); {
		c := text[i]
		if ascii[c] == space {
			if c == '\n' {
				s.first = true
			}
			i++
			continue
		}
		start, kinds := i, kind(0)
		for i < len(text) {
			k := ascii[text[i]]
			if k == space {
				break
			}
			if k != wide {
				kinds |= k
				i++
				continue
			}
			r, n := utf8.DecodeRuneInString(text[i:])
			if unicode.IsSpace(r) {
				break
			}
			kinds |= wide
			i += n
		}
		if i == start { // white space beyond ASCII
			_, n := utf8.DecodeRuneInString(text[i:])
			i += n
			continue
		}
		chunk := text[start:i]
		if s.chunk != nil {
			s.chunk(chunk, kinds)
		}
		switch {
		case kinds&(wide|digit|symbol) != 0:
			s.anything(chunk, emit)
		case kinds == punct && operates(text, start, i):
			s.token = token{form: append(s.form[:0], chunk...), kinds: symbol}
			emit(&s.token)
		default:
			s.letters(chunk, emit)
		}
	}
}

// operates tells whether the punctuation text[start:i], which stands alone, is
// an operator: 5 - 3 is not 5 * 3, nor is x / y x * y.
func operates(text string, start, end int) bool {
	if end-start != 1 {
		return false
	}
	switch text[start] {
	case '-', '*', '/':
	default:
		return false
	}
	before, after := skipBack(text, start), skipOn(text, end)
	var a, b kind
	if before > 0 {
		a = ascii[text[before-1]]
	}
	if after < len(text) {
		b = ascii[text[after]]
	}
	if (a|b)&(digit|symbol) != 0 {
		return true
	}
	return a&(lower|upper) != 0 && b&(lower|upper) != 0 && alone(text, before-1) && alone(text, after)
}

// alone tells whether the letter text[i] is a word.
func alone(text string, i int) bool {
	part := func(j int) bool {
		return j >= 0 && j < len(text) && ascii[text[j]]&(lower|upper|digit|wide) != 0
	}
	return !part(i-1) && !part(i+1)
}

// skipBack is where white space and closing brackets before text[i] begin.
func skipBack(text string, i int) int {
	for i > 0 {
		r, n := utf8.DecodeLastRuneInString(text[:i])
		if k := kindOf(r); k != space && k != skipping && r != ')' && r != ']' && r != '}' {
			break
		}
		i -= n
	}
	return i
}

// skipOn is where white space and opening brackets from text[i] on end.
func skipOn(text string, i int) int {
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		if k := kindOf(r); k != space && k != skipping && r != '(' && r != '[' && r != '{' {
			break
		}
		i += n
	}
	return i
}

// letters reads a run of ASCII letters and punctuation.
func (s *scanner) letters(chunk string, emit func(*token)) {
	for i := 0; i < len(chunk); {
		c := chunk[i]
		if ascii[c] == punct {
			if c == '.' || c == '!' || c == '?' {
				s.first = true
			}
			i++
			continue
		}
		form, kinds, camel, tail := s.form[:0], kind(0), false, i > 0 && chunk[i-1] == '\''
		for ; i < len(chunk); i++ {
			k := ascii[chunk[i]]
			if k == punct {
				break
			}
			camel = camel || k == upper && kinds&lower != 0
			kinds |= k
			form = append(form, chunk[i]|0x20) // every byte is a letter
		}
		s.form = form
		s.token = token{form: form, kinds: kinds, camel: camel, first: s.first, tail: tail}
		s.first = false
		emit(&s.token)
	}
}

// anything reads a run of whatever there is, rune by rune.
func (s *scanner) anything(chunk string, emit func(*token)) {
	s.runes, s.kinds = s.runes[:0], s.kinds[:0]
	table := basic()
	for _, r := range chunk {
		var k kind
		if r < 1<<16 {
			k = table[r]
		} else {
			k = lookUp(r)
		}
		if k != skipping {
			s.runes, s.kinds = append(s.runes, r), append(s.kinds, k)
		}
	}
	t := &s.token
	*t = token{form: s.form[:0], first: s.first}
	flush := func() {
		s.form = t.form
		if len(t.form) > 0 {
			s.first = false
			emit(t)
		}
		*t = token{form: s.form[:0], first: s.first}
	}
	near := func(i int) bool {
		return i >= 0 && i < len(s.kinds) && s.kinds[i]&(digit|symbol) != 0
	}
	for i, r := range s.runes {
		switch k := s.kinds[i]; {
		case k == punct && !near(i-1) && !near(i+1):
			flush()
			if r == '.' || r == '!' || r == '?' || r == '。' || r == '！' || r == '？' {
				s.first, t.first = true, true
			}
			t.tail = r == '\'' || r == '’'
		case s.split && (k == wide || marks(t, r)):
			if !marks(t, r) {
				flush()
			}
			t.form = utf8.AppendRune(t.form, r)
			t.kinds |= wide
		default:
			if t.kinds == wide && s.split {
				flush()
			}
			t.camel = t.camel || k == upper && t.kinds&lower != 0
			t.kinds |= k
			if k == upper {
				r = unicode.ToLower(r)
			}
			t.form = utf8.AppendRune(t.form, r)
		}
	}
	flush()
}

// marks tells whether r is written on the character before it: vowels of Thai,
// the sound marks of kana.
func marks(t *token, r rune) bool {
	return t.kinds == wide && (r == 'ー' || r < 0x2e80 && unicode.Is(unicode.M, r) || r >= 1<<16 && unicode.Is(unicode.M, r))
}
