package answers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// BenchmarkHistory looks 32 asks up in a range of 16 segments: as a lookup,
// which stops at the first answer, and with their history, which does not.
func BenchmarkHistory(b *testing.B) {
	for _, memory := range []bool{true, false} {
		s := opened(b, mem.New("b"), b.TempDir(), func(tune *tuning) {
			tune.smallMost = 1000
			if !memory {
				tune.recentBytes = 1
			}
		})
		raw := streamed(1)
		var asks []Ask
		for segment := range 16 {
			for i := range 512 {
				r := answerTo(askFor(endpointA, 512*segment+i, 0), "stop", "")
				r.Raw = raw
				mustAppend(b, s, r)
				asks = append(asks, r.Ask)
			}
			mustFlush(b, s)
		}
		since := time.Now()
		at := 0
		next := func() []Ask {
			at = (at + 32) % len(asks)
			return asks[at : at+32]
		}
		b.Run(fmt.Sprintf("memory=%v/lookup", memory), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Lookup(context.Background(), next()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("memory=%v/history", memory), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.History(context.Background(), since, next()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
