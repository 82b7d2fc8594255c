package mathexpr

import "testing"

func TestKeysOfEqualValues(t *testing.T) {
	for _, same := range [][]string{
		{`\frac12`, "0.5", "1/2", `50\%`, "x = 0.5", "0.5 meters", `\{0.5\}`},
		{"1, 2", `\{2, 1\}`, "2 and 1", "1;2"},
		{`x+y`, `y+x`, `y + x`},
		{`\sqrt{12}`, `2\sqrt3`, `\sqrt3+\sqrt 3`},
		{`\frac{x}{y+1}`, `\frac{2x}{2+2y}`, `x\cdot\frac{1}{1+y}`},
		{`\sin x+\cos y`, `\cos y+\sin x`},
		{`(1,2)`, `(1.0, \frac42)`},
		{`1\pm\sqrt2`, `1-\sqrt2, 1+\sqrt2`},
		{"$1,000", "1000", "1000 dollars"},
		{"yes", "Yes"},
		{`\begin{pmatrix}1\\2\end{pmatrix}`, `\begin{bmatrix}1\\ \frac42\end{bmatrix}`},
	} {
		want := keyOf(t, same[0])
		for _, s := range same[1:] {
			if got := keyOf(t, s); got != want {
				t.Errorf("%s has the key %q, %s has %q", same[0], want, s, got)
			}
		}
	}
	seen := map[string]string{}
	for _, s := range []string{"1", "-1", "10%", "0.01", "(1,2)", "[1,2)", "(2,1)", "1,2", "x", "X", "x^2", `\sqrt2`, "no", "yes", "204_5", "204", "2:3", "x<2", `x\le 2`, "∞", "-∞", "i", "e", `\begin{pmatrix}1&2\end{pmatrix}`, `\begin{pmatrix}1\\2\end{pmatrix}`} {
		k := keyOf(t, s)
		if other, ok := seen[k]; ok {
			t.Errorf("%s and %s have the key %q", s, other, k)
		}
		seen[k] = s
	}
}

func keyOf(t *testing.T, s string) string {
	t.Helper()
	v, err := Read(s)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	k, ok := v.Key()
	if !ok {
		t.Fatalf("%s has no key", s)
	}
	return k
}
