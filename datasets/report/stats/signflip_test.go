package stats

import (
	"math"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// repeated is n times d.
func repeated(diffs []int64, n int, d int64) []int64 {
	for range n {
		diffs = append(diffs, d)
	}
	return diffs
}

// TestSignFlipOfManyTasks: with differences of one size the test is McNemar's,
// however many there are, and whatever their unit is.
func TestSignFlipOfManyTasks(t *testing.T) {
	for _, unit := range []int64{1, 840} {
		diffs := repeated(repeated(make([]int64, 50_000), 30_000, unit), 29_500, -unit)
		p, exact := SignFlip(diffs, 1, 1)
		if want := McNemar(30_000, 29_500); !exact || math.Abs(p-want) > 1e-9*want {
			t.Errorf("p %v, exact %v; want exactly %v", p, exact, want)
		}
	}
}

// TestSignFlipSampledIsNearTheExact: within five of its standard errors.
func TestSignFlipSampledIsNearTheExact(t *testing.T) {
	flips := []sameSize{{1, 200}, {2, 70}, {5, 3}}
	want, ok := signFlipTail(flips, 45)
	if !ok {
		t.Fatal("not exact")
	}
	got := signFlipSampled(flips, 45, 100_000, 1)
	if math.Abs(got-want) > 5*math.Sqrt(want*(1-want)/100_000) {
		t.Errorf("p %v from flips, %v exactly", got, want)
	}
}

// TestSignFlipSeesAFamily: the least p of the sampled test is small enough for
// Holm's adjustment over the whole family.
func TestSignFlipSeesAFamily(t *testing.T) {
	testdata.Heavy(t)
	for _, family := range []int{0, 1, 36, 7_200, 250_000} {
		if p := float64(max(1, family)) / float64(1+signFlipRoundsFor(family)); p > 0.026 {
			t.Errorf("of %d tests the least p is %v after the adjustment", family, p)
		}
	}
	// So many sizes that the exact distribution is too much work.
	var diffs []int64
	for i := range int64(4000) {
		diffs = append(diffs, 700_001+37*i)
	}
	p, exact := SignFlip(diffs, 50, 1)
	if exact || p*50 > 0.05 {
		t.Errorf("p %v, exact %v; want one by chance that survives", p, exact)
	}
}
