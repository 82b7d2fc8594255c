package report

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestOrderOfJudgementsDecidesNothing: not even where a judge was asked twice, a
// teacher has two answers to a task, or preferences are not whole.
func TestOrderOfJudgementsDecidesNothing(t *testing.T) {
	var list []Preference
	for i := range 60 {
		for k, judge := range []string{"x", "y", "z"} {
			list = append(list, Preference{
				Task: string(rune('0' + i%7)), Answers: string(rune('a' + i%5)), Judge: judge, A: []string{"a", "b", "c"}[i%3], B: []string{"b", "c", "a"}[i%3],
				Win: float64((i*7+k*3)%10) / 9, Longer: ref(float64(i*i%13) / 7),
			})
		}
	}
	of := func(list []Preference) string {
		var r Report
		if err := r.SetPreferences(list); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r.Preferences)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	want := of(list)
	for i := range 20 {
		slices.Reverse(list[:len(list)-3*i])
		if got := of(list); got != want {
			t.Fatalf("another order gives\n%s\nand not\n%s", got, want)
		}
	}
}

// TestAnswersAreJudgedApart: two answers of one teacher to one task are two
// comparisons, and a judge that says both of one has said a tie.
func TestAnswersAreJudgedApart(t *testing.T) {
	var r Report
	add := func(list []Preference, answers string, x, y float64) []Preference {
		return append(list, Preference{Task: "1", Answers: answers, Judge: "x", A: "a", B: "b", Win: x}, Preference{Task: "1", Answers: answers, Judge: "y", A: "a", B: "b", Win: y})
	}
	list := add(add(nil, "1 2", 1, 1), "3 2", 0, 0)
	list = add(add(list, "4 2", 1, 0.5), "4 2", 0, 0.5)
	if err := r.SetPreferences(list); err != nil {
		t.Fatal(err)
	}
	if g := r.Preferences.Agreement[0]; g.Comparisons != 3 || g.Agreed != 1 {
		t.Errorf("%+v, want three comparisons that both judge alike", g)
	}
}

func TestHostileJudgements(t *testing.T) {
	long := strings.Repeat("long instruction ", 1000)
	for text, want := range map[string]string{
		`{"generator_1":"a","generator_2":"b","preference":1,"judge":"verifier"}`:           "verifier's name",
		`{"generator_1":"a","generator_2":"b","preference":1,"instruction":"` + long + `"}`: "",
	} {
		err := ReadPreferences(strings.NewReader(text), func(p Preference) error {
			if len(p.Task) > longestTask {
				t.Errorf("a task's name of %d bytes is kept", len(p.Task))
			}
			return nil
		})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s: %v", text, err)
		}
	}
	var r Report
	if err := r.SetPreferences([]Preference{{Judge: "x", A: "a", B: "b", Win: 2}}); err == nil {
		t.Error("a preference of 2 is taken")
	}
}
