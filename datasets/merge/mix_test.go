package merge

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func kindsOf(t *testing.T, m Mix, rows map[string]int64) string {
	t.Helper()
	kinds, err := m.Kinds(rows)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, k := range kinds {
		s := fmt.Sprintf("%s %d", k.Name, k.Target)
		if k.Short() > 0 {
			s += fmt.Sprintf("-%d", k.Short())
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func TestKinds(t *testing.T) {
	rows := map[string]int64{"math": 10_000, "chat": 100, "code": 400}
	for _, tc := range []struct {
		name string
		m    Mix
		want string
	}{
		{"proportional", Mix{Alpha: 1}, "chat 100, code 400, math 10000"},
		{"square root", Mix{Alpha: 0.5}, "chat 100, code 200, math 1000"},
		{"equal", Mix{}, "chat 100, code 100, math 100"},
		{"some power", Mix{Alpha: 0.25}, "chat 100, code 141, math 316"},
		{"no kind counts more than", Mix{Alpha: 1, Most: 400}, "chat 100, code 400, math 400"},
		{"fixed", Mix{Weights: map[string]float64{"math": 0.7, "code": 0.2, "chat": 0.1}}, "chat 100, code 200, math 700"},
		{"a total", Mix{Alpha: 0.5, Total: 131}, "chat 10, code 20, math 101"},
		{"a total that is not there", Mix{Alpha: 0.5, Total: 1300}, "chat 100, code 200, math 1000"},
		{"short", Mix{Alpha: 0.5, Total: 6500}, "chat 500-400, code 1000-600, math 5000"},
		{"not named", Mix{Weights: map[string]float64{"math": 3}}, "chat 0, code 0, math 10000"},
		{"named and not there", Mix{Weights: map[string]float64{"math": 1, "law": 1}}, "chat 0, code 0, law 10000-10000, math 10000"},
		{"thirds", Mix{Total: 100}, "chat 34, code 33, math 33"},
		{"a total of one", Mix{Total: 1}, "chat 1, code 0, math 0"},
	} {
		if got := kindsOf(t, tc.m, rows); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	if got := kindsOf(t, Mix{Alpha: 1}, nil); got != "" {
		t.Errorf("of nothing: %s", got)
	}
	if _, err := (&Mix{Weights: map[string]float64{"a": math.NaN()}}).Kinds(nil); err == nil {
		t.Error("a weight that is no number is taken")
	}
}

// Targets sum to the total, and each is its exact quota rounded up or down.
func TestTargetsAreTheQuotasRounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.MapOfN(rapid.StringMatching(`[a-f]{1,2}`), rapid.Int64Range(1, 1_000_000), 1, 12).Draw(t, "rows")
		m := Mix{Alpha: rapid.SampledFrom([]float64{0, 0.3, 0.5, 0.9, 1}).Draw(t, "alpha"), Total: rapid.Int64Range(0, 2_000_000).Draw(t, "total"), Most: rapid.Int64Range(0, 1000).Draw(t, "most")}
		kinds, err := m.Kinds(rows)
		if err != nil {
			t.Fatal(err)
		}
		var sum int64
		for _, k := range kinds {
			sum += k.Target
		}
		if m.Total > 0 && sum != m.Total {
			t.Fatalf("targets sum to %d of %d", sum, m.Total)
		}
		full := false
		for _, k := range kinds {
			if quota := k.Share * float64(sum); math.Abs(float64(k.Target)-quota) > 1+1e-6*quota {
				t.Fatalf("%s has %d, its quota is %f", k.Name, k.Target, quota)
			}
			if m.Total == 0 && k.Target > k.Rows {
				t.Fatalf("%s is short without a total", k.Name)
			}
			full = full || k.Target == k.Rows
		}
		if m.Total == 0 && !full {
			t.Fatal("no kind is used up, so that there could be more rows")
		}
	})
}

// pile is rows in the order of their keys.
func pile(seed int, rows []Row) iter.Seq2[Row, error] {
	for i := range rows {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %d", seed, i))
		rows[i].Key, rows[i].Index = [16]byte(sum[:16]), int64(i)
	}
	slices.SortFunc(rows, func(a, b Row) int { return CompareRows(&a, &b) })
	return func(yield func(Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Targets and caps hold exactly, and what is taken depends on the keys alone.
func TestDrawKeepsTargetsAndCaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 400).Draw(t, "n")
		nkinds := rapid.IntRange(1, 4).Draw(t, "kinds")
		rows := make([]Row, n)
		counts := map[string]int64{}
		rank := map[int32]int32{}
		prompts := make([]int32, n)
		for i := range rows {
			rows[i].Kind = int32(rapid.IntRange(0, nkinds-1).Draw(t, "kind"))
			rows[i].Values[0] = int32(rapid.SampledFrom([]int{0, 0, 0, 0, 1, 1, 2}).Draw(t, "teacher"))
			prompts[i] = int32(rapid.IntRange(0, 30).Draw(t, "prompt"))
		}
		for k := range nkinds {
			counts[fmt.Sprint(k)] = 0
		}
		for _, r := range rows {
			counts[fmt.Sprint(r.Kind)]++
		}
		seq := pile(rapid.IntRange(0, 9).Draw(t, "seed"), rows)
		for i, r := range rows { // in the order of keys
			p := prompts[r.Index]
			rows[i].Values[1] = rank[p]
			rank[p]++
		}
		m := Mix{Alpha: rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "alpha"), Total: rapid.Int64Range(0, 500).Draw(t, "total")}
		kinds, err := m.Kinds(counts)
		if err != nil {
			t.Fatal(err)
		}
		d := Draw{Kinds: kinds, Caps: []float64{
			rapid.SampledFrom([]float64{0.34, 0.5, 0.7, 1}).Draw(t, "cap"), rapid.SampledFrom([]float64{0.05, 0.2, 1}).Draw(t, "prompt cap"),
		}, Ranked: []bool{false, true}}
		base, err := d.Base(seq)
		if err != nil {
			t.Fatal(err)
		}
		byTeacher, byPrompt, sum := map[int32]int64{}, map[int32]int64{}, int64(0)
		taken, err := d.Once(seq, base, func(r *Row, what int) {
			if what == Taken {
				sum++
				byTeacher[r.Values[0]]++
				byPrompt[prompts[r.Index]]++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range kinds {
			if taken[i] > k.Target {
				t.Fatalf("kind %s has %d rows over its target %d", k.Name, taken[i], k.Target)
			}
			if d.Caps[0] == 1 && d.Caps[1] == 1 && taken[i] != min(k.Target, k.Rows) {
				t.Fatalf("kind %s has %d rows of %d without a reason", k.Name, taken[i], min(k.Target, k.Rows))
			}
		}
		for v, c := range byTeacher {
			if float64(c) > d.Caps[0]*float64(sum)+1e-9 {
				t.Fatalf("teacher %d has %d of %d rows over the cap %v", v, c, sum, d.Caps[0])
			}
		}
		for v, c := range byPrompt {
			if float64(c) > d.Caps[1]*float64(sum)+1e-9 {
				t.Fatalf("prompt %d has %d of %d rows over the cap %v", v, c, sum, d.Caps[1])
			}
		}
	})
}

// One dominant teacher is cut down to the cap, and no more than needed.
func TestCapsLeaveAsMuchAsTheyCan(t *testing.T) {
	for _, tc := range []struct {
		big, small int
		share      float64
		want       int64
	}{{900, 100, 0.5, 200}, {900, 100, 0.8, 500}, {900, 100, 1, 1000}, {500, 499, 0.5, 998}, {900, 100, 0.4, 0}, {10_000, 1, 0.999, 1000}} {
		rows := make([]Row, tc.big+tc.small)
		for i := tc.big; i < len(rows); i++ {
			rows[i].Values[0] = 1
		}
		seq := pile(1, rows)
		d := Draw{Kinds: []Kind{{Name: "all", Rows: int64(len(rows)), Target: int64(len(rows))}}, Caps: []float64{tc.share}, Ranked: []bool{false}}
		base, err := d.Base(seq)
		if err != nil {
			t.Fatal(err)
		}
		taken, err := d.Once(seq, base, nil)
		if err != nil {
			t.Fatal(err)
		}
		if taken[0] != tc.want && math.Abs(float64(taken[0]-tc.want)) > float64(tc.want)/500 {
			t.Errorf("%d and %d rows at most %v each: %d taken, want %d", tc.big, tc.small, tc.share, taken[0], tc.want)
		}
	}
}

func TestDrawPassesErrorsOn(t *testing.T) {
	broken := fmt.Errorf("broken")
	d := Draw{Kinds: []Kind{{Rows: 1, Target: 1}}, Caps: []float64{0.5}, Ranked: []bool{false}}
	if _, err := d.Base(func(yield func(Row, error) bool) { yield(Row{}, broken) }); err != broken {
		t.Errorf("%v", err)
	}
}
