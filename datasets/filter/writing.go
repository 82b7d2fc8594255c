package filter

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/abadojack/whatlanggo"
)

const (
	// leastLetters is how many letters tell a script. A character that stands
	// for a syllable or a word weighs as three letters.
	leastLetters = 6
	syllable     = 3
	// dominant is the share of a text's letters that make their script its own:
	// what language filters commonly ask of a classifier (fastText, 0.65).
	dominant = 0.65
	// Languages that share a script are told apart by trigrams, which takes
	// some text.
	leastForTrigrams = 120 // letters
	leastWords       = 20
	// sampleBytes is how much of a text's prose is looked at.
	sampleBytes = 4 << 10
	// trigramBytes is how much of that the trigrams are taken from.
	trigramBytes = 1 << 10
)

// A script is a writing system, or several that one language uses together.
type script int

const (
	scriptNone script = iota
	scriptLatin
	scriptCyrillic
	scriptHan
	scriptKana // Japanese: Han characters and kana
	scriptHangul
	scriptArabic
	scriptHebrew
	scriptDevanagari
	scriptGreek
	scriptThai
	scriptOther
	scripts
)

// shared tells that several languages use the script.
func (s script) shared() bool {
	switch s {
	case scriptLatin, scriptCyrillic, scriptArabic, scriptDevanagari:
		return true
	}
	return false
}

// scriptOf is the script of a letter.
func scriptOf(r rune) script {
	switch {
	case r < 0x80, r >= 0xC0 && r <= 0x24F, r >= 0x1E00 && r <= 0x1EFF:
		return scriptLatin
	case r >= 0x370 && r <= 0x3FF, r >= 0x1F00 && r <= 0x1FFF:
		return scriptGreek
	case r >= 0x400 && r <= 0x52F:
		return scriptCyrillic
	case r >= 0x590 && r <= 0x5FF:
		return scriptHebrew
	case r >= 0x600 && r <= 0x6FF, r >= 0x750 && r <= 0x77F, r >= 0x8A0 && r <= 0x8FF, r >= 0xFB50 && r <= 0xFDFF, r >= 0xFE70 && r <= 0xFEFF:
		return scriptArabic
	case r >= 0x900 && r <= 0x97F:
		return scriptDevanagari
	case r >= 0xE00 && r <= 0xE7F:
		return scriptThai
	case r >= 0x3041 && r <= 0x30FF, r >= 0x31F0 && r <= 0x31FF, r >= 0xFF66 && r <= 0xFF9D:
		return scriptKana
	case r >= 0x3400 && r <= 0x4DBF, r >= 0x4E00 && r <= 0x9FFF, r >= 0xF900 && r <= 0xFAFF, r >= 0x20000 && r <= 0x3134F:
		return scriptHan
	case r >= 0xAC00 && r <= 0xD7A3, r >= 0x1100 && r <= 0x11FF, r >= 0x3130 && r <= 0x318F:
		return scriptHangul
	case unicode.Is(unicode.Latin, r): // full-width and rarer letters
		return scriptLatin
	}
	return scriptOther
}

// A writing is what is known of a text's prose.
type writing struct {
	counts [scripts]int // letters by script, with their weights
	words  int
	prose  string
}

// read reads the prose of a text: no code, formulas, addresses or markup, and
// no more than sampleBytes of it.
func read(text string) *writing {
	w := &writing{prose: prose(text)}
	inWord := false
	for _, r := range w.prose {
		// Signs of mathematics such as π are letters of Greek; alone they say nothing.
		if !unicode.IsLetter(r) {
			inWord = inWord && unicode.IsMark(r)
			continue
		}
		if !inWord {
			w.words++
		}
		inWord = true
		switch s := scriptOf(r); s {
		case scriptHan, scriptKana, scriptHangul:
			w.counts[s] += syllable
		default:
			w.counts[s]++
		}
	}
	if w.counts[scriptKana] > 0 && w.counts[scriptKana]*10 >= w.counts[scriptHan] {
		w.counts[scriptKana] += w.counts[scriptHan]
		w.counts[scriptHan] = 0
	}
	return w
}

func (w *writing) letters() int {
	n := 0
	for _, c := range w.counts {
		n += c
	}
	return n
}

// script is the script of the text, scriptNone where none prevails.
func (w *writing) script() script {
	all := w.letters()
	if all < leastLetters {
		return scriptNone
	}
	for s, n := range w.counts {
		if float64(n) >= dominant*float64(all) && script(s) != scriptOther {
			return script(s)
		}
	}
	return scriptNone
}

// languages are the codes that language gives, sorted.
var languages = []string{
	"ar", "bg", "cs", "da", "de", "el", "en", "es", "fa", "fi", "fr", "he", "hi", "hr", "hu", "id", "it", "ja", "ko", "mr", "nb", "ne", "nl", "pl", "pt", "ro", "ru", "sr", "sv", "th", "tr", "uk", "ur", "vi", "zh",
}

