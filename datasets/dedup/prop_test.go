package dedup

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// spread looks for near-duplicates in stages, with the documents in parts of
// any kind, as many workers would.
func spread(t testing.TB, o NearOptions, dir string, parts ...[]Document) []Match {
	t.Helper()
	var open []*Part
	for _, documents := range parts {
		open = append(open, partOf(t, o, documents))
	}
	var pairs []io.Reader
	for band := range o.WithDefaults().Bands {
		var b bytes.Buffer
		if _, err := Pairs(context.Background(), o, open, band, dir, &b); err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, &b)
	}
	var out []Match
	if _, err := Verify(context.Background(), o, open, pairs, func(m Match) error {
		out = append(out, m)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func partOf(t testing.TB, o NearOptions, documents []Document) *Part {
	t.Helper()
	b := writePart(t, o, documents)
	p, err := OpenPart(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func writePart(t testing.TB, o NearOptions, documents []Document) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewPartWriter(&b, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		if err := w.Add(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestFoundWhateverTheParts has the same documents in other parts, in another
// sequence, with another memory, and finds the same.
func TestFoundWhateverTheParts(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		n := rapid.IntRange(0, 120).Draw(rt, "documents")
		documents := make([]Document, n)
		for i := range documents {
			documents[i] = Document{Order: uint64(i)*3 + 7, Text: similarText(random), Style: Style(random.IntN(2)), Context: uint64(random.IntN(2))}
		}
		o := NearOptions{Jaccard: 0.5 + random.Float64()/2, Bands: 12, Rows: 2, Shingle: 1 + random.IntN(4), AnyValues: random.IntN(2) == 0}
		want := spread(t, o, dir, documents)
		shuffled := slices.Clone(documents)
		random.Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		cut := rapid.IntRange(0, n).Draw(rt, "cut")
		o.Memory = 1 << 16
		got := spread(t, o, dir, shuffled[cut:], nil, shuffled[:cut])
		if !slices.Equal(got, want) {
			rt.Fatalf("in parts: %v\nin one: %v", got, want)
		}
		promises(rt, o, documents, got)
	})
}

// similarText draws few words, so that many texts are alike.
func similarText(random *rand.Rand) string {
	words := make([]string, random.IntN(12))
	for i := range words {
		words[i] = []string{"red", "green", "blue", "Paris", "7", "not", "a[i]"}[min(random.IntN(14), 6)]
	}
	return strings.Join(words, " ")
}

// promises holds matches to what they are: near-duplicates of something earlier
// that is kept.
func promises(t interface{ Fatalf(string, ...any) }, o NearOptions, documents []Document, found []Match) {
	o = o.WithDefaults()
	x := newExtractor(o)
	dropped := map[uint64]bool{}
	for i, m := range found {
		if i > 0 && found[i-1].Order >= m.Order {
			t.Fatalf("%v comes before %v", found[i-1], m)
		}
		dropped[m.Order] = true
	}
	byOrder := func(order uint64) features {
		for i := range documents {
			if documents[i].Order == order {
				return cloned(x.features(&documents[i]))
			}
		}
		t.Fatalf("no document %d", order)
		return features{}
	}
	for _, m := range found {
		a, b := byOrder(m.Order), byOrder(m.Of)
		j, near := alike(&o, &a, &b)
		if !near || j != m.Jaccard || j < o.Jaccard || m.Of >= m.Order || dropped[m.Of] {
			t.Fatalf("%+v: similarity is %v, near-duplicates: %v, dropped too: %v", m, j, near, dropped[m.Of])
		}
	}
}

// TestRecall measures how many pairs of a known similarity share a band.
func TestRecall(t *testing.T) {
	for _, tc := range []struct {
		bands, rows int
		at8         float64
	}{{14, 8, 0.924}, {20, 6, 0.998}} {
		if got := Recall(0.8, tc.bands, tc.rows); math.Abs(got-tc.at8) > 0.0005 {
			t.Errorf("recall of %d bands of %d rows at 0.8 is %.4f, want %.3f", tc.bands, tc.rows, got, tc.at8)
		}
		o := NearOptions{Bands: tc.bands, Rows: tc.rows}.WithDefaults()
		m := newMinhasher(o)
		random := rand.New(rand.NewPCG(3, 4))
		for _, j := range []float64{0.5, 0.7, 0.8, 0.9} {
			const pairs, union = 3000, 90
			shared := 0
			for range pairs {
				var a, b features
				for i := range union {
					h := random.Uint64()
					if both := float64(i) < j*union; both || i%2 == 0 {
						a.shingles = append(a.shingles, h)
						if both {
							b.shingles = append(b.shingles, h)
						}
					} else {
						b.shingles = append(b.shingles, h)
					}
				}
				x, y := m.keys(nil, &a), m.keys(nil, &b)
				for i := range x {
					if x[i] == y[i] {
						shared++
						break
					}
				}
			}
			want := Recall(j, tc.bands, tc.rows)
			got := float64(shared) / pairs
			// Four standard errors, and a little for sets that are not infinite.
			if margin := 4*math.Sqrt(want*(1-want)/pairs) + 0.004; math.Abs(got-want) > margin {
				t.Errorf("%d bands of %d rows find %.3f of pairs of similarity %.1f, want %.3f ± %.3f", tc.bands, tc.rows, got, j, want, margin)
			}
		}
	}
}

// TestCopiesMakeNoCrowd has many copies of one text: all but the first go, and
// few pairs are compared.
func TestCopiesMakeNoCrowd(t *testing.T) {
	testdata.Heavy(t)
	var documents []Document
	for i := range 5000 {
		documents = append(documents, Document{Order: uint64(i), Text: fmt.Sprint("the same text of a handful of words each time, ", []string{"please", "thanks"}[i%2])})
	}
	found, stats := nearDuplicates(t, NearOptions{Jaccard: 0.5}, documents)
	if len(found) != 4999 || stats.Compared > 5100 {
		t.Fatalf("%d of 5,000 copies found, %+v", len(found), stats)
	}
	for _, m := range found {
		if m.Of != 0 {
			t.Fatalf("%+v: want a duplicate of the first", m)
		}
	}
}

// TestTwinsInACrowd has a template that is filled with names, three times
// each: a crowd of texts that are no duplicates, but for two of each name.
func TestTwinsInACrowd(t *testing.T) {
	testdata.Heavy(t)
	const names = 3000
	name := func(i int) string {
		return string([]byte{'A' + byte(i%26), 'a' + byte(i/26%26), 'a' + byte(i/676), 'o', 'x'})
	}
	template := strings.Repeat("write a letter to a friend of yours and tell of the journey that you made last summer by train and by boat, ", 12)
	var documents []Document
	for i := range 3 * names {
		text := template + "who is called " + name(i%names)
		if i >= names {
			text += " " + []string{"please", "thanks"}[i/names-1]
		}
		documents = append(documents, Document{Order: uint64(i), Text: text})
	}
	o := NearOptions{Jaccard: 0.8}
	found, stats := nearDuplicates(t, o, documents)
	if len(found) != 2*names {
		t.Errorf("%d of %d twins are found, %+v", len(found), 2*names, stats)
	}
	for _, m := range found {
		if m.Of != m.Order%names {
			t.Fatalf("%+v: want a duplicate of the same name", m)
		}
	}
	if stats.Proposed > 100*int64(len(documents)) {
		t.Errorf("%d pairs of %d documents are proposed", stats.Proposed, len(documents))
	}
}

// TestNotByChains has texts of which each resembles the next, and the first and
// the last have nothing in common.
func TestNotByChains(t *testing.T) {
	var words []string
	for i := range 400 {
		words = append(words, "w"+strings.Repeat(string(rune('a'+i%26)), 1+i/26))
	}
	var documents []Document
	for i := range 250 {
		documents = append(documents, Document{Order: uint64(i), Text: strings.Join(words[i:i+100], " ")})
	}
	found, _ := nearDuplicates(t, NearOptions{}, documents)
	// 96 shingles, one of which changes at each step: alike up to ten steps.
	if kept := len(documents) - len(found); kept != 23 {
		t.Errorf("%d of a chain of 250 are kept, want 23", kept)
	}
	promises(t, NearOptions{}, documents, found)
}

func TestExact(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 2))
		keys := make([]byte, rapid.IntRange(0, 2000).Draw(rt, "documents"))
		for i := range keys {
			keys[i] = byte(min(random.IntN(40), 36))
		}
		first := map[byte]uint64{}
		want := map[uint64]uint64{}
		order := func(i int) uint64 { return uint64(i)*7919%2003 + 5 }
		for i, k := range keys {
			if of, ok := first[k]; !ok || order(i) < of {
				first[k] = order(i)
			}
		}
		for i, k := range keys {
			if order(i) != first[k] {
				want[order(i)] = first[k]
			}
		}
		e := NewExact(dir, 1<<10)
		for i, k := range keys {
			if err := e.Add(Key{15: k}, order(i)); err != nil {
				rt.Fatal(err)
			}
		}
		var last uint64
		if err := e.Find(context.Background(), func(order, of uint64) error {
			if order <= last || want[order] != of {
				rt.Fatalf("%d is a duplicate of %d, want of %d; after %d", order, of, want[order], last)
			}
			last = order
			delete(want, order)
			return nil
		}); err != nil {
			rt.Fatal(err)
		}
		if len(want) > 0 {
			rt.Fatalf("not found: %v", want)
		}
		if err := e.Close(); err != nil {
			rt.Fatal(err)
		}
	})
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

func TestOrdersOfTheirOwn(t *testing.T) {
	n, err := NewNear(NearOptions{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for range 2 {
		if err := n.Add(Document{Order: 4, Text: "the same text of a handful of words"}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = n.Find(context.Background(), func(Match) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "two documents have the order 4") {
		t.Errorf("error is %v", err)
	}
}
