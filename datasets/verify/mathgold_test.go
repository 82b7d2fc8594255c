package verify

import (
	"context"
	"encoding/json"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// Around every gold of GSM8K's test set: what is near it, or names it among
// others, or only on the way, never passes. The gold itself does.
func TestMathHoldsAroundEveryGold(t *testing.T) {
	testdata.Heavy(t)
	v := mustNew(t, "math", nil)
	pattern := regexp.MustCompile(`####\s*(.+)$`)
	forms := []string{"A: %", `Hence \boxed{%}.`, "The answer is %.", "#### %", "**Final Answer**\n\n$%$", "It is clear.\n\n%"}
	checked := 0
	for i, line := range readLines(t, "data/gsm8k/test.jsonl") {
		var row struct{ Answer string }
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		gold := pattern.FindStringSubmatch(row.Answer)[1]
		g, ok := new(big.Rat).SetString(strings.ReplaceAll(gold, ",", ""))
		if !ok {
			t.Fatalf("line %d: gold %q is no number", i+1, gold)
		}
		text := func(r *big.Rat) string {
			s := r.FloatString(6)
			if r.IsInt() {
				s = r.Num().String()
			}
			return s
		}
		next := new(big.Rat).Add(g, big.NewRat(1, 1))
		wrong := []string{
			text(next),
			text(new(big.Rat).Neg(g)),
			text(new(big.Rat).Mul(g, big.NewRat(10, 1))),
			text(new(big.Rat).Quo(g, big.NewRat(100, 1))),
			gold + " or " + text(next),
			text(next) + " or " + gold,
			gold + ", " + text(next),
			gold + " and " + text(next),
			"not " + gold,
			gold + ".5",
			gold + "x",
			gold + " to " + text(next),
		}
		verdict := func(content string) string {
			checked++
			return v.Verify(context.Background(), Input{Content: content, Gold: &gold}).Verdict
		}
		for _, form := range forms {
			if got := verdict(strings.ReplaceAll(form, "%", gold)); got != "pass" {
				t.Errorf("line %d: %s for gold %q in %q", i+1, got, gold, form)
			}
			for _, w := range wrong {
				if r, ok := new(big.Rat).SetString(w); ok && r.Cmp(g) == 0 {
					continue // −0 and 10·0
				}
				if got := verdict(strings.ReplaceAll(form, "%", w)); got == "pass" {
					t.Errorf("line %d: %q passes for gold %q in %q", i+1, w, gold, form)
				}
			}
		}
		for _, content := range []string{
			"She has " + gold + " eggs.",
			"First x = " + gold + ". Then she is done.",
			"9 + 9 = " + gold,
			"#### " + gold + "\n#### " + text(next),
			`\boxed{` + gold + `} is wrong, it is \boxed{` + text(next) + `}.`,
			`\boxed{` + gold + `}, \boxed{` + text(next) + `}`,
			`\boxed{` + text(next) + `} or \boxed{` + gold + `}`,
			"Let me see: " + gold + ".\nThe answer is " + text(next) + ".",
			"The answer is " + gold + "? No.\nFinal answer: " + text(next),
			gold + "\n\nA: " + text(next),
			`\boxed{` + gold,
			"A: " + gold + " million",
		} {
			if got := verdict(content); got == "pass" && g.Sign() != 0 {
				t.Errorf("line %d: %q passes for gold %q", i+1, content, gold)
			}
		}
	}
	if checked < 100_000 {
		t.Errorf("only %d answers checked", checked)
	}
}

func TestMathReadsBoxes(t *testing.T) {
	run(t, "math", nil, []verdictCase{
		{name: "list of boxes", content: `\boxed{1} and \boxed{-2}.`, gold: "-2, 1", want: "pass"},
		{name: "list, commas", content: `$\boxed{(1, 2)}, \boxed{(2, 1)}$`, gold: "(2,1),(1,2)", want: "pass"},
		{name: "list, LaTeX between", content: `$$\boxed{(2, 2)} \quad \text{and} \quad \boxed{(6, 2)}$$`, gold: "(2, 2), (6, 2)", want: "pass"},
		{name: "boxes far apart", content: `\boxed{1} no no no no \boxed{2}`, gold: "1, 2", want: "fail"},
		{name: "the last of boxes far apart", content: `\boxed{1} no no no no \boxed{2}`, gold: "2", want: "pass"},
		{name: "one of two boxes", content: `\boxed{6} or \boxed{8}`, gold: "8", want: "fail"},
		{name: "the same box twice", content: `\boxed{8}, \boxed{8}`, gold: "8", want: "pass"},
		{name: "box in a box", content: `\boxed{\boxed{8}}`, gold: "8", want: "pass"},
		{name: "text in the box", content: `\boxed{\text{8 eggs}}`, gold: "8", want: "pass"},
		{name: "percent behind the box", content: `$\boxed{28}$ pct`, gold: `28\%`, want: "pass"},
		{name: "percent sign behind the box", content: `\boxed{28}\%.`, gold: `28\%`, want: "pass"},
		{name: "percent missing", content: `\boxed{28}.`, gold: `28\%`, want: "fail"},
		{name: "scale behind the box", content: `\boxed{2} million people`, gold: "2000000", want: "pass"},
		{name: "scale behind the box, small gold", content: `\boxed{2} million people`, gold: "2", want: "unknown"},
		{name: "unit behind the box", content: `\boxed{28} cm`, gold: "28", want: "pass"},
		{name: "name before the box", content: `$x = \boxed{28}$`, gold: "28", want: "pass"},
		{name: "box over lines", content: "\\boxed{\n\\begin{pmatrix} 0 & 3 \\\\ 0 & -1 \\end{pmatrix}\n}", gold: `\begin{pmatrix}0&3\\0&-1\end{pmatrix}`, want: "pass"},
		{name: "fbox", content: `\fbox{28}`, gold: "28", want: "pass"},
		{name: "box without braces", content: `$\boxed 8$`, gold: "8", want: "pass"},
		{name: "choice in text", content: `\boxed{\text{(C)}}`, gold: "C", want: "pass"},
	})
}
