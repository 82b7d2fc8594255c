package verify

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// RE2 takes time in proportion to the text times the pattern, and few letters
// make a large pattern: (x{0,999}){0,1} written a hundred times has 100,000
// states, each of which may be alive at every letter.
const (
	// maxStates bounds a pattern.
	maxStates = 50_000
	// maxWork bounds states times bytes of text, over all matches looked for:
	// some seconds in the worst case.
	maxWork = 1 << 29
)

// A pattern is a compiled regular expression that knows what it may cost.
type pattern struct {
	*regexp.Regexp
	states int // about, at least 1
}

// compilePattern compiles a pattern in RE2 syntax. It refuses a large one before
// it takes memory.
func compilePattern(text string) (*pattern, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	n := statesOf(parsed)
	if n > maxStates {
		return nil, fmt.Errorf("the pattern is too large: repeats count as often as they may be taken, and at most %d states are allowed; repeat less", maxStates)
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &pattern{compiled, n}, nil
}

// searches is how many times the text can be searched from any place to its end
// within maxWork.
func (p *pattern) searches(text string) int { return maxWork / (p.states * max(len(text), 1)) }

// statesOf is about the number of states of an expression, and above maxStates
// where it is more.
func statesOf(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += statesOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxStates+1)
}
