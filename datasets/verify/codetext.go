package verify

import (
	"regexp"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// languageAliases are other names of the languages, in recipes and in fences.
var languageAliases = map[string]string{
	"py": "python", "python3": "python", "py3": "python", "python2": "python", "pycon": "python",
	"golang": "go", "js": "javascript", "node": "javascript", "nodejs": "javascript", "mjs": "javascript", "cjs": "javascript",
	"sh": "shell", "bash": "shell", "zsh": "shell", "console": "shell", "shellscript": "shell",
}

// extractCode is the code of an answer: of its fenced blocks in the language,
// or without one, the last that defines entry, else the last; an answer without
// such a block is code as a whole.
func extractCode(content, language, entry string) string {
	last, defining := -1, -1
	blocks := fences(content)
	for i, b := range blocks {
		name := b.language
		if alias, ok := languageAliases[name]; ok {
			name = alias
		}
		if name != "" && name != language {
			continue
		}
		last = i
		if entry != "" && defines(b.text, language, entry) {
			defining = i
		}
	}
	switch {
	case defining >= 0:
		return blocks[defining].text
	case last >= 0:
		return blocks[last].text
	}
	return content
}

// widestHead is how far into a line a name may stand that is defined there, in
// bytes: however long a line is, it is looked at once.
const widestHead = 400

// defines tells whether code says that it defines a name. It is a look at the
// text, good enough to choose among blocks.
func defines(code, language, name string) bool {
	at := strings.Index(code, name)
	for at >= 0 {
		before := code[max(0, at-widestHead):at]
		newline := strings.LastIndexByte(before, '\n')
		starts := newline >= 0 || len(before) == at // the line's beginning is in sight
		line := before[newline+1:]
		after := code[at+len(name):]
		if keyword := strings.TrimSpace(line); starts && !wordAt(after) {
			switch language {
			case "python":
				if keyword == "def" || keyword == "class" || keyword == "async def" {
					return true
				}
			case "javascript":
				switch strings.TrimPrefix(strings.TrimPrefix(keyword, "export "), "async ") {
				case "function", "const", "let", "var", "class", "function*":
					return true
				}
			case "go":
				if keyword == "func" || strings.HasPrefix(keyword, "func (") {
					return true
				}
			case "shell":
				if keyword == "function" || keyword == "" && strings.HasPrefix(strings.TrimLeft(after, " \t"), "()") {
					return true
				}
			}
		}
		next := strings.Index(after, name)
		if next < 0 {
			return false
		}
		at += len(name) + next
	}
	return false
}

// wordAt tells whether s goes on with a letter, a digit or an underscore.
func wordAt(s string) bool {
	if s == "" {
		return false
	}
	c := s[0]
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// A fence is a fenced block of Markdown.
type fence struct{ language, text string }

// fences lists the fenced blocks of a text. A block that nobody ended goes to
// the end of the text: answers are cut off there.
func fences(content string) []fence {
	var out []fence
	var open string // the marks that began the block; "" outside of one
	var indent int
	var text strings.Builder
	var language string
	for line := range strings.Lines(content) {
		trimmed := strings.TrimLeft(line, " \t")
		marks := leading(trimmed)
		switch {
		case open == "" && len(marks) >= 3:
			info := strings.TrimSpace(trimmed[len(marks):])
			if marks[0] == '`' && strings.Contains(info, "`") {
				continue // code within a line
			}
			open, indent = marks, len(line)-len(trimmed)
			text.Reset()
			language = ""
			if f := strings.FieldsFunc(info, func(r rune) bool { return r == ' ' || r == '{' || r == ',' || r == '\t' }); len(f) > 0 {
				language = strings.Trim(strings.ToLower(f[0]), ".}")
			}
		case open != "" && len(marks) >= len(open) && marks[0] == open[0] && strings.TrimSpace(trimmed[len(marks):]) == "":
			out = append(out, fence{language, text.String()})
			open = ""
		case open != "":
			text.WriteString(dedented(line, indent))
		}
	}
	if open != "" {
		out = append(out, fence{language, text.String()})
	}
	return out
}

// leading is the run of ` or ~ that s begins with.
func leading(s string) string {
	if s == "" || s[0] != '`' && s[0] != '~' {
		return ""
	}
	n := 1
	for n < len(s) && s[n] == s[0] {
		n++
	}
	return s[:n]
}

// dedented takes up to n spaces off the front: a fence may be part of a list.
func dedented(line string, n int) string {
	for n > 0 && line != "" && (line[0] == ' ' || line[0] == '\t') {
		line, n = line[1:], n-1
	}
	return line
}

// pythonish matches what a prompt that is code has at the start of a line.
var codeStarts = map[string]*regexp.Regexp{
	"python":     regexp.MustCompile(`(?m)^(async )?def \w+\s*\(|^class \w+`),
	"javascript": regexp.MustCompile(`(?m)^(export )?(async )?function\b|^(const|let|var|class) \w+`),
	"go":         regexp.MustCompile(`(?m)^func\b`),
}

// promptCode is the code that a prompt gives: its last message's fenced block
// in the language, or that message where it looks like code as a whole. An
// answer may be its rest.
func promptCode(p *chat.Prompt, language string) string {
	if p == nil {
		return ""
	}
	starts := codeStarts[language]
	for i := len(p.Messages) - 1; i >= 0 && starts != nil; i-- {
		m := &p.Messages[i]
		if m.Role != chat.RoleUser || m.Content == nil {
			continue
		}
		if code := extractCode(*m.Content, language, ""); starts.MatchString(code) {
			return code
		}
		return ""
	}
	return ""
}
