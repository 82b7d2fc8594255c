package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// Style is how a teacher answers, whatever it answers.
type Style struct {
	Answers   int64  `json:"answers" jsonschema:"description=with a text"`
	Length    Spread `json:"length" jsonschema:"description=of the answer in code points"`
	Reasoning Spread `json:"reasoning" jsonschema:"description=of the reasoning in code points; of the answers that have any"`
	Reasoned  int64  `json:"reasoned" jsonschema:"description=answers with a reasoning"`
	TTFT      Spread `json:"ttft_ms" jsonschema:"description=request sent to first token in ms"`
	Latency   Spread `json:"latency_ms" jsonschema:"description=request sent to answer whole in ms"`

	// What follows is of a sample of the answers, the same for the same answers.
	Sample     int      `json:"sample" jsonschema:"description=answers that the figures below are of; all or 1000"`
	Distinct1  *float64 `json:"distinct_1,omitempty" jsonschema:"description=different words over words; of the first 50 words of answers that have so many; absent below ten of them"`
	Distinct2  *float64 `json:"distinct_2,omitempty" jsonschema:"description=different pairs of neighbouring words over pairs; as distinct_1"`
	Similarity *float64 `json:"self_similarity,omitempty" jsonschema:"description=mean Jaccard similarity of the words of answers to different prompts; absent below two"`
	Common     float64  `json:"most_common" jsonschema:"description=share of the answers that are the one answer given most often; white space and case apart"`
	Repeats    float64  `json:"repeats" jsonschema:"description=share of the answers in which a line of ten characters or more comes four times or more"`
	Scripts    []Script `json:"scripts,omitempty" jsonschema:"description=answers by the script that most of their letters are of"`
	Alarm      string   `json:"alarm,omitempty" jsonschema:"description=what no reader should miss: one answer to everything"`
}

// A Spread is some percentiles; null over nothing.
type Spread struct {
	P50 *int64 `json:"p50" jsonschema:"nullable"`
	P95 *int64 `json:"p95" jsonschema:"nullable"`
	P99 *int64 `json:"p99" jsonschema:"nullable"`
}

// A Script counts answers.
type Script struct {
	Script  string `json:"script"`
	Answers int    `json:"answers"`
}

const (
	// styleSample is how many answers of a teacher are looked at closely.
	styleSample = 1000
	// styleText is how much of each, in bytes.
	styleText = 2 << 10
	// distinctWords is how many words of an answer distinct-n is of: longer texts
	// have fewer new words, so that lengths must be equal. Li et al., A
	// diversity-promoting objective function, 2016.
	distinctWords = 50
	// similarPairs bounds the pairs that are compared.
	similarPairs = 20_000

	// constantShort and constantLong are the shares of one answer from which it is
	// an alarm. Tasks may have few answers that are short (yes, no, B).
	constantShort   = 0.8
	constantLong    = 0.2
	constantLongAt  = 40 // code points
	constantAnswers = 20 // fewer say nothing
)

// A manner collects how one teacher answers.
type manner struct {
	efforts map[string]*measured
	picks   []pick // by key
}

// A pick is an answer of the sample: those whose samples have the smallest
// hashes are in it, whatever order they come in.
type pick struct {
	key  uint64
	task string
	text string
	sum  [16]byte // of the whole answer, white space and case apart
	n    int      // code points of it
}

func (m *manner) add(c *datasets.Candidate) {
	answer, effort := c.Answer(), m.at(c.Effort)
	if c.TTFTMS != nil {
		effort.ttft.add(*c.TTFTMS, 1)
	}
	if c.LatencyMS != nil && c.Error == nil {
		effort.latency.add(*c.LatencyMS, 1)
	}
	if answer == nil {
		return
	}
	if r := answer.ReasoningContent; r != nil && *r != "" {
		effort.reasoning.add(int64(utf8.RuneCountInString(*r)), 1)
	}
	text := c.Content()
	if text == "" {
		return
	}
	effort.length.add(int64(utf8.RuneCountInString(text)), 1)
	hash := sha256.Sum256([]byte(c.SampleID + "\x00" + c.TaskID + "\x00" + c.Teacher))
	key := binary.BigEndian.Uint64(hash[:])
	if len(m.picks) == styleSample {
		if key >= m.picks[len(m.picks)-1].key {
			return
		}
		m.picks = m.picks[:len(m.picks)-1]
	}
	p := pick{key: key, task: strings.Clone(c.TaskID), text: strings.Clone(clipped(text, styleText)), n: utf8.RuneCountInString(text)}
	whole := sha256.Sum256([]byte(plainText(text)))
	copy(p.sum[:], whole[:])
	at, _ := slices.BinarySearchFunc(m.picks, p, func(a, b pick) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.task, b.task))
	})
	m.picks = slices.Insert(m.picks, at, p)
}

