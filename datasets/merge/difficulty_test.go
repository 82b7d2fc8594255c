package merge

import (
	"math"
	"math/big"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
)

func TestPassesCountWhatEveryTaskIsAskedFor(t *testing.T) {
	failed := "network"
	answer := func(teacher string, sample int32, verdict string) datasets.Candidate {
		x := *c(teacher, "x", verdict, none, "4")
		x.SampleIndex = sample
		return x
	}
	broken := answer("a", 0, datasets.Fail)
	broken.Error = &failed
	given := []datasets.Candidate{
		answer("a", 0, datasets.Fail), answer("a", 1, datasets.Fail), answer("b", 0, datasets.Pass), answer("b", 1, datasets.Unknown),
		answer("a", 2, datasets.Pass), // asked because the two before it failed
		answer("z", 0, datasets.Pass), // asked because the route failed
		answer("b", 0, ""), broken,
	}
	got := PassesOf(&datasets.Task{Route: []string{"a", "b"}}, given, 2)
	if want := (Passes{Passed: 1, Judged: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, ok := PassesOf(&datasets.Task{}, given, 2).Rate(); ok {
		t.Error("a rate of nothing")
	}
}

func TestPassAtKIsTheShareOfSubsetsThatHoldAPass(t *testing.T) {
	for n := int64(1); n <= 12; n++ {
		for passed := int64(0); passed <= n; passed++ {
			for k := int64(1); k <= n; k++ {
				none := new(big.Rat).SetFrac(new(big.Int).Binomial(n-passed, k), new(big.Int).Binomial(n, k))
				want, _ := new(big.Rat).Sub(big.NewRat(1, 1), none).Float64()
				if got := (Passes{passed, n}).At(k); math.Abs(got-want) > 1e-9 || got < 0 || got > 1 {
					t.Fatalf("pass@%d of %d of %d: %v, want %v", k, passed, n, got, want)
				}
			}
		}
	}
	curve := Passes{1, 5}.Curve()
	if len(curve) != 3 || curve[0] != (datasets.PassAt{K: 1, Value: 0.2}) || curve[2].K != 4 {
		t.Errorf("curve %+v", curve)
	}
	if (Passes{}).Curve() != nil {
		t.Error("a curve of nothing")
	}
}

func TestDifficulty(t *testing.T) {
	d := Difficulty{Min: 0.125, Max: 0.875}
	for _, tc := range []struct {
		p    Passes
		want bool
	}{{Passes{0, 8}, false}, {Passes{1, 8}, true}, {Passes{7, 8}, true}, {Passes{8, 8}, false}, {Passes{0, 0}, true}} {
		if d.Takes(tc.p) != tc.want {
			t.Errorf("%+v: want %v", tc.p, tc.want)
		}
	}
}
