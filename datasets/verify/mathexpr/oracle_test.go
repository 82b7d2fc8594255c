package mathexpr

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// A formula is LaTeX with its value at a point, in floating-point numbers.
type formula struct {
	latex string
	value func(x, y float64) float64
}

// formulas draws formulas of bounded depth in x and y.
func formulas(depth int) *rapid.Generator[formula] {
	leaf := rapid.OneOf(
		rapid.Map(rapid.IntRange(-9, 9), func(n int) formula {
			return formula{"(" + strconv.Itoa(n) + ")", func(x, y float64) float64 { return float64(n) }}
		}),
		rapid.SampledFrom([]formula{
			{"x", func(x, y float64) float64 { return x }},
			{"y", func(x, y float64) float64 { return y }},
			{`\pi`, func(x, y float64) float64 { return math.Pi }},
			{`\frac{2}{3}`, func(x, y float64) float64 { return 2.0 / 3 }},
		}),
	)
	if depth == 0 {
		return leaf
	}
	sub := formulas(depth - 1)
	unary := func(form string, f func(float64) float64) *rapid.Generator[formula] {
		return rapid.Map(sub, func(a formula) formula {
			return formula{fmt.Sprintf(form, a.latex), func(x, y float64) float64 { return f(a.value(x, y)) }}
		})
	}
	binary := func(form string, f func(a, b float64) float64) *rapid.Generator[formula] {
		return rapid.Custom(func(t *rapid.T) formula {
			a, b := sub.Draw(t, "a"), sub.Draw(t, "b")
			return formula{fmt.Sprintf(form, a.latex, b.latex), func(x, y float64) float64 { return f(a.value(x, y), b.value(x, y)) }}
		})
	}
	return rapid.OneOf(leaf, leaf,
		binary(`(%s+%s)`, func(a, b float64) float64 { return a + b }),
		binary(`(%s-%s)`, func(a, b float64) float64 { return a - b }),
		binary(`%s\cdot %s`, func(a, b float64) float64 { return a * b }),
		binary(`\frac{%s}{%s}`, func(a, b float64) float64 { return a / b }),
		unary(`{(%s)}^2`, func(a float64) float64 { return a * a }),
		unary(`\left(%s\right)^{3}`, func(a float64) float64 { return a * a * a }),
		unary(`\sqrt{(%s)^2+1}`, func(a float64) float64 { return math.Sqrt(a*a + 1) }),
		unary(`\sqrt{%s}`, math.Sqrt),
		unary(`\sqrt[3]{%s}`, math.Cbrt),
		unary(`\sin(%s)`, math.Sin),
		unary(`\cos(%s)`, math.Cos),
		unary(`e^{%s}`, math.Exp),
		unary(`2^{%s}`, math.Exp2),
		unary(`\ln(%s)`, math.Log),
		unary(`|%s|`, math.Abs),
		unary(`\arctan(%s)`, math.Atan),
	)
}

var points = [][2]float64{{1.3, 2.7}, {3.1, 0.6}, {0.4, 0.9}, {5.2, 4.8}}

// Whatever passes has the same value at every point where both have one, and
// whatever fails has another somewhere. Half of the pairs are made equal.
func TestVerdictsAgreeWithValues(t *testing.T) {
	verdicts := map[Verdict]int{}
	rapid.Check(t, func(t *rapid.T) {
		a := formulas(2).Draw(t, "gold")
		b := rewritten(a).Draw(t, "answer")
		if rapid.Bool().Draw(t, "other") {
			b = formulas(2).Draw(t, "answer")
		}
		g, err := Read(a.latex)
		if err != nil {
			t.Fatalf("%s: %v", a.latex, err)
		}
		h, err := Read(b.latex)
		if err != nil {
			t.Fatalf("%s: %v", b.latex, err)
		}
		j := Meets(g, h, new(big.Rat))
		verdicts[j.Verdict]++
		differ := false
		for _, p := range points {
			u, v := a.value(p[0], p[1]), b.value(p[0], p[1])
			if math.IsNaN(u) || math.IsNaN(v) || math.IsInf(u, 0) || math.IsInf(v, 0) || math.Abs(u) > 1e12 {
				continue
			}
			near := math.Abs(u-v) <= 1e-4*max(1, math.Abs(u), math.Abs(v))
			if j.Verdict == Pass && !near {
				t.Fatalf("%s and %s pass (%s), and are %v and %v at %v", a.latex, b.latex, j.Reason, u, v, p)
			}
			differ = differ || math.Abs(u-v) > 1e-13*max(math.Abs(u), math.Abs(v))
		}
		if j.Verdict == Fail && !differ && comparable(a, b) {
			t.Fatalf("%s and %s fail (%s), and have the same values", a.latex, b.latex, j.Reason)
		}
	})
	if verdicts[Pass] == 0 || verdicts[Fail] == 0 {
		t.Errorf("the test compares nothing: %v", verdicts)
	}
}

// comparable tells whether both have values at the points.
func comparable(a, b formula) bool {
	for _, p := range points {
		for _, f := range []formula{a, b} {
			if v := f.value(p[0], p[1]); math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v) > 1e12 {
				return false
			}
		}
	}
	return true
}

// rewritten writes a formula in another way that has the same value.
func rewritten(a formula) *rapid.Generator[formula] {
	forms := []string{`0+%s`, `%s\cdot 1`, `-(-%s)`, `\frac{2(%s)}{2}`, `%s+x-x`, `\frac{(%s)\cdot(y^2+1)}{1+y^2}`, `(%s)(\sin^2 x+\cos^2 x)`, `\sqrt2\cdot\frac{%s}{\sqrt{2}}`, `%s+\ln 6-\ln 2-\ln 3`}
	return rapid.Map(rapid.SampledFrom(forms), func(form string) formula {
		return formula{fmt.Sprintf(form, "("+a.latex+")"), a.value}
	})
}
