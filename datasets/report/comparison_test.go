package report

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// gsm8kCandidates adds the recorded answers of the four teachers, labelled by
// the data's own labels.
func gsm8kCandidates(t testing.TB) *Aggregator {
	t.Helper()
	ids := []string{"175b_verification", "6b_verification", "175b_finetuning", "6b_finetuning"}
	var infos []TeacherInfo
	for _, id := range ids {
		infos = append(infos, TeacherInfo{ID: id, Model: id, Priced: id != "6b_finetuning"})
	}
	a := New(infos)
	text, err := os.ReadFile(testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var row map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		for i, id := range ids {
			var one struct {
				Correct  bool `json:"is_correct"`
				Solution string
			}
			if err := json.Unmarshal(row[id], &one); err != nil {
				t.Fatal(err)
			}
			verdict := datasets.Fail
			if one.Correct {
				verdict = datasets.Pass
			}
			cost := int64(1000 * (4 - i))
			a.Add(&datasets.Candidate{
				TaskID: fmt.Sprintf("%04d/math/default", n), Domain: "math", Effort: "default", Teacher: id, Verdict: &verdict,
				Accepted: one.Correct, CostMicros: &cost,
				Messages: []chat.Message{{Role: chat.RoleAssistant, Content: &one.Solution}},
			})
		}
	}
	return a
}

