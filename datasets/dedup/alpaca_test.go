package dedup

import (
	"bufio"
	"cmp"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

type alpacaAnswer struct{ Instruction, Output, Generator string }

// alpaca reads the answers of the nine teachers.
func alpaca(t testing.TB) []alpacaAnswer {
	t.Helper()
	first := testdata.Path(t, "data/alpacaeval/alpaca-7b.jsonl")
	names, err := filepath.Glob(filepath.Join(filepath.Dir(first), "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	var out []alpacaAnswer
	for _, name := range names {
		if filepath.Base(name) == "preferences.jsonl" {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		s := bufio.NewScanner(f)
		s.Buffer(nil, 1<<22)
		for s.Scan() {
			var a alpacaAnswer
			if err := json.Unmarshal(s.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
			out = append(out, a)
		}
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	return out
}

// similarPairs compares all documents with all, without signatures. Two sets of
// similarity j share one of the rarest 1-j of each, so that only those that do
// are looked at (Chaudhuri, Ganti, Kaushik: A Primitive Operator for Similarity
// Joins, 2006).
func similarPairs(o NearOptions, documents []Document) map[[2]int]float64 {
	x := newExtractor(o)
	all := make([]features, len(documents))
	count := map[uint64]int{}
	for i := range documents {
		all[i] = cloned(x.features(&documents[i]))
		for _, s := range all[i].shingles {
			count[s]++
		}
	}
	holders := map[uint64][]int{}
	out := map[[2]int]float64{}
	seen := map[[2]int]bool{}
	for b := range all {
		rarest := slices.Clone(all[b].shingles)
		slices.SortFunc(rarest, func(s, t uint64) int { return cmp.Or(cmp.Compare(count[s], count[t]), cmp.Compare(s, t)) })
		n := len(rarest)
		for _, s := range rarest[:min(n, n-int(math.Ceil(o.Jaccard*float64(n)-1e-9))+1)] {
			for _, a := range holders[s] {
				pair := [2]int{a, b}
				if seen[pair] {
					continue
				}
				seen[pair] = true
				if j, near := alike(&o, &all[a], &all[b]); near {
					out[pair] = j
				}
			}
			holders[s] = append(holders[s], b)
		}
	}
	return out
}

// TestAlpacaAnswers holds the definition of similarity to what is known of the
// recorded answers of nine teachers.
func TestAlpacaAnswers(t *testing.T) {
	testdata.Heavy(t)
	answers := alpaca(t)
	documents := make([]Document, len(answers))
	for i, a := range answers {
		documents[i] = Document{Order: uint64(i), Text: a.Output}
	}
	for _, tc := range []struct {
		anyValues        bool
		pairs, onePrompt int
	}{{true, 150, 148}, {false, 142, 140}} {
		o := NearOptions{Jaccard: 0.8, AnyValues: tc.anyValues}.WithDefaults()
		pairs := similarPairs(o, documents)
		same := 0
		for p := range pairs {
			if answers[p[0]].Instruction == answers[p[1]].Instruction {
				same++
			}
		}
		if len(answers) != 7245 || len(pairs) != tc.pairs || same != tc.onePrompt {
			t.Errorf("%d answers, any values %v: %d pairs, %d of them on one prompt; want %d and %d", len(answers), tc.anyValues, len(pairs), same, tc.pairs, tc.onePrompt)
		}
	}
}
