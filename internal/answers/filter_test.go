package answers

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"testing"
)

func filterBudget(bytes int64) *atomic.Int64 {
	var b atomic.Int64
	b.Store(bytes)
	return &b
}

func hashedKey(i int) Key {
	return sha256.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(i)))
}

func TestKeyFilterForgetsNoKey(t *testing.T) {
	for _, n := range []int{1, 63, 64, 1000, 100_000} {
		budget := filterBudget(1 << 20)
		f := newKeyFilter(int64(n), budget)
		for i := range n {
			key := hashedKey(i)
			f.add(key[:])
		}
		passed := 0
		for i := range n {
			if key := hashedKey(i); !f.mayHold(&key) {
				t.Fatalf("%d keys: key %d is not found", n, i)
			}
			if key := hashedKey(-1 - i); f.mayHold(&key) {
				passed++
			}
		}
		if n >= 1000 && passed > n/20 {
			t.Errorf("%d keys: %d of as many absent ones pass, want at most a twentieth", n, passed)
		}
		if f.close(); budget.Load() != 1<<20 {
			t.Errorf("%d keys: a closed filter keeps %d bytes", n, 1<<20-budget.Load())
		}
	}
}

func TestKeyFilterKeepsToItsBudget(t *testing.T) {
	budget := filterBudget(1000)
	if f := newKeyFilter(1_000_000, budget); f != nil || budget.Load() != 1000 {
		t.Errorf("a filter beyond the budget: made, or charged: %d bytes left", budget.Load())
	}
	var none *keyFilter
	if key := hashedKey(1); !none.mayHold(&key) {
		t.Error("without a filter a key is turned away")
	}
	none.close()
}
