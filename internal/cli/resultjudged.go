package cli

import (
	"fmt"
	"io"

	"github.com/stillhouse-data/stillhouse/activities"
)

// summarizeJudged says what judges were asked about the answers.
func summarizeJudged(w io.Writer, r *activities.BuildResult) {
	j := r.Judged
	if j == nil {
		return
	}
	fmt.Fprintf(w, "  judges: %s questions about answers, %s new, %s reused, %s unknown", grouped(j.Asks), grouped(j.New), grouped(j.Reused), grouped(j.Unknown))
	if j.Orders > 0 {
		fmt.Fprintf(w, "; in %s of %s comparisons the orders disagree", grouped(j.Flipped), grouped(j.Orders))
	}
	fmt.Fprintln(w)
}
