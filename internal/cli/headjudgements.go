package cli

import (
	"fmt"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
)

func entryOfJudgement(r *datasets.JudgeRow) entry {
	said := "unknown"
	switch {
	case r.Score != nil:
		said = fmt.Sprintf("score %.4g", *r.Score)
	case r.Outcome != nil && *r.Outcome == datasets.JudgedTie:
		said = "a tie"
	case r.Outcome != nil && r.Kind == datasets.KindReference && *r.Outcome == datasets.JudgedB:
		said = "the gold answer is better"
	case r.Outcome != nil && *r.Outcome == datasets.JudgedB:
		said = "b is better"
	case r.Outcome != nil:
		said = "a is better"
	}
	family, orders := "", ""
	if r.SameFamily {
		family = "of the judge's family"
	}
	if r.Consistent != nil && !*r.Consistent {
		orders = "the orders disagree"
	}
	order := text(r.Order)
	if order != "" {
		order = "order " + order
	}
	return entry{
		title: compact(r.Domain+" / "+r.Effort, r.Verifier+" "+r.Judge, "of "+strings.Join(compact(r.TeacherA, text(r.TeacherB)), " and "), said, order, orders, family),
		facts: [][2]string{{"sample", r.SampleA}, {"other sample", text(r.SampleB)}, {"why", text(r.Why)}, {"judge said", text(r.Reply)}},
	}
}
