package verify

import (
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// Without a gold answer nobody knows what is right, and what an answer says is
// read all the same: votes compare it.
func TestAnswersAreReadWithoutAGold(t *testing.T) {
	empty := " "
	for _, tc := range []struct{ verifier, content, class string }{
		{"math", "2+2 is\nA: 4", "4"},
		{"math", "so \\boxed{\\frac{2}{4}}", "1/2"},
		{"math", "I do not know.", ""},
		{"choice", "The answer is (b).", "B"},
		{"choice", "I do not know.", ""},
		{"exact", " Paris ", "Paris"},
		{"exact", "", ""},
	} {
		v, err := New(tc.verifier, nil)
		if err != nil {
			t.Fatal(err)
		}
		golds := []*string{nil}
		if tc.verifier != "exact" { // which compares white space too
			golds = append(golds, &empty)
		}
		for _, gold := range golds {
			got := v.Verify(t.Context(), Input{Content: tc.content, Gold: gold})
			if got.Verdict != datasets.Unknown {
				t.Errorf("%s of %q without a gold: %s", tc.verifier, tc.content, got.Verdict)
			}
			class, ok := Class(&datasets.Candidate{Verdicts: []datasets.Verdict{got}})
			want := tc.class
			if tc.verifier == "math" && want != "" {
				want, _ = MathClass(want)
			}
			if class != want || ok != (want != "") {
				t.Errorf("%s of %q: class %q %v, want %q", tc.verifier, tc.content, class, ok, want)
			}
		}
	}
}
