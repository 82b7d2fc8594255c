package stats

import "math"

// Cohen is Cohen's kappa of two raters over a square table of counts, where
// table[i][j] are the items that the first called i and the second j: Cohen, A
// coefficient of agreement for nominal scales, 1960. It is NaN where chance
// alone gives full agreement, such as where both call everything the same.
func Cohen(table [][]int64) float64 {
	var n, agreed, chance float64
	rows, cols := make([]float64, len(table)), make([]float64, len(table))
	for i := range table {
		for j, count := range table[i] {
			n += float64(count)
			rows[i] += float64(count)
			cols[j] += float64(count)
			if i == j {
				agreed += float64(count)
			}
		}
	}
	for i := range rows {
		chance += rows[i] * cols[i] / (n * n)
	}
	return corrected(agreed/n, chance)
}

// corrected is agreement beyond chance.
func corrected(agreed, chance float64) float64 {
	if chance >= 1 {
		return math.NaN()
	}
	return (agreed - chance) / (1 - chance)
}

// Fleiss is Fleiss' kappa over items that all were rated equally often, where
// counts[i][k] is how many raters called item i k: Fleiss, Measuring nominal
// scale agreement among many raters, 1971. It is NaN over nothing, below two
// raters, where items were rated differently often, and where chance alone
// gives full agreement.
func Fleiss(counts [][]int64) float64 {
	var raters, agreed float64
	var totals []float64
	for i, item := range counts {
		var sum, square float64
		for k, c := range item {
			if k == len(totals) {
				totals = append(totals, 0)
			}
			totals[k] += float64(c)
			sum += float64(c)
			square += float64(c) * float64(c)
		}
		if i == 0 {
			raters = sum
		}
		if sum != raters || raters < 2 {
			return math.NaN()
		}
		agreed += (square - raters) / (raters * (raters - 1))
	}
	n := float64(len(counts))
	var chance float64
	for _, t := range totals {
		chance += t / (n * raters) * t / (n * raters)
	}
	return corrected(agreed/n, chance)
}

// Krippendorff is Krippendorff's alpha for nominal data, where counts[i][k] is
// how many raters called item i k; raters may be missing, and items with fewer
// than two ratings say nothing. Krippendorff, Content analysis, 2004, chapter
// 11. It is NaN over nothing and where only one value occurs.
func Krippendorff(counts [][]int64) float64 {
	var n, observed float64
	var totals []float64
	for _, item := range counts {
		var sum float64
		for _, c := range item {
			sum += float64(c)
		}
		if sum < 2 {
			continue
		}
		n += sum
		for k, c := range item {
			for k >= len(totals) {
				totals = append(totals, 0)
			}
			totals[k] += float64(c)
			observed += float64(c) * (sum - float64(c)) / (sum - 1)
		}
	}
	var expected float64
	for _, t := range totals {
		expected += t * (n - t)
	}
	if expected == 0 {
		return math.NaN()
	}
	return 1 - (n-1)*observed/expected
}
