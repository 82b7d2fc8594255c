package verify

import (
	"context"
	"regexp"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// newChoice makes the verifier of multiple choice, letters A to J. The answer
// is read from its final statement: \boxed{B}, "The answer is (B)", or a last
// line that is the letter. The gold is a letter, or an option's text, which the
// prompt's own list of options turns into a letter. An answer that names two
// letters, or none, is unknown. It has no options.
func newChoice(*options.Set) *guarded {
	return &guarded{"choice", "1", judgeChoice}
}

func judgeChoice(_ context.Context, in Input) finding {
	listed := listedOptions(in.Prompt)
	statement, how := finalStatement(in.Content, readableLetter)
	if how == "" {
		statement = lastLine(in.Content)
	}
	statement = trimStatement(statement)
	if statement == "" {
		return unknown("no final statement")
	}
	got, ok := readLetter(statement)
	if !ok {
		got, ok = listed.letterOf(statement)
	}
	if in.Gold == nil || strings.TrimSpace(*in.Gold) == "" {
		if !ok {
			return ungraded("")
		}
		return ungraded(string(got))
	}
	gold := goldStatement(*in.Gold)
	want, goldOK := readLetter(gold)
	if !goldOK {
		want, goldOK = listed.letterOf(gold)
	}
	switch {
	case !goldOK && !ok && sameOption(gold, statement):
		return pass("same text", statement)
	case !goldOK:
		return unknown("gold is no option").saw(statement)
	case !ok && how == "":
		return unknown("no final statement")
	case !ok:
		return unknown("final statement names no option").saw(statement)
	}
	extracted := string(got)
	if got == want {
		return pass("equal", extracted)
	}
	return fail("different", extracted)
}

var (
	// A capital letter that stands alone or is closed like a list's, with or
	// without a text after it; or any letter in brackets.
	letterForm = regexp.MustCompile(`^(?:(?i:option|choice|letter|answer)\s+)?(?:\\(?:text|mathrm|textbf|mathbf)\s*\{\s*)?(?:[\(\[]\s*([A-Ja-j])\s*[\)\]]|([A-J])\s*(?:[\)\].:]|$|\}))\s*\}?[*_.:]*\s*(.*)$`)
	// Another letter that is offered beside the first.
	otherLetter = regexp.MustCompile(`(?:\b(?:or|and|both|nor|not)\b|[/,&])\s*[\(\[]?\s*[A-J]\b|^[\(\[]?\s*[A-J]\s*[\)\].,]|^[\)\]]?\s*[-/,&]\s*[A-J]\b`)
	listedForm  = regexp.MustCompile(`(?m)^[ \t]*[\(\[]?([A-J])[\)\].:][ \t]+(\S.*?)[ \t\r]*$`)
)

// readLetter reads a final statement that names one choice.
func readLetter(statement string) (byte, bool) {
	s := trimStatement(statement)
	if len(s) > 500 {
		return 0, false
	}
	m := letterForm.FindStringSubmatch(s)
	if m == nil || otherLetter.MatchString(m[3]) {
		return 0, false
	}
	return strings.ToUpper(m[1] + m[2])[0], true
}

func readableLetter(statement string) bool {
	_, ok := readLetter(statement)
	return ok
}

// maxListed bounds the part of a prompt in which options are looked for, from
// its end, in bytes.
const maxListed = 64 << 10

// choices are the options that a prompt lists: text by letter.
type choices map[byte]string

func listedOptions(p *chat.Prompt) choices {
	if p == nil {
		return nil
	}
	text := p.LastUser()
	if len(text) > maxListed {
		text = text[len(text)-maxListed:]
	}
	list := choices{}
	for _, m := range listedForm.FindAllStringSubmatch(text, 64) {
		list[m[1][0]] = m[2]
	}
	return list
}

// letterOf is the letter of the only option with this text.
func (c choices) letterOf(text string) (byte, bool) {
	var found byte
	for letter, option := range c {
		if sameOption(option, text) {
			if found != 0 {
				return 0, false
			}
			found = letter
		}
	}
	return found, found != 0
}

func sameOption(a, b string) bool {
	a, b = trimStatement(a), trimStatement(b)
	return a != "" && strings.EqualFold(strings.Join(strings.Fields(a), " "), strings.Join(strings.Fields(b), " "))
}
