package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// TestManyTeachersInManyDomains: what has no room in a comparison is said, and
// what is compared are the domains with the most asks.
func TestManyTeachersInManyDomains(t *testing.T) {
	a := New(nil)
	pass := datasets.Pass
	for domain := range 20 {
		for task := range 1 + domain%2 { // the odd ones have more
			for teacher := range 50 {
				a.Add(&datasets.Candidate{TaskID: fmt.Sprint(domain, " ", task), Domain: fmt.Sprintf("d%02d", domain), Effort: "x", Teacher: fmt.Sprint("t", teacher), Verdict: &pass})
			}
		}
	}
	r := a.Report()
	pairs, odd := 0, 0
	for _, s := range r.Comparison.Scopes[1:] {
		pairs += len(s.Pairs)
		if (s.Domain[2]-'0')%2 == 1 {
			odd++
		}
	}
	if pairs != 16*1225 || odd != 10 {
		t.Errorf("%d pairs, and %d of the ten larger domains; want 19,600 and all", pairs, odd)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "room for 20,000 pairs of teachers: the 4 domains") {
		t.Errorf("no note says that domains are missing:\n%s", notes)
	}
	if r.Comparison.Scopes[0].Tasks != 30 {
		t.Errorf("%d tasks in all, want those of all domains", r.Comparison.Scopes[0].Tasks)
	}
}

// TestPageOfManyDomains: a page holds some, and says how many it does not.
func TestPageOfManyDomains(t *testing.T) {
	a := New(nil)
	for i := range shownCells + 5 {
		a.Add(&datasets.Candidate{TaskID: fmt.Sprint(i), Domain: fmt.Sprint(i), Effort: "x", Teacher: "t"})
	}
	var page strings.Builder
	if err := a.Report().HTML(&page); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "And 5 more: the report") {
		t.Error("the page does not say that domains are missing")
	}
}
