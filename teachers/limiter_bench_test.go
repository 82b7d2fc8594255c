package teachers

import (
	"testing"
	"time"
)

// BenchmarkLimiter is one ask's way through a limiter, without the ask: 64 at
// once, as many as there may be, with every limit declared.
func BenchmarkLimiter(b *testing.B) {
	for name, l := range map[string]Limits{
		"concurrency": {Concurrency: 64},
		"all":         {Concurrency: 64, RPM: 1e9, TPM: 1e12},
	} {
		b.Run(name, func(b *testing.B) {
			p := newPermits(l, NewLimiter(), false)
			r := &Request{Body: make([]byte, 600), Cap: 1000}
			b.ReportAllocs()
			b.SetParallelism(64)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					t := p.turn(r)
					if err := t.start(b.Context()); err != nil {
						b.Error(err)
						return
					}
					t.over(outcome{answered: true, counted: true, tokens: 500, first: time.Millisecond})
					t.keep()()
				}
			})
		})
	}
}

// FuzzResetIn reads what an endpoint may send as a reset.
func FuzzResetIn(f *testing.F) {
	for _, s := range []string{"1.2s", "6m0s", "7", "1790000000", "1790000000000", "2026-11-30T20:00:00Z", "", "-3", "NaN", "1e400", "Inf", "9223372036854775807h"} {
		f.Add(s)
	}
	now := time.Unix(1_790_000_000, 0)
	f.Fuzz(func(t *testing.T, s string) {
		if d := resetIn(s, now); d < 0 {
			t.Errorf("%q: %s", s, d)
		}
	})
}
