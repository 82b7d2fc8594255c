package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// TestMeanNLL is worked out by hand: 2, 6 and 4 nats over 4, 8 and 4 tokens are
// 12/16 = 0.75 a token. The tasks pull by (2-3, 6-6, 4-3)·3/16, whose standard
// error is 3/16/sqrt(3), times 4.3027 of Student's t with 2.
func TestMeanNLL(t *testing.T) {
	got := MeanNLL([]Scored{{2, 4}, {6, 8}, {0, 0}, {4, 4}})
	half := 4.302652729911275 * 3 / 16 / math.Sqrt(3)
	near(t, "mean", got.Value, 0.75, 1e-15)
	near(t, "low", got.Low, 0.75-half, 1e-9)
	near(t, "high", got.High, 0.75+half, 1e-9)
	if got := MeanNLL([]Scored{{2, 4}}); got.Value != 0.5 || !math.IsNaN(got.Low) || !math.IsNaN(got.High) {
		t.Errorf("of one task %+v", got)
	}
	if got := MeanNLL(nil); !math.IsNaN(got.Value) {
		t.Errorf("of nothing %+v", got)
	}
}

// TestNLLDifference: of five tasks a always says 1 nat a token and b 2. Of the 32
// exchanges two are as far apart.
func TestNLLDifference(t *testing.T) {
	a := []Scored{{10, 10}, {20, 20}, {30, 30}, {5, 5}, {8, 8}}
	b := []Scored{{20, 10}, {40, 20}, {60, 30}, {10, 5}, {16, 8}}
	d, p, _ := NLLDifference(a, b, 1, 7)
	if d.Value != -1 || d.Low != -1 || d.High != -1 {
		t.Errorf("%+v, want -1: all tasks say the same", d)
	}
	near(t, "p", p, 2.0/32, 0.01)
	if again, p2, _ := NLLDifference(a, b, 1, 7); again != d || p2 != p {
		t.Error("it is another figure the second time")
	}
	if _, p, _ := NLLDifference(a, a, 1, 7); p != 1 {
		t.Errorf("p of equals %v", p)
	}
	if d, p, _ := NLLDifference([]Scored{{1, 0}}, []Scored{{1, 1}}, 1, 7); !math.IsNaN(d.Value) || p != 1 {
		t.Errorf("of nothing in common %+v, %v", d, p)
	}
}

// Where exchanges are too many, Student's t with the interval's variance takes
// their place, and says the same: the p value of scipy's t.sf, and nearly that of
// the exchanges.
func TestNLLDifferenceOfManyTests(t *testing.T) {
	var a, b []Scored
	for i := range 40 {
		n := int64(50 + 7*i%90)
		a = append(a, Scored{float64(n) * (1 + 0.02*float64(i%11)), n})
		b = append(b, Scored{float64(n+3) * (1.01 + 0.02*float64(i%7)), n + 3})
	}
	few, p, exchange := NLLDifference(a, b, 1, 7)
	many, q, other := NLLDifference(a, b, 7020, 7)
	if !exchange || other || many != few {
		t.Errorf("exchange %v and %v, %+v and %+v", exchange, other, few, many)
	}
	const scipy = 0.06421239184534208
	if math.Abs(q/scipy-1) > 1e-9 || math.Abs(p-q) > 0.02 {
		t.Errorf("p by exchanges %v, by Student's t %v, want nearly and exactly %v", p, q, scipy)
	}
	// Nothing varies: as little as exchanges of 40 tasks can say, and not 0.
	for i := range a {
		a[i], b[i] = Scored{1, 1}, Scored{2, 1}
	}
	if _, p, _ := NLLDifference(a, b, 7020, 7); p != math.Ldexp(1, -39) {
		t.Errorf("p %v", p)
	}
	if _, p, exchange := NLLDifference(a[:19], b[:19], 7020, 7); !exchange || p > 1e-3 || p < 1e-5 {
		t.Errorf("of 19 tasks p %v, exchange %v", p, exchange)
	}
}

// TestNLLCovers: tokens of one task depend on each other, and lengths differ a
// lot. The interval holds the truth in 93 to 97 % of 1,000 runs; one that takes
// tokens for independent in less than 85 %.
func TestNLLCovers(t *testing.T) {
	testdata.Heavy(t)
	const truth, runs = 1.2, 1000
	random := rand.New(rand.NewPCG(11, 12))
	for _, n := range []int{20, 200} {
		held, pooled := 0, 0
		for range runs {
			tasks := make([]Scored, n)
			var nll, tokens, square float64
			for i := range tasks {
				length := 50 + random.IntN(400)
				mean := truth + 0.3*random.NormFloat64() // of the task
				sum := 0.0
				for range length {
					v := mean + 0.8*random.NormFloat64()
					sum += v
					square += v * v
				}
				tasks[i] = Scored{sum, int64(length)}
				nll, tokens = nll+sum, tokens+float64(length)
			}
			i := MeanNLL(tasks)
			if i.Low <= truth && truth <= i.High {
				held++
			}
			half := Z95 * math.Sqrt((square/tokens-nll/tokens*nll/tokens)/tokens)
			if math.Abs(nll/tokens-truth) <= half {
				pooled++
			}
		}
		if held < 930 || held > 970 {
			t.Errorf("%d tasks: %d of %d intervals hold the truth", n, held, runs)
		}
		if pooled > 850 {
			t.Errorf("%d tasks: taking tokens for independent holds it in %d of %d", n, pooled, runs)
		}
	}
}
