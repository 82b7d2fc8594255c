package filter

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// head is the first n characters of text.
func head(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// plainQuotes are the typographic signs that stand for ASCII ones.
var plainQuotes = strings.NewReplacer("’", "'", "‘", "'", "ʼ", "'", "´", "'", "“", `"`, "”", `"`, "\u00a0", " ", "\u202f", " ", "‑", "-", "–", "-", "—", "-")

// folded is text in lower case, with plain quotes and dashes, and white space
// collapsed to one space.
func folded(text string) string {
	text = strings.ToLower(plainQuotes.Replace(text))
	var b strings.Builder
	b.Grow(len(text))
	space := true
	for _, r := range text {
		if unicode.IsSpace(r) {
			if !space {
				b.WriteByte(' ')
			}
			space = true
			continue
		}
		b.WriteRune(r)
		space = false
	}
	return strings.TrimSuffix(b.String(), " ")
}

// withoutCode is text without fenced code blocks and code spans, each of which
// becomes a line break or a space: what stands in them is shown, not said. A
// fence that is never closed reaches to the end.
func withoutCode(text string) string {
	if strings.IndexByte(text, '`') < 0 && !strings.Contains(text, "~~~") {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	fence := ""
	for line := range strings.Lines(text) {
		mark := fenceOf(line)
		switch {
		case fence == "" && mark != "":
			fence = mark
			b.WriteByte('\n')
		case fence != "":
			// It is closed by at least as many of the same sign, alone.
			if strings.HasPrefix(mark, fence) && strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), fence[:1])) == "" {
				fence = ""
			}
		default:
			appendWithoutSpans(&b, line)
		}
	}
	return b.String()
}

// fenceOf is the run of three or more backticks or tildes that begins a line.
func fenceOf(line string) string {
	line = strings.TrimLeft(line, " \t>")
	for _, sign := range []string{"`", "~"} {
		n := len(line) - len(strings.TrimLeft(line, sign))
		if n >= 3 && (sign == "~" || strings.IndexByte(line[n:], '`') < 0) {
			return line[:n]
		}
	}
	return ""
}

// appendWithoutSpans copies a line without its code spans.
func appendWithoutSpans(b *strings.Builder, line string) {
	for {
		open := strings.IndexByte(line, '`')
		if open < 0 {
			b.WriteString(line)
			return
		}
		n := len(line[open:]) - len(strings.TrimLeft(line[open:], "`"))
		mark := line[open : open+n]
		end := strings.Index(line[open+n:], mark)
		if end < 0 {
			b.WriteString(line)
			return
		}
		b.WriteString(line[:open])
		b.WriteByte(' ')
		line = line[open+n+end+n:]
	}
}

// technical tells whether a domain is one of mathematics or code, by the words
// of its name: thresholds for prose do not hold there.
func technical(domain string) bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(domain), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		switch word {
		case "math", "maths", "mathematics", "arithmetic", "algebra", "geometry", "calculus", "gsm8k", "aime", "olympiad", "proof", "proofs", "logic",
			"code", "coding", "coder", "codegen", "program", "programs", "programming", "software", "swe", "humaneval", "mbpp", "sql", "python", "javascript", "typescript", "golang", "rust", "java", "cpp", "bash", "shell":
			return true
		}
	}
	return false
}

// wordBefore tells whether the character before text[at:] is a letter or digit.
func wordBefore(text string, at int) bool {
	r, _ := utf8.DecodeLastRuneInString(text[:at])
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}
