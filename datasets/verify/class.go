package verify

import (
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/verify/mathexpr"
)

// Class gives what an answer says in a form that is the same for answers that
// say the same, for policies that count votes: 1/2, 0.5 and \frac{2}{4} are one
// answer where the math verifier read them. It is false where no verifier read
// a final answer, and then nothing is known of what the answer says.
func Class(c *datasets.Candidate) (string, bool) {
	for i := range c.Verdicts {
		v := &c.Verdicts[i]
		if v.Extracted == nil || strings.TrimSpace(*v.Extracted) == "" {
			continue
		}
		if v.Verifier == "math" {
			if class, ok := MathClass(*v.Extracted); ok {
				return class, true
			}
		}
		return strings.Join(strings.Fields(*v.Extracted), " "), true
	}
	return "", false
}

// MathClass is the class of a final statement that the math verifier extracted:
// statements have a class in common only if they are equal, units and names
// aside. Two that are equal may have two classes where it takes a proof to tell,
// as √(3+2√2) and 1+√2 have. It is false for what is not readable.
func MathClass(statement string) (string, bool) {
	v, err := mathexpr.Read(statement)
	if err != nil {
		return "", false
	}
	return v.Key()
}
