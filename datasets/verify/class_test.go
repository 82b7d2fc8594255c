package verify

import (
	"context"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
)

func TestClass(t *testing.T) {
	gold := "7"
	classOf := func(verifier, content string) string {
		v := mustNew(t, verifier, nil).Verify(context.Background(), Input{Content: content, Gold: &gold})
		class, ok := Class(&datasets.Candidate{Verdicts: []datasets.Verdict{v}})
		if ok != (class != "") {
			t.Errorf("%q: %q, %v", content, class, ok)
		}
		return class
	}
	for _, same := range [][]string{
		{`A: 1/2`, `\boxed{0.5}`, `The answer is $\frac{2}{4}$.`},
		{`A: 1,000`, `A: $1000`, `\boxed{1{,}000 \text{ eggs}}`},
		{`A: it depends`, `A: it  depends`},
		{`A: {1, 2}`, `\boxed{2} and \boxed{1}`},
	} {
		for _, other := range same[1:] {
			if a, b := classOf("math", same[0]), classOf("math", other); a != b || a == "" {
				t.Errorf("%q is %q, %q is %q", same[0], a, other, b)
			}
		}
	}
	if a, b := classOf("math", "A: 10"), classOf("math", "A: 11"); a == b {
		t.Errorf("10 and 11 are %q", a)
	}
	if got := classOf("math", "She has eggs."); got != "" {
		t.Errorf("no statement is %q", got)
	}
	if got := classOf("exact", "1/2"); got != "1/2" {
		t.Errorf("exact text is %q", got)
	}
}

// The four models of GSM8K vote, one vote each: more than half of 1,319 problems
// get a label, most of them the right one.
func TestClassesOfGSM8KVote(t *testing.T) {
	v := mustNew(t, "math", nil)
	labelled, right, ties := 0, 0, 0
	for _, p := range loadLabelled(t) {
		votes := map[string]int{}
		voters := 0
		for _, m := range models {
			verdict := v.Verify(context.Background(), Input{Content: p.answers[m].Solution, Gold: &p.gold})
			if class, ok := Class(&datasets.Candidate{Verdicts: []datasets.Verdict{verdict}}); ok {
				votes[class]++
				voters++
			}
		}
		winner, most, next := "", 0, 0
		for class, n := range votes {
			switch {
			case n > most:
				winner, most, next = class, n, most
			case n > next:
				next = n
			}
		}
		switch {
		case most == 2 && next == 2:
			ties++
		case 2*most >= voters && most > next && most > 0:
			labelled++
			if gold, ok := MathClass(p.gold); ok && gold == winner {
				right++
			}
		}
	}
	if labelled != 791 || right != 565 || ties != 40 {
		t.Errorf("%d labelled, %d of them right, %d ties; want 791, 565 and 40", labelled, right, ties)
	}
}
