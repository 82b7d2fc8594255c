package report

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// A wholeRating is a strength in whole.json.
type wholeRating struct {
	Teacher          string
	Value, Low, High float64
}

// reference is whole.json: what stats/testdata/whole.py makes of the same data.
type reference struct {
	Tasks    int64
	Teachers []struct {
		Teacher         string
		Pass            int64
		Rate, Low, High float64
		USDPerAccepted  float64 `json:"usd_per_accepted"`
		USDLow          float64 `json:"usd_low"`
		USDHigh         float64 `json:"usd_high"`
		Unique, Without int64
		USD             float64
		Overlap         []float64
	}
	Union    int64
	SolvedBy []int64 `json:"solved_by"`
	Cheapest struct {
		Teachers []string
		USD      float64
	}
	Pairs []struct {
		A, B                     string
		Both, Neither            int64
		AOnly                    int64 `json:"a_only"`
		BOnly                    int64 `json:"b_only"`
		Difference, Low, High, P float64
		PHolm                    float64 `json:"p_holm"`
		Detectable               float64
	}
	TiesHalf    []wholeRating `json:"ties_half"`
	TiesDropped []wholeRating `json:"ties_dropped"`
	Fit         []struct {
		Teacher        string
		Tasks          int64
		NLL, Low, High float64
	}
	FitPairs []struct {
		A, B                  string
		Common                int64
		Difference, Low, High float64
	} `json:"fit_pairs"`
	AlpacaEval []struct {
		Teacher             string
		WinRate             float64 `json:"win_rate"`
		StandardError       float64 `json:"standard_error"`
		Wins, Losses, Draws int64
		Controlled          float64
		ControlledLow       float64 `json:"controlled_low"`
		ControlledHigh      float64 `json:"controlled_high"`
	}
	AlpacaEvalHalf    []wholeRating `json:"alpacaeval_ties_half"`
	AlpacaEvalDropped []wholeRating `json:"alpacaeval_ties_dropped"`
}

