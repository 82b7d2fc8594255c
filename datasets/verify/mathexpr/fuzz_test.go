package mathexpr

import (
	"errors"
	"math/big"
	"testing"
	"time"
)

var seeds = []string{
	"18", "-1,450,000.50", "2 1/2", `\frac{3}{4}`, `\dfrac12`, "10%", "$18", "(1,2)", `\{1,2\}`, `[0,\infty)`, "5^(5^5)", "x = 5", "2 million", "½", `5\text{ cm}^2`,
	`\sqrt[3]{x^2+1}`, `\begin{pmatrix}1&2\\3&4\end{pmatrix}`, `1\pm\sqrt2`, `x<1 \text{ or } x\ge 3`, `1<x\le 2`, `\sin^2 x+\cos^2 x`, `\log_2 8`, `e^{i\pi}`, "204_5", "7:32",
	`|x-1|`, `\binom{5}{2}`, `5!`, `\lfloor x\rfloor`, `f(2)+g'(x)`, `(x,y)=(1,2)`, `p=5,q=2;p=7,q=2`, `\mathbb{R}\setminus\{0\}`, `(0,1)\cup(1,2)`, "x≈3.14", "9*2=18", "<<9*2=18>>18",
	`\frac{x^2-1}{x-1}`, `\vec{v}_1`, `α₁²`, "5 or 6", "yes", `90^{\circ}`, `\emptyset`, `a+2z=2z+a=101`, "3n", "$5 a day", "1.5e-3", `\overline{AB}`, `\max(1,2)`,
}

// FuzzMeets: no two texts panic, none takes long, a value never differs from
// itself, and values with one key never differ.
func FuzzMeets(f *testing.F) {
	for i, s := range seeds {
		f.Add(s, seeds[(i+1)%len(seeds)])
		f.Add(s, s)
	}
	tolerance := big.NewRat(1, 100_000)
	f.Fuzz(func(t *testing.T, gold, answer string) {
		start := time.Now()
		g, err := Read(gold)
		if err != nil {
			if !errors.Is(err, ErrUnreadable) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("%q: %v", gold, err)
			}
			return
		}
		key, hasKey := g.Key()
		if j := Meets(g, g, tolerance); j.Verdict == Fail {
			t.Errorf("%q and itself: %v", gold, j)
		}
		if a, err := Read(answer); err == nil {
			j := Meets(g, a, tolerance)
			other, ok := a.Key()
			if hasKey && ok && key == other && j.Verdict == Fail && g.percent == a.percent && !g.identity {
				t.Errorf("%q and %q have the key %q: %v", gold, answer, key, j)
			}
			if j.Reason == "" {
				t.Errorf("%q and %q: no reason", gold, answer)
			}
		}
		if d := time.Since(start); d > 4*time.Second {
			t.Errorf("%q and %q took %v", gold, answer, d)
		}
	})
}
