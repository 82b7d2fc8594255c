package mathexpr

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSetsAndRelations(t *testing.T) {
	for _, tc := range []struct{ gold, answer, want string }{
		{`(0,1)\cup(1,2)`, `(0,2)\setminus\{1\}`, "pass"},
		{`(0,1)\cup[1,2)`, `(0,2)`, "pass"},
		{`(0,3)\cap(1,5)`, `(1,3)`, "pass"},
		{`[0,1]\cup\{2\}`, `\{2\}\cup[0,1]`, "pass"},
		{`[0,1]\cup\{2\}`, `[0,1]\cup\{3\}`, "fail"},
		{`(-\sqrt2,\sqrt2)`, `(-\sqrt2, 2^{1/2})`, "pass"},
		{`\emptyset`, `\{\}`, "pass"},
		{`\emptyset`, `\{0\}`, "fail"},
		{`\mathbb{R}`, `(-\infty,\infty)`, "pass"},
		{`x\ne 1`, `(-\infty,1)\cup(1,\infty)`, "pass"},
		{`|x|<3`, `(-3,3)`, "pass"},
		{`|x-1|\ge 2`, `(-\infty,-1]\cup[3,\infty)`, "pass"},
		{`2x+1>7`, `x>3`, "pass"},
		{`1-x>0`, `x<1`, "pass"},
		{`x>3 \text{ or } x<-3`, `x<-3 \text{ or } x>3`, "pass"},
		{`x>1 \text{ and } x<2`, `(1,2)`, "pass"},
		{`x>1`, `x\ge 1`, "fail"},
		{`x>1`, `y>1`, "unknown"},
		{`0<x<\infty`, `(0,\infty)`, "pass"},
		{`\pi<x<4`, `(\pi,4)`, "pass"},
		{`x>\sqrt2`, `(\sqrt2,\infty)`, "pass"},
		{`x^2>1`, `(1,\infty)`, "unknown"}, // not linear
		{`x<y`, `y>x`, "pass"},
		{`a\le b\le c`, `c\ge b\ge a`, "pass"},
		{`x=1 \text{ or } x=2`, `\{1,2\}`, "pass"},
		{`y=2x+3`, `2x-y+3=0`, "pass"},
		{`y=2x+3`, `2x+3`, "pass"},
		{`2x+y=3`, `3`, "unknown"},
		{`x^2+y^2=4`, `2x^2+2y^2=8`, "pass"},
		{`x^2+y^2=4`, `x^2+y^2=5`, "unknown"}, // other equations may have the same solutions
		{`x+y=4`, `x+y=5`, "fail"},
		{`(1,2]`, `(1,2)`, "fail"},
		{`(0.5,1)`, `(\frac12,1)`, "pass"},
		{`\left\{1,2\right\}`, `\lbrace 2,1\rbrace`, "pass"},
		{`\langle 1,2\rangle`, `\langle 1,2\rangle`, "pass"},
		{`\langle 1,2\rangle`, `\langle 2,1\rangle`, "fail"},
		{`\{(1,2),(3,4)\}`, `\{(3,4),(1,2)\}`, "pass"},
		{`\{1,2,3\}`, `\{1,2,2,3\}`, "pass"},
		{`5`, `5=x`, "pass"},
		{`(2,1)`, `\emptyset`, "unknown"},
		{`(1,1)`, `\emptyset`, "unknown"},
		{`7`, `7:30 pm`, "unknown"},
		{`7:30 pm`, `7`, "unknown"},
		{`7:30 pm`, `7:30 pm`, "pass"},
		{`7:30 pm`, `7:45 pm`, "fail"},
		{`1, 2`, `(1,2]`, "unknown"},
		{`1, 2`, `[1,2]`, "unknown"},
		{`1, 2`, `(1,2)`, "pass"},
		{`x=1, y=2`, `[1,2)`, "unknown"},
		{`18`, `17.6\approx 18`, "unknown"},
		{`3.14`, `\pi`, "unknown"},
		{`2:3:4`, `4:6:8`, "pass"},
		{`2:3:4`, `4:6:9`, "fail"},
		{`\{x, y\}`, `\{y, x\}`, "pass"},
		{`(x,y)`, `(y,x)`, "fail"},
		{`\begin{pmatrix}x&y\end{pmatrix}`, `\begin{pmatrix}x&y\end{pmatrix}`, "pass"},
		{`2\begin{pmatrix}1\\2\end{pmatrix}`, `\begin{pmatrix}2\\4\end{pmatrix}`, "pass"},
		{`\frac12\begin{pmatrix}1&2\end{pmatrix}`, `\begin{pmatrix}0.5&1\end{pmatrix}`, "pass"},
	} {
		if got := verdictOf(t, tc.gold, tc.answer); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s and %s: %s, want %s", tc.gold, tc.answer, got, tc.want)
		}
	}
}

