package verify

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// newExact compares the whole answer with the gold, byte for byte.
// Options: trim (default true) drops white space around both; case (default
// true) tells upper from lower case.
func newExact(o *options.Set) *guarded {
	trim, sensitive := o.Bool("trim", true), o.Bool("case", true)
	return &guarded{"exact", "1", func(_ context.Context, in Input) finding {
		if in.Gold == nil {
			return ungraded(strings.TrimSpace(in.Content))
		}
		answer, gold := in.Content, *in.Gold
		if trim {
			answer, gold = strings.TrimSpace(answer), strings.TrimSpace(gold)
		}
		if answer == gold || !sensitive && strings.EqualFold(answer, gold) {
			return pass("equal", answer)
		}
		return fail("different", answer)
	}}
}

// clip cuts s to at most n bytes at a character's border.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
