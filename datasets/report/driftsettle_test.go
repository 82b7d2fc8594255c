package report

import (
	"math"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// thinking is a pair of answers that differ in their reasoning alone.
func thinking(before, now int64, tokens bool) DriftPair {
	p := pairOf(datasets.Pass, datasets.Pass, 100, 100)
	p.Before.Thought, p.After.Thought = ref(before*4), ref(now*4)
	if tokens {
		p.Before.Reasoning, p.After.Reasoning = ref(before), ref(now)
	}
	return p
}

// A teacher that reasons less, and answers as before, has changed.
func TestATeacherThatReasonsLess(t *testing.T) {
	for _, tc := range []struct {
		tokens      bool
		unit        string
		before, now float64
	}{{true, "tokens", 1000, 400}, {false, "code_points", 4000, 1600}} {
		var pairs []DriftPair
		for range 12 {
			pairs = append(pairs, thinking(1000, 400, tc.tokens))
		}
		d := CompareDrift("k3", 1, probedAt, pairs)
		// Twelve shorter and none longer: 2·2^-12, the smallest of three tests.
		if d.ReasoningUnit != tc.unit || *d.ReasoningBefore != tc.before || *d.ReasoningNow != tc.now || d.ThinksShorter != 12 || d.ThinksLonger != 0 ||
			math.Abs(*d.ReasoningP-math.Ldexp(1, -11)) > 1e-15 || math.Abs(*d.ReasoningHolm-3*math.Ldexp(1, -11)) > 1e-15 || d.Family != 3 {
			t.Errorf("%+v", d)
		}
		if !d.Changed || len(d.Why) != 1 || !strings.Contains(d.Why[0], "its reasoning has") || !strings.Contains(d.Line(), "of reasoning, now") {
			t.Errorf("%q %s", d.Why, d.Line())
		}
	}
	// Where the endpoint counts some reasonings and shows others, only one unit
	// is compared.
	d := CompareDrift("k3", 1, probedAt, []DriftPair{thinking(10, 20, true), thinking(1000, 2000, false)})
	if d.ReasoningUnit != "tokens" || *d.ReasoningBefore != 10 || d.ThinksLonger != 1 {
		t.Errorf("%+v", d)
	}
	if d := CompareDrift("k3", 1, probedAt, []DriftPair{pairOf(datasets.Pass, datasets.Pass, 1, 1)}); d.ReasoningUnit != "" || d.ReasoningP != nil || d.Family != 2 {
		t.Errorf("no reasoning: %+v", d)
	}
}

// What would be a change of one teacher is none where fifty are probed: a
// hundred tests would bring one such p value by chance alone.
func TestProbesOfManyTeachersAreOneFamily(t *testing.T) {
	borderline := func(teacher string) Drift {
		var pairs []DriftPair
		for range 9 { // 2·2^-9 = 0.0039, twice that after adjustment among two
			pairs = append(pairs, pairOf(datasets.Pass, datasets.Fail, 10, 10))
		}
		return CompareDrift(teacher, 1, probedAt, pairs)
	}
	alone := borderline("a")
	if !alone.Changed || *alone.PassHolm >= driftLevel {
		t.Fatalf("%+v", alone)
	}
	list := []Drift{alone}
	for range 49 {
		list = append(list, CompareDrift("quiet", 1, probedAt, []DriftPair{pairOf(datasets.Pass, datasets.Pass, 10, 10)}))
	}
	SettleDrift(list)
	if list[0].Changed || len(list[0].Why) != 0 || list[0].Family != 100 || math.Abs(*list[0].PassHolm-100*math.Ldexp(1, -8)) > 1e-12 {
		t.Errorf("among fifty: changed %t, family %d, adjusted p %g", list[0].Changed, list[0].Family, *list[0].PassHolm)
	}
	// Another model is no matter of chance.
	list[7].Models = []DriftName{{Before: "m-1", Now: "m-2", Pairs: 1}}
	SettleDrift(list)
	if !list[7].Changed {
		t.Error("another model answers, and that is no change")
	}
	SettleDrift(nil)
}

// Reports of before there were adjusted p values, and reasoning, are shown.
func TestProbesOfEarlierReportsAreShown(t *testing.T) {
	d := Drift{Teacher: "old", Probe: 1, At: probedAt, Pairs: 9, Asked: 9, PassBefore: proportion(9, 9), PassNow: proportion(0, 9), Worse: 9, PassP: ref(0.0039), Changed: true}
	if line := d.Line(); !strings.Contains(line, "p = 0.0039") || !strings.Contains(line, "IT CHANGED") {
		t.Error(line)
	}
	if row := d.row(); row[5] != "0.004" || row[8] != "-" {
		t.Errorf("%q", row)
	}
}
