package answers

import (
	"encoding/binary"
	"sync/atomic"
)

// A keyFilter tells most keys that a key file does not hold without reading the
// file: most lookups of a first build are for answers that nobody has given
// yet. It is a Bloom filter whose probes for one key lie in one cache line
// (Putze, Sanders, Singler 2007). Keys are hashes, so their own bytes choose
// line and bits.
type keyFilter struct {
	lines  []filterLine
	budget *atomic.Int64
}

type filterLine [filterWords]uint64

const (
	filterWords  = 8
	filterProbes = 5
	// keysPerLine gives a key eight bits: about one absent key of 30 passes.
	keysPerLine = 64
)

// newKeyFilter makes a filter for so many keys, or nil where the budget, in
// bytes and shared by all filters of a cache, is used up. Then every lookup
// reads the file.
func newKeyFilter(keys int64, budget *atomic.Int64) *keyFilter {
	n := keys/keysPerLine + 1
	bytes := n * filterWords * 8
	if budget.Add(-bytes) < 0 {
		budget.Add(bytes)
		return nil
	}
	return &keyFilter{lines: make([]filterLine, n), budget: budget}
}

// close gives the memory back.
func (f *keyFilter) close() {
	if f != nil {
		f.budget.Add(int64(len(f.lines)) * filterWords * 8)
		f.lines, f.budget = nil, nil
	}
}

// line is a key's line. The leading bytes are the same for all keys of a deep
// range, so it looks at others.
func (f *keyFilter) line(key []byte) *filterLine {
	return &f.lines[binary.LittleEndian.Uint64(key[16:])%uint64(len(f.lines))]
}

func (f *keyFilter) add(key []byte) {
	line, bits := f.line(key), binary.LittleEndian.Uint64(key[24:])
	for range filterProbes {
		line[bits>>6&(filterWords-1)] |= 1 << (bits & 63)
		bits >>= 9
	}
}

// mayHold is false only for a key that was never added.
func (f *keyFilter) mayHold(key *Key) bool {
	if f == nil {
		return true
	}
	line, bits := f.line(key[:]), binary.LittleEndian.Uint64(key[24:])
	for range filterProbes {
		if line[bits>>6&(filterWords-1)]&(1<<(bits&63)) == 0 {
			return false
		}
		bits >>= 9
	}
	return true
}
