//go:build readers

package readers

import "github.com/stillhouse-data/stillhouse/datasets/report"

// asks are the rows of the table that lies under a comparison.
func asks() []report.Ask {
	var out []report.Ask
	for _, c := range candidates() {
		out = append(out, report.AskOf("maths", 3, &c))
	}
	return out
}
