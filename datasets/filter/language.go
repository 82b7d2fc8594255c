package filter

import (
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// Reasons of the language filter.
const (
	ReasonLanguage = "language"       // another language than the prompt's
	ReasonMixed    = "language:mixed" // a good part of it in another script than the prompt's
)

// mixedShare is the share of an answer's letters, in scripts that the prompt
// has none of, from which on the answer is mixed. Names and terms in their own
// script stay below it.
const mixedShare = 0.2

// language keeps answers in the language of their prompt. Where either is too
// short, too mixed or too much code or mathematics to tell, the answer is kept,
// and so it is where the prompt speaks of a language: it may ask for it.
type language struct {
	only      []string // ISO 639-1 codes; empty: the prompt's
	mixed     float64
	reasoning bool
}

func newLanguage(o *options.Set) Filter {
	f := &language{only: texts(o, "languages", len(languages)), mixed: o.Float("mixed", mixedShare), reasoning: o.Bool("reasoning", false)}
	for i, code := range f.only {
		f.only[i] = strings.ToLower(code)
		if !slices.Contains(languages, f.only[i]) {
			o.Fail("languages", "%q is no language that can be told from others; known: %s", code, strings.Join(languages, ", "))
		}
	}
	if f.mixed <= 0 || f.mixed > 1 {
		o.Fail("mixed", "is %g, and must be above 0 and at most 1 (which rejects nothing)", f.mixed)
	}
	return f
}

func (*language) Name() string    { return "language" }
func (*language) Version() string { return "1" }

func (f *language) Reject(in *Input) string {
	parts := []string{in.Candidate.Content()}
	if f.reasoning {
		parts = append(parts, in.reasoning())
	}
	var prompt *writing
	if len(f.only) == 0 {
		if in.Task == nil || namesLanguage(&in.Task.Prompt) {
			return ""
		}
		prompt = read(in.Task.Prompt.LastUser())
	}
	for _, part := range parts {
		answer := read(part)
		if answer.letters() < leastLetters {
			continue
		}
		if reason := f.compare(prompt, answer); reason != "" {
			return reason
		}
	}
	return ""
}

func (f *language) compare(prompt, answer *writing) string {
	if prompt == nil {
		if code := answer.language(); code != "" && !slices.Contains(f.only, code) {
			return ReasonLanguage
		}
		return ""
	}
	if prompt.letters() < leastLetters {
		return ""
	}
	asked, said := prompt.script(), answer.script()
	switch {
	case asked == scriptNone:
	case said != scriptNone && said != asked:
		return ReasonLanguage
	case said == asked && asked.shared():
		if differ(prompt, answer) {
			return ReasonLanguage
		}
	}
	foreign, all := 0, answer.letters()
	for s, n := range answer.counts {
		if prompt.counts[s] == 0 {
			foreign += n
		}
	}
	if f.mixed < 1 && float64(foreign) >= f.mixed*float64(all) && all >= 4*leastLetters {
		return ReasonMixed
	}
	return ""
}

// differ tells whether two texts in one script are in different languages: the
// trigrams of both have to say so, and no little word may speak against it.
func differ(prompt, answer *writing) bool {
	if a, b := prompt.littleWords(), answer.littleWords(); a != "" && a == b {
		return false
	}
	a, b := prompt.language(), answer.language()
	return a != "" && b != "" && a != b
}

// maxNamed bounds how much of a prompt is searched for the name of a language.
const maxNamed = 64 << 10

// namesLanguage tells whether a prompt speaks of a language or of translating.
func namesLanguage(p *chat.Prompt) bool {
	if speaksOfLanguage(p.System) {
		return true
	}
	return slices.ContainsFunc(p.Messages, func(m chat.Message) bool {
		return m.Content != nil && m.Role != chat.RoleTool && speaksOfLanguage(*m.Content)
	})
}

func speaksOfLanguage(text string) bool {
	text = folded(text[:min(len(text), maxNamed)])
	for _, word := range languageWords {
		for rest := 0; ; {
			at := strings.Index(text[rest:], word)
			if at < 0 {
				break
			}
			at += rest
			// Latin words begin a word; those of other scripts stand anywhere.
			if word[0] >= 0x80 || !wordBefore(text, at) {
				return true
			}
			rest = at + len(word)
		}
	}
	return false
}

// languageWords are names of languages in English and in themselves, and words
// for translating, in lower case.
var languageWords = []string{
	"english", "german", "french", "spanish", "castilian", "portuguese", "italian", "dutch", "swedish", "norwegian", "danish", "finnish", "icelandic", "polish", "czech", "slovak", "hungarian", "romanian", "bulgarian", "croatian", "serbian", "slovenian", "ukrainian", "russian", "belarusian", "greek", "turkish", "arabic", "hebrew", "yiddish", "persian", "farsi", "urdu", "hindi", "bengali", "bangla", "punjabi", "gujarati", "marathi", "tamil", "telugu", "kannada", "malayalam", "nepali", "sinhala", "thai", "vietnamese", "indonesian", "malay", "javanese", "tagalog", "filipino", "chinese", "mandarin", "cantonese", "japanese", "korean", "mongolian", "latin", "esperanto", "swahili", "zulu", "afrikaans", "hausa", "yoruba", "irish", "gaelic", "welsh", "catalan", "basque", "galician", "estonian", "latvian", "lithuanian", "albanian", "armenian", "georgian", "kazakh", "uzbek", "azerbaijani", "haitian", "hawaiian", "maori", "sanskrit",
	"translat", "bilingual", "multilingual", "language", "pinyin", "kanji", "hiragana", "romaji", "cyrillic", "hanzi",
	"übersetz", "deutsch", "englisch", "auf französisch", "auf italienisch", "sprache", "traduc", "traduz", "traduis", "tradui", "idioma", "lengua", "língua", "lingua", "langue", "inglés", "español", "en anglais", "en français", "français", "italiano", "português", "inglese", "vertaal", "nederlands", "tłumacz", "przetłumacz", "polsku", "çevir", "ingilizce", "türkçe",
	"翻译", "翻譯", "译成", "英文", "英语", "英語", "中文", "汉语", "漢語", "日语", "日文", "日本語", "法语", "德语", "俄语", "韩语", "西班牙语", "语言", "語言", "訳", "翻訳", "한국어", "영어", "번역", "일본어", "중국어", "перевед", "перевод", "английск", "русск", "немецк", "французск", "язык", "ترجم", "العربية", "الإنجليزية", "अनुवाद", "हिंदी", "हिन्दी", "अंग्रेज",
}
