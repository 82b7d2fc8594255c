package report

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// TestPreferencesOfAlpacaEval gives every figure of the published leaderboard
// for the teachers whose judgements are published.
func TestPreferencesOfAlpacaEval(t *testing.T) {
	f, err := os.Open(testdata.Path(t, "data/alpacaeval/preferences.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a := New(nil)
	if err := ReadPreferences(f, a.AddPreference); err != nil {
		t.Fatal(err)
	}
	p := a.Report().Preferences
	if p == nil || len(p.Judges) != 1 {
		t.Fatalf("%+v, want one judge", p)
	}
	board, err := os.Open(testdata.Path(t, "data/alpacaeval/leaderboard.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer board.Close()
	rows, err := csv.NewReader(board).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	published := map[string][]string{}
	for _, row := range rows[1:] {
		published[row[0]] = row
	}
	const baseline = "gpt4_1106_preview"
	for _, m := range p.Judges[0].Matches {
		// The page names the teacher that comes first by name; the board names
		// the one that is not the baseline.
		if m.Teacher == baseline && m.Against != baseline {
			m = Matches{Teacher: m.Against, Against: m.Teacher, WinRate: 1 - m.WinRate, StandardError: m.StandardError, Wins: m.Losses, Losses: m.Wins, Draws: m.Draws}
		}
		row := published[m.Teacher]
		for i, got := range []float64{100 * m.WinRate, 100 * *m.StandardError, float64(m.Wins), float64(m.Losses), float64(m.Draws)} {
			want, err := strconv.ParseFloat(row[i+1], 64)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(got-want) > 1e-6 {
				t.Errorf("%s: %s is %v, want %v", m.Teacher, rows[0][i+1], got, want)
			}
		}
		delete(published, m.Teacher)
	}
	if len(published) != len(rows)-1-6 {
		t.Errorf("%d teachers of the leaderboard are left, want all but six", len(published))
	}
	if n := len(p.Judges[0].Ratings); n != 6 {
		t.Errorf("%d ratings, want 6: every one of them won and lost against the baseline", n)
	}
}

// TestFlipsAndFamilies is worked out by hand: of four comparisons in both
// orders one changes, and one is a tie for that reason.
func TestFlipsAndFamilies(t *testing.T) {
	a := New([]TeacherInfo{{ID: "x"}, {ID: "y"}})
	for i, j := range []datasets.Judgement{
		{Outcome: "a", AFirst: "a", BFirst: "a"},
		{Outcome: "b", AFirst: "b", BFirst: "b"},
		{Outcome: "tie", AFirst: "a", BFirst: "b"},
		{Outcome: "tie", AFirst: "tie", BFirst: "tie"},
		{Outcome: "unknown", AFirst: "a", BFirst: "unknown"},
	} {
		j.TaskID, j.Judge, j.TeacherA, j.TeacherB = strconv.Itoa(i), "judge", "x", "y"
		p, ok := PreferenceOf(&j, nil, nil, i == 0)
		if ok != (i < 4) {
			t.Errorf("judgement %d says something: %v", i, ok)
		}
		if ok {
			if err := a.AddPreference(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	j := a.Report().Preferences.Judges[0]
	if j.Comparisons != 4 || *j.Flipped != 0.25 || j.SameFamily != 1 {
		t.Errorf("%d comparisons, %v flipped, %d of its family; want 4, 1/4 and 1", j.Comparisons, *j.Flipped, j.SameFamily)
	}
	if m := j.Matches[0]; m.Wins != 1 || m.Losses != 1 || m.Draws != 2 || m.WinRate != 0.5 || m.Controlled != nil {
		t.Errorf("%+v", m)
	}
	if len(j.Ratings) != 2 || math.Abs(j.Ratings[0].Value) > 1e-9 {
		t.Errorf("ratings %+v of equals", j.Ratings)
	}
}

// TestJudgesThatAgree: of four comparisons that both judge they agree in three.
// By hand, with a better two and three times, b better twice and once: chance is
// (2·3 + 2·1)/16 = 1/2, so that kappa is (3/4-1/2)/(1/2) = 1/2. One of them
// names the teachers the other way round, which changes nothing.
func TestJudgesThatAgree(t *testing.T) {
	a := New(nil)
	add := func(judge, task string, win float64) {
		t.Helper()
		p := Preference{Task: task, Judge: judge, A: "x", B: "y", Win: win}
		if judge == "two" {
			p.A, p.B, p.Win = "y", "x", 1-win
		}
		if err := a.AddPreference(p); err != nil {
			t.Fatal(err)
		}
	}
	for i, w := range []float64{1, 1, 0, 0} {
		add("one", strconv.Itoa(i), w)
	}
	for i, w := range []float64{1, 1, 1, 0} {
		add("two", strconv.Itoa(i), w)
	}
	add("two", "5", 1)
	add(Verifier, "3", 0)
	p := a.Report().Preferences
	if len(p.Judges) != 2 || len(p.Agreement) != 3 {
		t.Fatalf("%d judges and %d agreements, want 2 and 3", len(p.Judges), len(p.Agreement))
	}
	g := p.Agreement[0]
	if g.A != "one" || g.B != "two" || g.Comparisons != 4 || g.Agreed != 0.75 || math.Abs(*g.Cohen-0.5) > 1e-12 {
		t.Errorf("%+v", g)
	}
	if v := p.Agreement[1]; v.B != Verifier || v.Comparisons != 1 || v.Agreed != 1 || v.Cohen != nil {
		t.Errorf("with the verifier: %+v", v)
	}
	// Fleiss over the four that both judged: categories 5/8 and 3/8, agreement
	// 3/4, chance 34/64.
	if want := (0.75 - 34.0/64) / (1 - 34.0/64); math.Abs(*p.Fleiss-want) > 1e-12 {
		t.Errorf("Fleiss %v, want %v", *p.Fleiss, want)
	}
}

// TestDisconnectedJudgements: somebody who never lost has no finite rating, and
// nothing is added to make one.
func TestDisconnectedJudgements(t *testing.T) {
	a := New(nil)
	for i := range 3 {
		if err := a.AddPreference(Preference{Task: strconv.Itoa(i), Judge: "j", A: "x", B: "y", Win: 1}); err != nil {
			t.Fatal(err)
		}
	}
	j := a.Report().Preferences.Judges[0]
	if j.Ratings != nil || j.Undefined == "" {
		t.Errorf("ratings %v, undefined %q; want none, and why", j.Ratings, j.Undefined)
	}
}

// TestFormsOfPreferences: what judges prefer is in every form.
func TestFormsOfPreferences(t *testing.T) {
	a := New([]TeacherInfo{{ID: "x"}, {ID: "y"}})
	a.Add(&datasets.Candidate{TaskID: "1", Domain: "d", Effort: "e", Teacher: "x"})
	for i := range 40 {
		flipped := i%4 == 0
		longer := float64(i%7) - 3
		win := float64(i%3) / 2
		for _, judge := range []string{"j<b>", "k"} {
			if err := a.AddPreference(Preference{Task: strconv.Itoa(i), Judge: judge, A: "x", B: "y", Win: win, Flipped: &flipped, Longer: &longer, SameFamily: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := a.Report()
	var table, page, mark strings.Builder
	for _, err := range []error{r.Table(&table, 100), r.HTML(&page), r.Markdown(&mark)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for form, text := range map[string]string{"table": table.String(), "page": page.String(), "markdown": mark.String()} {
		for _, want := range []string{"25.0 %", "own family", "Bradley-Terry ratings", "agree in 100.0 %", "Krippendorff"} {
			if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
				t.Errorf("the %s lacks %q:\n%s", form, want, text)
			}
		}
		if form != "table" && strings.Contains(text, "j<b>") {
			t.Errorf("the %s takes a judge's name for markup", form)
		}
	}
}

func TestReadPreferences(t *testing.T) {
	read := func(text string) (list []Preference, err error) {
		err = ReadPreferences(strings.NewReader(text), func(p Preference) error {
			list = append(list, p)
			return nil
		})
		return list, err
	}
	one := `{"generator_1":"b","generator_2":"a","preference":1.25,"instruction":"q","output_1":"four","output_2":"äö"}`
	for name, text := range map[string]string{"lines": one + "\n" + one, "array": " [" + one + ",\n" + one + "]"} {
		list, err := read(text)
		if err != nil || len(list) != 2 || list[0].A != "a" || list[0].Win != 0.25 || *list[0].Longer != -2 || list[0].Task != "q" || list[0].Judge != "imported" {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
	if list, err := read(`{"generator_1":"b","generator_2":"a","preference":null}`); err != nil || len(list) != 0 {
		t.Errorf("a judgement that says nothing: %v, %v", list, err)
	}
	for text, want := range map[string]string{
		"": "no judgements", "[": "EOF", one + "\n{": "judgement 2", `{"generator_1":"a","preference":1}`: "generator_2",
		`{"generator_1":"b","generator_2":"a","preference":3}`: "between 1", `[` + one: "EOF", "7": "judgement 1",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzReadPreferences(f *testing.F) {
	f.Add(`[{"generator_1":"b","generator_2":"a","preference":1.25}]`)
	f.Add("{}\n{")
	f.Fuzz(func(_ *testing.T, text string) {
		a := New(nil)
		if ReadPreferences(strings.NewReader(text), a.AddPreference) == nil {
			a.Report()
		}
	})
}
