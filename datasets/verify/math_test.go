package verify

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets/verify/mathexpr"
)

func TestMath(t *testing.T) {
	const p, f, u = "pass", "fail", "unknown"
	for _, tc := range []struct {
		gold, answer, want string
	}{
		// Whole numbers are met exactly.
		{"5", "A: 5", p},
		{"5", "A: 5.0", p},
		{"5.0", "A: 5", p},
		{"5", "A: 5.01", f},
		{"5", "A: 4.9999999999", f},
		{"5", "A: -5", f},
		{"-5", "A: −5", p},
		{"-5", "A: $-5$", p},
		{"-5", "A: -$5", p},
		{"007", "A: 7", p},
		// Separators.
		{"5,600", "A: 5600", p},
		{"5600", "A: 5,600", p},
		{"1,450,000", "A: $1,450,000.00", p},
		{"5600", `\boxed{5{,}600}`, p},
		{"5600", `\boxed{5\,600}`, p},
		{"5600", "A: 5\u202f600", p},
		{"5600", "A: 5_600", p},
		{"5600", "A: 5 600", u},
		{"56", "A: 5,6", u},
		{"3.14", "A: 3,14", u}, // a decimal comma is not read
		{"1234.5", "A: 1.234,5", u},
		{"123456", "A: 12,34,56", u},
		// Units and currency: what only the answer has is dropped.
		{"18", "A: 18 dollars per day", p},
		{"18", "A: $18.", p},
		{"18", `\boxed{\$18}`, p},
		{"18", `\boxed{18 \text{ dollars}}`, p},
		{"18", `\boxed{18\,\mathrm{cm}^2}`, p},
		{"18", "A: 18 km/h", p},
		{"18", "A: USD 18", p},
		{"18", "A: €18", p},
		{"$18", "A: 18", p},
		{"$18", "A: 18 dollars", p},
		{"$18", "A: 18 euros", u},
		{"18 meters", "A: 18 m", p},
		{"5 m", "A: 500 cm", u},
		{"5m", "A: 5", u}, // m may be a variable
		{"45", `A: 45^\circ`, p},
		{"45", "A: 45°", p},
		{"5", "A: 5x", u},
		{"5", "A: 5 pi", f},
		{"5", "A: 5 squared", u},
		{"5", "A: 5 or 6", f},
		{"5", "A: 5 and a half", u},
		{"5", "A: 5 is wrong", u},
		{"18", "A: about 18 eggs", p},
		{"$18", "A: $18 per day", p},
		{"$18 per day", "A: $18", p},
		{"18 meters", "A: $18$ meters", p},
		{"18 meters", `The answer is $x = 18$ meters.`, p},
		{"18", `A: \(18\) meters`, p},
		{"1, 2", "A: $1$, $2$", p},
		{"1, 2", "A: $1, $2", p},
		{"$3", "A: $5 - $2 = $3", u},
		{"5 m^2", "A: 5 m", u},
		{"5", "A: 5a", u},
		{"5", "A: $5 a day", p},
		{"5", "A: 5k", u},
		{"5", "A: $5m", u},
		{"5", "A: 5 tenths", u},
		{"5", "A: 5-6 eggs", f},
		{"5", "A: $5-$6", u},
		{"5", "A: 5 (not 6)", u},
		// Percent: a sign in the gold must be met; one in the answer is a unit
		// of a whole gold.
		{"10%", "A: 10%", p},
		{"10%", `\boxed{10\%}`, p},
		{"10%", "A: 10 percent", p},
		{"10%", "A: 0.1", p},
		{"10%", "A: 1/10", p},
		{"10%", "A: 10", f},
		{"10", "A: 10%", p},
		{"10", "A: 10 per cent", p},
		{"0.1", "A: 10%", p},
		{"2", "A: 200%", p},
		{"0.5", "A: 0.5%", u},
		{"10%", "A: 11%", f},
		// Scale words.
		{"2000000", "A: 2 million", p},
		{"2 million", "A: 2,000,000", p},
		{"2 million dollars", "A: $2 million", p},
		{"2", "A: 2 million", u},
		{"36", "A: 3 dozen", p},
		{"2", "A: 2 thousands", u},
		{"2000000000", "A: $2 bn", p},
		{"3", "A: 4 dozen", f},
		// Fractions, mixed numbers, decimals.
		{"1/2", "A: 0.5", p},
		{"0.5", `\boxed{\frac{1}{2}}`, p},
		{"0.5", `\boxed{\dfrac12}`, p},
		{"0.5", "A: ½", p},
		{"2.5", "A: 2 1/2", p},
		{"2.5", "A: 2½", p},
		{"2.5", `A: 2\frac{1}{2}`, p},
		{"-2.5", "A: -2 1/2", p},
		{"1.5", "A: 2 1/2", f},
		{`\frac{3}{4}`, "A: 3/4", p},
		{`\frac{3}{4}`, "A: 6/8", p},
		{"1/3", "A: 0.333333", p},
		{"0.333333", "A: 1/3", p},
		{"1/3", "A: 0.33", f},
		{"3.14", "A: 3.14", p},
		{"3.14", "A: 3.14159", u}, // rounds to the gold
		{"3.14159", "A: 3.14", f}, // coarser than the gold
		{"2.5", "A: 2.54", f},
		{"0.001", "A: 0.002", f},
		{"1e-9", "A: 2e-9", f},
		{".5", "A: 0.50", p},
		// Scientific.
		{"1500", "A: 1.5e3", p},
		{"1500", `\boxed{1.5 \times 10^3}`, p},
		{"1500", `\boxed{1.5 \cdot 10^{3}}`, p},
		{"0.0015", "A: 1.5 x 10^-3", p},
		{"1.5e3", "A: 1500", p},
		// Expressions.
		{"18", "A: 9 * 2 = 18", p},
		{"18", "A: 9 * 2 = 19", u},
		{"18", "A: $<<9*2=18>>18", p},
		{"18", "A: 9*2", p},
		{"18", "A: (4 + 5) × 2", p},
		{"5", "A: sqrt(25)", p},
		{"5", `\boxed{\sqrt{25}}`, p},
		{"5", `\boxed{\sqrt{26}}`, f},
		{"-4", "A: -2^2", p},
		{"8", "A: 2**3", p},
		{"1/8", "A: 2^-3", p},
		{"6", "A: 2(3)", p},
		{"6", "A: 1/2(12)", u},
		{"120", "A: 5!", p},
		{"1", "A: 1/0", u},
		{"1", "A: 0^0", u},
		{"5", "A: x = 5", p},
		{"x = 5", "A: 5", p},
		// Tuples, intervals, sets, lists.
		{"(1,2)", "A: (1, 2)", p},
		{"(1,2)", "A: (2, 1)", f},
		{"(1,234)", "A: (1, 234)", p},
		{"[0,1)", `\boxed{[0, 1)}`, p},
		{"[0,1)", `\boxed{(0, 1)}`, f},
		{`[0,\infty)`, `\boxed{[0,\infty)}`, p},
		{`(-\infty,0)`, "A: (-inf, 0)", p},
		{`\{1,2\}`, `\boxed{\{2, 1\}}`, p},
		{`\{1,2\}`, "A: {1, 2}", p},
		{"1,2", "A: 2, 1", p},
		{"1, 2", "A: 1, 3", f},
		{"1, 2", "A: 1", f},
		{"5", "A: 5, 6", f},
		{`\left(\frac12, 3\right)`, "A: (0.5, 3)", p},
		{`\{(1,2),(3,4)\}`, "A: {(1,2), (3,4)}", p},
		// Choice letters.
		{"B", "A: B", p},
		{"B", `\boxed{\text{(B)}}`, p},
		{"(B)", "The answer is B.", p},
		{"B", "The answer is (C) 5.", f},
		{"B", "A: 5", u},
		// Where the answer is read.
		{"18", "She makes 9.\n#### 18", p},
		{"18", "#### 9\n#### 18", p},
		{"18", "#### 18\n#### 9", f},
		{"18", `First \boxed{9}, then \boxed{18}.`, p},
		{"18", `\boxed{18}. Hence A: 9`, p},
		{"18", "The answer is 18. She sells 9 eggs.", p},
		{"18", "The final answer is: $\\boxed{18}$. I hope it is correct.", p},
		{"18", "**Final Answer**\n\n18", p},
		{"18", "**Final Answer:** 18", p},
		{"18", "## Final answer\n\\[\n18\n\\]", p},
		{"18", "Answer: A: 18", p},
		{"18", "THE ANSWER IS 18", p},
		{"18", "My work.\n\n18", p},
		{"18", "My work.\n\n**$18**", p},
		{"18", "18", p},
		{"18", "She makes 18 dollars.", u},
		{"18", "9 * 2 = 18", u}, // working, not a statement
		{"18", "Job A: 18", u},
		{"18", "Is the answer 18?", u},
		{"18", "The answer is not 18", u},
		{"18", "", u},
		{"18", `\boxed{18`, u},
		{"18", `\boxed{}`, u},
		{"#### 18", "A: 18", p},
		{"She makes 9*2=<<9*2=18>>18.\n#### 18", "A: 18", p},
		// What cannot be read is compared as text only.
		{"x^2+1", `\boxed{x^2 + 1}`, p},
		{"x^2+1", `\boxed{1+x^2}`, p},
		{"", "A: 5", u},
		{"?", "A: ?", u},
		// Too large.
		{"5^(5^(5^(5^5)))", "A: 5", u},
		{"5", `\boxed{5^{5^{5^{5^5}}}}`, u},
		{"5", "A: 1e999999999", u},
		{"5", "A: 9^999^999", u},
	} {
		v := mustNew(t, "math", nil)
		got := v.Verify(context.Background(), Input{Content: tc.answer, Gold: &tc.gold})
		if got.Verdict != tc.want {
			t.Errorf("gold %q, answer %q: %s (%s), want %s", tc.gold, tc.answer, got.Verdict, got.Reason, tc.want)
		}
		if got.Reason == "" || got.Verifier != "math" || got.Version == "" {
			t.Errorf("gold %q, answer %q: incomplete verdict %+v", tc.gold, tc.answer, got)
		}
	}
}