// gsm8kLabels are the data's own labels of the four teachers' answers.
func gsm8kLabels(t testing.TB) [][4]bool {
	t.Helper()
	text, err := os.ReadFile(testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	type one struct {
		Correct bool `json:"is_correct"`
	}
	var out [][4]bool
	for line := range strings.Lines(string(text)) {
		var row struct {
			A one `json:"175b_verification"`
			B one `json:"6b_verification"`
			C one `json:"175b_finetuning"`
			D one `json:"6b_finetuning"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		out = append(out, [4]bool{row.A.Correct, row.B.Correct, row.C.Correct, row.D.Correct})
	}
	return out
}

// TestComparisonOfGSM8K: figures computed independently of this program.
func TestComparisonOfGSM8K(t *testing.T) {
	c := gsm8kCandidates(t).Report().Comparison
	if c == nil || len(c.Scopes) != 2 || c.Scopes[1].Domain != "math" {
		t.Fatalf("comparison %+v, want all tasks and those of one domain", c)
	}
	s := c.Scopes[0]
	if s.Tasks != 1319 || s.Family != 6 || len(s.Pairs) != 6 {
		t.Errorf("%d tasks, family of %d, %d pairs; want 1,319, 6 and 6", s.Tasks, s.Family, len(s.Pairs))
	}
	for i, want := range []int64{742, 515, 458, 286} {
		if got := s.Teachers[i]; got.Pass != want || got.Tasks != 1319 || got.Rate.Method != "wilson" {
			t.Errorf("teacher %d: %+v", i, got)
		}
	}
	near := func(what string, got, want, within float64) {
		t.Helper()
		if math.Abs(got-want) > within {
			t.Errorf("%s is %.10g, want %.10g", what, got, want)
		}
	}
	near("Wilson's lower end", s.Teachers[0].Rate.Low, .5356326528, 1e-10)
	p23 := s.Pairs[3]
	if p23.A != "6b_verification" || p23.B != "175b_finetuning" || *p23.AOnly != 209 || *p23.BOnly != 152 || p23.Finding != FavoursA || p23.Test != TestMcNemar {
		t.Errorf("second against third: %+v", p23)
	}
	near("its p", *p23.P, .0031506568803606, 1e-9*.003)
	near("its lower end", p23.Difference.Low, .0150528023, 1e-10)
	near("its upper end", p23.Difference.High, .0712648771, 1e-10)
	g := s.Together
	if g.Union != 887 || !slices.Equal(g.SolvedBy, []int64{432, 290, 236, 205, 156}) {
		t.Errorf("union %d, solved by %v", g.Union, g.SolvedBy)
	}
	for i, want := range []Value{{Unique: 189, Without: 698}, {Unique: 43, Without: 844}, {Unique: 46, Without: 841}, {Unique: 12, Without: 875}} {
		if v := g.Values[i]; v.Unique != want.Unique || v.Without != want.Without {
			t.Errorf("%s adds %+v", v.Teacher, v)
		}
	}
	near("dollars for a task that the first alone solves", *g.Values[0].USDPerExtra, 1319*.004/189, 1e-12)
	if g.Values[3].USD != nil || g.Cheapest != nil {
		t.Error("a teacher without a price has a cost")
	}
	near("dollars an accepted row", s.Teachers[0].USDPerAccepted.Value, 1319*.004/742, 1e-12)
	if e := s.Teachers[0].USDPerAccepted; e.Low >= e.Value || e.High <= e.Value || s.Teachers[3].USDPerAccepted != nil {
		t.Errorf("dollars an accepted row: %+v, and %+v for the unpriced one", e, s.Teachers[3].USDPerAccepted)
	}
}

// fed makes an aggregator of teachers from a short notation: by task a text of
// one field a teacher, each letter a sample: p, f, u (unknown), e (error), '-'
// not asked, and E for a pass of the second round.
func fed(teachers int, tasks ...string) *Report {
	var infos []TeacherInfo
	for i := range teachers {
		infos = append(infos, TeacherInfo{ID: string(rune('a' + i)), Priced: true})
	}
	a := New(infos)
	for n, task := range tasks {
		domain := "d"
		if d, rest, ok := strings.Cut(task, ":"); ok {
			domain, task = d, rest
		}
		for i, samples := range strings.Fields(task) {
			for k, letter := range samples {
				c := &datasets.Candidate{TaskID: fmt.Sprint(n), Domain: domain, Effort: "x", Teacher: infos[i].ID, SampleIndex: int32(k)}
				cost := int64(1_000_000)
				c.CostMicros = &cost
				switch letter {
				case '-':
					continue
				case 'p', 'E':
					c.Verdict, c.Accepted = ref(datasets.Pass), true
				case 'f':
					c.Verdict = ref(datasets.Fail)
				case 'u':
					c.Verdict = ref(datasets.Unknown)
				case 'e':
					c.Error, c.CostMicros = ref("timeout"), nil
				}
				if letter == 'E' {
					c.Flags = []string{datasets.FlagEscalated}
				}
				a.Add(c)
			}
		}
	}
	return a.Report()
}

func TestEscalatedTasksEnterNoRate(t *testing.T) {
	s := fed(2, "p p", "f E", "f E", "f E", "p f").Comparison.Scopes[0]
	if b := s.Teachers[1]; b.Tasks != 2 || b.Pass != 1 {
		t.Errorf("the teacher of the second round has %d tasks and %d passes, want those of the first: 2 and 1", b.Tasks, b.Pass)
	}
	if s.Coverage[0][1] != 2 || s.Together.Tasks != 2 {
		t.Errorf("common tasks %d, together %d; want 2", s.Coverage[0][1], s.Together.Tasks)
	}
}

func TestTeachersWithoutCommonTasks(t *testing.T) {
	s := fed(3, "p - p", "- p f", "p - p", "- f f").Comparison.Scopes[0]
	v := s.Pairs[0]
	if v.Finding != NotComparable || v.Common != 0 || v.P != nil || v.Difference != nil {
		t.Errorf("a against b: %+v, want not comparable", v)
	}
	if s.Together != nil {
		t.Errorf("together %+v, want nothing: no task was asked of all", s.Together)
	}
	if want := [][]int64{{2, 0, 2}, {0, 2, 2}, {2, 2, 4}}; fmt.Sprint(s.Coverage) != fmt.Sprint(want) {
		t.Errorf("coverage %v, want %v", s.Coverage, want)
	}
	if s.Family != 2 {
		t.Errorf("a family of %d tests, want those that could be made: 2", s.Family)
	}
}

func TestUnknownIsNeverFail(t *testing.T) {
	st := fed(1, "p", "u", "f", "e").Comparison.Scopes[0].Teachers[0]
	if st.Rate.Value != 0.25 || st.Judged.Value != 0.5 || !slices.Equal(st.Bounds, []float64{0.25, 0.5}) {
		t.Errorf("rate %v, of judged %v, bounds %v; want 1/4, 1/2 and [1/4, 1/2]", st.Rate, st.Judged, st.Bounds)
	}
	if st.Errored != 1 || st.Unknown != 1 {
		t.Errorf("%d errors, %d unknown; want one of each", st.Errored, st.Unknown)
	}
}

// TestSeveralSamples: by hand, a has the rates 1, 1/2, 1, 1/2 and b 0, 1/2, 1/2,
// 0; the differences in halves are 2, 0, 1, 1, all of one sign, so that p is
// 2/2^3.
func TestSeveralSamples(t *testing.T) {
	s := fed(2, "pp ff", "pf fp", "pp pf", "fp ff").Comparison.Scopes[0]
	v := s.Pairs[0]
	if v.Test != TestSignFlip || *v.P != 0.25 || v.Difference.Value != 0.5 || v.Both != nil || v.Finding != NoneShown {
		t.Errorf("%+v, p %v", v, *v.P)
	}
	a := s.Teachers[0]
	if len(a.PassAt) != 2 || a.PassAt[0].Value != 0.75 || a.PassAt[1].Value != 1 || a.Rate.Method != "wilson_effective" {
		t.Errorf("pass@k %+v, rate %+v", a.PassAt, a.Rate)
	}
	g := s.Together
	if g.Once != 0.75 || len(g.Repeated) != 2 || g.Repeated[0].Value != 1 || g.Repeated[1].Value != 0.5 {
		t.Errorf("asked once each %v, twice %+v; want 3/4, and 1 and 1/2", g.Once, g.Repeated)
	}
	// Samples of unlike number are compared in common units: 2/3 against 1/2.
	if v := fed(2, "ppf pf").Comparison.Scopes[0].Pairs[0]; math.Abs(v.Difference.Value-1.0/6) > 1e-12 {
		t.Errorf("2/3 - 1/2 = %v", v.Difference.Value)
	}
}

// TestHolmIsOverTheFamily: pairs of all domains are one family, those over all
// tasks another.
func TestHolmIsOverTheFamily(t *testing.T) {
	var tasks []string
	for range 8 {
		tasks = append(tasks, "m:p f", "n:p f")
	}
	c := fed(2, tasks...).Comparison
	if len(c.Scopes) != 3 {
		t.Fatalf("%d scopes, want all and two domains", len(c.Scopes))
	}
	all, m := c.Scopes[0].Pairs[0], c.Scopes[1].Pairs[0]
	if *all.PHolm != *all.P || math.Abs(*m.PHolm-2**m.P) > 1e-15 || c.Scopes[1].Family != 2 || m.Finding != FavoursA {
		t.Errorf("overall p %v becomes %v; in a domain %v becomes %v", *all.P, *all.PHolm, *m.P, *m.PHolm)
	}
}

func TestNothingJudgedIsNothingCompared(t *testing.T) {
	a := New([]TeacherInfo{{ID: "a"}, {ID: "b"}})
	for _, id := range []string{"a", "b"} {
		a.Add(&datasets.Candidate{TaskID: "1", Domain: "d", Effort: "x", Teacher: id})
	}
	if c := a.Report().Comparison; c != nil {
		t.Errorf("%+v, want none", c)
	}
}

// TestOrderOfTasksDecidesNothing: shards may come in any order.
func TestOrderOfTasksDecidesNothing(t *testing.T) {
	tasks := []string{"p f", "p p", "f f", "f p", "p f", "u p", "e f"}
	one := fed(2, tasks...)
	slices.Reverse(tasks)
	two := fed(2, tasks...)
	x, _ := json.Marshal(one.Comparison.Scopes[0].Pairs)
	y, _ := json.Marshal(two.Comparison.Scopes[0].Pairs)
	if string(x) != string(y) {
		t.Errorf("%s\n%s", x, y)
	}
}

// BenchmarkComparison is a report over a million candidates.
func BenchmarkComparison(b *testing.B) {
	for b.Loop() {
		infos := make([]TeacherInfo, 5)
		for i := range infos {
			infos[i] = TeacherInfo{ID: fmt.Sprint("teacher-", i), Priced: true}
		}
		a := New(infos)
		pass, fail := datasets.Pass, datasets.Fail
		cost, tokens := int64(1234), int64(321)
		x := uint32(1)
		for task := range 100_000 {
			id := fmt.Sprintf("%032x/math/high", task)
			for i := range infos {
				for k := range 2 {
					x = x*1664525 + 1013904223
					verdict := &pass
					if x>>16%10 < uint32(i+2) {
						verdict = &fail
					}
					a.Add(&datasets.Candidate{
						TaskID: id, Domain: "math", Effort: "high", Teacher: infos[i].ID, SampleIndex: int32(k), Verdict: verdict,
						Accepted: verdict == &pass, CostMicros: &cost, CompletionTokens: &tokens, LatencyMS: &tokens,
					})
				}
			}
		}
		if a.Report().Comparison.Scopes[0].Together.Tasks != 100_000 {
			b.Fatal("not all tasks are compared")
		}
	}
}

// TestForms: every form of one comparison holds what it is to hold, and a name
// from data stays text in each.
func TestForms(t *testing.T) {
	testdata.Heavy(t)
	r := gsm8kCandidates(t).Report()
	r.Comparison.Scopes[0].Pairs[0].A = "<script>alert(1)</script>|[x](javascript:1)\x1b[2J"
	var table, page, mark strings.Builder
	for _, err := range []error{r.Table(&table, 120), r.HTML(&page), r.Markdown(&mark)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for form, text := range map[string]string{"table": table.String(), "page": page.String(), "markdown": mark.String()} {
		for _, want := range []string{"17.2", "0.003", "887 of the 1,319"} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s lacks %q", form, want)
			}
		}
		if strings.Contains(text, "<script>alert") && form != "table" || strings.Contains(text, "\x1b") || strings.Contains(text, "[x](javascript") && form == "markdown" {
			t.Errorf("the %s takes a name for more than text", form)
		}
	}
}

// TestPairsWithoutCommonTasksTakeOneLine: where each teacher owns a domain most
// pairs have nothing in common.
func TestPairsWithoutCommonTasksTakeOneLine(t *testing.T) {
	var b strings.Builder
	if err := fed(3, "p - -", "- p f", "- f f", "p - -").Table(&b, 100); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	if !strings.Contains(text, "2 pairs are not comparable") || strings.Count(text, "not comparable") != 1 || !strings.Contains(text, "b c 2 +50.0") {
		t.Errorf("%s", b.String())
	}
}
