package mathexpr

import (
	"math/big"
	"strings"
	"testing"
	"time"
)

// meets reads both and compares them with a tolerance of a hundred thousandth.
func meets(t testing.TB, gold, answer string) Judgement {
	t.Helper()
	g, err := Read(gold)
	if err != nil {
		t.Fatalf("gold %q: %v", gold, err)
	}
	a, err := Read(answer)
	if err != nil {
		return Judgement{Unknown, err.Error()}
	}
	return Meets(g, a, big.NewRat(1, 100_000))
}

func verdictOf(t testing.TB, gold, answer string) string {
	t.Helper()
	j := meets(t, gold, answer)
	return map[Verdict]string{Pass: "pass", Fail: "fail", Unknown: "unknown"}[j.Verdict] + " (" + j.Reason + ")"
}

// Equal numbers are proven equal, others different, however near they are.
func TestRadicalsAreDecided(t *testing.T) {
	for _, tc := range []struct{ a, b, want string }{
		{`\sqrt{12}`, `2\sqrt3`, "pass"},
		{`\sqrt2\sqrt3`, `\sqrt6`, "pass"},
		{`\frac{1}{\sqrt2-1}`, `\sqrt2+1`, "pass"},
		{`\sqrt{5+2\sqrt6}`, `\sqrt2+\sqrt3`, "pass"},
		{`\sqrt[3]{2+\sqrt5}+\sqrt[3]{2-\sqrt5}`, `1`, "pass"}, // Cardano's form of 1
		{`\sqrt{16-2\sqrt{29}+2\sqrt{55-10\sqrt{29}}}`, `\sqrt5+\sqrt{11-2\sqrt{29}}-\sqrt{29}+\sqrt{29}`, "pass"},
		{`\sqrt[4]{4}`, `\sqrt2`, "pass"},
		{`\sqrt{\sqrt{2}}`, `2^{1/4}`, "pass"},
		{`(\sqrt2+\sqrt3)^2`, `5+2\sqrt6`, "pass"},
		{`\sqrt[3]{-8}`, `-2`, "pass"},
		{`\sqrt{10}+\sqrt{11}`, `\sqrt{5}+\sqrt{18}`, "fail"},
		// Equal to 24 digits.
		{`\sqrt{1000000000000000000000001}`, `1000000000000`, "fail"},
		{`\sqrt[3]{60}`, `2+\sqrt[3]{7}`, "fail"}, // 3.9149 and 3.9129
		{`\sqrt{1000001}+\sqrt{1000025}+\sqrt{1000031}+\sqrt{1000084}+\sqrt{1000087}+\sqrt{1000134}`, `\sqrt{1000002}+\sqrt{1000018}+\sqrt{1000042}+\sqrt{1000067}+\sqrt{1000105}+\sqrt{1000128}`, "fail"},
		{`\pi`, `\frac{355}{113}`, "fail"},
		{`\pi\sqrt{12}`, `2\pi\sqrt3`, "pass"},
		{`\pi^2-\pi`, `\pi(\pi-1)`, "pass"},
		{`e^{\pi\sqrt{163}}`, `262537412640768744`, "fail"}, // near by 7.5e-13
		{`\ln 6`, `\ln 2+\ln 3`, "pass"},
		{`\ln\sqrt{8}`, `\frac{3}{2}\ln 2`, "pass"},
		{`\ln 3`, `1.0986`, "fail"},
		{`e^{2+\ln 3}`, `3e^2`, "unknown"}, // equal, and not proven
		{`\cos 20°\cos 40°\cos 80°`, `\frac18`, "unknown"},
		{`\sin 15^\circ`, `\frac{\sqrt6-\sqrt2}{4}`, "pass"},
		{`\tan\frac{\pi}{8}`, `\sqrt2-1`, "unknown"},
		{`\arctan 1`, `\frac{\pi}{4}`, "pass"},
		{`4\arctan\frac15-\arctan\frac1{239}`, `\frac{\pi}{4}`, "unknown"},
		{`\arctan 2`, `\frac{\pi}{3}`, "fail"},
		{`|3-\sqrt{10}|`, `\sqrt{10}-3`, "pass"},
		{`\binom{10}{3}`, `120`, "pass"},
		{`\lfloor -7/2 \rfloor`, `-4`, "pass"},
		{`\lceil 7/2 \rceil`, `4`, "pass"},
		{`6!`, `720`, "pass"},
		{`i^3`, `-i`, "pass"},
		{`\frac{1+i}{1-i}`, `i`, "pass"},
		{`i\sqrt2`, `\sqrt{-2}`, "pass"},
		{`\gcd(12, 18)`, `6`, "pass"},
		{`\cosh 0`, `1`, "pass"},
	} {
		if got := verdictOf(t, tc.a, tc.b); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s and %s: %s, want %s", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestFunctionsAreDecided(t *testing.T) {
	for _, tc := range []struct{ a, b, want string }{
		{`(x-1)(x+1)`, `x^2-1`, "pass"},
		{`\frac{x^3-y^3}{x-y}`, `x^2+xy+y^2`, "pass"},
		{`\frac{a}{b}+\frac{c}{d}`, `\frac{ad+bc}{bd}`, "pass"},
		{`\sqrt{4x+4}`, `2\sqrt{x+1}`, "pass"},
		{`x\sqrt{x}`, `x^{3/2}`, "pass"},
		{`\sqrt{x^2}`, `x`, "unknown"}, // only where x is not negative
		{`\sqrt{x^2}`, `x+1`, "fail"},
		{`|x-1|`, `|1-x|`, "pass"},
		{`\sin(a+b)-\sin(a-b)`, `2\sin b\cos a`, "pass"},
		{`\cos 3x`, `4\cos^3 x-3\cos x`, "pass"},
		{`\sin(x+\pi)`, `-\sin x`, "pass"},
		{`\tan x`, `\frac{\sin x}{\cos x}`, "pass"},
		{`\frac{1-\cos 2x}{2}`, `\sin^2 x`, "pass"},
		{`\cos\frac x2`, `\cos x`, "fail"},
		{`e^{x+y}`, `e^xe^y`, "pass"},
		{`e^{2x}`, `(e^x)^2`, "pass"},
		{`6^x`, `2^x\cdot 3^x`, "pass"},
		{`\left(\frac12\right)^n`, `2^{-n}`, "pass"},
		{`\ln(e^x)`, `x`, "pass"},
		{`\ln(2x)`, `\ln 2+\ln x`, "pass"},
		{`\ln(x^2)`, `2\ln x`, "unknown"},
		{`x^y`, `y^x`, "fail"},
		{`f(x)+1`, `1+f(x)`, "pass"},
		{`\alpha+\beta`, `β+α`, "pass"},
		{`x_1+x_2`, `x_2+x_{1}`, "pass"},
		{`x₁²`, `x_1^2`, "pass"},
		{`X`, `x`, "fail"},
		{`\vec{a}+\vec{b}`, `\vec b+\vec a`, "pass"},
		{`n!`, `n!`, "pass"},
		{`\frac{(n+1)!}{n!}`, `n+1`, "unknown"},
		{`3n`, `n\cdot 3`, "pass"},
		{`2m+1`, `1+2m`, "pass"},
		{`\frac ab`, `a/b`, "pass"},
		{`2xy`, `2yx`, "pass"},
		{`5xy`, `5xyz`, "fail"},
	} {
		if got := verdictOf(t, tc.a, tc.b); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s and %s: %s, want %s", tc.a, tc.b, got, tc.want)
		}
	}
}

