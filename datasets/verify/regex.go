package verify

import (
	"context"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// Limits of the regex verifier, beside those of every pattern.
const (
	maxRegexContent = 1 << 20
	maxPattern      = 8 << 10
	maxMatches      = 10_000
)

// newRegex makes the verifier by pattern, in RE2 syntax.
//
// Options: pattern; without it each task's tests are its pattern, or its gold
// where it has no tests. group (default -1): the number of the group whose text
// in the last match must equal the gold; -1 passes on any match. case (default
// true) tells upper from lower case.
func newRegex(o *options.Set) *guarded {
	r := &regexVerifier{group: int(o.Int("group", -1)), sensitive: o.Bool("case", true)}
	if pattern := o.String("pattern", ""); pattern != "" {
		compiled, err := r.compile(pattern)
		if err != nil {
			o.Fail("pattern", "%v", err)
		} else if r.pattern = compiled; r.group > compiled.NumSubexp() {
			o.Fail("group", "is %d, but the pattern has %d groups", r.group, compiled.NumSubexp())
		}
	}
	if r.group < -1 {
		o.Fail("group", "want -1 for any match, 0 for the whole match, or a group's number, got %d", r.group)
	}
	return &guarded{"regex", "1", r.judge}
}

type regexVerifier struct {
	pattern   *pattern
	group     int
	sensitive bool
}

func (r *regexVerifier) compile(text string) (*pattern, error) {
	if !r.sensitive {
		text = "(?i:" + text + ")"
	}
	return compilePattern(text)
}

func (r *regexVerifier) judge(_ context.Context, in Input) finding {
	if len(in.Content) > maxRegexContent {
		return unknown("answer too long to judge")
	}
	expr, gold := r.pattern, in.Gold
	if expr == nil {
		var text string
		switch {
		case in.Tests != nil && *in.Tests != "":
			text = *in.Tests
		case in.Gold != nil && *in.Gold != "":
			text, gold = *in.Gold, nil
		default:
			return unknown("task has no pattern")
		}
		var err error
		if len(text) > maxPattern {
			return unknown("pattern of the task too long")
		}
		if expr, err = r.compile(text); err != nil {
			return unknown("pattern of the task not readable")
		}
	}
	if expr.searches(in.Content) < 1 {
		return unknown("pattern too costly for the answer")
	}
	if r.group < 0 {
		if at := expr.FindStringIndex(in.Content); at != nil {
			return pass("matched", in.Content[at[0]:at[1]])
		}
		return finding{verdict: "fail", reason: "no match"}
	}
	if gold == nil || r.group > expr.NumSubexp() {
		return unknown("no gold answer for the group")
	}
	return r.judgeGroup(expr, in.Content, *gold)
}

func (r *regexVerifier) judgeGroup(expr *pattern, content, gold string) finding {
	// Each match may have cost a look at all the rest of the text.
	most := min(maxMatches, expr.searches(content))
	matches := expr.FindAllStringSubmatchIndex(content, most)
	switch len(matches) {
	case 0:
		return finding{verdict: "fail", reason: "no match"}
	case most:
		return unknown("too many matches")
	}
	last := matches[len(matches)-1]
	start, end := last[2*r.group], last[2*r.group+1]
	if start < 0 {
		return finding{verdict: "fail", reason: "group not in match"}
	}
	found := strings.TrimSpace(content[start:end])
	gold = strings.TrimSpace(gold)
	if found == gold || !r.sensitive && strings.EqualFold(found, gold) {
		return pass("equal", found)
	}
	return fail("different", found)
}
