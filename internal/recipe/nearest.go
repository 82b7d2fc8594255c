package recipe

import "strings"

// nearest returns the known word that is closest to word by the
// Damerau-Levenshtein distance (optimal string alignment), and whether it is so
// close that it is probably what was meant: at most a third of its letters off.
func nearest(word string, known []string) (best string, close bool) {
	least := 1 << 30
	for _, k := range known {
		if d := distance(fold(word), fold(k)); d < least {
			best, least = k, d
		}
	}
	return best, best != "" && least <= max(1, (len(best)+1)/3)
}

// fold makes case and the kind of dash no difference.
func fold(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
}

func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// didYouMean is the hint for a word that is none of the known ones.
func didYouMean(word string, known []string) string {
	best, close := nearest(word, known)
	switch {
	case len(known) == 0:
		return "remove it"
	case close:
		return "did you mean " + quote(best) + "?"
	case len(known) > 12:
		return "the nearest known one is " + quote(best)
	}
	return "known here: " + strings.Join(known, ", ")
}