// clipped is the beginning of s, whole characters.
func clipped(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// plainText is s without what does not make it another answer.
func plainText(s string) string {
	return strings.ToLower(strings.Join(strings.Fields(norm.NFC.String(s)), " "))
}

func (m *manner) spread(s *sketch) Spread {
	return Spread{s.quantile(50), s.quantile(95), s.quantile(99)}
}

func (m *manner) style() *Style {
	all := m.all()
	if all.length.total == 0 {
		return nil
	}
	s := &Style{
		Answers: all.length.total, Length: m.spread(&all.length), Reasoning: m.spread(&all.reasoning), Reasoned: all.reasoning.total,
		TTFT: m.spread(&all.ttft), Latency: m.spread(&all.latency), Sample: len(m.picks),
	}
	s.Distinct1, s.Distinct2 = m.distinct()
	s.Similarity = m.similarity()
	m.common(s)
	scripts := map[string]int{}
	for _, p := range m.picks {
		if repeats(p.text) {
			s.Repeats += 1 / float64(len(m.picks))
		}
		scripts[scriptOf(p.text)]++
	}
	for name, n := range scripts {
		s.Scripts = append(s.Scripts, Script{name, n})
	}
	slices.SortFunc(s.Scripts, func(a, b Script) int {
		return cmp.Or(cmp.Compare(b.Answers, a.Answers), cmp.Compare(a.Script, b.Script))
	})
	return s
}

// distinct is distinct-1 and distinct-2.
func (m *manner) distinct() (one, two *float64) {
	words, pairs := map[string]bool{}, map[string]bool{}
	texts := 0
	for _, p := range m.picks {
		fields := strings.Fields(strings.ToLower(p.text))
		if len(fields) < distinctWords {
			continue
		}
		texts++
		for i, w := range fields[:distinctWords] {
			words[w] = true
			if i > 0 {
				pairs[fields[i-1]+" "+w] = true
			}
		}
	}
	if texts < 10 {
		return nil, nil
	}
	return ref(float64(len(words)) / float64(texts*distinctWords)), ref(float64(len(pairs)) / float64(texts*(distinctWords-1)))
}

// similarity compares answers that stand at growing distances in the sample,
// which is in the order of hashes: as good as at random.
func (m *manner) similarity() *float64 {
	sets := make([][]uint64, len(m.picks))
	for i, p := range m.picks {
		sets[i] = wordSet(p.text)
	}
	var sum float64
	n := 0
	for d := 1; d < len(sets) && n < similarPairs; d++ {
		for i := 0; i+d < len(sets) && n < similarPairs; i++ {
			if m.picks[i].task != m.picks[i+d].task {
				sum += jaccard(sets[i], sets[i+d])
				n++
			}
		}
	}
	if n == 0 {
		return nil
	}
	return ref(sum / float64(n))
}

// wordSet is the hashes of the words of a text, sorted.
func wordSet(text string) []uint64 {
	var out []uint64
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		// FNV-1a: a clash of two words moves a mean by nothing.
		h := uint64(14695981039346656037)
		for i := range len(w) {
			h = (h ^ uint64(w[i])) * 1099511628211
		}
		out = append(out, h)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func jaccard(a, b []uint64) float64 {
	both := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] < b[j]:
			i++
		case a[i] > b[j]:
			j++
		default:
			both++
			i++
			j++
		}
	}
	all := len(a) + len(b) - both
	if all == 0 {
		return 1
	}
	return float64(both) / float64(all)
}

// common finds the answer that is given most often, to different tasks.
func (m *manner) common(s *Style) {
	type given struct {
		tasks map[string]bool
		n     int
	}
	by := map[[16]byte]*given{}
	tasks := map[string]bool{}
	for _, p := range m.picks {
		if by[p.sum] == nil {
			by[p.sum] = &given{tasks: map[string]bool{}, n: p.n}
		}
		by[p.sum].tasks[p.task] = true
		tasks[p.task] = true
	}
	best, length := 0, 0
	for _, g := range by {
		if len(g.tasks) > best || len(g.tasks) == best && g.n > length {
			best, length = len(g.tasks), g.n
		}
	}
	s.Common = float64(best) / float64(len(tasks))
	bar := constantShort
	if length >= constantLongAt {
		bar = constantLong
	}
	if len(tasks) >= constantAnswers && s.Common >= bar {
		s.Alarm = "one answer to " + percent(s.Common) + " % of the prompts"
	}
}

// repeats tells whether a line comes again and again.
func repeats(text string) bool {
	seen := map[string]int{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); utf8.RuneCountInString(line) >= 10 {
			if seen[line]++; seen[line] >= 4 {
				return true
			}
		}
	}
	return false
}

// scriptTables are the scripts that are told apart.
var scriptTables = []struct {
	name  string
	table *unicode.RangeTable
}{
	{"Latin", unicode.Latin}, {"Cyrillic", unicode.Cyrillic}, {"Han", unicode.Han}, {"Kana", unicode.Hiragana}, {"Kana", unicode.Katakana},
	{"Hangul", unicode.Hangul}, {"Arabic", unicode.Arabic}, {"Devanagari", unicode.Devanagari}, {"Greek", unicode.Greek},
	{"Hebrew", unicode.Hebrew}, {"Thai", unicode.Thai}, {"Bengali", unicode.Bengali}, {"Tamil", unicode.Tamil},
}

// scriptOf is the script of most letters of a text; "none" where it has none.
func scriptOf(text string) string {
	counts := map[string]int{}
	for _, r := range text {
		if !unicode.IsLetter(r) {
			continue
		}
		name := "other"
		for _, s := range scriptTables {
			if unicode.Is(s.table, r) {
				name = s.name
				break
			}
		}
		counts[name]++
	}
	best, most := "none", 0
	for name, n := range counts {
		if n > most || n == most && name < best {
			best, most = name, n
		}
	}
	return best
}

// styleNotes say what no figure says loud enough.
func styleNotes(t *Teacher) []string {
	if t.Style == nil || t.Style.Alarm == "" {
		return nil
	}
	return []string{"ALARM: " + clean(t.Teacher) + " gives " + t.Style.Alarm + ". Whatever a judge prefers, that is no answer to them."}
}