// trigramLanguages are those that trigrams tell apart. Few languages make few
// mistakes: of pairs that hardly differ in writing, only the larger is here.
var trigramLanguages = map[whatlanggo.Lang]string{
	whatlanggo.Eng: "en", whatlanggo.Deu: "de", whatlanggo.Fra: "fr", whatlanggo.Spa: "es", whatlanggo.Por: "pt", whatlanggo.Ita: "it",
	whatlanggo.Nld: "nl", whatlanggo.Swe: "sv", whatlanggo.Dan: "da", whatlanggo.Nob: "nb", whatlanggo.Fin: "fi", whatlanggo.Pol: "pl",
	whatlanggo.Ces: "cs", whatlanggo.Hun: "hu", whatlanggo.Ron: "ro", whatlanggo.Hrv: "hr", whatlanggo.Tur: "tr", whatlanggo.Vie: "vi", whatlanggo.Ind: "id",
	whatlanggo.Rus: "ru", whatlanggo.Ukr: "uk", whatlanggo.Bul: "bg", whatlanggo.Srp: "sr",
	whatlanggo.Arb: "ar", whatlanggo.Pes: "fa", whatlanggo.Urd: "ur",
	whatlanggo.Hin: "hi", whatlanggo.Mar: "mr", whatlanggo.Nep: "ne",
}

var trigramOptions = func() whatlanggo.Options {
	o := whatlanggo.Options{Whitelist: map[whatlanggo.Lang]bool{}}
	for lang := range trigramLanguages {
		o.Whitelist[lang] = true
	}
	return o
}()

// language is the code of the text's language, "" where it cannot be told.
func (w *writing) language() string {
	s := w.script()
	switch s {
	case scriptHan:
		return "zh"
	case scriptKana:
		return "ja"
	case scriptHangul:
		return "ko"
	case scriptHebrew:
		return "he"
	case scriptGreek:
		return "el"
	case scriptThai:
		return "th"
	}
	if !s.shared() || w.counts[s] < leastForTrigrams || w.words < leastWords {
		return ""
	}
	// Two languages that are equally near make the confidence 0, so that the
	// library's order of equals is of no consequence.
	info := whatlanggo.DetectWithOptions(w.prose[:min(len(w.prose), trigramBytes)], trigramOptions)
	if info.Confidence < 1 {
		return ""
	}
	code := trigramLanguages[info.Lang]
	if little := w.littleWords(); little != code && (little != "" || hasLittleWords(code)) {
		return "" // a table, a list of names, or a mistake
	}
	return code
}

// littleShare is the share of a text's words that have to be little words of a
// language for them to speak for it: running text has about twice as many.
const littleShare = 0.15

// littleWords is the language of which the text has most little words, such as
// "the" and "of", or "" where it has few, as in tables and lists of names.
func (w *writing) littleWords() string {
	var counts [len(littleLanguages)]int
	words := 0
	for word := range strings.FieldsFuncSeq(w.prose, func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' }) {
		words++
		if len(word) > 8 {
			continue
		}
		for _, l := range littleWords[strings.ToLower(word)] {
			counts[l]++
		}
	}
	best, tie := 0, false
	for l, n := range counts {
		switch {
		case n > counts[best]:
			best, tie = l, false
		case n == counts[best] && l != best:
			tie = true
		}
	}
	if words == 0 || tie || float64(counts[best]) < littleShare*float64(words) {
		return ""
	}
	return littleLanguages[best].code
}

