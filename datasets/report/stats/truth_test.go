package stats

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// jsonLines decodes a file of one object a line.
func jsonLines[T any](t *testing.T, path string, each func(*T)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		each(&v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// gsm8k is who of the four recorded teachers solved which of the 1,319 tasks.
func gsm8k(t *testing.T) Solved {
	names := []string{"175b_verification", "6b_verification", "175b_finetuning", "6b_finetuning"}
	solved := Solved{}
	jsonLines(t, testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl"), func(row *map[string]json.RawMessage) {
		var key uint64
		for i, name := range names {
			var one struct {
				IsCorrect bool `json:"is_correct"`
			}
			if err := json.Unmarshal((*row)[name], &one); err != nil {
				t.Fatal(err)
			}
			if one.IsCorrect {
				key |= 1 << i
			}
		}
		solved[key]++
	})
	return solved
}

// TestGSM8K compares every figure with one that was computed independently.
func TestGSM8K(t *testing.T) {
	s := gsm8k(t)
	if s.Tasks() != 1319 {
		t.Fatalf("%d tasks, want 1,319", s.Tasks())
	}
	pass := make([]int64, 4)
	without := make([]int64, 4)
	unique := make([]int64, 4)
	for i := range 4 {
		pass[i], without[i], unique[i] = s.By(1<<i), s.By(15&^(1<<i)), s.Unique(i)
	}
	same(t, "passes", pass, []int64{742, 515, 458, 286})
	same(t, "tasks by how many solved them", s.Exactly(4), []int64{432, 290, 236, 205, 156})
	same(t, "unique solves", unique, []int64{189, 43, 46, 12})
	same(t, "unions without each", without, []int64{698, 844, 841, 875})
	if s.By(15) != 887 {
		t.Errorf("union %d, want 887", s.By(15))
	}
	lo, hi := Wilson(742, 1319, Z95)
	near(t, "Wilson", lo, .5356326528, 1e-10)
	near(t, "Wilson", hi, .5890988476, 1e-10)

	// All sets that keep 95 %: two of three, and the whole.
	var keeping []uint64
	for set := range uint64(16) {
		if s.By(set) >= 843 {
			keeping = append(keeping, set)
		}
	}
	same(t, "sets that keep 95 %", keeping, []uint64{0b0111, 0b1101, 0b1111})
	minimal := s.Keeping(4, 0.95)
	if len(minimal) != 2 || minimal[0] != (TeacherSet{Set: 0b0111, Solved: 875}) || minimal[1] != (TeacherSet{Set: 0b1101, Solved: 844}) {
		t.Errorf("smallest sets that keep 95 %%: %v", minimal)
	}
	if best, exact, ok := s.Cheapest(4, []float64{10, 3, 5, 1}, 0.95); !exact || !ok || best.Set != 0b1101 || best.Cost != 16 {
		t.Errorf("cheapest set that keeps 95 %%: %+v, %v, %v", best, exact, ok)
	}
	if best, _, _ := s.Cheapest(4, []float64{10, 3, 5, math.NaN()}, 0.95); best.Set != 0b0111 || best.Cost != 18 {
		t.Errorf("cheapest set without the unpriced teacher: %+v", best)
	}

	for _, c := range []struct {
		i, j int
		b, c int64
		p    float64
	}{
		{0, 1, 306, 79, 1.240053425e-32}, {0, 2, 360, 76, 2.891394635e-45}, {0, 3, 499, 43, 1.656933362e-99},
		{1, 2, 209, 152, .0031506568803606}, {1, 3, 293, 64, 3.928874710e-36}, {2, 3, 260, 88, 7.466006443e-21},
	} {
		_, b, cc, _ := s.Both(c.i, c.j)
		if b != c.b || cc != c.c {
			t.Errorf("%d against %d: %d and %d alone, want %d and %d", c.i+1, c.j+1, b, cc, c.b, c.c)
		}
		near(t, fmt.Sprintf("McNemar of %d and %d", c.i+1, c.j+1), McNemar(b, cc), c.p, 1e-9*c.p)
	}
	a, b, c, d := s.Both(1, 2)
	lo, hi = Newcombe(a, b, c, d, Z95)
	near(t, "Newcombe", lo, .0150528023, 1e-10)
	near(t, "Newcombe", hi, .0712648771, 1e-10)

	a, b, c, d = s.Both(0, 1)
	near(t, "Cohen", Cohen([][]int64{{a, b}, {c, d}}), .4317982194, 1e-9)
	var counts [][]int64
	for key, n := range s {
		solved := int64(0)
		for i := range 4 {
			solved += int64(key >> i & 1)
		}
		for range n {
			counts = append(counts, []int64{solved, 4 - solved})
		}
	}
	near(t, "Fleiss", Fleiss(counts), .3481425191, 1e-9)
	near(t, "Krippendorff", Krippendorff(counts), .3482660705, 1e-9)

	half, dropped := make(Wins, 4), make(Wins, 4)
	for i := range 4 {
		half[i], dropped[i] = make([]float64, 4), make([]float64, 4)
	}
	for i := range 4 {
		for j := range i {
			both, first, second, neither := s.Both(i, j)
			tie := float64(both+neither) / 2
			half[i][j], half[j][i] = float64(first)+tie, float64(second)+tie
			dropped[i][j], dropped[j][i] = float64(first), float64(second)
		}
	}
	ratings(t, "ties half", half, []float64{.3763269974, .0223929168, -.0654421467, -.3332777674})
	ratings(t, "ties dropped", dropped, []float64{1.3608764232, .1168289025, -.1979698815, -1.2797354442})
}

func same[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func ratings(t *testing.T, what string, wins Wins, want []float64) {
	t.Helper()
	r, err := BradleyTerry(wins)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		near(t, "Bradley-Terry, "+what, r.Value[i], want[i], 1e-9)
	}
}

// TestAlpacaEvalLeaderboard computes the published leaderboard from the
// published preferences.
func TestAlpacaEvalLeaderboard(t *testing.T) {
	const baseline = "gpt4_1106_preview"
	matches := map[string][]Match{}
	type preference struct {
		First      string   `json:"generator_1"`
		Second     string   `json:"generator_2"`
		Preference *float64 `json:"preference"`
	}
	jsonLines(t, testdata.Path(t, "data/alpacaeval/preferences.jsonl"), func(p *preference) {
		if p.First != baseline {
			t.Fatalf("generator_1 is %s", p.First)
		}
		if p.Preference != nil {
			matches[p.Second] = append(matches[p.Second], Match{Preference: *p.Preference - 1})
		}
	})
	f, err := os.Open(testdata.Path(t, "data/alpacaeval/leaderboard.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	compared := 0
	for _, row := range rows[1:] {
		var lengths int
		answers := 0
		jsonLines(t, testdata.Path(t, "data/alpacaeval/"+row[0]+".jsonl"), func(a *struct{ Output string }) {
			lengths += utf8.RuneCountInString(a.Output)
			answers++
		})
		if got, want := float64(lengths/answers), number(row[8]); got != want {
			t.Errorf("%s: answers of %g code points on average, want %g", row[0], got, want)
		}
		m := matches[row[0]]
		if len(m) == 0 {
			continue
		}
		compared++
		w := WinRateOf(m)
		near(t, row[0]+": win rate", 100*w.Rate, number(row[1]), 1e-6)
		near(t, row[0]+": standard error", 100*w.SE, number(row[2]), 1e-6)
		same(t, row[0]+": wins, losses and draws", []float64{float64(w.Wins), float64(w.Losses), float64(w.Draws)},
			[]float64{number(row[3]), number(row[4]), number(row[5])})
	}
	if compared < 6 {
		t.Errorf("%d teachers were compared, want six", compared)
	}
}
