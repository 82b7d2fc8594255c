// Package contamination finds training prompts that hold items of evaluation
// sets.
//
//	b := contamination.NewBuilder(contamination.Options{})
//	b.Add(contamination.Item{Set: "gsm8k/test.jsonl", Name: "test.jsonl:1", Part: "question", Text: question})
//	index := b.Build()
//	for _, hit := range index.Scanner().Match(prompt) {
//		// hit.Share of the item's words stand in this one prompt
//	}
//
// A text is read as words: runs of letters and digits in lower case, with every
// punctuation mark and symbol as a space, as decontamination for GPT-3 and
// later datasets does it (Brown et al. 2020, appendix C; Open-R1's
// decontaminate.py and the Tülu 3 report use 8-grams). Where a script writes no
// spaces, each of its characters is a word.
//
// An item is found in a prompt where more than a share (half) of the item's
// words is covered by the union of the spans of n or more words that both have.
// The share is the item's, so a long prompt around an item does not hide it, and
// it is of one prompt, so that sentences which many prompts share accuse none.
// An item of fewer than n words is found only in a prompt that is the same words
// and nothing else.
//
// An n-gram that more than [Options.Common] items share is their template: it
// counts where another n-gram of the item is found too, and accuses nobody by
// itself.
//
// Everything is a function of the texts: two machines find the same. An index
// holds one slice of the items and takes about 45 bytes a word of them.
package contamination

import (
	"cmp"
	"math/bits"
	"slices"
)

// Version names the definition above. It changes when the same texts may give
// other hits.
const Version = "1"

// Defaults of [Options].
const (
	DefaultN      = 8   // words; Tülu 3 (Lambert et al. 2024, section 3.2) and Open-R1
	DefaultShare  = 0.5 // of an item's words; Tülu 3, section 3.2
	DefaultCommon = 50  // items
)

// Bounds of [Options.N]. One word is a vocabulary and no match.
const (
	LeastN = 2
	MostN  = 64
)

// SliceWords is how many words of items one index should hold: about 190 MB.
// Whoever has more builds several indexes and asks each.
const SliceWords = 1 << 22

// Bounds of what is kept of one prompt's hits.
const (
	MostHits  = 8   // items, those with the largest share
	MostSpans = 8   // of a hit, in the order of the item
	spanBytes = 400 // of a span's text
)

// Options say what counts as a match. The zero value is the default.
type Options struct {
	// N is how many words in a row make a match; default 8.
	N int
	// Share is the share of an item's words that must be exceeded, from 0 to
	// below 1; nil is 0.5.
	Share *float64
	// Common is the largest number of items that share an n-gram which accuses by
	// itself; default 50.
	Common int
}

func (o Options) filled() Options {
	o.N = cmp.Or(o.N, DefaultN)
	o.Common = cmp.Or(o.Common, DefaultCommon)
	if o.Share == nil {
		share := DefaultShare
		o.Share = &share
	}
	return o
}

// An Item is one text of an evaluation set.
type Item struct {
	Set  string // such as the file's name
	Name string // within the set, such as test.jsonl:419
	Part string // which text of the item: question or answer
	Text string
}

// A Hit is an item that a prompt holds.
type Hit struct {
	Set, Name, Part string
	Share           float64 // of the item's words that are covered, above 0 and at most 1
	Words           int     // of the item
	// Spans are where the prompt covers the item, in the item's order.
	Spans []Span
}

// A Span is a run of an item's words that stands in the prompt.
type Span struct {
	Start, End int    // words of the item, from 0; End is the first one after it
	Text       string // as the item writes it, cut to a few hundred bytes
}

// An indexed is an item in an index.
type indexed struct {
	item  Item
	first int // of its words in Index.words
	words int
}

// A Builder collects the items of one index.
type Builder struct {
	options Options
	items   []indexed
	words   []uint64 // hashes of the items' words, one item after the other
	seen    map[[2]uint64]bool
	scratch []uint64
	empty   int
}

// NewBuilder makes a builder. Options out of range are brought into it.
func NewBuilder(o Options) *Builder {
	o = o.filled()
	o.N = min(max(o.N, LeastN), MostN)
	return &Builder{options: o, seen: map[[2]uint64]bool{}}
}