func TestMathTolerance(t *testing.T) {
	gold := "2.5"
	for _, tc := range []struct {
		tolerance float64
		answer    string
		want      string
	}{
		{0, "A: 2.5000001", "fail"},
		{0.01, "A: 2.505", "pass"},
		{0.01, "A: 2.52", "fail"},
	} {
		v := mustNew(t, "math", map[string]any{"tolerance": tc.tolerance})
		if got := v.Verify(context.Background(), Input{Content: tc.answer, Gold: &gold}); got.Verdict != tc.want {
			t.Errorf("tolerance %v, %s: %s, want %s", tc.tolerance, tc.answer, got.Verdict, tc.want)
		}
	}
}

// Hostile answers of a megabyte and more are judged in time linear in them.
func TestMathHostile(t *testing.T) {
	const n = 1 << 20
	for name, answer := range map[string]string{
		"tower":         `\boxed{5^(5^(5^(5^5)))}`,
		"long tower":    "A: " + strings.Repeat("9^", 1000) + "9",
		"parentheses":   "A: " + strings.Repeat("(", n),
		"nested":        "A: " + strings.Repeat("(", 1000) + "5" + strings.Repeat(")", 1000),
		"digits":        "A: " + strings.Repeat("9", n),
		"markers":       strings.Repeat("A: ", n/3),
		"line markers":  strings.Repeat("A:\n", n/3),
		"answers":       strings.Repeat("answer ", n/7),
		"nswer":         strings.Repeat("nswer", n/5),
		"boxes":         strings.Repeat(`\boxed{`, n/7),
		"stars":         "A: " + strings.Repeat("*", n),
		"dollars":       "A: " + strings.Repeat("$", n),
		"newlines":      "A: 5" + strings.Repeat("\n", n),
		"blank rest":    "A:" + strings.Repeat(" \n", n),
		"spaces":        strings.Repeat(" ", n) + "A: 5",
		"space markers": strings.Repeat(" ", n) + strings.Repeat("A:", n),
		"minuses":       "A: " + strings.Repeat("-", 2000) + "5",
		"fractions":     "A: " + strings.Repeat(`\frac{1}{`, 30) + "2" + strings.Repeat("}", 30),
		"digit pairs":   "A: " + strings.Repeat(`\frac12+`, 400) + "1",
		"commas":        "A: " + strings.Repeat("1,", 2000),
		"sums":          "A: " + strings.Repeat("1/997+1/991+", 300) + "1",
		"products":      "A: " + strings.Repeat("99999999999999*", 250) + "1",
		"bytes":         "A: \xff\xfe" + strings.Repeat("\x00", n),
		"last line":     strings.Repeat("5", n),
	} {
		t.Run(name, func(t *testing.T) {
			gold := "987654321"
			start := time.Now()
			got := mustNew(t, "math", nil).Verify(context.Background(), Input{Content: answer, Gold: &gold})
			if d := time.Since(start); d > time.Second {
				t.Errorf("took %v", d)
			}
			if got.Verdict == "pass" {
				t.Errorf("passes: %s", got.Reason)
			}
			if got.Extracted != nil && len(*got.Extracted) > maxExtracted {
				t.Errorf("extracted %d bytes", len(*got.Extracted))
			}
		})
	}
}

