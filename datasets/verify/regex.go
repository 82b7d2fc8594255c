package verify

import (
	"context"
	"regexp"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// Limits of the regex verifier. RE2 is linear in the text, but not in the
// product of text and pattern.
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
	pattern   *regexp.Regexp
	group     int
	sensitive bool
}

func (r *regexVerifier) compile(pattern string) (*regexp.Regexp, error) {
	if !r.sensitive {
		pattern = "(?i:" + pattern + ")"
	}
	return regexp.Compile(pattern)
}

func (r *regexVerifier) judge(_ context.Context, in Input) finding {
	if len(in.Content) > maxRegexContent {
		return unknown("answer too long to judge")
	}
	pattern, gold := r.pattern, in.Gold
	if pattern == nil {
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
		if pattern, err = r.compile(text); err != nil {
			return unknown("pattern of the task not readable")
		}
	}
	if r.group < 0 {
		if at := pattern.FindStringIndex(in.Content); at != nil {
			return pass("matched", in.Content[at[0]:at[1]])
		}
		return finding{verdict: "fail", reason: "no match"}
	}
	if gold == nil || r.group > pattern.NumSubexp() {
		return unknown("no gold answer for the group")
	}
	return r.judgeGroup(pattern, in.Content, *gold)
}

func (r *regexVerifier) judgeGroup(pattern *regexp.Regexp, content, gold string) finding {
	matches := pattern.FindAllStringSubmatchIndex(content, maxMatches)
	switch len(matches) {
	case 0:
		return finding{verdict: "fail", reason: "no match"}
	case maxMatches:
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
