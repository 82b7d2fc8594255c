package verify

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxStatement is the longest final statement that is read, in bytes.
const maxStatement = 4 << 10

// How a final statement was found.
const (
	byBox      = "boxed"
	byMarker   = "marker"
	byLastLine = "last line"
)

// finalStatement finds where an answer says its result: in the last \boxed{},
// or after the last marker (####, a line's A:, "Answer:", "The answer is",
// "Final answer"). Where a marker comes after the last box, what follows it
// counts if it is readable, else the box. It is "" and "" where there is neither.
// It takes time linear in the text.
func finalStatement(text string, readable func(string) bool) (statement, how string) {
	at := boxBefore(text, len(text))
	end := lastMarker(text[max(0, at):])
	if end >= 0 {
		statement, how = lineAfter(text[max(0, at)+end:]), byMarker
	}
	if at < 0 || how != "" && readable(trimStatement(statement)) {
		return statement, how
	}
	statement, _ = lastBox(text)
	return statement, byBox
}

// lastLine is the last line that is not blank, if it is at most 200 bytes long:
// short enough to be a result that stands alone.
func lastLine(text string) string {
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	line := text[strings.LastIndexByte(text, '\n')+1:]
	if len(line) > 200 {
		return ""
	}
	return line
}

// maxBoxes is how many boxes side by side are one statement.
const maxBoxes = 32

// lastBox is what the last \boxed or \fbox holds; "" where its brace is never
// closed, as in an answer that was cut off. Boxes with nothing but commas, "and"
// or "or" between them are one statement, a list. A percent sign or a scale word
// right after the box belongs to it.
func lastBox(text string) (string, bool) {
	at := boxBefore(text, len(text))
	if at < 0 {
		return "", false
	}
	inside, end := boxAt(text, at)
	if end < 0 {
		return inside, true
	}
	statement := inside + afterBox(text[end:])
	for range maxBoxes {
		before := boxBefore(text, at)
		if before < 0 || at-before > maxStatement {
			break
		}
		more, end := boxAt(text, before)
		if end < 0 || end > at || !betweenBoxes.MatchString(text[end:at]) {
			break
		}
		if at = before; strings.TrimSpace(more) != strings.TrimSpace(statement) {
			statement = more + ", " + statement
		}
	}
	return statement, true
}

// betweenBoxes is what may stand between the boxes of one list.
var betweenBoxes = regexp.MustCompile(`^(?:[\s$,;&]|\\[()\[\],; ]|\\q?quad|\\(?:text|mathrm|textrm)\s*\{\s*,?\s*(?:and|or)\s*\}|\band\b|\bor\b|\b[A-Za-z](?:_\{?\w{1,3}\}?)?\s*=)*$`)

// asserted is what a sentence says that something is: 120 of "The volume is
// 120". It is "" where there is no such sentence, or it may deny it.
func asserted(sentence string) string {
	m := assertion.FindStringSubmatch(sentence)
	if m == nil || denial.MatchString(m[1]) {
		return ""
	}
	return trimStatement(m[2])
}

var (
	assertion = regexp.MustCompile(`^(.*\b(?:is|are|equals|=))\s+(?:(?:equal to|exactly|approximately|about)\s+)?(.*)$`)
	denial    = regexp.MustCompile(`(?i)\b(?:not|never|no|neither|nor|if|unless|whether|wrong|incorrect|doubt|suppose|assume|assuming|maybe|perhaps|possibly|either|or|but)\b|n't\b|\?`)
)

// behindBox is what continues a box's statement outside of it.
var behindBox = regexp.MustCompile(`^(?:\s|\$|\\\)|\*|\\text\s*\{|\\[, ])*(\\?%|(?i:percent|pct|per cent|hundred|thousand|million|billion|trillion|dozen)\b)`)

func afterBox(rest string) string {
	if m := behindBox.FindStringSubmatch(rest[:min(len(rest), 40)]); m != nil {
		return " " + m[1]
	}
	return ""
}

// boxBefore is where the last box begins that begins before end, or -1.
func boxBefore(text string, end int) int {
	at := strings.LastIndex(text[:end], `\boxed`)
	from := max(at, 0)
	if f := strings.LastIndex(text[from:end], `\fbox`); f >= 0 {
		return from + f
	}
	return at
}

// boxAt is what the box that begins at holds, and where it ends: -1 where it is
// never closed or has no braces.
func boxAt(text string, at int) (inside string, end int) {
	skip := len(`\boxed`)
	if strings.HasPrefix(text[at:], `\fbox`) {
		skip = len(`\fbox`)
	}
	rest := strings.TrimLeft(text[at+skip:], " ")
	if !strings.HasPrefix(rest, "{") {
		// \boxed 5 boxes the one token that follows.
		return strings.TrimRight(lineAfter(rest), "$ "), -1
	}
	depth := 0
	for i := 0; i < len(rest) && i < maxStatement; i++ {
		switch rest[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return rest[1:i], len(text) - len(rest) + i + 1
			}
		}
	}
	return "", -1
}