// littleLanguages are languages with their little words.
var littleLanguages = [...]struct{ code, words string }{
	{"en", "the of and to in is that it for was on are as with be this at by an or not from have but you your can will which their has if more what how they we i my me he she his her its there here would should could do does"},
	{"de", "der die das und in zu den ist nicht von mit sich des auf für im dem ein eine einer eines als auch es an werden aus er hat dass sie nach wird bei sind noch wie einem über so zum war haben nur oder aber vor zur bis mehr durch ich du wir ihr kann"},
	{"fr", "le la les de des du et à en un une est que qui dans pour pas par sur il elle au aux ce cette ne se sont avec plus ou mais nous vous je leur ses son sa être fait comme tout si été"},
	{"es", "el la los las de del y a en un una es que por para con no se su al lo como más o pero sus le ha me si sin sobre este esta ya entre cuando muy ser son también fue"},
	{"pt", "o a os as de do da dos das e em um uma é que por para com não se no na ao mais como mas foi sua seu ou são também pelo pela até isso ela ele entre depois sem mesmo"},
	{"it", "il lo la i gli le di del della dei delle e a in un una è che per con non si su al da come più ma o sono anche alla nel nella questo questa ha dal essere"},
	{"nl", "de het een en van in is dat op te zijn met voor niet aan er om ook als dan maar bij door uit naar ze hij wordt worden nog kan over deze of heeft hebben je ik wij"},
	{"sv", "och i att det som en på är av för med till den har de inte om ett han men var jag från vi så kan när nu ska eller man"},
	{"da", "og i at det er en af på til som for med de den har ikke et der var jeg han men om fra vi kan så eller skal blev når"},
	{"nb", "og i det er på en av til som for med de den har ikke et å var jeg han men om fra vi kan så eller skal ble når"},
	{"pl", "i w na z do nie się że jest to o jak po a ale od za przez dla są tego co czy ten już tym być oraz może"},
	{"cs", "a v na je se že s z do o to jako za pro ve by od po ale k jsou není nebo tak který co jeho podle"},
	{"ro", "de și în a la cu un o pe din nu este care să se pentru mai ca sau fi sunt că au este prin dar"},
	{"hu", "a az és hogy nem is egy ez meg de volt van csak már ha vagy mint el még azt ki mert"},
	{"tr", "ve bir bu da de için ile çok daha olarak gibi olan ne var en kadar sonra ama ya değil"},
	{"fi", "ja on ei että se hän oli mutta ovat kun myös joka niin tai kuin ole mitä vain jos"},
	{"id", "yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya ke karena ada mereka kami atau oleh adalah bisa"},
	{"vi", "và của là có không được cho trong một các này với những người để đã khi từ về như"},
	{"hr", "i je u na da se za su od ne s kao koji ali što to bi iz ili sam o"},
}

func hasLittleWords(code string) bool {
	for _, l := range littleLanguages {
		if l.code == code {
			return true
		}
	}
	return false
}

// littleWords are the languages that have a little word.
var littleWords = func() map[string][]int {
	out := map[string][]int{}
	for i, l := range littleLanguages {
		for _, word := range strings.Fields(l.words) {
			if !slices.Contains(out[word], i) {
				out[word] = append(out[word], i)
			}
		}
	}
	return out
}()

// prose is the beginning of a text without what is in no language.
func prose(text string) string {
	text = withoutCode(text[:min(len(text), 4*sampleBytes)])
	var b strings.Builder
	for line := range strings.Lines(text) {
		if b.Len() >= sampleBytes {
			break
		}
		if looksLikeCode(line) {
			continue
		}
		appendProse(&b, line)
	}
	return b.String()
}

// looksLikeCode tells whether a line ends or begins as code does, though no
// fence says so.
func looksLikeCode(line string) bool {
	line = strings.TrimSpace(line)
	if line == "" {
		return false
	}
	switch line[len(line)-1] {
	case ';', '{', '}', '\\':
		return true
	}
	for _, word := range [...]string{"def ", "import ", "from ", "return ", "class ", "#include", "func ", "const ", "let ", "var ", "public ", "private ", "SELECT ", "</", "<!--"} {
		if strings.HasPrefix(line, word) && strings.ContainsAny(line, "(){}=:;<>*") {
			return true
		}
	}
	return false
}

// appendProse copies the words of a line that are neither formula nor address.
func appendProse(b *strings.Builder, line string) {
	formula := ""
	for len(line) > 0 {
		switch {
		case formula != "":
			end := strings.Index(line, formula)
			if end < 0 {
				return // it goes on in the next line, or nowhere
			}
			line, formula = line[end+len(formula):], ""
		case strings.HasPrefix(line, "$$"):
			line, formula = line[2:], "$$"
		case strings.HasPrefix(line, `\(`):
			line, formula = line[2:], `\)`
		case strings.HasPrefix(line, `\[`):
			line, formula = line[2:], `\]`
		case line[0] == '$' && strings.Contains(line[1:], "$") && len(line) > 1 && !(line[1] >= '0' && line[1] <= '9'):
			line, formula = line[1:], "$"
		case line[0] == '\\':
			line = strings.TrimLeftFunc(line[1:], unicode.IsLetter)
		case line[0] == '<' && strings.IndexByte(line, '>') > 0:
			line = line[strings.IndexByte(line, '>')+1:]
			b.WriteByte(' ')
		default:
			_, n := utf8.DecodeRuneInString(line)
			if !unicode.IsSpace(rune(line[0])) {
				n = wordLength(line)
			}
			if word := line[:n]; !isAddress(word) {
				b.WriteString(word)
			}
			line = line[n:]
		}
	}
}

// wordLength is where the next space, formula or markup begins.
func wordLength(line string) int {
	for i, r := range line {
		if i > 0 && (unicode.IsSpace(r) || r == '$' || r == '\\' || r == '<') {
			return i
		}
	}
	return len(line)
}

// isAddress tells whether a word is an address, a path or an identifier.
func isAddress(word string) bool {
	return strings.Contains(word, "://") || strings.Contains(word, "www.") || strings.ContainsRune(word, '@') || strings.ContainsRune(word, '_') ||
		strings.Contains(word, "()") || strings.Count(word, "/") > 1
}
