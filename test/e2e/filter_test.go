//go:build integration

package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// TestFiltersOfNineTeachers puts 7,245 recorded answers through the recommended
// filters and those that look at the whole build. What they reject is what the
// documentation says, no rejected answer is in the dataset, what is masked is in
// no table, and other filters ask nobody again.
func TestFiltersOfNineTeachers(t *testing.T) {
	h := newHouse(t)
	const chain = "filter: [finish, refusal, identity, think, control_tokens, repetition, {length: {max_tokens: 16000, max_ratio: 8}}, language, {pii: {action: mask}}]\nmerge: {policy: union, answer_duplicates: keep}\n"
	h.build(alpacaRecipe(t, "alpaca", chain))
	counts := map[string]int{}
	accepted := 0
	for _, c := range rows[datasets.Candidate](h, "alpaca", datasets.TableCandidates) {
		for _, reason := range c.RejectReasons {
			counts[reason]++
		}
		if c.Accepted {
			accepted++
		}
		if strings.Contains(c.Content(), "jsmith@berkeley.edu") || strings.Contains(c.Content(), "(888) 426-4435") {
			t.Errorf("%s is not masked: %v", c.SampleID, c.Flags)
		}
		if slices.Contains(c.Flags, "pii_masked") != strings.Contains(c.Content(), "[EMAIL]") && !strings.Contains(c.Content(), "[PHONE]") {
			t.Errorf("%s: flags %v", c.SampleID, c.Flags)
		}
	}
	for reason, want := range map[string]int{"refusal": 54, "identity": 25, "cutoff": 41, "language": 4, "repetition:loop": 2, "repetition:sentence": 2} {
		if counts[reason] != want {
			t.Errorf("%s rejects %d answers, want %d (all: %v)", reason, counts[reason], want, slices.Sorted(maps.Keys(counts)))
		}
	}
	if counts["length:long"] == 0 {
		t.Error("no answer is eight times as long as the median")
	}
	train := rows[datasets.Row](h, "alpaca", datasets.TableTrain)
	if len(train) != accepted || accepted < 7000 || accepted >= 7245 {
		t.Errorf("%d rows of %d accepted answers", len(train), accepted)
	}
	for _, row := range train {
		for _, m := range row.Messages {
			if m.Role == "assistant" && strings.Contains(*m.Content, "jsmith@berkeley.edu") {
				t.Errorf("row %s is not masked", row.SampleID)
			}
		}
	}
	h.run(0, "reparse", "alpaca", "--dry-run")

	r := h.build(alpacaRecipe(t, "alpaca", "filter: [finish]\nmerge: {policy: union, answer_duplicates: keep}\n"))
	if r.AnswersNew != 0 || r.Rows["train"] <= int64(len(train)) {
		t.Errorf("with finish alone %d answers are new and %d rows are there, want none and more than %d", r.AnswersNew, r.Rows["train"], len(train))
	}
}
