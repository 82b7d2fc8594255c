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

// An extractor turns documents into features. It is for one goroutine; what it
// returns is valid until the next document.
type extractor struct {
	shingle int
	values  bool
	scan    scanner
	style   Style
	tokens  []uint64
	valued  uint64
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
		x.f.names, x.f.words = distinct(x.f.names), distinct(x.f.words)
	}
	x.f.fixed = mix(x.valued^0x51_7c_c1_b7_27_22_0a_95, d.Context)
	x.shingles()
	return &x.f
}

// add takes the next token of the text.
func (x *extractor) add(t *token) {
	h := hash(t.form)
	x.tokens = append(x.tokens, h)
	if !x.values {
		return
	}
	x.f.words = append(x.f.words, uint32(h))
	switch {
	case t.kinds&(digit|symbol) != 0:
		if v := bare(t.form); worth(t, v) {
			x.value(hash(v))
		}
	case t.camel, len(t.form) < 12 && decisive[string(t.form)], x.style == Verbatim && letter(t):
		x.value(h)
	case t.kinds&upper != 0 && !t.first && !pronoun(t.form):
		x.f.names = append(x.f.names, uint32(h))
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
	return len(t.form) == 1 && t.form[0] != 'a' && t.form[0] != 'i'
}

func pronoun(form []byte) bool { return len(form) == 1 && form[0] == 'i' }

// decisive are words that turn or count what a sentence says. "one" is not
// among them: it is a pronoun more often than a number.
var decisive = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`
		not no never without cannot nor neither except unless
		isn aren wasn weren don doesn didn won wouldn can couldn shouldn hasn haven hadn mustn
		zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
		seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
		hundred thousand million billion trillion dozen half twice double triple thrice quarter third
		true false null none
		不 没 没有 未 非 零 〇 二 三 四 五 六 七 八 九 十 百 千 万 亿 两`) {
		m[w] = true
	}
	// The stem of can't is also a word of its own.
	delete(m, "can")
	return m
}()

const (
	longestQuotation = 80   // bytes of a quotation that is a value; longer ones are text
	farthestQuote    = 4096 // bytes in which the closing mark is looked for
)

// quotations makes values of short texts between quotation marks or backticks:
// the arguments of a call, the strings of a JSON text, the word that is asked
// about.
func (x *extractor) quotations(text string) {
	for i := 0; i < len(text); {
		closing := ""
		n := 1
		switch text[i] {
		case '"':
			closing = `"`
		case '`':
			closing = "`"
		case '\'':
			if i == 0 || strings.IndexByte(" \t\n([{,:=", text[i-1]) >= 0 {
				closing = "'"
			}
		case 0xe2:
			if strings.HasPrefix(text[i:], "“") {
				closing, n = "”", len("“")
			}
		case 0xe3:
			if strings.HasPrefix(text[i:], "「") {
				closing, n = "」", len("「")
			}
		case 0xc2:
			if strings.HasPrefix(text[i:], "«") {
				closing, n = "»", len("«")
			}
		}
		i++
		if closing == "" {
			continue
		}
		i += n - 1
		length := strings.Index(text[i:min(len(text), i+farthestQuote)], closing)
		if length < 0 || closing == "'" && !closes(text, i, length) {
			continue
		}
		if length > 0 && length <= longestQuotation {
			x.value(hashString(strings.Trim(text[i:i+length], " .,;:!?")))
		}
		i += length + len(closing)
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
	x.f.shingles = distinct(out)
}

func distinct[T uint32 | uint64](s []T) []T {
	slices.Sort(s)
	return slices.Compact(s)
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
