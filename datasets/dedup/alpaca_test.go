package dedup

import (
	"bufio"
	"encoding/json"
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

// similarPairs compares all documents with all, without signatures.
func similarPairs(o NearOptions, documents []Document) map[[2]int]float64 {
	x := newExtractor(o)
	holders := map[uint64][]int{}
	all := make([]features, len(documents))
	for i := range documents {
		f := x.features(&documents[i])
		all[i] = features{fixed: f.fixed, shingles: slices.Clone(f.shingles), names: slices.Clone(f.names), words: slices.Clone(f.words)}
		for _, s := range f.shingles {
			holders[s] = append(holders[s], i)
		}
	}
	out := map[[2]int]float64{}
	for _, list := range holders {
		for i, b := range list {
			for _, a := range list[:i] {
				if _, ok := out[[2]int{a, b}]; ok {
					continue
				}
				j, same := alike(&o, &all[a], &all[b])
				if !same {
					j = 0
				}
				out[[2]int{a, b}] = j
			}
		}
	}
	for pair, j := range out {
		if j == 0 {
			delete(out, pair)
		}
	}
	return out
}

// TestAlpacaAnswers holds the definition of similarity to what is known of the
// recorded answers of nine teachers.
func TestAlpacaAnswers(t *testing.T) {
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
