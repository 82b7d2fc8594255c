package verify

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// A labelled problem of GSM8K with the answers of four models.
type labelled struct {
	gold    string
	answers map[string]struct {
		Solution  string `json:"solution"`
		IsCorrect bool   `json:"is_correct"`
	}
}

var models = []string{"175b_verification", "6b_verification", "175b_finetuning", "6b_finetuning"}

func loadLabelled(tb testing.TB) []labelled {
	tb.Helper()
	var out []labelled
	for _, line := range readLines(tb, "data/gsm8k/example_model_solutions.jsonl") {
		var row map[string]json.RawMessage
		if err := json.Unmarshal(line, &row); err != nil {
			tb.Fatal(err)
		}
		var truth string
		if err := json.Unmarshal(row["ground_truth"], &truth); err != nil {
			tb.Fatal(err)
		}
		p := labelled{gold: strings.TrimSpace(truth[strings.LastIndex(truth, "A:")+2:])}
		p.answers = make(map[string]struct {
			Solution  string `json:"solution"`
			IsCorrect bool   `json:"is_correct"`
		})
		for _, m := range models {
			a := p.answers[m]
			if err := json.Unmarshal(row[m], &a); err != nil {
				tb.Fatal(err)
			}
			p.answers[m] = a
		}
		out = append(out, p)
	}
	return out
}

func readLines(tb testing.TB, name string) [][]byte {
	tb.Helper()
	b, err := os.ReadFile(testdata.Path(tb, name))
	if err != nil {
		tb.Fatal(err)
	}
	var lines [][]byte
	scanner := bufio.NewScanner(bytes.NewReader(b))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		lines = append(lines, bytes.Clone(scanner.Bytes()))
	}
	if err := scanner.Err(); err != nil {
		tb.Fatal(err)
	}
	return lines
}

func mustNew(tb testing.TB, name string, options map[string]any) Verifier {
	tb.Helper()
	v, err := New(name, options)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// The labels of 5,276 answers, each met: pass exactly where a human said so.
func TestMathMeetsEveryLabelOfGSM8K(t *testing.T) {
	problems := loadLabelled(t)
	v := mustNew(t, "math", nil)
	passes := make(map[string]int)
	solvedBy := make(map[int]int)
	unread := 0
	for i, p := range problems {
		solved := 0
		for _, m := range models {
			a := p.answers[m]
			verdict := v.Verify(context.Background(), Input{Content: a.Solution, Gold: &p.gold})
			if got := verdict.Verdict == datasets.Pass; got != a.IsCorrect {
				t.Errorf("problem %d, %s: %s (%s), label %v; gold %q, read %v", i, m, verdict.Verdict, verdict.Reason, a.IsCorrect, p.gold, verdict.Extracted)
			}
			switch verdict.Verdict {
			case datasets.Pass:
				passes[m]++
				solved++
			case datasets.Unknown:
				t.Logf("problem %d, %s: %s, read %.60q", i, m, verdict.Reason, deref(verdict.Extracted))
				unread++
			}
		}
		solvedBy[solved]++
	}
	for m, want := range map[string]int{"175b_verification": 742, "6b_verification": 515, "175b_finetuning": 458, "6b_finetuning": 286} {
		if passes[m] != want {
			t.Errorf("%s passes %d, want %d", m, passes[m], want)
		}
	}
	want := map[int]int{0: 432, 1: 290, 2: 236, 3: 205, 4: 156}
	for n, w := range want {
		if solvedBy[n] != w {
			t.Errorf("%d problems solved by %d models, want %d", solvedBy[n], n, w)
		}
	}
	if union := len(problems) - solvedBy[0]; union != 887 {
		t.Errorf("%d problems solved by at least one, want 887", union)
	}
	t.Logf("%d of %d unknown", unread, 4*len(problems))
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// No answer passes against another problem's gold unless the two are equal.
func TestMathNeverPassesAnotherGold(t *testing.T) {
	problems := loadLabelled(t)
	v := mustNew(t, "math", nil)
	plain := func(s string) string { return strings.ReplaceAll(s, ",", "") }
	checked := 0
	for i, p := range problems {
		for _, step := range []int{1, 7, 401} {
			other := problems[(i+step)%len(problems)].gold
			if plain(other) == plain(p.gold) {
				continue
			}
			for _, m := range models {
				a := p.answers[m]
				if !a.IsCorrect {
					continue
				}
				checked++
				if got := v.Verify(context.Background(), Input{Content: a.Solution, Gold: &other}); got.Verdict != datasets.Fail {
					t.Errorf("problem %d, %s: %s against %q; right is %q", i, m, got.Verdict, other, p.gold)
				}
			}
		}
	}
	if checked < 5000 {
		t.Fatalf("only %d answers checked", checked)
	}
}

// Every gold of the test set reads as itself, with its own marker and after a
// recipe's gold_pattern took it out.
func TestMathReadsEveryGoldOfGSM8K(t *testing.T) {
	v := mustNew(t, "math", nil)
	pattern := regexp.MustCompile(`####\s*(.+)$`)
	for i, line := range readLines(t, "data/gsm8k/test.jsonl") {
		var row struct{ Answer string }
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		m := pattern.FindStringSubmatch(row.Answer)
		if m == nil {
			t.Fatalf("line %d has no gold", i+1)
		}
		for _, gold := range []string{m[1], row.Answer} {
			for _, answer := range []string{row.Answer, "The answer is " + m[1] + ".", `So it is $\boxed{` + m[1] + `}$`, "**Answer:** $" + m[1] + " dollars"} {
				if got := v.Verify(context.Background(), Input{Content: answer, Gold: &gold}); got.Verdict != datasets.Pass {
					t.Errorf("line %d: %s (%s) for %q, gold %q", i+1, got.Verdict, got.Reason, answer, gold)
				}
			}
		}
	}
}
