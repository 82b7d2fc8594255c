package cli

import (
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets"
)

func entryOfFit(r *datasets.FitRow) entry {
	score := "not scored"
	if r.NLL != nil && r.Tokens != nil && *r.Tokens > 0 {
		score = fmt.Sprintf("%.3f nats a token over %s tokens", *r.NLL/float64(*r.Tokens), grouped(*r.Tokens))
	}
	return entry{
		title: compact(r.Domain+" / "+r.Effort, "teacher "+r.Teacher, score),
		facts: [][2]string{{"sample", r.SampleID}, {"student", r.Student}, {"scorer", r.Scorer}, {"why", text(r.Why)}},
	}
}