// Add takes an item. The same words again, under whatever name, are one item:
// the first. An item without any word can match nothing; Empty counts those.
func (b *Builder) Add(item Item) {
	b.scratch = appendWords(b.scratch[:0], item.Text)
	if len(b.scratch) == 0 {
		b.empty++
		return
	}
	key := [2]uint64{hashAll(b.scratch, 0), hashAll(b.scratch, 1)}
	if b.seen[key] {
		return
	}
	b.seen[key] = true
	b.items = append(b.items, indexed{item: item, first: len(b.words), words: len(b.scratch)})
	b.words = append(b.words, b.scratch...)
}

// Words is how many words the items have so far.
func (b *Builder) Words() int { return len(b.words) }

// Items is how many different items there are so far.
func (b *Builder) Items() int { return len(b.items) }

// Empty is how many items had no word.
func (b *Builder) Empty() int { return b.empty }

// Build makes the index. The builder is not to be used any more.
func (b *Builder) Build() *Index {
	x := &Index{options: b.options, items: b.items, words: b.words, whole: map[uint64][]int32{}}
	n := b.options.N
	var grams []posting
	for i := range x.items {
		it := &x.items[i]
		words := x.words[it.first : it.first+it.words]
		whole := hashAll(words, 0)
		x.whole[whole] = append(x.whole[whole], int32(i))
		at := len(grams)
		eachGram(words, n, func(_ int, h uint64) bool {
			grams = append(grams, posting{h, int32(i)})
			return true
		})
		own := grams[at:] // an item that says something twice has it once
		slices.SortFunc(own, comparePostings)
		grams = grams[:at+len(slices.Compact(own))]
	}
	slices.SortFunc(grams, comparePostings)
	x.fill(grams)
	return x
}

// A posting says that an item has an n-gram.
type posting struct {
	gram uint64
	item int32
}

func comparePostings(a, b posting) int {
	return cmp.Or(cmp.Compare(a.gram, b.gram), cmp.Compare(a.item, b.item))
}

// An Index finds the items of one slice. It is safe for concurrent use, by a
// [Scanner] of each goroutine.
type Index struct {
	options Options
	items   []indexed
	words   []uint64
	whole   map[uint64][]int32 // items by the hash of all of their words

	// The n-grams that accuse, in a table with open addressing: gram i has the
	// postings list[from[i]:from[i+1]]. A bit for each keeps most of the words of
	// clean prompts out of the table, which is larger than a processor's caches.
	keys []uint64
	at   []uint32
	mask uint64
	from []uint32
	list []int32
	bits []uint64
}

// fill builds the table of sorted postings.
func (x *Index) fill(grams []posting) {
	different := 0
	for i := range grams {
		if i == 0 || grams[i].gram != grams[i-1].gram {
			different++
		}
	}
	size := uint64(1) << bits.Len64(uint64(2*different))
	x.keys, x.at, x.mask = make([]uint64, size), make([]uint32, size), size-1
	x.bits = make([]uint64, max(1, size/8))
	x.from = append(make([]uint32, 0, different+1), 0)
	for len(grams) > 0 {
		n := 1
		for n < len(grams) && grams[n].gram == grams[0].gram {
			n++
		}
		if n <= x.options.Common {
			x.insert(grams[0].gram, uint32(len(x.from)-1))
			for _, p := range grams[:n] {
				x.list = append(x.list, p.item)
			}
			x.from = append(x.from, uint32(len(x.list)))
		}
		grams = grams[n:]
	}
}

// insert puts a gram into the table; 0 marks a free place and is no gram.
func (x *Index) insert(gram uint64, n uint32) {
	bit := x.bit(gram)
	x.bits[bit/64] |= 1 << (bit % 64)
	for i := gram & x.mask; ; i = (i + 1) & x.mask {
		if x.keys[i] == 0 {
			x.keys[i], x.at[i] = gram, n
			return
		}
	}
}

// bit is a gram's place among the bits: of other bits than its place in the
// table.
func (x *Index) bit(gram uint64) uint64 { return (gram >> 32) % uint64(64*len(x.bits)) }

// find gives the items that have a gram which accuses.
func (x *Index) find(gram uint64) []int32 {
	if bit := x.bit(gram); x.bits[bit/64]>>(bit%64)&1 == 0 {
		return nil
	}
	for i := gram & x.mask; x.keys[i] != 0; i = (i + 1) & x.mask {
		if x.keys[i] == gram {
			n := x.at[i]
			return x.list[x.from[n]:x.from[n+1]]
		}
	}
	return nil
}

// Items is how many items the index holds.
func (x *Index) Items() int { return len(x.items) }
