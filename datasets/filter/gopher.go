package filter

import (
	"strings"
	"unicode/utf8"
)

// The repetition limits of Gopher (Rae et al. 2021, arXiv 2112.11446, table
// A1), as datatrove applies them (GopherRepetitionFilter): the greatest share
// of a text that repeats may make up.
const (
	gopherLines          = 0.30 // lines that came before, by number
	gopherParagraphs     = 0.30 // paragraphs that came before, by number
	gopherLineChars      = 0.20 // and by characters
	gopherParagraphChars = 0.20
)

// gopherTop are the shares of characters in the most frequent n-gram, and
// gopherDuplicate in n-grams that came before.
var (
	gopherTop       = map[int]float64{2: 0.20, 3: 0.18, 4: 0.16}
	gopherDuplicate = map[int]float64{5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
)

// gopherRepeats tells whether a text breaks one of the limits. They are meant
// for web pages: of correct answers in mathematics and code they reject many.
func gopherRepeats(text string) bool {
	text = strings.TrimSpace(text)
	if text == "" {
		return false
	}
	total := utf8.RuneCountInString(text)
	number, chars := repeats(splitNonEmpty(text, "\n\n"))
	if number > gopherParagraphs || chars > gopherParagraphChars*float64(total) {
		return true
	}
	number, chars = repeats(splitNonEmpty(text, "\n"))
	if number > gopherLines || chars > gopherLineChars*float64(total) {
		return true
	}
	words := strings.Fields(text)
	sizes := make([]int, len(words))
	ids := make([]uint32, len(words))
	seen := make(map[string]uint32, len(words))
	for i, w := range words {
		id, ok := seen[w]
		if !ok {
			id = uint32(len(seen)) + 1
			seen[w] = id
		}
		ids[i], sizes[i] = id, utf8.RuneCountInString(w)
	}
	g := ngrams{words: ids, ids: ids, n: 1, sizes: sizes}
	for g.grow() {
		if most, ok := gopherTop[g.n]; ok && float64(g.top()) > most*float64(total) {
			return true
		}
		if most, ok := gopherDuplicate[g.n]; ok && float64(g.duplicated()) > most*float64(total) {
			return true
		}
	}
	return false
}

func splitNonEmpty(text, by string) []string {
	var out []string
	for part := range strings.SplitSeq(text, by) {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// repeats is the share of parts that came before, and how many characters they
// have.
func repeats(parts []string) (share, chars float64) {
	if len(parts) == 0 {
		return 0, 0
	}
	seen := make(map[string]bool, len(parts))
	n := 0
	for _, p := range parts {
		if seen[p] {
			n++
			chars += float64(utf8.RuneCountInString(p))
		}
		seen[p] = true
	}
	return float64(n) / float64(len(parts)), chars
}

// ngrams are those of a text, each as a number that equal ones share.
type ngrams struct {
	words, ids []uint32 // the words, and the n-gram that begins at each
	n          int
	sizes      []int // characters of the words
}

// longestNgram is the longest that Gopher looks at.
const longestNgram = 10

// grow goes on to n-grams of one word more, by pairing each with the word that
// follows: no hash, so nothing collides. It is false where there are none.
func (g *ngrams) grow() bool {
	if g.n == longestNgram || len(g.ids) < 2 {
		return false
	}
	seen := make(map[uint64]uint32, len(g.ids))
	next := make([]uint32, len(g.ids)-1)
	for i := range next {
		pair := uint64(g.ids[i])<<32 | uint64(g.words[i+g.n])
		id, ok := seen[pair]
		if !ok {
			id = uint32(len(seen))
			seen[pair] = id
		}
		next[i] = id
	}
	g.ids = next
	g.n++
	return true
}

// top is how many characters the most frequent n-gram makes up, 0 where none
// comes twice.
func (g *ngrams) top() int {
	counts := make([]int32, len(g.ids))
	best, size := int32(0), 0
	for i, id := range g.ids {
		counts[id]++
		if chars := g.chars(i); counts[id] > best || counts[id] == best && chars > size {
			best, size = counts[id], chars
		}
	}
	if best < 2 {
		return 0
	}
	return int(best) * size
}

// duplicated is how many characters stand in n-grams that came before, each
// counted once.
func (g *ngrams) duplicated() int {
	seen := make([]bool, len(g.ids))
	chars := 0
	for i := 0; i < len(g.ids); {
		if seen[g.ids[i]] {
			chars += g.chars(i)
			i += g.n
			continue
		}
		seen[g.ids[i]] = true
		i++
	}
	return chars
}

// chars are the characters of the n-gram at i, without spaces.
func (g *ngrams) chars(i int) int {
	sum := 0
	for _, size := range g.sizes[i : i+g.n] {
		sum += size
	}
	return sum
}
