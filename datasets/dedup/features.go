package dedup

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
)

// A Document is a text to compare.
type Document struct {
	// Order is the document's own number, the same however the documents are
	// spread over parts. Of two that say the same the one of the lower is kept.
	Order uint64
	// Text is what is compared.
	Text string
	// Context must be equal in two documents for them to be compared: of a
	// prompt a digest of system text, tools and images. 0 where there is none.
	Context uint64
	// Style says what is a value in the text.
	Style Style
}

// features are what is compared of a document.
type features struct {
	shingles []uint64 // hashes, sorted, each once
	fixed    uint64   // digest of context and values; equal in near-duplicates
	names    []uint32 // hashes of words with a capital inside a sentence, sorted, each once
	words    []uint32 // hashes of all words, sorted, each once
}

// named is a digest of the names.
func (f *features) named() uint64 {
	h := uint64(len(f.names))
	for _, n := range f.names {
		h = mix(h^uint64(n), 0x1d8e_4e27_c47d_124f)
	}
	return h
}

// An extractor turns documents into features. It is for one goroutine; what it
// returns is valid until the next document.
type extractor struct {
	shingle int
	values  bool
	scan    scanner
	style   Style
	tokens  []uint64
	valued  uint64
	sorted  []uint64
	counts  []int32
	f       features
}

func newExtractor(o NearOptions) *extractor {
	x := &extractor{shingle: o.Shingle, values: !o.AnyValues}
	x.scan.split = true
	return x
}

func (x *extractor) features(d *Document) *features {
	x.tokens, x.valued, x.style = x.tokens[:0], 0, d.Style
	x.f.names, x.f.words = x.f.names[:0], x.f.words[:0]
	text := composed(d.Text)
	x.scan.chunk = nil
	if x.values && d.Style == Verbatim {
		x.scan.chunk = x.formula
	}
	x.scan.scan(text, x.add)
	if len(x.tokens) == 0 { // punctuation alone, or nothing
		for _, chunk := range strings.Fields(text) {
			x.tokens = append(x.tokens, hashString(chunk))
		}
	}
	if x.values {
		x.quotations(text)
	}
	x.shingles()
	if x.values {
		slices.Sort(x.f.names)
		x.f.names = slices.Compact(x.f.names)
		x.tokens = x.distinct(x.tokens)
		for _, h := range x.tokens {
			x.f.words = append(x.f.words, word(h))
		}
	}
	x.f.fixed = mix(x.valued^0x51_7c_c1_b7_27_22_0a_95, d.Context)
	return &x.f
}

// word is what is kept of a token's hash: the first half, so that sorted hashes
// give sorted words.
func word(h uint64) uint32 { return uint32(h >> 32) }

// add takes the next token of the text.
func (x *extractor) add(t *token) {
	h := hash(t.form)
	x.tokens = append(x.tokens, h)
	if !x.values {
		return
	}
	switch {
	case t.kinds&(digit|symbol) != 0:
		if v := bare(t.form); worth(t, v) {
			x.value(hash(v))
		}
	case t.camel, decisive.has(h), x.style == Verbatim && letter(t):
		x.value(h)
	case t.kinds&upper != 0 && !t.first && !pronoun(t.form):
		x.f.names = append(x.f.names, word(h))
	}
}

// value adds to what must be equal in near-duplicates, in order.
func (x *extractor) value(h uint64) { x.valued = mix(x.valued^h, 0x9e37_79b9_7f4a_7c15) }

// formula takes a run without white space of a text of maths or code: with
// punctuation inside it, such as f(x), a[i] or os.path, it is a value as it
// is written.
func (x *extractor) formula(chunk string, kinds kind) {
	if kinds&punct == 0 || kinds&(lower|upper|wide) == 0 || kinds&(digit|symbol) != 0 {
		return // with digits or symbols its tokens are values
	}
	inner := strings.Trim(chunk, ".,;:!?()[]{}\"'*`")
	if strings.ContainsAny(inner, "()[]{}.:;,*/\\\"!?") {
		x.value(hashString(inner))
	}
}

