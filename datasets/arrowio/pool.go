package arrowio

import (
	"math/bits"

	"github.com/apache/arrow/go/v17/arrow/memory"
)

// A pool gives the buffers of one batch to the next, so that a stream of any
// length needs the memory of two batches and leaves nothing to collect. It is
// for one goroutine.
type pool struct {
	free  [poolClasses][][]byte // by the power of two that is their size
	under memory.Allocator
}

// Sizes below 1 KiB are not worth keeping; above 1 GiB nothing is kept.
const (
	smallest    = 10
	poolClasses = 31
)

var _ memory.Allocator = (*pool)(nil)

func newPool() *pool { return &pool{under: memory.NewGoAllocator()} }

// class is the power of two that holds n bytes.
func class(n int) int { return bits.Len(uint(max(n, 1) - 1)) }

// Allocate implements memory.Allocator. The bytes are zero: what a null's slot
// holds is written too, and the same rows are to give the same bytes.
func (p *pool) Allocate(n int) []byte {
	c := class(n)
	if c < smallest || c >= poolClasses {
		return p.under.Allocate(n)
	}
	if kept := p.free[c]; len(kept) > 0 {
		b := kept[len(kept)-1][:n]
		p.free[c] = kept[:len(kept)-1]
		clear(b[:cap(b)])
		return b
	}
	return p.under.Allocate(1 << c)[:n]
}

// Reallocate implements memory.Allocator.
func (p *pool) Reallocate(n int, b []byte) []byte {
	if n <= cap(b) && n >= 0 {
		if n > len(b) {
			clear(b[len(b):n])
		}
		return b[:n]
	}
	out := p.Allocate(n)
	copy(out, b)
	p.Free(b)
	return out
}

// Free implements memory.Allocator.
func (p *pool) Free(b []byte) {
	c := class(cap(b))
	if cap(b) == 0 || 1<<c != cap(b) || c < smallest || c >= poolClasses {
		return // it is the collector's
	}
	p.free[c] = append(p.free[c], b[:0])
}
