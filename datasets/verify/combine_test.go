package verify

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// What is asked one part after the other gets the verdict that asking all of them
// would give: what is spared could not have changed it.
func TestCombineAsksNoFurtherThanItHasTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := Rule{Kind: rapid.SampledFrom(CombineKinds()).Draw(t, "kind"), PassAt: float64(rapid.IntRange(1, 10).Draw(t, "pass at")) / 10}
		n := rapid.IntRange(1, 6).Draw(t, "parts")
		truth, parts := make([]Part, n), make([]Part, n)
		for i := range truth {
			p := Part{Weight: float64(rapid.IntRange(1, 5).Draw(t, "weight")), Low: 1, High: 5}
			p.Verdict.Verdict = rapid.SampledFrom([]string{datasets.Pass, datasets.Fail, datasets.Unknown}).Draw(t, "verdict")
			if rapid.Bool().Draw(t, "scored") {
				score := float64(rapid.IntRange(0, 6).Draw(t, "score"))
				p.Verdict.Score = &score
			}
			truth[i], parts[i] = p, p
			if rapid.Bool().Draw(t, "open") {
				parts[i] = Part{Open: true, Weight: p.Weight, Low: p.Low, High: p.High}
			}
		}
		for range n + 1 {
			got := rule.Combine(parts)
			if got.Next < 0 {
				want := rule.Combine(truth)
				if got.Verdict.Verdict != want.Verdict.Verdict {
					t.Fatalf("%s of %+v is %s, and %s of all that is known", rule.Kind, parts, got.Verdict.Verdict, want.Verdict.Verdict)
				}
				return
			}
			if got.Verdict.Verdict != datasets.Unknown || !parts[got.Next].Open {
				t.Fatalf("%+v asks for part %d of %+v", got, got.Next, parts)
			}
			parts[got.Next] = truth[got.Next]
		}
		t.Fatal("asked for more than there is")
	})
}

func TestCombineOfNothingSaysNothing(t *testing.T) {
	for _, kind := range CombineKinds() {
		if got := (Rule{Kind: kind}).Combine(nil); got.Verdict.Verdict != "" || got.Next != -1 {
			t.Errorf("%s: %+v", kind, got)
		}
	}
}