// wholeReport is the report over the same data: see whole.py for what is made up.
func wholeReport(t *testing.T) *Report {
	t.Helper()
	ids := []string{"175b_verification", "6b_verification", "175b_finetuning", "6b_finetuning"}
	var infos []TeacherInfo
	for _, id := range ids {
		infos = append(infos, TeacherInfo{ID: id, Priced: true})
	}
	a := New(infos)
	a.SetStudent("pupil", "a rule")
	text, err := os.ReadFile(testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var row map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		task := fmt.Sprintf("%04d/math/default", n)
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
			a.Add(&datasets.Candidate{
				TaskID: task, PromptID: task, SampleID: task + id, AskID: task + id, Domain: "math", Effort: "default", Teacher: id, Verdict: &verdict,
				Accepted: one.Correct, CostMicros: ref(int64(1000 * (4 - i))),
			})
			if n := utf8.RuneCountInString(one.Solution); one.Correct {
				err := a.AddFit(FitAnswer{Task: task, Teacher: id, Domain: "math", Effort: "default", Tokens: int64(n+3) / 4,
					NLL: 0.01*float64(n) + 0.5*float64(strings.Count(one.Solution, "\n")+1) + 0.1*float64(i)})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if n%5 == 0 {
			a.AddJudgeRow(&datasets.JudgeRow{TaskID: task, SampleA: task + ids[0], SampleB: ref(task + ids[1]), AskID: ref(task + "judge")})
			a.AddAttempt(&datasets.Attempt{Times: 1, TaskID: task, SampleID: task + ids[0], AskID: task + "judge", Teacher: "judge", Outcome: datasets.OutcomeAnswer, Billable: true, CostMicros: ref(int64(25))})
		}
		for i, id := range ids {
			if n%3 == 0 {
				a.AddAttempt(&datasets.Attempt{Times: 1, TaskID: task, SampleID: task + id, AskID: task + id, Teacher: id, Outcome: datasets.OutcomeAnswered, Billable: true, CostMicros: ref(int64(70 * (i + 1)))})
			}
		}
	}
	wholePreferences(t, a)
	return a.Report()
}

// wholePreferences adds AlpacaEval's, with the lengths of the answers.
func wholePreferences(t *testing.T, a *Aggregator) {
	t.Helper()
	lengths := map[[2]string]float64{}
	read := func(name string) {
		if _, done := lengths[[2]string{name}]; done {
			return
		}
		lengths[[2]string{name}] = 0
		text, err := os.ReadFile(testdata.Path(t, "data/alpacaeval/"+name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			var one struct{ Instruction, Output string }
			if err := json.Unmarshal([]byte(line), &one); err != nil {
				t.Fatal(err)
			}
			lengths[[2]string{name, bounded(one.Instruction)}] = float64(utf8.RuneCountInString(one.Output))
		}
	}
	f, err := os.Open(testdata.Path(t, "data/alpacaeval/preferences.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := ReadPreferences(f, func(p Preference) error {
		read(p.A)
		read(p.B)
		p.Longer = ref(lengths[[2]string{p.A, p.Task}] - lengths[[2]string{p.B, p.Task}])
		return a.AddPreference(p)
	}); err != nil {
		t.Fatal(err)
	}
}

// TestWholeReport holds a whole report to what scipy and statsmodels make of the
// same data, figure by figure.
func TestWholeReport(t *testing.T) {
	testdata.Heavy(t)
	text, err := os.ReadFile(filepath.Join("stats", "testdata", "whole.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want reference
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	r := wholeReport(t)
	checked := 0
	near := func(what string, got, want, within float64) {
		t.Helper()
		if checked++; !(math.Abs(got-want) <= within) {
			t.Errorf("%s: %v, by scipy and statsmodels %v", what, got, want)
		}
	}
	s := &r.Comparison.Scopes[0]
	g := s.Together
	if s.Tasks != want.Tasks || g.Union != want.Union || !slices.Equal(g.SolvedBy, want.SolvedBy) || !slices.Equal(g.Cheapest.Teachers, want.Cheapest.Teachers) {
		t.Errorf("%d tasks, union %d, solved by %v, cheapest %v", s.Tasks, g.Union, g.SolvedBy, g.Cheapest)
	}
	near("the cheapest set", g.Cheapest.USD, want.Cheapest.USD, 1e-9)
	for i, w := range want.Teachers {
		st, v := s.Teachers[i], g.Values[i]
		if st.Teacher != w.Teacher || st.Pass != w.Pass || v.Unique != w.Unique || v.Without != w.Without {
			t.Errorf("%+v, %+v, want %+v", st, v, w)
		}
		near(w.Teacher+": rate", st.Rate.Value, w.Rate, 1e-12)
		near(w.Teacher+": rate, low", st.Rate.Low, w.Low, 1e-9)
		near(w.Teacher+": rate, high", st.Rate.High, w.High, 1e-9)
		near(w.Teacher+": dollars", *v.USD, w.USD, 1e-9)
		near(w.Teacher+": dollars per accepted row", st.USDPerAccepted.Value, w.USDPerAccepted, 1e-12)
		near(w.Teacher+": the same over all", *r.Teachers[i].CostPerAcceptedUSD, w.USDPerAccepted, 1e-12)
		// Both intervals are drawn by chance: a twentieth of their width apart.
		near(w.Teacher+": dollars, low", st.USDPerAccepted.Low, w.USDLow, (w.USDHigh-w.USDLow)/20)
		near(w.Teacher+": dollars, high", st.USDPerAccepted.High, w.USDHigh, (w.USDHigh-w.USDLow)/20)
		for j, share := range w.Overlap {
			near(fmt.Sprintf("%s: errors that %d makes too", w.Teacher, j), g.ErrorOverlap[i][j], share, 1e-12)
		}
	}
	for i, w := range want.Pairs {
		v, what := s.Pairs[i], w.A+" against "+w.B
		if v.A != w.A || v.B != w.B || *v.Both != w.Both || *v.AOnly != w.AOnly || *v.BOnly != w.BOnly || *v.Neither != w.Neither {
			t.Errorf("%+v, want %+v", v, w)
		}
		near(what, v.Difference.Value, w.Difference, 1e-12)
		near(what+", low", v.Difference.Low, w.Low, 1e-9)
		near(what+", high", v.Difference.High, w.High, 1e-9)
		near(what+", p", *v.P, w.P, 1e-9*w.P)
		near(what+", p after Holm", *v.PHolm, w.PHolm, 1e-9*w.PHolm)
		near(what+", shows from", *v.Detectable, w.Detectable, 1e-6)
	}
	ratings := func(what string, got []Rating, want []wholeRating) {
		t.Helper()
		if len(got) != len(want) || len(got) == 0 {
			t.Errorf("%s: %d ratings, want %d", what, len(got), len(want))
			return
		}
		of := map[string]Rating{}
		for _, one := range got {
			of[one.Teacher] = one
		}
		for _, w := range want {
			one := of[w.Teacher]
			near(what+": "+w.Teacher, one.Value, w.Value, 1e-6)
			near(what+": "+w.Teacher+", low", one.Low, w.Low, 1e-6)
			near(what+": "+w.Teacher+", high", one.High, w.High, 1e-6)
		}
	}
	ratings("solved, ties half", g.Ratings.TiesHalf, want.TiesHalf)
	ratings("solved, ties dropped", g.Ratings.TiesDropped, want.TiesDropped)
	judge := &r.Preferences.Judges[0]
	ratings("AlpacaEval, ties half", judge.Ratings, want.AlpacaEvalHalf)
	ratings("AlpacaEval, ties dropped", judge.RatingsNoTies, want.AlpacaEvalDropped)
	const baseline = "gpt4_1106_preview"
	for _, w := range want.AlpacaEval {
		i := slices.IndexFunc(judge.Matches, func(m Matches) bool {
			return m.Teacher != m.Against && (m.Teacher == w.Teacher || m.Against == w.Teacher)
		})
		if i < 0 {
			t.Errorf("%s: no matches", w.Teacher)
			continue
		}
		m := judge.Matches[i]
		if m.Teacher == baseline { // the page names whoever comes first
			m.WinRate, m.Wins, m.Losses = 1-m.WinRate, m.Losses, m.Wins
			c := *m.Controlled
			m.Controlled = &Estimate{Value: 1 - c.Value, Low: 1 - c.High, High: 1 - c.Low}
		}
		if m.Wins != w.Wins || m.Losses != w.Losses || m.Draws != w.Draws {
			t.Errorf("%s: %d wins, %d losses, %d draws; want %+v", w.Teacher, m.Wins, m.Losses, m.Draws, w)
		}
		near(w.Teacher+": win rate", m.WinRate, w.WinRate, 1e-9)
		near(w.Teacher+": its standard error", *m.StandardError, w.StandardError, 1e-9)
		near(w.Teacher+": at equal length", m.Controlled.Value, w.Controlled, 1e-6)
		near(w.Teacher+": at equal length, low", m.Controlled.Low, w.ControlledLow, 1e-6)
		near(w.Teacher+": at equal length, high", m.Controlled.High, w.ControlledHigh, 1e-6)
	}
	fit := &r.StudentFit.Scopes[0]
	for i, w := range want.Fit {
		f := fit.Teachers[i]
		if f.Teacher != w.Teacher || f.Tasks != w.Tasks {
			t.Errorf("%+v, want %+v", f, w)
		}
		near(w.Teacher+": nll", f.NLL.Value, w.NLL, 1e-9)
		near(w.Teacher+": nll, low", f.NLL.Low, w.Low, 1e-9)
		near(w.Teacher+": nll, high", f.NLL.High, w.High, 1e-9)
	}
	for i, w := range want.FitPairs {
		p, what := fit.Pairs[i], "fit of "+w.A+" against "+w.B
		if p.A != w.A || p.B != w.B || p.Common != w.Common {
			t.Errorf("%+v, want %+v", p, w)
		}
		near(what, p.Difference.Value, w.Difference, 1e-9)
		near(what+", low", p.Difference.Low, w.Low, 1e-9)
		near(what+", high", p.Difference.High, w.High, 1e-9)
	}
	if checked < 200 {
		t.Errorf("%d figures were compared, want 200 and more", checked)
	}
	t.Logf("%d figures", checked)
}