// bare is the token without the punctuation of the sentence around it.
func bare(form []byte) []byte {
	for len(form) > 1 && strings.IndexByte(".,;:!?)]}\"'*", form[len(form)-1]) >= 0 {
		form = form[:len(form)-1]
	}
	for len(form) > 1 && strings.IndexByte("([{\"'*", form[0]) >= 0 {
		form = form[1:]
	}
	return form
}

// worth tells whether a token with a digit or a symbol is a value. Symbols
// that stand alone are, where they are operators; rules of tables, headings and
// emoji are not.
func worth(t *token, v []byte) bool {
	if t.kinds&(digit|lower|upper|wide) != 0 {
		return true
	}
	for _, r := range string(v) {
		if strings.ContainsRune("+-*/=<>^%&$€£¥×÷±√∑∏∫≤≥≠≈∞∈∉⊂∪∩¬∧∨→", r) {
			return true
		}
	}
	return false
}

// letter tells a word of one letter that is a name in maths and code.
func letter(t *token) bool {
	return len(t.form) == 1 && t.form[0] != 'a' && t.form[0] != 'i' && !t.tail
}

func pronoun(form []byte) bool { return len(form) == 1 && form[0] == 'i' }

// decisive are words that turn or count what a sentence says. "one" is not
// among them: it is a pronoun more often than a number.
var decisive = func() (set hashSet) {
	for _, w := range strings.Fields(`
		not no never without cannot nor neither except unless
		isn aren wasn weren don doesn didn won wouldn couldn shouldn hasn haven hadn mustn
		zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
		seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
		hundred thousand million billion trillion dozen half twice double triple thrice quarter third
		true false null none
		不 没 未 非 零 〇 二 三 四 五 六 七 八 九 十 百 千 万 亿 两`) {
		set.add(hashString(w))
	}
	return set
}()

// A hashSet is a small set of hashes, at most half full.
type hashSet [512]uint64

func (s *hashSet) add(h uint64) {
	i := h % uint64(len(s))
	for s[i] != 0 && s[i] != h {
		i = (i + 1) % uint64(len(s))
	}
	s[i] = h
}

func (s *hashSet) has(h uint64) bool {
	for i := h % uint64(len(s)); s[i] != 0; i = (i + 1) % uint64(len(s)) {
		if s[i] == h {
			return true
		}
	}
	return false
}

const (
	longestQuotation = 80   // bytes of a quotation that is a value; longer ones are text
	farthestQuote    = 4096 // bytes in which the closing mark is looked for
)

// quoteMarks are the marks that open a quotation and those that close it.
var quoteMarks = [...][2]string{{`"`, `"`}, {"`", "`"}, {"'", "'"}, {"“", "”"}, {"「", "」"}, {"«", "»"}}

// opening tells which quotation begins at text[i], or -1.
func opening(text string, i int) int {
	switch text[i] {
	case '"':
		return 0
	case '`':
		return 1
	case '\'':
		if i == 0 || strings.IndexByte(" \t\n([{,:=", text[i-1]) >= 0 {
			return 2
		}
	case 0xe2, 0xe3, 0xc2:
		for m := 3; m < len(quoteMarks); m++ {
			if strings.HasPrefix(text[i:], quoteMarks[m][0]) {
				return m
			}
		}
	}
	return -1
}

