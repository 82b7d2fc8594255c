package verify

import (
	"context"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// Limits of the contains verifier.
const (
	maxContainsText  = 1 << 20 // of an answer, in bytes
	maxContainsTexts = 1000    // that are looked for
)

// newContains looks for texts in an answer.
//
// Options: text, a text or a list of them; without it they are the task's
// tests (a JSON list of texts, or one text as it is), and without tests its
// gold answer. match says how many must be there: all (default), any, or none.
// case (default true) tells upper from lower case. words (default true) asks
// that a letter or digit at a text's edge does not go on in the answer: 18 is
// not in 118. Unicode forms (NFC) and runs of white space count as the same.
func newContains(o *options.Set) *guarded {
	v := &containsVerifier{match: o.String("match", "all"), sensitive: o.Bool("case", true), words: o.Bool("words", true)}
	if v.match != "all" && v.match != "any" && v.match != "none" {
		o.Fail("match", "want all, any or none, got %q; %s", v.match, options.Hint(v.match, []string{"all", "any", "none"}))
	}
	switch given := o.Any("text").(type) {
	case nil:
	case string:
		v.texts = []string{given}
	case []any:
		for _, one := range given {
			text, ok := one.(string)
			if !ok {
				o.Fail("text", "want texts, got %v (%T); put it in quotes", one, one)
				break
			}
			v.texts = append(v.texts, text)
		}
		if len(given) == 0 {
			o.Fail("text", "is an empty list; name a text, or leave the option out to look for the task's own")
		}
	default:
		o.Fail("text", "want a text or a list of texts, got %v (%T)", given, given)
	}
	for i, text := range v.texts {
		if v.texts[i] = v.form(text); v.texts[i] == "" {
			o.Fail("text", "holds an empty text, which is in every answer")
			break
		}
	}
	if len(v.texts) > maxContainsTexts {
		o.Fail("text", "has %d texts, want at most %d", len(v.texts), maxContainsTexts)
	}
	return &guarded{"contains", "1", v.judge}
}

type containsVerifier struct {
	texts            []string // in the form that is compared; nil: the task's own
	match            string
	sensitive, words bool
}

// form is a text as it is compared.
func (v *containsVerifier) form(text string) string {
	text = strings.Join(strings.Fields(norm.NFC.String(text)), " ")
	if !v.sensitive {
		text = strings.ToLower(text)
	}
	return text
}

func (v *containsVerifier) judge(ctx context.Context, in Input) finding {
	if len(in.Content) > maxContainsText {
		return unknown("answer too long to judge")
	}
	texts := v.texts
	if texts == nil {
		var why string
		if texts, why = v.ofTask(in); why != "" {
			return unknown(why)
		}
	}
	answer := v.form(in.Content)
	found := ""
	count := 0
	for _, text := range texts {
		if ctx.Err() != nil {
			return unknown("cancelled")
		}
		if !v.holds(answer, text) {
			continue
		}
		if count++; count == 1 {
			found = text
		}
	}
	var ok bool
	switch v.match {
	case "any":
		ok = count > 0
	case "none":
		ok = count == 0
	default:
		ok = count == len(texts)
	}
	f := finding{verdict: datasets.Fail}
	if ok {
		f.verdict = datasets.Pass
	}
	if found != "" {
		f = f.saw(found)
	}
	f.reason = map[bool]string{true: "all there", false: "some missing"}[count == len(texts)]
	if count == 0 {
		f.reason = "none there"
	}
	return f
}

// ofTask are the texts that a task brings, or why there are none.
func (v *containsVerifier) ofTask(in Input) (texts []string, why string) {
	var given []string
	switch {
	case in.Tests != nil && strings.TrimSpace(*in.Tests) != "":
		text := strings.TrimSpace(*in.Tests)
		if len(text) > maxContainsText {
			return nil, "texts of the task too long"
		}
		switch text[0] {
		case '[':
			if json.Unmarshal([]byte(text), &given) != nil {
				return nil, "texts of the task not readable"
			}
		case '"':
			var one string
			if json.Unmarshal([]byte(text), &one) != nil {
				return nil, "texts of the task not readable"
			}
			given = []string{one}
		default:
			given = []string{text}
		}
	case in.Gold != nil:
		given = []string{*in.Gold}
	default:
		return nil, "task has no text"
	}
	if len(given) > maxContainsTexts {
		return nil, "task has too many texts"
	}
	for _, text := range given {
		if text = v.form(text); text != "" {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return nil, "task has no text"
	}
	return texts, ""
}

// holds tells whether an answer holds a text. Both have their form.
func (v *containsVerifier) holds(answer, text string) bool {
	for from := 0; ; {
		i := strings.Index(answer[from:], text)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(text)
		if !v.words || !goesOn(answer, start) && !goesOn(answer, end) {
			return true
		}
		_, size := utf8.DecodeRuneInString(answer[start:])
		from = start + size
	}
}

// goesOn tells whether a word or a number goes on over a place in a text. A
// script without spaces has no words that could.
func goesOn(text string, at int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	after, _ := utf8.DecodeRuneInString(text[at:])
	return runsOn(before) && runsOn(after)
}

func runsOn(r rune) bool {
	if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) {
		return false
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '_'
}
