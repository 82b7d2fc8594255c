package dedup

import (
	"io"
	"math/rand/v2"
	"testing"
)

// BenchmarkNearSignatures reports the speed of making signatures of texts: the
// answers of nine teachers, and characters without spaces.
func BenchmarkNearSignatures(b *testing.B) {
	answers := alpaca(b)
	var english, chinese []string
	for _, a := range answers {
		english = append(english, a.Output)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		text := make([]rune, 0, 1000)
		for range 1000 {
			text = append(text, rune(0x4e00+random.IntN(3000)))
			if random.IntN(12) == 0 {
				text = append(text, '，')
			}
		}
		chinese = append(chinese, string(text))
	}
	for _, o := range []struct {
		name        string
		texts       []string
		bands, rows int
	}{{"20x6", english, 20, 6}, {"14x8", english, 14, 8}, {"Chinese-20x6", chinese, 20, 6}} {
		b.Run(o.name, func(b *testing.B) {
			var size int64
			for _, text := range o.texts {
				size += int64(len(text))
			}
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				p, err := NewPartWriter(io.Discard, NearOptions{Bands: o.bands, Rows: o.rows})
				if err != nil {
					b.Fatal(err)
				}
				for i, text := range o.texts {
					if err := p.Add(Document{Order: uint64(i), Text: text}); err != nil {
						b.Fatal(err)
					}
				}
				if err := p.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
