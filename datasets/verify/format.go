package verify

import (
	"context"
	"fmt"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

const maxSections = 64 // of the format verifier

// newFormat checks the form of an answer, not what it says.
//
// Options: think, one of optional (default), required and absent: thoughts come
// in the reasoning field, or in one pair of tags at the start of the text, and
// an answer follows them. tags (default <think> and </think>) names the pair.
// sections are patterns (RE2) that the answer after the thoughts must hold, in
// their order and each once; once: false lets them repeat. Tags in code do not
// count.
func newFormat(o *options.Set) *guarded {
	v := &formatVerifier{think: o.String("think", "optional"), open: "<think>", close: "</think>", once: o.Bool("once", true)}
	modes := []string{"optional", "required", "absent"}
	switch v.think {
	case "optional", "required", "absent":
	default:
		o.Fail("think", "want optional, required or absent, got %q; %s", v.think, options.Hint(v.think, modes))
	}
	if tags := textsOf(o, "tags"); tags != nil {
		if len(tags) != 2 || strings.TrimSpace(tags[0]) == "" || strings.TrimSpace(tags[1]) == "" || strings.Contains(tags[0], tags[1]) || strings.Contains(tags[1], tags[0]) {
			o.Fail("tags", "want two tags that differ, such as [\"<think>\", \"</think>\"]")
		} else {
			v.open, v.close = tags[0], tags[1]
		}
	}
	sections := textsOf(o, "sections")
	if len(sections) > maxSections {
		o.Fail("sections", "has %d patterns, want at most %d", len(sections), maxSections)
		sections = nil
	}
	for i, s := range sections {
		p, err := compilePattern(s)
		switch {
		case err != nil:
			o.Fail("sections", "pattern %d: %v", i+1, err)
		case p.MatchString(""):
			o.Fail("sections", "pattern %d matches nothing at all, so that every answer has it; write what must be there", i+1)
		default:
			v.sections = append(v.sections, p)
		}
	}
	return &guarded{"format", "1", v.judge}
}

// textsOf is an option that is a text or a list of texts; nil where absent.
func textsOf(o *options.Set, name string) []string {
	switch given := o.Any(name).(type) {
	case nil:
	case string:
		return []string{given}
	case []any:
		out := []string{}
		for _, one := range given {
			text, ok := one.(string)
			if !ok {
				o.Fail(name, "want texts, got %v (%T); put it in quotes", one, one)
				return nil
			}
			out = append(out, text)
		}
		return out
	default:
		o.Fail(name, "want a list of texts, got %v (%T)", given, given)
	}
	return nil
}

type formatVerifier struct {
	think       string
	open, close string // tags
	sections    []*pattern
	once        bool
}

func wrong(reason string) finding { return finding{verdict: datasets.Fail, reason: reason} }

func (v *formatVerifier) judge(_ context.Context, in Input) finding {
	if len(in.Content) > maxRegexContent {
		return unknown("answer too long to judge")
	}
	answer, thoughts, why := v.split(in.Content)
	if why != "" {
		return wrong(why)
	}
	field := in.Answer != nil && in.Answer.ReasoningContent != nil && strings.TrimSpace(*in.Answer.ReasoningContent) != ""
	switch {
	case field && thoughts:
		return wrong("thoughts twice")
	case v.think == "required" && !field && !thoughts:
		return wrong("no thoughts")
	case v.think == "absent" && (field || thoughts):
		return wrong("thoughts")
	}
	calls := in.Answer != nil && len(in.Answer.ToolCalls) > 0
	if strings.TrimSpace(answer) == "" && (!calls || len(v.sections) > 0) {
		return wrong("no answer")
	}
	return v.judgeSections(answer)
}

// split takes the thoughts off a text; why says that its tags are not in order.
func (v *formatVerifier) split(content string) (answer string, thoughts bool, why string) {
	text := strings.TrimSpace(content)
	if rest, ok := strings.CutPrefix(text, v.open); ok {
		inside, after, closed := strings.Cut(rest, v.close)
		switch {
		case !closed:
			return "", false, "thoughts not closed"
		case strings.Contains(outsideCode(inside), v.open):
			return "", false, "thoughts opened twice"
		}
		text, thoughts = after, strings.TrimSpace(inside) != ""
	}
	switch bare := outsideCode(text); {
	case strings.Contains(bare, v.open):
		return "", false, "thoughts inside the answer"
	case strings.Contains(bare, v.close):
		return "", false, "thoughts closed without being opened"
	}
	return text, thoughts, ""
}

func (v *formatVerifier) judgeSections(answer string) finding {
	rest := answer
	for i, p := range v.sections {
		if p.searches(answer) < 2 {
			return unknown("pattern too costly for the answer")
		}
		at := p.FindStringIndex(rest)
		if at == nil {
			if p.MatchString(answer) {
				return wrong(fmt.Sprintf("section %d out of order", i+1))
			}
			return wrong(fmt.Sprintf("no section %d", i+1))
		}
		if v.once && len(p.FindAllStringIndex(answer, 2)) > 1 {
			return wrong(fmt.Sprintf("section %d twice", i+1))
		}
		rest = rest[at[1]:]
	}
	return finding{verdict: datasets.Pass, reason: "well formed"}
}

// outsideCode is a text without its fenced blocks and code spans: what stands in
// them is talk about tags.
func outsideCode(text string) string {
	if !strings.Contains(text, "`") {
		return text
	}
	var out strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		bare := strings.TrimSpace(line)
		ticks := bare[:len(bare)-len(strings.TrimLeft(bare, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3 && !strings.Contains(bare[len(ticks):], "`"):
			fence = ticks
		case fence != "" && bare == ticks && len(ticks) >= len(fence):
			fence = ""
		case fence == "":
			withoutSpans(&out, line)
		}
	}
	return out.String()
}

// withoutSpans writes a line without its code spans: what stands between two
// runs of as many backticks.
func withoutSpans(out *strings.Builder, line string) {
	for {
		i := strings.IndexByte(line, '`')
		if i < 0 {
			break
		}
		out.WriteString(line[:i])
		n := len(line[i:]) - len(strings.TrimLeft(line[i:], "`"))
		ticks, rest := line[i:i+n], line[i+n:]
		end := spanEnd(rest, n)
		if end < 0 {
			out.WriteString(ticks)
			line = rest
			continue
		}
		line = rest[end+n:]
	}
	out.WriteString(line)
}

// spanEnd is where a run of exactly n backticks begins, or -1.
func spanEnd(s string, n int) int {
	for i := 0; i < len(s); {
		if s[i] != '`' {
			i++
			continue
		}
		run := len(s[i:]) - len(strings.TrimLeft(s[i:], "`"))
		if run == n {
			return i
		}
		i += run
	}
	return -1
}
