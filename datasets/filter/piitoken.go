package filter

import "strings"

// findTokens finds JSON web tokens, in order: two parts that begin as JSON does
// in base64, of 13 to 1003 characters, and a third of 20 or more, with dots
// between them. As a pattern its counts would cost thousands of steps a byte.
func findTokens(text string, add func(from, to int)) {
	const head = "eyJ"
	last := 0 // end of the one before
	for at := 0; ; {
		i := strings.Index(text[at:], "."+head)
		if i < 0 {
			return
		}
		dot := at + i
		second := dot + 1
		middle := partEnd(text, second)
		if n := middle - second; n < 13 || n > 1003 || middle == len(text) || text[middle] != '.' {
			at = middle
			continue
		}
		end := min(partEnd(text, middle+1), middle+1+1000)
		from := tokenStart(text, max(last, dot-1003), dot)
		if from < 0 || end-middle-1 < 20 {
			at = middle // the second part may be the first of another
			continue
		}
		add(from, end)
		at, last = end, end
	}
}

// tokenStart is where the first part of a token begins that ends at a dot and
// not before least; -1 where there is none.
func tokenStart(text string, least, dot int) int {
	part := dot
	for part > least && isPart(text[part-1]) {
		part--
	}
	for {
		i := strings.Index(text[part:dot], "eyJ")
		if i < 0 || dot-part-i < 13 {
			return -1
		}
		if part += i; part == 0 || !isWord(text[part-1]) && text[part-1] != '_' {
			return part
		}
		part++
	}
}

// partEnd is where the characters of base64 end that begin at a place.
func partEnd(text string, at int) int {
	for at < len(text) && isPart(text[at]) {
		at++
	}
	return at
}

func isPart(c byte) bool { return isWord(c) || c == '_' || c == '-' }
