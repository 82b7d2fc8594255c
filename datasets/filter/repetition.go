package filter

import (
	"strings"
	"unicode"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// Reasons of the repetition filter.
const (
	ReasonLoop       = "repetition:loop"      // a few characters over and over
	ReasonSentences  = "repetition:sentence"  // a sentence or a line
	ReasonParagraphs = "repetition:paragraph" // a paragraph
	ReasonGopher     = "repetition:gopher"    // Gopher's shares, where they are asked for
)

// The limits for reasoning traces of open-instruct
// (scripts/data/filtering_and_updates/filter_ngram_repetitions.py). What looks
// like mathematics or code may repeat twice as often there, and what is an
// entry of a list three times.
const (
	paragraphsRepeated  = 10
	sentencesInARow     = 4
	sentencesRepeated   = 40
	technicalFactor     = 2
	listFactor          = 3
	shortestSentence    = 10 // characters; shorter ones repeat in good prose
	shortestParagraph   = 20
	repetitionTextBytes = 16 << 20 // of a text that is looked at; what follows is not
)

// repetition keeps answers that go on. Each of reasoning and answer is looked
// at by itself.
type repetition struct {
	paragraphs, consecutive, total int
	loop, gopher                   bool
}

func newRepetition(o *options.Set) Filter {
	f := &repetition{
		paragraphs: limit(o, "paragraphs", paragraphsRepeated), consecutive: limit(o, "consecutive", sentencesInARow), total: limit(o, "total", sentencesRepeated),
		loop: o.Bool("loop", true), gopher: o.Bool("gopher", false),
	}
	return f
}

// limit is a number of repeats, of 2 or more.
func limit(o *options.Set, name string, def int) int {
	n := o.Int(name, int64(def))
	if n < 2 || n > 1<<20 {
		o.Fail(name, "is %d, and must be 2 to %d repeats", n, 1<<20)
		return def
	}
	return int(n)
}

func (*repetition) Name() string    { return "repetition" }
func (*repetition) Version() string { return "1" }

func (f *repetition) Reject(in *Input) string {
	factor := 1
	if technical(in.Candidate.Domain) {
		factor = technicalFactor
	}
	for _, text := range []string{in.Candidate.Content(), in.reasoning()} {
		text = text[:min(len(text), repetitionTextBytes)]
		if reason := f.of(text, factor); reason != "" {
			return reason
		}
	}
	// What is written into a tool call can run away as well.
	for _, call := range in.message().ToolCalls {
		if f.loop && loops(call.Arguments[:min(len(call.Arguments), repetitionTextBytes)]) {
			return ReasonLoop
		}
	}
	return ""
}

func (f *repetition) of(text string, factor int) string {
	switch {
	case f.loop && loops(text):
		return ReasonLoop
	case f.sentences(text, factor):
		return ReasonSentences
	case f.repeatsParagraph(text, factor):
		return ReasonParagraphs
	case f.gopher && gopherRepeats(text):
		return ReasonGopher
	}
	return ""
}

// sentences tells whether a sentence or a line comes too often, in a row or
// altogether.
func (f *repetition) sentences(text string, factor int) bool {
	least := min(f.consecutive, f.total)
	counts := map[string]int{}
	last, row := "", 0
	for s := range sentencesOf(text) {
		if !longEnough(s, shortestSentence) {
			last, row = "", 0
			continue
		}
		if s == last {
			row++
		} else {
			last, row = s, 1
		}
		counts[s]++
		if row < least && counts[s] < least {
			continue
		}
		of := factorOf(s, factor)
		if row >= f.consecutive*of || counts[s] >= f.total*of {
			return true
		}
	}
	return false
}

func (f *repetition) repeatsParagraph(text string, factor int) bool {
	counts := map[string]int{}
	for p := range strings.SplitSeq(text, "\n\n") {
		p = strings.TrimSpace(p)
		if !longEnough(p, shortestParagraph) {
			continue
		}
		counts[p]++
		if counts[p] >= f.paragraphs && counts[p] >= f.paragraphs*factorOf(p, factor) {
			return true
		}
	}
	return false
}

// sentencesOf are the sentences and lines of a text, in their order.
func sentencesOf(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.SplitSeq(text, "\n") {
			line = withoutNumber(strings.TrimSpace(line))
			for s := range strings.FieldsFuncSeq(line, endsSentence) {
				if s = strings.TrimSpace(s); s != "" && !yield(s) {
					return
				}
			}
		}
	}
}

// withoutNumber is a line without the number of a list's entry.
func withoutNumber(line string) string {
	rest := strings.TrimLeft(line, "0123456789")
	if rest != line && (strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") ")) {
		return rest[2:]
	}
	return line
}

func endsSentence(r rune) bool {
	switch r {
	case '.', '!', '?', '。', '！', '？', '।', '؟', '…':
		return true
	}
	return false
}

// longEnough tells whether a text has n characters or more, and a letter or a
// digit among them: rules and empty rows of tables are no sentences.
func longEnough(s string, n int) bool {
	word := false
	for _, r := range s {
		n--
		word = word || unicode.IsLetter(r) || unicode.IsDigit(r)
		if n <= 0 && word {
			return true
		}
	}
	return false
}

// factorOf is by how much a sentence or a paragraph may come more often.
func factorOf(s string, technicalDomain int) int {
	factor := technicalDomain
	if factor == 1 && strings.ContainsAny(s, `=+*/^<>{}[]|\_`) {
		factor = technicalFactor
	}
	if isEntry(s) {
		factor = max(factor, listFactor)
	}
	return factor
}

// isEntry tells whether a text begins as an entry of a list.
func isEntry(s string) bool {
	if rest := strings.TrimLeft(s, "-*•+|"); rest != s {
		return strings.HasPrefix(rest, " ") || s[0] == '|'
	}
	rest := strings.TrimLeft(s, "0123456789")
	return rest != s && (strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") "))
}
