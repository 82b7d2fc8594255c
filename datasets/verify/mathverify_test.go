package verify

import (
	"context"
	"testing"
)

// A pair is a gold and the final statement of an answer, with our verdict and
// what Math-Verify implies: + it accepts the pair, - it does not.
type pair struct {
	gold, answer string
	want         byte // p, f or u
	implied      byte
}

// mathVerifyPairs are written for this test. Each group names the behaviour of
// huggingface/Math-Verify 0.8 that it follows and the place that shows it: its
// README, or one of its tests. Where we differ, on purpose, the group says so
// and why.
var mathVerifyPairs = []struct {
	behaviour, source string
	differs           string // why our verdicts are not the implied ones
	pairs             []pair
}{
	{behaviour: "numbers, their sign, separators and trailing zeros", source: "tests/test_all.py test_number_extraction", pairs: []pair{
		{"-17", "-17", 'p', '+'},
		{"-17", "17", 'f', '-'},
		{"3141000", "3,141,000", 'p', '+'},
		{"2500", "2500.00", 'p', '+'},
		{"2500.0", "2,500.0", 'p', '+'},
		{"0.7", ".7", 'p', '+'},
		{"812.50", "$812.50", 'p', '+'},
		{"812.50", "812.50€", 'p', '+'},
		{"812.5", "812.50 m²", 'p', '+'},
		{"42", "42.0001", 'f', '-'},
		{"42", "420", 'f', '-'},
		{"12000023", `12{,}000{,}023`, 'p', '+'},
		{"49479", `49,\!479`, 'p', '+'},
		{"41520", `41,\! 520`, 'p', '+'},
		{"41520", `41, 520`, 'f', '-'},
	}},
	{behaviour: "fractions in every spelling", source: "README, Advanced Parsing; tests test_latex_notation, test_simple_fraction_notation", pairs: []pair{
		{"11/7", `\frac{11}{7}`, 'p', '+'},
		{"-11/7", `-\frac{11}{7}`, 'p', '+'},
		{"-11/7", `\frac{-11}{7}`, 'p', '+'},
		{`\frac{2}{5}`, `\frac25`, 'p', '+'},
		{`\frac{2}{5}`, `\frac2{5}`, 'p', '+'},
		{`\frac{2}{5}`, `\cfrac{2}{5}`, 'p', '+'},
		{`\frac{2}{5}`, `\dfrac{4}{10}`, 'p', '+'},
		{`\frac{2}{5}`, `\tfrac{2}{5}`, 'p', '+'},
		{`\frac{2}{5}`, `\left( \frac{2}{5} \right)`, 'p', '+'},
		{`\frac{2}{5}`, `2/5`, 'p', '+'},
		{`\frac{2}{5}`, `\frac{5}{2}`, 'f', '-'},
		{`2\frac{1}{3}`, `\frac{7}{3}`, 'p', '+'},
		{`\frac{9}{4}\pi`, `\frac94\pi`, 'p', '+'},
	}},
	{behaviour: "decimals meet fractions within the precision, only where one side is a decimal", source: "tests test_precision, test_complex_math_expressions, test_float_precision", pairs: []pair{
		{`\frac{1}{7}`, `0.142857142857`, 'p', '+'},
		{`\frac{1}{7}`, `0.14`, 'f', '-'},
		{`\frac{1}{3}`, `0.333333`, 'p', '+'},
		{`\frac{4}{3}`, `1.333`, 'f', '-'},
		{"0.875", `\frac{7}{8}`, 'p', '+'},
		{"4.123105625617661", `\sqrt{17}`, 'p', '+'},
		{`\sqrt{17}`, "4.123105626", 'p', '+'},
		{`\sqrt{17}`, "4.12", 'f', '-'},
		{"3", `3\sqrt{2}`, 'f', '-'},
		{`\frac{1}{3}`, `\frac{333333}{1000000}`, 'f', '-'},
		{`(1,\frac{7}{2})`, `(1,3.5)`, 'p', '+'},
		{`\pi`, `3.14159265`, 'p', '+'},
		{`\pi`, `3.2`, 'f', '-'},
	}},
	{behaviour: "percent in every spelling; the same quantity without it", source: "README, Percentage best effort; tests test_percent_notation", pairs: []pair{
		{`35\%`, `35\%`, 'p', '+'},
		{`35\%`, `35 percent`, 'p', '+'},
		{`35\%`, `35 pct`, 'p', '+'},
		{`35\%`, `35 percentage`, 'p', '+'},
		{`35\%`, `0.35`, 'p', '+'},
		{`35\%`, `\frac{7}{20}`, 'p', '+'},
		{`35\%`, `53\%`, 'f', '-'},
	}},
	{behaviour: "units in and out of text commands are dropped", source: "README, Units in text; tests test_latex_notation_math", pairs: []pair{
		{`\frac{2}{5}`, `\frac{2}{5} \text{ meters}`, 'p', '+'},
		{`\frac{2}{5}`, `\frac{2}{5} \textbf{ meters}`, 'p', '+'},
		{`24\mbox{ cm}^2`, `24`, 'p', '+'},
		{`24\mbox{ cm}^2`, `24 \text{ cm}^2`, 'p', '+'},
		{`60 miles`, `60\textnormal{ miles}`, 'p', '+'},
		{`0.12 \text{ yuan}`, `0.12 \text{ yuan}`, 'p', '+'},
		{`45^\circ`, `45^{\circ}`, 'p', '+'},
		{`45^\circ`, `45`, 'p', '+'},
	}},
	{behaviour: "roots and powers, exactly", source: "tests test_latex_notation, test_sqrt_precision, test_complex_math_expressions", pairs: []pair{
		{`\sqrt{7}`, `\sqrt7`, 'p', '+'},
		{`\sqrt{2}+\sqrt{5}`, `\sqrt 5 + \sqrt 2`, 'p', '+'},
		{`5\sqrt{13}`, `\sqrt{325}`, 'p', '+'},
		{`\frac{1}{\sqrt{6}}`, `\frac{\sqrt{6}}{6}`, 'p', '+'},
		{`\sqrt[3]{16}`, `2\sqrt[3]{2}`, 'p', '+'},
		{`2^{3/2}`, `2\sqrt{2}`, 'p', '+'},
		{`\sqrt{3+2\sqrt{2}}`, `1+\sqrt{2}`, 'p', '+'},
		{`\frac{\sqrt{\sqrt{11}+\sqrt{194}}}{15+2\sqrt{33}}`, `\frac{\sqrt{\sqrt{194}+\sqrt{11}}}{2\sqrt{33}+15}`, 'p', '+'},
		{`1\sqrt{23}`, `1`, 'f', '-'},
		{`2`, `\frac{1+\sqrt{5}}{2}`, 'f', '-'},
		{`5`, `\frac{34}{16}+\frac{\sqrt{1358}}{16}`, 'f', '-'},
		{`10^{\frac{-5+\sqrt{13}}{6}}`, `10^{\frac{\sqrt{13}-5}{6}}`, 'p', '+'},
		{`10^{\frac{-5-\sqrt{13}}{6}}`, `10^{-\frac{5 + \sqrt{13}}{6}}`, 'p', '+'},
		{`\frac{1}{2}+\frac{7\sqrt{5}}{36}`, `\frac{18 + 7\sqrt{5}}{36}`, 'p', '+'},
		{`2^{100}`, `4^{50}`, 'p', '+'},
		{`\frac{5\sqrt{42}}{27}`, `\frac{5}{27}\sqrt{42}`, 'p', '+'},
	}},
	{behaviour: "symbolic equality of polynomials and rational functions", source: "README, Intelligent Comparison; tests test_complex_math_expressions, test_open_thoughts", pairs: []pair{
		{`3-3p`, `3(1-p)`, 'p', '+'},
		{`\frac{x+3}{8}`, `\frac{x}{8}+\frac{3}{8}`, 'p', '+'},
		{`-2x^2+4x+3`, `-2(x-1)^2+5`, 'p', '+'},
		{`3x^2+12x+10`, `3(x+2)^2-2`, 'p', '+'},
		{`x+2n+1`, `x+1`, 'f', '-'},
		{`(a+5)(b+2)`, `(+5)(b+2)`, 'f', '-'},
		{`\frac{\pi r}{h+r}`, `\frac{r\pi}{r+h}`, 'p', '+'},
		{`\frac{x^2-1}{x-1}`, `x+1`, 'p', '+'},
		{`\frac{1}{x}+\frac{1}{y}`, `\frac{x+y}{xy}`, 'p', '+'},
		{`(x+y)^3`, `x^3+3x^2y+3xy^2+y^3`, 'p', '+'},
		{`n(n+1)/2`, `\frac{n^2+n}{2}`, 'p', '+'},
		{`2ab`, `2ba`, 'p', '+'},
		{`x^2`, `x^3`, 'f', '-'},
		{`2^{n+1}`, `2\cdot 2^n`, 'p', '+'},
	}},
	{behaviour: "trigonometry and logarithms", source: "tests test_latex_notation_math, test_complex_math_expressions", pairs: []pair{
		{`2 \sin b \cos a`, `2 \cos a \sin b`, 'p', '+'},
		{`\tan^2(y)+1`, `\sec^2(y)`, 'p', '+'},
		{`\sin^2 x + \cos^2 x`, `1`, 'p', '+'},
		{`\sin(2x)`, `2\sin(x)\cos(x)`, 'p', '+'},
		{`\cos\frac{\pi}{6}`, `\frac{\sqrt3}{2}`, 'p', '+'},
		{`\ln 8`, `3\ln 2`, 'p', '+'},
		{`\log_2 8`, `3`, 'p', '+'},
		{`\sin x`, `\cos x`, 'f', '-'},
		{`\frac{1}{3\sqrt[3]{x}^2}`, `\frac{1}{3x^{2/3}}`, 'p', '+'},
		{`1-\frac{1}{\mathrm{e}}`, `1-\frac{1}{e}`, 'p', '+'},
	}},
	{behaviour: "complex numbers", source: "README, Complex number support", pairs: []pair{
		{`3+4i`, `4i+3`, 'p', '+'},
		{`(1+i)^2`, `2i`, 'p', '+'},
		{`\frac{1}{i}`, `-i`, 'p', '+'},
		{`\sqrt{-4}`, `2i`, 'p', '+'},
		{`3+4i`, `3-4i`, 'f', '-'},
	}},
	{behaviour: "an assignment is its value, on either side", source: "README, symbol assignment; tests test_relations_math, test_numina_cases, test_open_thoughts", pairs: []pair{
		{"14", "x=14", 'p', '+'},
		{"k=3", "3", 'p', '+'},
		{"3", "k=3", 'p', '+'},
		{"x = 14", "x = 7+7 = 14", 'p', '+'},
		{"11", `x\approx 11`, 'p', '+'},
		{"1/3", `x=1/3\approx 0.3`, 'p', '+'},
		{"f(x)=4", "4", 'p', '+'},
		{"|AB|=6", "6", 'p', '+'},
		{"A:B=2", "2", 'p', '+'},
		{"(p,q)=(5,2)", "(5,2)", 'p', '+'},
		{"(p,q,r)=(5,2,9)", "(5,2,9)", 'p', '+'},
		{`\frac{NO}{BO}=\frac{1}{\sqrt{3}}`, `\frac{1}{\sqrt{3}}`, 'p', '+'},
		{"x=14", "y=14", 'u', '-'},
		{"a_3 = 2", "a_3 = 2", 'p', '+'},
	}},
	{behaviour: "a gold number is met by a chain that ends in it, a gold equation not by its right side", source: "README, Solution Context Asymmetry; tests test_relations_math", pairs: []pair{
		{"52", "b+2c = 2c + b = 52", 'p', '+'},
		{"b+2c = 2c + b = 52", "52", 'u', '-'},
		{"3x + z = 1", "1", 'u', '-'},
		{"a^2 + b = 0", "0", 'u', '-'},
		{"7 = 5a+c", "5a+c", 'u', '-'},
		{"a + 4z = 0", "0", 'u', '-'},
	}},
	{behaviour: "equations are equal when one is a multiple of the other", source: "tests test_relations_math, test_complex_math_expressions, test_math_extraction_additional_cases", pairs: []pair{
		{"2x+4y-3=0", `y=-\frac{1}{2}x+\frac{3}{4}`, 'p', '+'},
		{"34x+45y-20z+100=0", "-34x-45y+20z-100=0", 'p', '+'},
		{"x^2/4 + y^2/3 = 1", "x^2/16 + y^2/12 = 1/4", 'p', '+'},
		{"x-2y+z-1=0", "x-2y+z=1", 'p', '+'},
		{"y=2x+1", "y=2x+3", 'f', '-'},
		{"x+y=2", "x-y=2", 'f', '-'},
		{"f(y) = y", "f(y) = y", 'p', '+'},
	}},
	{behaviour: "inequalities in every spelling, flipped and multiplied by −1", source: "README, Relation evaluation with flip; tests test_relations_math", pairs: []pair{
		{"x >= 9", `x \geq 9`, 'p', '+'},
		{"x < 4", `x \lt 4`, 'p', '+'},
		{`x \leq 4`, "x <= 4", 'p', '+'},
		{"x > 4", `x \gt 4`, 'p', '+'},
		{"x != 4", `x \neq 4`, 'p', '+'},
		{"x > 4", "x < 4", 'f', '-'},
		{`x \geq 4`, `x \leq 4`, 'f', '-'},
		{`x \leq 8`, `8 \geq x`, 'p', '+'},
		{"x < 2", "-x > -2", 'p', '+'},
		{"x <= 2", "-x >= -2", 'p', '+'},
		{"x < 2", "x > -2", 'f', '-'},
		{"2x < 4", "x < 2", 'p', '+'},
		{"f(2) < f(1) < f(4)", "f(2) < f(1) < f(4)", 'p', '+'},
		{`k \ge 2`, `k \ge 2`, 'p', '+'},
		{`x < 2`, `x \le 2`, 'f', '-'},
		{`1 < x < 5`, `5 > x > 1`, 'p', '+'},
	}},
	{behaviour: "a gold inequality is met by its interval, a gold interval not by an inequality", source: "README, Representation Asymmetry; tests test_set_rel_assymetry, test_numina_cases, test_open_thoughts", pairs: []pair{
		{"1 < x < 2", "(1,2)", 'p', '+'},
		{"(1,2)", "1 < x < 2", 'u', '-'},
		{`-3 \le x \le 8`, `x \in [-3,8]`, 'p', '+'},
		{`x \in [-3,8]`, `-3 \le x \le 8`, 'u', '-'},
		{"-61 < a < 10", "(-61, 10)", 'p', '+'},
		{"0<f(x)<2", "(0,2)", 'p', '+'},
		{`1\leq|z|\leq \frac{5}{2}`, `z \in \left[-\frac{5}{2}, -1\right] \cup \left[1, \frac{5}{2}\right]`, 'p', '+'},
		{"1 < x < 2", "(1,3)", 'f', '-'},
		{"1 < x < 2", "[1,2)", 'f', '-'},
	}},
	{behaviour: "intervals and their ends", source: "README, Sets and intervals; tests test_sets_handling, test_complex_math_expressions, test_open_thoughts", pairs: []pair{
		{"[2,5)", "[2,5)", 'p', '+'},
		{"[2,5)", "[2,6)", 'f', '-'},
		{"(2,5)", "[2,5)", 'f', '-'},
		{`(1, +\infty)`, `(1, \infty)`, 'p', '+'},
		{`x \in [-2,7]`, `[-2, 7]`, 'p', '+'},
		{"D = (0, 3)", "D = (0, 3)", 'p', '+'},
		{"D = (0, 3)", "D = (0, 3.5)", 'f', '-'},
		{`(\frac{3}{5},\frac{5}{2}]`, `(0.6,2.5]`, 'p', '+'},
		{"[-4,0]", "[-4,0)", 'f', '-'},
		{"1", "[0,1)", 'u', '-'},
	}},
	{behaviour: "unions, in any order of their parts", source: "README, first example; tests test_latex_notation_math, test_math_extraction_additional_cases", pairs: []pair{
		{`\{1,3\} \cup \{2,4\}`, `\{1,2,3,4\}`, 'p', '+'},
		{`[-1, -\frac{1}{2}) \cup (0, \infty)`, `[-1, -\tfrac12) \cup (0, \infty)`, 'p', '+'},
		{`(2, 12) \cup (12, 102)`, `x \in (2,12) \cup (12,102)`, 'p', '+'},
		{`(2, 12) \cup (12, 102)`, `(12,102) \cup (2,12)`, 'p', '+'},
		{`(2, 12) \cup (12, 102)`, `(2,102)`, 'f', '-'},
		{`\{-1\} \cup [0,7)`, `\{-1\} \cup [0,7)`, 'p', '+'},
		{`(-\infty,1)\cup(1,\infty)`, `\mathbb{R}\setminus\{1\}`, 'p', '+'},
		{`x<-1 \text{ or } x>1`, `(-\infty,-1)\cup(1,\infty)`, 'p', '+'},
	}},
	{behaviour: "finite sets and lists, in any order, with and without braces", source: "README, finite sets; tests test_numina_cases, test_open_thoughts, tests/test_yujianll.py", pairs: []pair{
		{`\{2,3\}`, `\{3,2\}`, 'p', '+'},
		{"-3,1", "1, -3", 'p', '+'},
		{"$4$ and $5$ and $6$", "4,5,6", 'p', '+'},
		{`7 \text{ and } 9`, "7,9", 'p', '+'},
		{"20, 45, and 81", `20, 45, \text{ and } 81`, 'p', '+'},
		{"20, 45, and 81", "21, 36, and 81", 'f', '-'},
		{"31,16 or 11", "31,16,11", 'p', '+'},
		{"-12;-11;-10", `\{-12, -11, -10\}`, 'p', '+'},
		{`\{4,5\}`, "4,5", 'p', '+'},
		{"4,5", `\{4,5\}`, 'p', '+'},
		{"n=1, 2, 3", "n=1, 2, 3", 'p', '+'},
		{"n=2, 3, 4", "n=1, 2, 3", 'f', '-'},
		{`\{1,2,3\}`, `\{1,2\}`, 'f', '-'},
		{"a=4,-8,-10", "-10,-8,4", 'p', '+'},
		{"AB=4,CD=5", "4, 5", 'p', '+'},
		{`x = -5,\ p = \frac{14}{3}`, `-5, \frac{14}{3}`, 'p', '+'},
		{`p = -1 \text{ and } p = \frac{15}{8}`, `p=-1,p=\frac{15}{8}`, 'p', '+'},
		{"k = 45, n = 2", "n = 2, k = 45", 'p', '+'},
		{`x_{1}=2+\sqrt{5}, x_{2}=2-\sqrt{5}`, `2+\sqrt{5} \text{ and } 2-\sqrt{5}`, 'p', '+'},
		{"a_3 = 2, a_{37} = 19", `a_{37} = 19, \quad a_3 = 2`, 'p', '+'},
		{"W(n) = 1 \\text{ and } W(n) = -1", "W(x)=1 or W(x)=-1", 'p', '+'},
	}},
	{behaviour: "tuples, in order, and lists of tuples, in any order", source: "tests test_numina_cases, test_open_thoughts, test_math_extraction_additional_cases", pairs: []pair{
		{"(6,31,-1)", "(6, 31, -1)", 'p', '+'},
		{"(6,31,-1)", "(31, 6, -1)", 'f', '-'},
		{"(11,7) or (7,11)", `(7,11),\ (11,7)`, 'p', '+'},
		{"(2,1),(1,2),(-1,-20)", "(1, 2), (2, 1), (-1, -20)", 'p', '+'},
		{"(2,1),(1,2,3)", "(2,1),(1,2)", 'f', '-'},
		{"(0;0;0),(0;-2;0)", "(0, -2, 0), (0, 0, 0)", 'p', '+'},
		{"p=5,q=2;p=7,q=2", "(5,2),(7,2)", 'p', '+'},
		{"(1,3)", "{1,3}", 'p', '+'},
		{"(3,1)", "{1,3}", 'f', '-'},
		{"(5, 8), (8, 5)", `(x, y) = (5, 8) \quad \text{and} \quad (8, 5)`, 'p', '+'},
		{`(3, \frac{\pi}{2})`, `\left(3, \tfrac{\pi}{2}\right)`, 'p', '+'},
	}},
	{behaviour: "plus-minus is both values", source: "tests test_latex_notation_math, tests/test_yujianll.py, test_open_thoughts", pairs: []pair{
		{`1 \pm \sqrt{19}`, `1 \pm \sqrt{19}`, 'p', '+'},
		{`3 \pm 2 \sqrt{2}`, `3+2\sqrt2, 3-2\sqrt2`, 'p', '+'},
		{`\{1\pm\sqrt{5},-2\}`, `\{-2, 1-\sqrt{5}, 1+\sqrt{5}\}`, 'p', '+'},
		{`\pm 2021`, `2021`, 'f', '-'},
		{`\pm 2021`, `\{-2021, 2021\}`, 'p', '+'},
		{`x = \frac{1}{2}, x = \frac{-1 \pm \sqrt{13}}{4}`, `x = \frac{1}{2}, x = \frac{-1 \pm \sqrt{13}}{4}`, 'p', '+'},
	}},
	{behaviour: "matrices of any bracket, entry by entry, and their sums and products", source: "README, matrix expression equivalence; tests test_matrix_extraction, test_complex_math_expressions", pairs: []pair{
		{`\begin{pmatrix}1 & 0 \\ 0 & 1\end{pmatrix}`, `\begin{pmatrix}1 & 0 \\ 0 & 1\end{pmatrix}`, 'p', '+'},
		{`\begin{bmatrix}0 & 3 \\0 & 1\end{bmatrix}`, `\begin{pmatrix}0 & 3 \\0 & 1\end{pmatrix}`, 'p', '+'},
		{`\begin{pmatrix}1 & 2 \\3 & 4\end{pmatrix}`, `\left[\begin{array}{cc}1 & 2 \\3 & 4\end{array}\right]`, 'p', '+'},
		{`\begin{pmatrix}\frac{1}{2} & \frac{3}{4} \\ 5 & 7\end{pmatrix}`, `\begin{pmatrix}\frac{2}{4} & 0.75 \\ 5 & 7\end{pmatrix}`, 'p', '+'},
		{`\begin{pmatrix}6 & 8 \\ 10 & 12\end{pmatrix}`, `\begin{pmatrix}1 & 2 \\ 3 & 4\end{pmatrix} + \begin{pmatrix}5 & 6 \\ 7 & 8\end{pmatrix}`, 'p', '+'},
		{`\begin{pmatrix}2 & 1 \\ 4 & 3\end{pmatrix}`, `\begin{pmatrix}1 & 2 \\ 3 & 4\end{pmatrix} \begin{pmatrix}0 & 1 \\ 1 & 0\end{pmatrix}`, 'p', '+'},
		{`\begin{pmatrix}1 & 2 \\ 3 & 4\end{pmatrix}`, `\begin{pmatrix}1 & 2 \\ 3 & 5\end{pmatrix}`, 'f', '-'},
		{`\begin{pmatrix}1 \\ 2\end{pmatrix}`, `\begin{pmatrix}1 & 2\end{pmatrix}`, 'f', '-'},
		{`\begin{pmatrix}-\frac{7}{4}&-2\\4&\frac{1}{4}\\\end{pmatrix}`, `\begin{pmatrix}-\frac{7}{4}&-2\\4&\frac{1}{4}\end{pmatrix}`, 'p', '+'},
	}},
	{behaviour: "ratios and times of day", source: "tests test_numina_cases, tests/test_yujianll.py", pairs: []pair{
		{"S_{ABC}:S=7:32", "7:32", 'p', '+'},
		{"V_{1}:V_{2}=11:21", "11:21", 'p', '+'},
		{"12:00", "1:00", 'f', '-'},
		{"12:00", "12:00", 'p', '+'},
		{"2:3", "4:6", 'p', '+'},
		{"2:3", "3:2", 'f', '-'},
	}},
	{behaviour: "letters and words, in text or not", source: "tests test_numina_cases, test_open_thoughts, test_math_extraction_additional_cases, tests/test_strict.py", pairs: []pair{
		{`\text{Evelyn}`, "Evelyn", 'p', '+'},
		{`\text{odd}`, "odd", 'p', '+'},
		{`\text{Even}`, "even", 'p', '+'},
		{`\text{Even}`, "odd", 'f', '-'},
		{`\text{e}`, "e", 'p', '+'},
		{`\text{E}`, "E", 'p', '+'},
		{"d", `\text{E}`, 'u', '-'},
		{`\text{C}`, `\text{(C)}`, 'p', '+'},
		{`\text{The midpoints form a hexagon}`, `\text{The midpoints form a hexagon}`, 'p', '+'},
		{"f(x)", "f(y)", 'u', '-'},
		{"204_5", "204_5", 'p', '+'},
		{"1112112_3", "1012112_3", 'f', '-'},
	}},
	{behaviour: "numbers as other tools read them", source: "tests test_number_extraction, test_relations_math, tests/test_yujianll.py",
		differs: "a decimal comma, a space between digits and a chain that contradicts itself have a second reading; a sum of an unnamed equation proves nothing; 1 − 1/e is not 1 + 1/e",
		pairs: []pair{
			{"1000.99", "1000,99", 'u', '+'},
			{"1,22", "1.22", 'u', '+'},
			{"1000", "1 000", 'u', '+'},
			{"x = 11", "x = 5+5+1 = 7 = 11", 'u', '+'},
			{`1-\frac{1}{\mathrm{e}}`, `1+\frac{1}{\mathrm{e}}`, 'f', '+'},
		}},
}

func TestMathFollowsMathVerify(t *testing.T) {
	v := mustNew(t, "math", nil)
	verdicts := map[byte]string{'p': "pass", 'f': "fail", 'u': "unknown"}
	n := 0
	for _, group := range mathVerifyPairs {
		for _, p := range group.pairs {
			n++
			got := v.Verify(context.Background(), Input{Content: `So it is $\boxed{` + p.answer + `}$.`, Gold: &p.gold})
			if got.Verdict != verdicts[p.want] {
				t.Errorf("%s: gold %q, answer %q: %s (%s), want %s", group.behaviour, p.gold, p.answer, got.Verdict, got.Reason, verdicts[p.want])
			}
			if (p.want == 'p') != (p.implied == '+') && group.differs == "" {
				t.Errorf("%s: gold %q, answer %q: our verdict is not the implied one, and nothing says why", group.behaviour, p.gold, p.answer)
			}
		}
	}
	if n < 150 {
		t.Errorf("%d pairs, want at least 150", n)
	}
	t.Logf("%d pairs", n)
}
