package dedup

import (
	"context"
	"slices"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// nearDuplicates finds with signatures.
func nearDuplicates(t testing.TB, o NearOptions, documents []Document) ([]Match, NearStats) {
	t.Helper()
	n, err := NewNear(o, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, d := range documents {
		if err := n.Add(d); err != nil {
			t.Fatal(err)
		}
	}
	var out []Match
	stats, err := n.Find(context.Background(), func(m Match) error {
		out = append(out, m)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, stats
}

func TestNearFindsWhatComparingAllFinds(t *testing.T) {
	testdata.Heavy(t)
	answers := alpaca(t)
	documents := make([]Document, len(answers))
	for i, a := range answers {
		documents[i] = Document{Order: uint64(i), Text: a.Output}
	}
	for _, o := range []NearOptions{{AnyValues: true, Bands: 14, Rows: 8}, {}} {
		got, stats := nearDuplicates(t, o, documents)
		want := keptBy(similarPairs(o.WithDefaults(), documents), len(documents))
		if len(got) != len(want) || stats.Duplicates != int64(len(want)) {
			t.Errorf("%+v: %d duplicates, %+v; comparing all with all gives %d", o, len(got), stats, len(want))
		}
		for _, m := range got {
			if want[int(m.Order)] != int(m.Of) {
				t.Errorf("%+v: %d is a duplicate of %d, want %d", o, m.Order, m.Of, want[int(m.Order)])
			}
		}
	}
}

// keptBy says what each document that is not kept is a duplicate of, where the
// alike are known.
func keptBy(pairs map[[2]int]float64, n int) map[int]int {
	out := map[int]int{}
	alike := make([][]int, n) // earlier ones
	for p := range pairs {
		alike[p[1]] = append(alike[p[1]], p[0])
	}
	for i, list := range alike {
		slices.Sort(list)
		for _, of := range list {
			if _, dropped := out[of]; !dropped {
				out[i] = of
				break
			}
		}
	}
	return out
}