// quotations makes values of short texts between quotation marks or backticks:
// the arguments of a call, the strings of a JSON text, the word that is asked
// about.
func (x *extractor) quotations(text string) {
	var absent [len(quoteMarks)]int // before where there is no closing mark
	for i := 0; i < len(text); {
		m := opening(text, i)
		if m < 0 {
			i++
			continue
		}
		i += len(quoteMarks[m][0])
		closing := quoteMarks[m][1]
		from, to := max(i, absent[m]), min(len(text), i+farthestQuote)
		if from >= to {
			continue
		}
		end := strings.Index(text[from:to], closing)
		if end < 0 {
			absent[m] = max(from, to-len(closing)+1)
			continue
		}
		end += from
		if m == 2 && !closes(text, i, end-i) {
			continue
		}
		if end > i && end-i <= longestQuotation {
			x.value(hashString(strings.Trim(text[i:end], " .,;:!?")))
		}
		i = end + len(closing)
	}
}

// closes tells whether the apostrophe at the end of text[i:i+length] ends a
// quotation: don't is none.
func closes(text string, i, length int) bool {
	if length == 0 || length > longestQuotation || text[i] == ' ' || text[i+length-1] == ' ' {
		return false
	}
	end := i + length + 1
	return end == len(text) || ascii[text[end]]&(lower|upper|digit|wide) == 0
}

// shingles makes the set of shingles of the tokens: hashes of every so many
// tokens in a row, and of all of them where there are fewer.
func (x *extractor) shingles() {
	out := x.f.shingles[:0]
	n := min(x.shingle, len(x.tokens))
	for i := 0; n > 0 && i+n <= len(x.tokens); i++ {
		h := uint64(0x2545_f491_4f6c_dd1d)
		for _, t := range x.tokens[i : i+n] {
			h = mix(h^t, 0x9fb2_1c65_1e98_df25)
		}
		out = append(out, h)
	}
	x.f.shingles = x.distinct(out)
}

// distinct sorts hashes and drops repeated ones, within s.
func (x *extractor) distinct(s []uint64) []uint64 {
	if len(s) < 128 {
		slices.Sort(s)
		return slices.Compact(s)
	}
	// Hashes are spread evenly, so a bucket for each of the first bits holds a
	// few of them.
	shift := 64 - min(bits.Len(uint(len(s)))-2, 16)
	buckets := 1 << (64 - shift)
	if cap(x.counts) < buckets {
		x.counts = make([]int32, buckets)
	}
	counts := x.counts[:buckets]
	clear(counts)
	for _, h := range s {
		counts[h>>shift]++
	}
	at := int32(0)
	for i, n := range counts {
		counts[i] = at
		at += n
	}
	x.sorted = slices.Grow(x.sorted[:0], len(s))[:len(s)]
	for _, h := range s {
		x.sorted[counts[h>>shift]] = h
		counts[h>>shift]++
	}
	out, start := s[:0], int32(0)
	for _, end := range counts {
		bucket := x.sorted[start:end]
		start = end
		slices.Sort(bucket)
		out = append(out, slices.Compact(bucket)...)
	}
	return out
}

// mix folds a 128-bit product, as wyhash does.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xa076_1d64_78bd_642f, b^0xe703_7ed1_a0b4_28db)
	return hi ^ lo
}

// hash is the same on every machine and in every version.
func hash(b []byte) uint64 {
	h := uint64(len(b))
	for len(b) >= 8 {
		h = mix(h^binary.LittleEndian.Uint64(b), 0x8ebc_6af0_9c88_c6e3)
		b = b[8:]
	}
	var last uint64
	for i, c := range b {
		last |= uint64(c) << (8 * i)
	}
	return mix(h^last, 0x5899_65cc_7537_4cc3)
}

func hashString(s string) uint64 {
	h := uint64(len(s))
	for len(s) >= 8 {
		h = mix(h^(uint64(s[0])|uint64(s[1])<<8|uint64(s[2])<<16|uint64(s[3])<<24|uint64(s[4])<<32|uint64(s[5])<<40|uint64(s[6])<<48|uint64(s[7])<<56), 0x8ebc_6af0_9c88_c6e3)
		s = s[8:]
	}
	var last uint64
	for i := range len(s) {
		last |= uint64(s[i]) << (8 * i)
	}
	return mix(h^last, 0x5899_65cc_7537_4cc3)
}
