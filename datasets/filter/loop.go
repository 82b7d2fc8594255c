package filter

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A loop is a run of text that repeats itself with a short period, as a model
// writes that has lost its way: 18181818…. It has to be much longer than what
// people write so: a decimal fraction, a rule of dashes, a field to fill in.
const (
	longestPeriod = 48  // bytes
	leastPeriods  = 8   // repeats
	endLoop       = 64  // bytes of a loop that the text ends in
	anyLoop       = 256 // bytes of a loop that it comes out of
	// Loops without a letter or a digit are drawn on purpose (rules, blanks,
	// tables), and those of whole lines may be what a program prints.
	drawnLoop = 2048
)

// loops tells whether a text holds a loop.
//
// For every period p, a loop is a stretch in which each byte equals the one p
// before it. Time is len(text) * longestPeriod at most; a stretch is looked for
// only where a probe finds one, so that prose takes a fraction of that.
func loops(text string) bool {
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	if endsInLoop(text) {
		return true
	}
	// A loop of anyLoop bytes covers one of the places that are anyLoop/4
	// apart, and three times as much behind it.
	const step = anyLoop / 4
	for at := 0; at+2*step <= len(text); at += step {
		p := periodOf(text[at : at+2*step])
		if p == 0 {
			continue
		}
		from, to := at, at+2*step
		for from > 0 && text[from-1] == text[from-1+p] {
			from--
		}
		for to < len(text) && text[to] == text[to-p] {
			to++
		}
		if n := to - from; n >= leastPeriods*p && (n >= drawnLoop || n >= anyLoop && spoken(text[from:from+p])) {
			return true
		}
		at = max(at, to-2*step-to%step) // the rest of this loop says nothing new
	}
	return false
}

// endsInLoop tells whether the text's end is a loop of letters or digits.
func endsInLoop(text string) bool {
	for p := 1; p <= longestPeriod && 2*p <= len(text); p++ {
		n := p
		for n < len(text) && text[len(text)-1-n] == text[len(text)-1-n+p] {
			n++
		}
		if n >= max(endLoop, leastPeriods*p) && spoken(text[len(text)-p:]) {
			return true
		}
	}
	return false
}

// periodOf is the smallest period of a text, 0 where it has none that is short.
func periodOf(text string) int {
	for p := 1; p <= longestPeriod; p++ {
		if text[p] == text[0] && text[len(text)-1] == text[len(text)-1-p] && text[p:] == text[:len(text)-p] {
			return p
		}
	}
	return 0
}

// spoken tells whether one period of a loop is words: it holds a letter or a
// digit, and no line ends in it. It may begin within a character, whose rest
// counts as a letter.
func spoken(period string) bool {
	if strings.IndexByte(period, '\n') >= 0 {
		return false
	}
	for _, r := range period {
		if r == utf8.RuneError || unicode.IsLetter(r) || unicode.IsDigit(r) {
			return true
		}
	}
	return false
}
