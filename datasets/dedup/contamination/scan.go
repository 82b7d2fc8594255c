package contamination

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Scanner looks for an index's items in prompts, one after the other. It is
// for one goroutine.
type Scanner struct {
	x     *Index
	words []uint64
	items []int32         // that share an n-gram with the prompt
	found map[int32]bool  // the same
	grams map[uint64]bool // of the prompt
}

// Scanner makes a scanner over the index.
func (x *Index) Scanner() *Scanner {
	return &Scanner{x: x, found: map[int32]bool{}, grams: map[uint64]bool{}}
}

// Match gives the items that a prompt holds: those with the largest share first,
// then in the order of set, name and part; at most [MostHits]. It takes time in
// proportion to the prompt, and to the items that share an n-gram with it.
func (s *Scanner) Match(prompt string) []Hit {
	s.words = appendWords(s.words[:0], prompt)
	if len(s.words) == 0 {
		return nil
	}
	x, n := s.x, s.x.options.N
	clear(s.found)
	s.items = s.items[:0]
	eachGram(s.words, n, func(_ int, h uint64) bool {
		for _, item := range x.find(h) {
			if !s.found[item] {
				s.found[item] = true
				s.items = append(s.items, item)
			}
		}
		return true
	})
	if len(s.items) > 0 {
		s.keepPlausible()
	}
	whole := x.whole[hashAll(s.words, 0)]
	if len(s.items) == 0 && len(whole) == 0 {
		return nil
	}
	return s.hits(prompt, whole)
}

// keepPlausible leaves of the items those of which the hashes of n-grams cover
// enough.
func (s *Scanner) keepPlausible() {
	x, n := s.x, s.x.options.N
	clear(s.grams)
	eachGram(s.words, n, func(_ int, h uint64) bool {
		s.grams[h] = true
		return true
	})
	kept := s.items[:0]
	for _, i := range s.items {
		it := &x.items[i]
		covered, end := 0, 0
		eachGram(x.words[it.first:it.first+it.words], n, func(at int, h uint64) bool {
			if s.grams[h] {
				covered += at + n - max(end, at)
				end = at + n
			}
			return true
		})
		if x.enough(covered, it.words) {
			kept = append(kept, i)
		}
	}
	s.items = kept
}

// enough tells whether more than the share is covered.
func (x *Index) enough(covered, words int) bool {
	return float64(covered) > *x.options.Share*float64(words)
}

// hits looks at the words themselves, so that no hash accuses anybody, and
// describes what it finds.
func (s *Scanner) hits(prompt string, whole []int32) []Hit {
	x, n := s.x, s.x.options.N
	words := wordsOf(prompt)
	grams := map[string]bool{}
	for i := 0; i+n <= len(words.list); i++ {
		grams[words.gram(i, n)] = true
	}
	var out []Hit
	for _, i := range s.items {
		it := &x.items[i]
		own := wordsOf(it.item.Text)
		hit := Hit{Set: it.item.Set, Name: it.item.Name, Part: it.item.Part, Words: len(own.list)}
		covered := 0
		var spans [][2]int
		for at := 0; at+n <= len(own.list); at++ {
			if !grams[own.gram(at, n)] {
				continue
			}
			if last := len(spans) - 1; last >= 0 && spans[last][1] >= at {
				covered += at + n - spans[last][1]
				spans[last][1] = at + n
			} else {
				covered += n
				spans = append(spans, [2]int{at, at + n})
			}
		}
		if !x.enough(covered, len(own.list)) {
			continue
		}
		hit.Share = float64(covered) / float64(len(own.list))
		for _, span := range spans[:min(len(spans), MostSpans)] {
			hit.Spans = append(hit.Spans, Span{span[0], span[1], own.span(span[0], span[1])})
		}
		out = append(out, hit)
	}
	for _, i := range whole {
		it := &x.items[i]
		own := wordsOf(it.item.Text)
		if slices.Contains(s.items, i) || !own.equal(words) {
			continue
		}
		out = append(out, Hit{
			Set: it.item.Set, Name: it.item.Name, Part: it.item.Part, Share: 1, Words: len(own.list),
			Spans: []Span{{0, len(own.list), own.span(0, len(own.list))}},
		})
	}
	return Best(out)
}

// Best brings hits of several indexes into order and keeps the first [MostHits].
func Best(hits []Hit) []Hit {
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(-cmp.Compare(a.Share, b.Share), cmp.Compare(a.Set, b.Set), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Part, b.Part))
	})
	return hits[:min(len(hits), MostHits)]
}

// spelled is a text with the places of its words.
type spelled struct {
	text, lower string
	list        [][2]int // in lower
	places      [][2]int // in text
}

func wordsOf(text string) *spelled {
	s := &spelled{text: normal(text)}
	var b strings.Builder
	eachWord(s.text, func(start, end int, _ uint64) {
		s.places = append(s.places, [2]int{start, end})
		at := b.Len()
		b.WriteString(strings.ToLower(s.text[start:end]))
		s.list = append(s.list, [2]int{at, b.Len()})
		b.WriteByte(' ')
	})
	s.lower = b.String()
	return s
}

// gram is n words from the i-th, with a space between two.
func (s *spelled) gram(i, n int) string { return s.lower[s.list[i][0]:s.list[i+n-1][1]] }

func (s *spelled) equal(o *spelled) bool { return s.lower == o.lower }

// span is some words as they are written, cut between two characters.
func (s *spelled) span(start, end int) string {
	t := s.text[s.places[start][0]:s.places[end-1][1]]
	if len(t) <= spanBytes {
		return t
	}
	cut := spanBytes
	for !utf8.RuneStart(t[cut]) {
		cut--
	}
	return t[:cut] + "…"
}
