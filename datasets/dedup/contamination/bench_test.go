package contamination

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// vocabulary is words as common as those of a language: the n-th is n times as
// rare as the first.
type vocabulary struct {
	zipf *rand.Zipf
	rng  *rand.Rand
}

func newVocabulary(seed uint64) *vocabulary {
	rng := rand.New(rand.NewPCG(seed, 1))
	return &vocabulary{rand.NewZipf(rng, 1.1, 8, 50_000), rng}
}

func (v *vocabulary) text(words int) string {
	var b strings.Builder
	for i := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "w%x", v.zipf.Uint64())
	}
	return b.String()
}

// BenchmarkMillionPrompts looks for 100,000 items of 50 words in prompts of 60,
// of which one in a thousand holds an item. It reports the seconds that a
// million of them would take on one core, and those that the index took.
func BenchmarkMillionPrompts(b *testing.B) {
	v := newVocabulary(1)
	items := make([]string, 100_000)
	for i := range items {
		items[i] = v.text(50)
	}
	prompts := make([]string, 20_000)
	for i := range prompts {
		prompts[i] = v.text(60)
		if i%1000 == 0 {
			prompts[i] = items[i*5] + " " + v.text(10)
		}
	}
	bytes := 0
	for _, p := range prompts {
		bytes += len(p)
	}
	x := index(Options{}, items...)
	s := x.Scanner()
	b.SetBytes(int64(bytes / len(prompts)))
	found, n := 0, 0
	for b.Loop() {
		found += len(s.Match(prompts[n%len(prompts)]))
		n++
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(n)*1e6, "s/million-prompts")
	if n >= len(prompts) && found < n/1100 {
		b.Fatalf("found %d items in %d prompts", found, n)
	}
}

// BenchmarkIndex builds an index of a full slice, and reports what it holds in
// memory by word.
func BenchmarkIndex(b *testing.B) {
	v := newVocabulary(2)
	builder := NewBuilder(Options{})
	for builder.Words() < SliceWords {
		builder.Add(Item{Text: v.text(50)})
	}
	items, words := builder.items, builder.words
	for b.Loop() {
		one := *builder
		one.items, one.words = items, words
		x := one.Build()
		held := 8*len(x.words) + 12*len(x.keys) + 8*len(x.bits) + 4*len(x.from) + 4*len(x.list)
		b.ReportMetric(float64(held)/float64(len(words)), "held-B/word")
	}
}
