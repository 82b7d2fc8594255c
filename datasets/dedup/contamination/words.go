package contamination

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Words counts the words of a text, as items and prompts are read.
func Words(text string) int {
	n := 0
	eachWord(normal(text), func(int, int, uint64) { n++ })
	return n
}

// normal brings a text into the form in which its words are compared: letters
// and digits that Unicode holds to be the same (full-width forms, ligatures,
// composed and decomposed accents) become the same.
func normal(text string) string {
	for i := 0; i < len(text); i++ {
		if text[i] >= utf8.RuneSelf {
			return norm.NFKC.String(text)
		}
	}
	return text
}

// appendWords appends the hash of each word of a text.
func appendWords(to []uint64, text string) []uint64 {
	eachWord(normal(text), func(_, _ int, h uint64) { to = append(to, h) })
	return to
}

// FNV-1a, 64 bits.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// asciiWord is the lower case of a byte that is part of a word, else 0.
var asciiWord = func() (t [utf8.RuneSelf]byte) {
	for c := range byte(utf8.RuneSelf) {
		switch {
		case '0' <= c && c <= '9' || 'a' <= c && c <= 'z':
			t[c] = c
		case 'A' <= c && c <= 'Z':
			t[c] = c + 'a' - 'A'
		}
	}
	return t
}()

// eachWord visits the words of a normal text: first byte, the one after the
// last, and a hash of what it is in lower case.
func eachWord(text string, visit func(start, end int, hash uint64)) {
	start, h := -1, uint64(fnvOffset)
	end := func(i int) {
		if start >= 0 {
			visit(start, i, h)
			start, h = -1, fnvOffset
		}
	}
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			if c = asciiWord[c]; c == 0 {
				end(i)
			} else {
				if start < 0 {
					start = i
				}
				h = (h ^ uint64(c)) * fnvPrime
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case !wordRune(r):
			end(i)
		case alone(r):
			end(i)
			start, h = i, hashRune(h, r)
			end(i + n)
		default:
			if start < 0 {
				start = i
			}
			h = hashRune(h, unicode.ToLower(r))
		}
		i += n
	}
	end(len(text))
}

func hashRune(h uint64, r rune) uint64 {
	var b [utf8.UTFMax]byte
	for _, c := range b[:utf8.EncodeRune(b[:], r)] {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}

// wordRune tells whether a rune beyond ASCII is part of a word. Marks are: they
// are the vowels of many scripts. Invalid bytes are not.
func wordRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r))
}

// unspaced are the scripts that put no spaces between words.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer,
	unicode.Myanmar, unicode.Tai_Le, unicode.New_Tai_Lue, unicode.Tai_Tham, unicode.Javanese, unicode.Balinese,
}

// alone tells whether a character is a word by itself.
func alone(r rune) bool { return r >= 0x0e00 && unicode.In(r, unspaced...) }

// mixed spreads the bits of a hash (the finalizer of MurmurHash3), and never
// gives 0.
func mixed(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	if h == 0 {
		return 1
	}
	return h
}

// gramBase is the base of the polynomial that n-grams are hashed by, odd.
const gramBase = 0x9e3779b97f4a7c15

// eachGram visits the hash of every n words in a row and the place of the first,
// until visit gives false.
func eachGram(words []uint64, n int, visit func(at int, hash uint64) bool) {
	if len(words) < n {
		return
	}
	top := uint64(1) // gramBase to the n-th
	for range n {
		top *= gramBase
	}
	var h uint64
	for i, w := range words {
		w = mixed(w)
		h = h*gramBase + w
		if i >= n {
			h -= mixed(words[i-n]) * top
		}
		if i >= n-1 && !visit(i-n+1, mixed(h)) {
			return
		}
	}
}

// hashAll hashes a whole text by its words.
func hashAll(words []uint64, seed uint64) uint64 {
	h := mixed(seed + gramBase)
	for _, w := range words {
		h = mixed(h*gramBase + w)
	}
	return h
}
