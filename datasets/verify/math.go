package verify

import (
	"context"
	"errors"
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
	"github.com/stillhouse-data/stillhouse/datasets/verify/mathexpr"
)

// DefaultTolerance is how far a decimal may be from a gold that is no whole
// number: 1e-5 times the smaller of 1 and the gold. 0.333333 meets 1/3 and
// 0.3333 does not; a whole gold is met exactly.
const DefaultTolerance = 1e-5

// newMath makes the verifier of results: numbers and what is made of them.
//
// The answer is read from its final statement: the last \boxed{}, else what
// follows the last marker, else a last line that is nothing but a value. The
// gold is read the same way, or whole where it has no marker. Gold and answer
// are not symmetric; see meetsNumber for percent signs, scale words and units.
// A point is the decimal point and a comma separates thousands or elements:
// 1.234,5 and 3,14 as decimals are not read. What is not read is unknown.
//
// Option: tolerance (default 1e-5, at least 0 and below 1).
func newMath(o *options.Set) *guarded {
	tolerance := o.Float("tolerance", DefaultTolerance)
	if tolerance < 0 || tolerance >= 1 {
		o.Fail("tolerance", "want at least 0 and below 1, got %v", tolerance)
		tolerance = 0
	}
	m := &mathVerifier{tolerance: new(big.Rat).SetFloat64(tolerance)}
	return &guarded{"math", "2", m.judge}
}

type mathVerifier struct{ tolerance *big.Rat }

func (m *mathVerifier) judge(_ context.Context, in Input) finding {
	statement, ok := answerStatement(in.Content)
	if in.Gold == nil || strings.TrimSpace(*in.Gold) == "" {
		if !ok {
			return ungraded("")
		}
		return ungraded(statement)
	}
	gold := goldStatement(*in.Gold)
	if !ok {
		return unknown("no final statement")
	}
	return m.compare(gold, statement).saw(statement)
}

// compare judges one statement against the gold's.
func (m *mathVerifier) compare(gold, statement string) finding {
	if g, ok := plainInteger(gold); ok {
		if a, ok := plainInteger(statement); ok {
			return finding{verdict: verdictOf(g == a), reason: reasonOf(g == a)}
		}
	}
	if letter, ok := readLetter(gold); ok {
		given, ok := readLetter(statement)
		if !ok {
			return unknown("final statement not readable")
		}
		return finding{verdict: verdictOf(given == letter), reason: reasonOf(given == letter)}
	}
	if _, ok := readLetter(statement); ok && optionText(statement) == "" && !sameText(gold, statement) {
		return unknown("letter where gold is none")
	}
	want, goldErr := mathexpr.Read(gold)
	got, err := mathexpr.Read(statement)
	if err != nil {
		if option := optionText(statement); option != "" {
			statement = option
			got, err = mathexpr.Read(option)
		}
	}
	switch {
	case goldErr == nil && err == nil:
		j := mathexpr.Meets(want, got, m.tolerance)
		if j.Verdict == mathexpr.Unknown && sameText(gold, statement) {
			return finding{verdict: datasets.Pass, reason: "same text"}
		}
		return finding{verdict: verdicts[j.Verdict], reason: j.Reason}
	case sameText(gold, statement):
		return finding{verdict: datasets.Pass, reason: "same text"}
	case errors.Is(goldErr, mathexpr.ErrTooLarge) || errors.Is(err, mathexpr.ErrTooLarge):
		return unknown("too large to compare")
	case goldErr != nil:
		return unknown("gold not readable")
	}
	return unknown("final statement not readable")
}

// optionText is what follows the letter of a choice: 5 of "(B) 5".
func optionText(statement string) string {
	m := letterForm.FindStringSubmatch(statement)
	if m == nil || otherLetter.MatchString(m[3]) {
		return ""
	}
	return trimStatement(strings.TrimPrefix(strings.TrimSpace(m[3]), `\ `))
}