// A brace where a bracket was opened is no set, nor is a matrix with rows of
// unequal length one.
func TestMalformedIsUnreadable(t *testing.T) {
	for _, s := range []string{"{1)", "(1}", `\{1}`, `{1\}`, `\begin{pmatrix}1&2\\3\end{pmatrix}`, `\begin{pmatrix}1\end{bmatrix}`, `\frac{1}`, `\sqrt`, "1.2.3", "5,,6", ",5", "(", ")", "|x", `\unknown{5}`, "x^", "_", "5 +", "= 5", "x =", "<", "\xff", "0x1F", "5e999999999"} {
		if v, err := Read(s); err == nil {
			t.Errorf("%q is read as kind %d", s, v.kind)
		}
	}
}

// Unions are sets: their parts may come in any order and be cut in any way.
func TestUnionsAreSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := func(parts [][2]int, n int) bool {
			for _, p := range parts {
				if 2*p[0] <= n && n < 2*p[1] {
					return true
				}
			}
			return false
		}
		draw := func(label string) [][2]int {
			var parts [][2]int
			for range rapid.IntRange(2, 4).Draw(t, label) {
				lo := rapid.IntRange(-6, 6).Draw(t, label)
				parts = append(parts, [2]int{lo, lo + rapid.IntRange(1, 4).Draw(t, label)})
			}
			return parts
		}
		write := func(parts [][2]int) string {
			var s []string
			for _, p := range parts {
				s = append(s, fmt.Sprintf("[%d,%d)", p[0], p[1]))
			}
			return strings.Join(s, `\cup`)
		}
		a, b := draw("a"), draw("b")
		same := true
		for n := -30; n <= 30; n++ {
			same = same && in(a, n) == in(b, n)
		}
		g, err := Read(write(a))
		if err != nil {
			t.Fatal(err)
		}
		h, err := Read(write(b))
		if err != nil {
			t.Fatal(err)
		}
		if j := Meets(g, h, new(big.Rat)); (j.Verdict == Pass) != same || j.Verdict == Unknown {
			t.Fatalf("%s and %s: %v, and they are the same: %v", write(a), write(b), j, same)
		}
		shuffled := rapid.Permutation(a).Draw(t, "order")
		if h, err = Read(write(shuffled)); err != nil {
			t.Fatal(err)
		}
		if j := Meets(g, h, new(big.Rat)); j.Verdict != Pass {
			t.Fatalf("%s and %s: %v", write(a), write(shuffled), j)
		}
	})
}

// The same texts get the same judgement every time, at the limits too: nothing
// depends on the order in which a map is walked.
func TestJudgementsAreStable(t *testing.T) {
	for _, s := range []string{
		`(a+b+c+d+f+g)^{9}`, `(\sqrt2+\sqrt3+\sqrt5+\sqrt7)^{20}`, `\frac{1}{\sqrt2+\sqrt3+\sqrt5+\sqrt7+\sqrt{11}}`,
		`\sin(3a+2b+c)^2`, `\left(\frac{a+b}{c+d}\right)^{12}+\left(\frac{a+c}{b+d}\right)^{12}`, `\sqrt{x+\sqrt{y+\sqrt{x+\sqrt{y+1}}}}`,
	} {
		v, err := Read(s)
		if err != nil {
			continue
		}
		other, err := Read("(" + s + ")+a-a")
		if err != nil {
			t.Fatal(err)
		}
		first, firstKey := Meets(v, other, nil), ""
		for i := range 2 {
			if j := Meets(v, other, nil); j != first {
				t.Errorf("%s: %v, then %v", s, first, j)
			}
			key, _ := v.Key()
			if i > 0 && key != firstKey {
				t.Errorf("%s: the key is %.80q, then %.80q", s, firstKey, key)
			}
			firstKey = key
		}
	}
}