func FuzzMath(f *testing.F) {
	for _, seed := range []string{"18", "1,450,000", "-2 1/2", `\frac{3}{4}`, "10%", "$18", "(1,2)", `\{1,2\}`, "[0,1)", "5^(5^5)", "x = 5", "2 million", "½", `5\text{ cm}^2`, "B", "#### 18",
		`\boxed{1}, \boxed{2}`, "The answer is: it is 5", `\sqrt{12}`, `1<x\le 2`, `\begin{pmatrix}1&2\end{pmatrix}`, "Answer\n5"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, gold, answer string) {
		v := mustNew(t, "math", nil)
		start := time.Now()
		v.Verify(context.Background(), Input{Content: answer, Gold: &gold})
		// What is read as a value is met by itself after a marker.
		stated := trimStatement(gold)
		_, how := finalStatement(gold, readableMath)
		if _, err := mathexpr.Read(stated); err == nil && how == "" && !strings.Contains(stated, "\n") {
			if got := v.Verify(context.Background(), Input{Content: "A: " + stated, Gold: &stated}); got.Verdict != "pass" {
				t.Errorf("%q after a marker: %s (%s), read %q", stated, got.Verdict, got.Reason, deref(got.Extracted))
			}
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("gold %q, answer %q took %v", gold, answer, d)
		}
	})
}

func BenchmarkMath(b *testing.B) {
	problems := loadLabelled(b)
	v := mustNew(b, "math", nil)
	b.ReportAllocs()
	for i := range b.N {
		p := &problems[i%len(problems)]
		v.Verify(context.Background(), Input{Content: p.answers[models[i%len(models)]].Solution, Gold: &p.gold})
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
}

func BenchmarkMathMegabyte(b *testing.B) {
	gold, answer := "18", strings.Repeat("She sells 9 eggs, answer by answer. A: ", 1<<20/40)+"\nA: 18"
	v := mustNew(b, "math", nil)
	b.SetBytes(int64(len(answer)))
	for range b.N {
		if v.Verify(context.Background(), Input{Content: answer, Gold: &gold}).Verdict != "pass" {
			b.Fatal("does not pass")
		}
	}
}
