package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
)

func TestRequestsOfATeacher(t *testing.T) {
	a := New([]TeacherInfo{{ID: "k3", Model: "kimi-k3", Priced: true, PriceNote: "list"}, {ID: "quiet"}})
	ptr := func(s string) *string { return &s }
	for i := range 10 {
		c := datasets.Candidate{Teacher: "k3", ModelAnswered: ptr("kimi-k3"), Fingerprint: ptr("fp_1")}
		if i < 2 {
			c.ModelAnswered, c.Fingerprint, c.Flags = ptr("kimi-k2"), ptr("fp_2"), []string{"model_drift", "think_tags"}
		}
		if i == 9 {
			c.Error = ptr("timeout")
		}
		a.Add(&c)
	}
	cost := func(n int64) *int64 { return &n }
	for _, row := range []datasets.Attempt{
		{Times: 9, CostMicros: cost(90), Outcome: datasets.OutcomeAnswer},
		{Times: 1, CostMicros: cost(1234), Outcome: datasets.OutcomeAnswered},
		{Times: 3, CostMicros: cost(0), Outcome: datasets.OutcomeUndone},
		{Times: 1, CostMicros: cost(7), Outcome: datasets.OutcomeSpare},
	} {
		row.Teacher = "k3"
		a.AddAttempt(&row)
	}
	r := a.Report()
	lost := 0.001241
	want := Requests{
		Attempts: 14, FailedAttempts: 5, FailedCostUSD: &lost,
		Flags: map[string]int64{"model_drift": 2, "think_tags": 2}, Models: map[string]int64{"kimi-k2": 2, "kimi-k3": 7},
		Fingerprints: map[string]int64{"fp_1": 7, "fp_2": 2},
	}
	if diff := cmp.Diff(want, r.Teachers[0].Requests); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	notes := strings.Join(r.Notes, "\n")
	for _, words := range []string{
		"5 of 14 requests to k3 brought no answer, and may be charged for $0.001241",
		"2 of 9 answers of k3 were given by another model than was asked (model_drift)",
		"k3 answered from 2 backends",
	} {
		if !strings.Contains(notes, words) {
			t.Errorf("no note says %q:\n%s", words, notes)
		}
	}
	if strings.Contains(notes, "requests to quiet") {
		t.Errorf("a teacher without requests has a note:\n%s", notes)
	}
}

// An endpoint may call itself by a new name each time.
func TestNamesAreBounded(t *testing.T) {
	a := New(nil)
	for i := range 1000 {
		name := fmt.Sprint("fp_", i)
		a.Add(&datasets.Candidate{Teacher: "t", Fingerprint: &name})
	}
	got := a.Report().Teachers[0].Fingerprints
	if len(got) != maxNames || got[Other] != 1000-maxNames+1 {
		t.Errorf("%d names, %d of them lumped", len(got), got[Other])
	}
}
