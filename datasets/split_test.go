package datasets

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestAssignKeepsItsAnswer(t *testing.T) {
	// These are what published datasets were split by: a change moves rows.
	splits := map[string]float64{"train": 0.98, "test": 0.02}
	got := ""
	for i := range 200 {
		if Assign(splits, 7, "", fmt.Sprintf("prompt %d", i)) == "test" {
			got += fmt.Sprintf(" %d", i)
		}
	}
	const want = " 14 64 80 128 187 190"
	if got != want {
		t.Errorf("test split of 200 prompts is%s, want%s", got, want)
	}
}

func TestAssignSharesAndGroups(t *testing.T) {
	splits := map[string]float64{"train": 0.9, "test": 0.1, "dev": 0.1, "off": 0, "bad": math.NaN()}
	count := make(map[string]int)
	const n = 20_000
	for i := range n {
		count[Assign(splits, 1, "", fmt.Sprint(i))]++
	}
	for split, share := range map[string]float64{"train": 0.9 / 1.1, "test": 0.1 / 1.1, "dev": 0.1 / 1.1} {
		// Six standard deviations of a binomial count.
		if d := math.Abs(float64(count[split]) - n*share); d > 6*math.Sqrt(n*share*(1-share)) {
			t.Errorf("%s has %d of %d, want %.0f", split, count[split], n, n*share)
		}
	}
	if count["off"]+count["bad"] != 0 {
		t.Errorf("splits without a share have tasks: %v", count)
	}
	if Assign(splits, 1, "g", "a") != Assign(splits, 1, "g", "b") {
		t.Error("two prompts of a group are split")
	}
	if got := Assign(nil, 1, "", "a"); got != SplitTrain {
		t.Errorf("without splits a task is in %q", got)
	}
}

// When one split's share grows, tasks move into it and nowhere else.
func TestAssignMovesOnlyIntoWhatGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"train", "test", "dev", "held out"}
		before := make(map[string]float64)
		for _, name := range names {
			before[name] = rapid.Float64Range(0.01, 1).Draw(t, name)
		}
		grown := rapid.SampledFrom(names).Draw(t, "grown")
		after := make(map[string]float64)
		for name, share := range before {
			after[name] = share
		}
		after[grown] += rapid.Float64Range(0, 1).Draw(t, "growth")
		seed := rapid.Int64().Draw(t, "seed")
		for i := range 50 {
			id := fmt.Sprint(i)
			if x, y := Assign(before, seed, "", id), Assign(after, seed, "", id); x != y && y != grown {
				t.Fatalf("prompt %s moves from %s to %s when %s grows", id, x, y, grown)
			}
		}
	})
}
