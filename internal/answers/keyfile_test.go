package answers

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// TestKeyFileFindsEveryRow searches files of keys that are spread as digests
// are, that crowd together, and that repeat.
func TestKeyFileFindsEveryRow(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 2000).Draw(t, "rows")
		shift := rapid.IntRange(0, 60).Draw(t, "crowding")
		seed := rapid.Uint64().Draw(t, "seed")
		keys := make([]Key, n)
		for i := range keys {
			seed = seed*6364136223846793005 + 1442695040888963407
			binary.BigEndian.PutUint64(keys[i][:], seed>>shift)
			if shift > 55 {
				keys[i][31] = byte(seed >> 8 & 1) // same first 8 bytes, other keys
			}
		}
		slices.SortFunc(keys, func(a, b Key) int { return bytes.Compare(a[:], b[:]) })
		path := filepath.Join(dir, "keys")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := newKeyWriter(f)
		for i, k := range keys {
			if err := w.add(k, keyRow{cap: int64(i), started: -int64(i), crc: uint32(i), kind: kind(i % 3)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		k, err := openKeyFile(path, segmentRef{Rows: int64(n), Min: keys[0].String(), Max: keys[n-1].String()}, filterBudget(1<<20))
		if err != nil {
			t.Fatal(err)
		}
		defer k.close()
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, n-1), 1, 50).Draw(t, "wanted") {
			var got, want []int64
			for row := range keys {
				if keys[row] == keys[i] {
					want = append(want, int64(row))
				}
			}
			err := k.find(keys[i], func(row int64, r keyRow) bool {
				if r != (keyRow{cap: row, started: -row, crc: uint32(row), kind: kind(row % 3)}) {
					t.Fatalf("row %d reads back as %+v", row, r)
				}
				got = append(got, row)
				return true
			})
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("key %s is in rows %v, found %v, %v", keys[i], want, got, err)
			}
			absent := keys[i]
			absent[20] ^= 1
			err = k.find(absent, func(row int64, _ keyRow) bool {
				t.Fatalf("key %s was found in row %d", absent, row)
				return false
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestAnsweredReadsKeysAlone holds a reader without a cache to reading parts
// of a large segment.
func TestAnsweredReadsKeysAlone(t *testing.T) {
	bucket := memBucket()
	var mu sync.Mutex
	whole := 0
	bucket.Fault = func(op, key string) error {
		mu.Lock()
		defer mu.Unlock()
		if op == mem.OpGet && strings.HasSuffix(key, segmentSuffix) {
			whole++
		}
		return nil
	}
	s := opened(t, bucket, t.TempDir(), nil)
	var asks []Ask
	var records []*Record
	for i := range 3000 {
		a := askFor(endpointA, i, int64(i%3*10))
		asks = append(asks, a)
		switch i % 4 {
		case 0:
			records = append(records, failureOf(a, answerTo(a, "", "").Started, "http_500"))
		default:
			records = append(records, answerTo(a, "stop", fmt.Sprint("answer ", i)))
		}
	}
	if n, err := s.Import(context.Background(), endpointA, sequence(records, nil)); n != len(records) || err != nil {
		t.Fatal(n, err)
	}
	tune := defaults()
	tune.remoteBytes = 1
	r, err := newReader(bucket, t.TempDir(), &tune)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	answered, err := r.Answered(context.Background(), asks)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range answered {
		if got != records[i].Complete {
			t.Fatalf("ask %d is answered: %v", i, got)
		}
	}
	if whole > 0 {
		t.Errorf("%d segments were fetched whole to read their keys", whole)
	}
	for i, text := range texts(t, r, asks...) {
		if want := fmt.Sprint("answer ", i); i%4 != 0 && text != want || i%4 == 0 && text != "!http_500" {
			t.Fatalf("ask %d: %q", i, text)
		}
	}
}