// lastMarker is where the text after the last marker begins, or -1.
func lastMarker(text string) int {
	end := -1
	if at := strings.LastIndex(text, "####"); at >= 0 {
		end = at + len("####")
	}
	for at := len(text); ; {
		if at = strings.LastIndex(text[:at], "A:"); at+2 <= end || at < 0 {
			break
		}
		if startsLine(text[:at]) {
			end = at + 2
			break
		}
	}
	for _, tail := range []string{"nswer", "NSWER"} {
		for at := len(text); ; {
			if at = strings.LastIndex(text[:at], tail); at <= end || at < 1 {
				break
			}
			if e := answerMarker(text, at-1, at+len(tail)); e >= 0 {
				end = max(end, e)
				break
			}
		}
	}
	return end
}

// startsLine tells whether only spaces and markdown precede.
func startsLine(before string) bool {
	rest := strings.TrimRight(before, " \t\r*_>#`-")
	return rest == "" || strings.HasSuffix(rest, "\n")
}

// answerMarker is where the statement begins if text[start:end] is the word
// "answer" of a marker, else -1.
func answerMarker(text string, start, end int) int {
	if text[start] != 'a' && text[start] != 'A' {
		return -1
	}
	window := text[max(0, start-40):start]
	before := strings.ToLower(strings.TrimRight(window, " \t*_`"))
	if len(before) == len(window) && before != "" && !startsLine(window) {
		r, _ := utf8.DecodeLastRuneInString(before)
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return -1 // part of a longer word
		}
	}
	before = strings.TrimLeft(before[strings.LastIndexByte(before, '\n')+1:], " \t*_>#`-")
	after := strings.TrimLeft(text[end:min(len(text), end+40)], " \t*_`")
	offset := func(rest string) int { return min(len(text), end+40) - len(rest) }
	word := before[strings.LastIndexByte(before, ' ')+1:]
	switch {
	case strings.HasPrefix(after, ":"), strings.HasPrefix(after, "="):
		return offset(after[1:])
	case len(after) > 2 && strings.EqualFold(after[:2], "is") && !unicode.IsLetter(rune(after[2])):
		switch word {
		case "", "the", "final", "correct", "right", "my", "our":
			rest := strings.TrimLeft(after[2:], " \t*_`")
			if strings.HasPrefix(rest, ":") || strings.HasPrefix(rest, "=") {
				rest = rest[1:]
			}
			return offset(rest)
		}
	case before == "final", before == "the final", before == "my final":
		return offset(after)
	case before == "" && startsLine(window) && opensMath(after):
		return offset(after) // a heading, or "Answer $18$"
	}
	return -1
}

// opensMath tells whether mathematics follows, or a new line.
func opensMath(s string) bool {
	for _, opening := range []string{"$", `\(`, `\[`, "\n", "\r\n"} {
		if strings.HasPrefix(s, opening) {
			return true
		}
	}
	return false
}

// lineAfter is the rest of the line, or the next line that says something. It
// ends where a sentence does.
func lineAfter(text string) string {
	for range 6 {
		line, rest, more := strings.Cut(text, "\n")
		if len(line) > maxStatement {
			return line[:maxStatement+1]
		}
		line = trimStatement(line)
		if line != "" && line != `\[` && line != `\(` || !more {
			return sentence(unmark(line))
		}
		text = rest
	}
	return ""
}

// unmark drops a marker that follows a marker, as in "Answer: A: 5".
func unmark(line string) string {
	for range 4 {
		if end := lastMarker(line); end >= 0 && startsLine(line[:markerStart(line)]) {
			line = trimStatement(line[end:])
			continue
		}
		break
	}
	return line
}

// markerStart is where the first word of a line's marker may begin.
func markerStart(line string) int {
	return len(line) - len(strings.TrimLeft(line, " \t*_>#`-"))
}

// sentence cuts at a full stop that a capital letter follows.
func sentence(line string) string {
	for i := 0; i+2 < len(line); i++ {
		if line[i] != '.' || line[i+1] != ' ' {
			continue
		}
		if head := strings.TrimLeft(line[:i], "([ "); len(head) == 1 && !isDigit(rune(head[0])) {
			continue // "B. Paris" is one statement
		}
		rest := strings.TrimLeft(line[i+1:], " ")
		if r, _ := utf8.DecodeRuneInString(rest); unicode.IsUpper(r) {
			return trimStatement(line[:i])
		}
	}
	return line
}

// trimStatement drops white space, markdown, mathematics delimiters and closing
// punctuation around a statement. A closing ! stays: it may be a factorial.
func trimStatement(s string) string {
	for {
		before := len(s)
		s = strings.TrimFunc(s, func(r rune) bool {
			return unicode.IsSpace(r) || r == '*' || r == '_' || r == '`' || r == '"' || r == '“' || r == '”'
		})
		s = strings.TrimRight(s, ".,;:")
		for _, pair := range [][2]string{{`\[`, `\]`}, {`\(`, `\)`}, {"$$", "$$"}, {"$", "$"}} {
			if len(s) >= len(pair[0])+len(pair[1]) && strings.HasPrefix(s, pair[0]) && strings.HasSuffix(s, pair[1]) {
				s = s[len(pair[0]) : len(s)-len(pair[1])]
			}
		}
		s = strings.TrimPrefix(s, "$$")
		if len(s) == before {
			return s
		}
	}
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }
