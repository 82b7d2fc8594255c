// Package spell measures how far a word is from those that are known, for
// messages that name the nearest one.
package spell

// Distance is the Levenshtein distance of a and b in bytes: the fewest
// insertions, deletions and replacements that turn one into the other.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