// plainInteger reads a whole number of up to 18 digits, as most answers are,
// with commas between thousands and a dollar sign before. What it reads, Read
// would read as the same number.
func plainInteger(s string) (n int64, ok bool) {
	negative := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(strings.TrimPrefix(s, "-"), "$")
	if len(s) == 0 || len(s) > 18 {
		return 0, false
	}
	comma := strings.IndexByte(s, ',')
	if comma == 0 || comma > 3 || comma > 0 && s[0] == '0' {
		return 0, false
	}
	for i := range len(s) {
		switch isComma := comma >= 0 && i >= comma && (i-comma)%4 == 0; {
		case isComma && s[i] == ',':
		case !isComma && isDigit(rune(s[i])):
			n = 10*n + int64(s[i]-'0')
		default:
			return 0, false
		}
	}
	if comma >= 0 && (len(s)-comma)%4 != 0 {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

// goldStatement is the gold's own final statement, or all of it.
func goldStatement(gold string) string {
	if s, how := finalStatement(gold, readableMath); how != "" {
		return trimStatement(s)
	}
	return trimStatement(gold)
}

// readableMath tells whether a statement is a value rather than words.
func readableMath(statement string) bool {
	if _, ok := plainInteger(statement); ok {
		return true
	}
	if _, ok := readLetter(statement); ok {
		return true
	}
	v, err := mathexpr.Read(statement)
	return err == nil && v.Words() == 0
}

// answerStatement is what the answer says last, and whether it says anything.
// Of a sentence after a marker, as in "The answer is: the volume is 120", what it
// asserts counts. A last line counts only where it is one value without working,
// or says what one unknown is: x = 5, x < 2.
func answerStatement(content string) (string, bool) {
	s, how := finalStatement(content, readableMath)
	if how != "" {
		s = trimStatement(s)
		if _, ok := plainInteger(s); !ok && how == byMarker && strings.Contains(s, " ") && !readableMath(s) {
			if value := asserted(s); value != "" && readableMath(value) {
				s = value
			}
		}
		return s, s != ""
	}
	line := trimStatement(lastLine(content))
	if line == "" {
		return "", false
	}
	if _, ok := readLetter(line); ok {
		return line, true
	}
	v, err := mathexpr.Read(line)
	switch {
	case err != nil:
		return line, false
	case v.Words() > 1:
		return line, strings.Contains(line, `\text`)
	}
	return line, !strings.Contains(line, "=") || v.Solution()
}

// sameText compares what could not be read: white space and LaTeX spacing
// aside, the texts are equal. It must hold a letter or a digit.
func sameText(a, b string) bool {
	a, b = plainText(a), plainText(b)
	return a == b && strings.ContainsFunc(a, wordRune)
}

var spacing = strings.NewReplacer(`\left`, "", `\right`, "", `\,`, "", `\!`, "", `\;`, "", `\ `, "", `\dfrac`, `\frac`, `\tfrac`, `\frac`, "$", "", "−", "-")

// plainText drops white space, except between letters or digits: 5 600 is not
// 5600.
func plainText(s string) string {
	var b strings.Builder
	tight := true
	for _, field := range strings.Fields(spacing.Replace(s)) {
		first, _ := utf8.DecodeRuneInString(field)
		if !tight && wordRune(first) {
			b.WriteByte(' ')
		}
		b.WriteString(field)
		last, _ := utf8.DecodeLastRuneInString(field)
		tight = !wordRune(last)
	}
	return b.String()
}

func wordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

var verdicts = map[mathexpr.Verdict]string{mathexpr.Pass: datasets.Pass, mathexpr.Fail: datasets.Fail, mathexpr.Unknown: datasets.Unknown}

func verdictOf(equal bool) string {
	if equal {
		return "pass"
	}
	return "fail"
}

func reasonOf(equal bool) string {
	if equal {
		return "equal"
	}
	return "different"
}
