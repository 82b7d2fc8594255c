package activities

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// A gate on drift holds until the teacher is asked anew, not only for the build
// whose probe showed the change: schedules go on, and the next one must not
// publish what this one held back.
func TestTheGateOnDriftHoldsUntilSomebodyActs(t *testing.T) {
	var changed atomic.Bool
	var asked atomic.Int64
	server := teacherstest.New(t, changing(&changed, &asked))
	w := newWorld(t)
	w.file("p.jsonl", sums(40))
	gated := func(every string) string {
		return driftRecipe("a", server.URL, 20, every) + "gates: {allow_drift: false}\n"
	}
	w.build(gated("7d"))
	changed.Store(true)
	w.file("p.jsonl", sums(41)) // so that there is something to publish

	_, result := w.build(gated("1ns"))
	if len(result.Gates) != 1 || !strings.HasPrefix(result.Gates[0], "allow_drift: teacher t changed: ") || !strings.Contains(result.Gates[0], "--refresh t") {
		t.Fatalf("gates %q", result.Gates)
	}
	if n := w.versions("a"); n != 1 {
		t.Fatalf("%d versions: the gate published", n)
	}
	_, result = w.build(gated("7d"))
	if len(result.Drift) != 0 {
		t.Fatalf("%+v: the build is to be one that does not probe", result.Drift)
	}
	if len(result.Gates) != 1 || !strings.Contains(result.Gates[0], "probe 1 of "+time.Now().UTC().Format(time.DateOnly)) || !strings.Contains(result.Gates[0], "not asked anew since") || w.versions("a") != 1 {
		t.Errorf("the build after it: gates %q, %d versions", result.Gates, w.versions("a"))
	}

	// Once the teacher was asked anew, it is for the other gates to say whether
	// what it answers now will do: here every answer is wrong.
	r := w.refresh(gated("7d"), "t").ask()
	r.refine()
	if _, result = r.seal(); len(result.Gates) != 1 || strings.HasPrefix(result.Gates[0], "allow_drift") {
		t.Errorf("after a refresh: gates %q, want only that there are no rows", result.Gates)
	}
	changed.Store(false)
	r = w.refresh(gated("7d"), "t").ask()
	r.refine()
	if _, result = r.seal(); len(result.Gates) != 0 || w.versions("a") != 2 {
		t.Errorf("after a refresh of a teacher that is right again: gates %q, %d versions", result.Gates, w.versions("a"))
	}
}
