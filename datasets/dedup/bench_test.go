package dedup

import (
	"io"
	"testing"
)

// BenchmarkNearSignatures reports the speed of making signatures of texts: the
// answers of nine teachers, 20 bands of 6 rows.
func BenchmarkNearSignatures(b *testing.B) {
	for _, o := range []struct {
		name        string
		bands, rows int
	}{{"20x6", 20, 6}, {"14x8", 14, 8}} {
		b.Run(o.name, func(b *testing.B) {
			answers := alpaca(b)
			var size int64
			for _, a := range answers {
				size += int64(len(a.Output))
			}
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				p, err := NewPartWriter(io.Discard, NearOptions{Bands: o.bands, Rows: o.rows})
				if err != nil {
					b.Fatal(err)
				}
				for i, a := range answers {
					if err := p.Add(Document{Order: uint64(i), Text: a.Output}); err != nil {
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