// What has no value, or two readings, is no verdict.
func TestUndefinedAndAmbiguous(t *testing.T) {
	for _, answer := range []string{
		`\frac10`, `\frac{1}{\sqrt4-2}`, `\frac{5}{x-x}`, `0^0`, `\ln 0`, `\sqrt[4]{-2}`, `\arcsin 2`, `(-1)!`, `1/2x`, `\sin x(1+x)`, `2^{2^{2^{2^{2^2}}}}`,
		`10^{100000}`, `5000!`, `\binom{1000000}{500}`, `x^{99999}`, `\frac{5}{0}`, `\pm 1\pm 2`,
	} {
		if got := meets(t, "5", answer); got.Verdict != Unknown {
			t.Errorf("5 and %s: %v", answer, got)
		}
	}
}

// Statements made to cost much are judged in about a tenth of a second, which a
// busy machine may make a few, and do not pass.
func TestHostileStatements(t *testing.T) {
	nested := func(open, middle, shut string, n int) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(shut, n)
	}
	many := func(n int, f func(i int) string, join string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = f(i)
		}
		return strings.Join(parts, join)
	}
	variable := func(i int) string { return "x_{" + big.NewInt(int64(i)).String() + "}" }
	radical := func(i int) string { return `\sqrt{` + big.NewInt(int64(1_000_003+2*i)).String() + `}` }
	for name, s := range map[string]string{
		"tower":                 `5^{5^{5^{5^5}}}`,
		"power of a sum":        `(a+b+c+d+f+g)^{100}`,
		"power of powers":       `((((a+b)^{9})^{9})^{9})^{9}`,
		"product of sums":       many(30, func(i int) string { return "(a+b+" + variable(i) + ")" }, ""),
		"many variables":        many(100, variable, "+"),
		"many radicals":         many(60, radical, "+"),
		"some radicals":         "(" + many(8, radical, "+") + ")^4",
		"inverse of radicals":   `\frac{1}{` + many(9, radical, "+") + `}`,
		"nested radicals":       nested(`\sqrt{1+`, "2", "}", 29),
		"nested cube roots":     nested(`\sqrt[3]{1+`, "2", "}", 29),
		"nested fractions":      nested(`\frac{1}{x+`, "y", "}", 29),
		"radicals under x":      nested(`\sqrt{x+`, "y", "}", 29),
		"large numbers":         many(40, func(i int) string { return "9999999^{1400}" }, "+"),
		"a large product":       many(40, func(i int) string { return "9999999^{1400}" }, `\cdot`),
		"factorials":            many(100, func(i int) string { return "1000!" }, "+"),
		"binomials":             many(80, func(i int) string { return `\binom{4000}{2000}` }, "+"),
		"large degree":          `\sqrt[100]{2}+\sqrt[99]{3}+\sqrt[97]{5}`,
		"equal large degree":    `(\sqrt[100]{2})^{99}(\sqrt[97]{5})^{96}+\sqrt[89]{7}`,
		"angles":                many(40, func(i int) string { return `\sin(8a+8b+8c+8d+8f)` }, "+"),
		"nested sines":          nested(`\sin(8x+`, "y", ")", 28),
		"nested exponentials":   nested(`e^{`, "x", "}", 28),
		"nested logarithms":     nested(`\ln(2+`, "3", ")", 28),
		"exponentials":          nested(`e^{`, "1", "}", 4),
		"a large primeless":     `\sqrt{` + strings.Repeat("9", 900) + `7}`,
		"absolute values":       many(40, func(i int) string { return "|x-" + variable(i) + "|" }, "+"),
		"a set of radicals":     `\{` + many(128, radical, ",") + `\}`,
		"a set of numbers":      `\{` + many(128, func(i int) string { return big.NewInt(int64(i)).String() }, ",") + `\}`,
		"a union":               many(100, func(i int) string { return "(" + radical(i) + "," + radical(i+1) + ")" }, `\cup`),
		"a matrix":              `\begin{pmatrix}` + many(100, variable, "&") + `\end{pmatrix}`,
		"products of matrices":  many(40, func(int) string { return `\begin{pmatrix}a&b\\c&d\end{pmatrix}` }, ""),
		"powers of matrices":    many(30, func(int) string { return `\begin{pmatrix}a&b&c\\c&d&f\\f&g&h\end{pmatrix}` }, ""),
		"inequalities":          many(14, func(i int) string { return radical(i) + "x+" + radical(i+20) }, "<"),
		"an absolute tower":     nested("|x+", "y", "|", 25),
		"lists of lists":        nested(`\{1,`, "2", `\}`, 30),
		"lists of many lists":   `\{` + many(60, func(int) string { return `\{1,2,3,4,5\}` }, ",") + `\}`,
		"powers of a fraction":  `\left(\frac{a+b}{c+d}\right)^{60}+\left(\frac{a+c}{b+d}\right)^{60}`,
		"unfactored":            many(40, func(i int) string { return `\sqrt{` + strings.Repeat("7", 40+i) + `}` }, "+"),
		"logarithms of large":   many(30, func(i int) string { return `\ln(` + strings.Repeat("7", 60+i) + `)` }, "+"),
		"irrational exponents":  many(30, func(i int) string { return `2^{` + radical(i) + `}` }, "+"),
		"sums of exponents":     `2^{` + many(60, variable, "+") + `}`,
		"nested seventh roots":  nested(`\sqrt[7]{(1+`, "2", ")^{9}}", 14),
		"nested powers of x":    nested(`\sqrt[7]{(x+`, "y", ")^{9}}", 14),
		"nested sines of roots": nested(`\sin(\sqrt[5]{(1+`, "x", ")^{9}})", 9),
		"large primes exponent": `99999999999999999999999999999999999999^{x}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, pair := range [][2]string{{"7", s}, {s, s + "+0"}, {s + "+1", s}} {
				g, err := Read(pair[0])
				if err != nil {
					continue
				}
				a, err := Read(pair[1])
				if err != nil {
					continue
				}
				start := time.Now()
				j := Meets(g, a, big.NewRat(1, 100_000))
				g.Key()
				d := time.Since(start)
				if d > 5*time.Second {
					t.Errorf("%.40q and %.40q took %v", pair[0], pair[1], d)
				}
				if same := pair[0] == pair[1] || strings.HasSuffix(pair[1], "+0"); j.Verdict == Pass && !same || j.Verdict == Fail && same {
					t.Errorf("%.40q and %.40q: %v", pair[0], pair[1], j)
				}
			}
		})
	}
}
