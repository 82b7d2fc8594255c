package stats

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// reference is what testdata/reference.py wrote.
type reference struct {
	Wilson []struct {
		Pass, N   int64
		Low, High float64
	}
	McNemar []struct {
		B, C int64
		P    float64
	}
	Holm     []struct{ P, Adjusted []float64 }
	Student  []struct{ DF, Point float64 }
	Normal   []struct{ Z, P float64 }
	SignFlip []struct {
		Diffs []int64
		P     float64
	} `json:"sign_flip"`
	Cohen []struct {
		Table [][]int64
		Kappa float64
	}
	Fleiss []struct {
		Counts [][]int64
		Kappa  float64
	}
	Krippendorff []struct {
		Counts [][]int64
		Alpha  float64
	}
	BradleyTerry []struct {
		Wins      Wins
		Value, SE []float64
	} `json:"bradley_terry"`
	LengthControlled []struct {
		Preference, Longer []float64
		Rate, Low, High    float64
	} `json:"length_controlled"`
	PassAtK []struct {
		N, C, K int
		Value   float64
	} `json:"pass_at_k"`
}

func references(t *testing.T) *reference {
	t.Helper()
	text, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var r reference
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// near fails unless got is want within an absolute error.
func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s = %.12g, want %.12g", what, got, want)
	}
}

// exactly fails unless got is want within a relative error of 1e-9.
func exactly(t *testing.T, what string, got, want float64) {
	t.Helper()
	near(t, what, got, want, 1e-9*math.Abs(want))
}

func TestAgainstReferences(t *testing.T) {
	r := references(t)
	for _, c := range r.Wilson {
		lo, hi := Wilson(c.Pass, c.N, Z95)
		near(t, "Wilson's lower end", lo, c.Low, 1e-12)
		near(t, "Wilson's upper end", hi, c.High, 1e-12)
	}
	for _, c := range r.McNemar {
		exactly(t, "McNemar", McNemar(c.B, c.C), c.P)
		exactly(t, "McNemar turned round", McNemar(c.C, c.B), c.P)
	}
	for _, c := range r.Holm {
		for i, p := range Holm(c.P) {
			exactly(t, "Holm", p, c.Adjusted[i])
		}
	}
	for _, c := range r.Student {
		exactly(t, "Student's point", studentPoint(0.95, c.DF), c.Point)
	}
	for _, c := range r.Normal {
		exactly(t, "Normal", Normal(c.Z), c.P)
	}
	for _, c := range r.SignFlip {
		p, exact := SignFlip(c.Diffs, 1, 1)
		if !exact {
			t.Errorf("sign flips of %v were drawn, want all of them", c.Diffs)
		}
		exactly(t, "SignFlip", p, c.P)
	}
	for _, c := range r.Cohen {
		exactly(t, "Cohen", Cohen(c.Table), c.Kappa)
	}
	for _, c := range r.Fleiss {
		exactly(t, "Fleiss", Fleiss(c.Counts), c.Kappa)
	}
	for _, c := range r.Krippendorff {
		exactly(t, "Krippendorff", Krippendorff(c.Counts), c.Alpha)
	}
	for _, c := range r.BradleyTerry {
		got, err := BradleyTerry(c.Wins)
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.Value {
			near(t, "Bradley-Terry", got.Value[i], c.Value[i], 1e-6)
			near(t, "Bradley-Terry's error", got.SE[i], c.SE[i], 1e-6)
		}
	}
	for _, c := range r.LengthControlled {
		matches := make([]Match, len(c.Longer))
		for i := range matches {
			matches[i] = Match{c.Preference[i], c.Longer[i]}
		}
		rate, lo, hi, ok := LengthControlled(matches)
		if !ok {
			t.Fatal("length control gave nothing")
		}
		near(t, "LengthControlled", rate, c.Rate, 1e-6)
		near(t, "its lower end", lo, c.Low, 1e-6)
		near(t, "its upper end", hi, c.High, 1e-6)
	}
	for _, c := range r.PassAtK {
		near(t, "PassAtK", PassAtK(c.N, c.C, c.K), c.Value, 1e-12)
	}
}

// TestOverNothing: what no data can say is said as such.
func TestOverNothing(t *testing.T) {
	if lo, hi := Wilson(0, 0, Z95); lo != 0 || hi != 1 {
		t.Errorf("Wilson over nothing = [%g, %g], want [0, 1]", lo, hi)
	}
	if lo, hi := Newcombe(0, 0, 0, 0, Z95); lo != -1 || hi != 1 {
		t.Errorf("Newcombe over nothing = [%g, %g], want [-1, 1]", lo, hi)
	}
	if p, exact := SignFlip(nil, 1, 1); p != 1 || !exact {
		t.Errorf("SignFlip over nothing = %g, %v; want 1", p, exact)
	}
	for what, v := range map[string]float64{
		"Mean": Mean(nil), "StandardError of one": StandardError([]float64{1}), "Cohen": Cohen(nil), "Fleiss": Fleiss(nil),
		"Krippendorff": Krippendorff(nil), "MacroRate": MacroRate(nil), "PassAtK beyond n": PassAtK(3, 1, 4),
		"Cohen of one value": Cohen([][]int64{{5, 0}, {0, 0}}), "Krippendorff of one value": Krippendorff([][]int64{{3, 0}, {2, 0}}),
		"Fleiss of uneven items": Fleiss([][]int64{{2, 1}, {1, 1}}), "WinRate": WinRateOf(nil).Rate,
	} {
		if !math.IsNaN(v) {
			t.Errorf("%s over nothing = %g, want NaN", what, v)
		}
	}
	if r := Ratios([][]float64{{1, 2}}, []float64{0, 0}, 1, 1)[0]; !math.IsNaN(r.Value) || !math.IsNaN(r.Low) || !math.IsNaN(r.High) {
		t.Errorf("a ratio over nothing = %+v, want NaN", r)
	}
	if d := DetectableDifference(0, 0.3, 0.05, 0.8); !math.IsInf(d, 1) {
		t.Errorf("no tasks can show a difference of %g, want +Inf", d)
	}
}

// TestRatingsThatDoNotExist: no finite ratings fit where somebody never lost.
func TestRatingsThatDoNotExist(t *testing.T) {
	for name, wins := range map[string]Wins{
		"never lost":     {{0, 3, 2}, {0, 0, 1}, {0, 1, 0}},
		"two islands":    {{0, 1, 0, 0}, {1, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 1, 0}},
		"one way across": {{0, 1, 1, 0}, {1, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 1, 0}},
		"alone":          {{0}},
	} {
		if r, err := BradleyTerry(wins); err != ErrDisconnected {
			t.Errorf("%s: ratings %v, %v; want ErrDisconnected", name, r, err)
		}
	}
}

// TestDetectableDifference checks Connor's formula by his own equation: the
// sample size that the difference gives back is the one it came from.
func TestDetectableDifference(t *testing.T) {
	for _, n := range []int{30, 200, 1319} {
		for _, psi := range []float64{0.1, 0.27, 0.6} {
			d := DetectableDifference(n, psi, 0.05, 0.8)
			if math.IsInf(d, 1) {
				continue
			}
			root := NormalPoint(0.95)*math.Sqrt(psi) + NormalPoint(0.6)*math.Sqrt(psi-d*d)
			near(t, "the sample size", root*root/(d*d), float64(n), 1e-6*float64(n))
		}
	}
	if d := DetectableDifference(20, 0.05, 0.05, 0.8); !math.IsInf(d, 1) {
		t.Errorf("20 tasks of which one differs show a difference of %g, want +Inf", d)
	}
}
