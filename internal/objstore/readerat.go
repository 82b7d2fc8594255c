package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/singleflight"
)

// Parquet readers jump: the footer, then pages of a few columns. Blocks of
// 1 MiB make one request serve many small reads; 16 of them hold the pages
// that a reader of some columns works in at once.
const (
	readerBlockBytes = 1 << 20
	readerBlocks     = 16
)

// A ReaderAt reads parts of one object through a small cache of blocks (at
// most 16 MiB). Reads of one block at once send one request. It is safe for
// concurrent use. The object must not be replaced while it is read; objects
// named by digest never are.
type ReaderAt struct {
	ctx    context.Context // of the whole life of the reader: io.ReaderAt takes none
	bucket Bucket
	key    string
	size   int64

	flight singleflight.Group
	mu     sync.Mutex
	blocks map[int64][]byte
	order  []int64 // block numbers, least recently used first
}

// NewReaderAt returns a reader of an object of size bytes; every read ends
// when ctx does.
func NewReaderAt(ctx context.Context, b Bucket, key string, size int64) *ReaderAt {
	return &ReaderAt{ctx: ctx, bucket: b, key: key, size: size, blocks: make(map[int64][]byte)}
}

// Size is the size of the object in bytes.
func (r *ReaderAt) Size() int64 { return r.size }

// ReadAt reads len(p) bytes from off, as io.ReaderAt.
func (r *ReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read %s: negative offset %d", r.key, off)
	}
	if off >= r.size {
		return 0, io.EOF
	}
	want := p
	if int64(len(want)) > r.size-off {
		want = want[:r.size-off]
	}
	n, err := r.fill(want, off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (r *ReaderAt) fill(p []byte, off int64) (int, error) {
	// A read of many blocks would only flush the cache.
	if len(p) > readerBlocks/2*readerBlockBytes {
		return r.fetch(p, off)
	}
	n := 0
	for n < len(p) {
		number := (off + int64(n)) / readerBlockBytes
		block, err := r.block(number)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], block[off+int64(n)-number*readerBlockBytes:])
	}
	return n, nil
}

func (r *ReaderAt) block(number int64) ([]byte, error) {
	if block := r.cached(number); block != nil {
		return block, nil
	}
	v, err, _ := r.flight.Do(fmt.Sprint(number), func() (any, error) {
		if block := r.cached(number); block != nil {
			return block, nil
		}
		start := number * readerBlockBytes
		block := make([]byte, min(readerBlockBytes, r.size-start))
		if _, err := r.fetch(block, start); err != nil {
			return nil, err
		}
		r.keep(number, block)
		return block, nil
	})
	if err != nil {
		return nil, err
	}
	return v.([]byte), nil
}

func (r *ReaderAt) cached(number int64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	block := r.blocks[number]
	if block != nil {
		r.touch(number)
	}
	return block
}

func (r *ReaderAt) keep(number int64, block []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.blocks) >= readerBlocks {
		delete(r.blocks, r.order[0])
		r.order = r.order[1:]
	}
	r.blocks[number] = block
	r.touch(number)
}

// touch moves a block to the recent end. The list is short, so a scan costs
// less than a linked list's bookkeeping.
func (r *ReaderAt) touch(number int64) {
	for i, n := range r.order {
		if n == number {
			r.order = append(r.order[:i], r.order[i+1:]...)
			break
		}
	}
	r.order = append(r.order, number)
}

// fetch reads exactly len(p) bytes from the store; a body that breaks off is
// read again from where it broke.
func (r *ReaderAt) fetch(p []byte, off int64) (int, error) {
	n := 0
	var err error
	for range readAttempts {
		var m int
		m, err = r.fetchOnce(p[n:], off+int64(n))
		n += m
		if err == nil {
			return n, nil
		}
		var broken *bodyError
		if !errors.As(err, &broken) || r.ctx.Err() != nil {
			break
		}
	}
	return n, err
}

func (r *ReaderAt) fetchOnce(p []byte, off int64) (int, error) {
	body, err := r.bucket.GetRange(r.ctx, r.key, off, int64(len(p)))
	if err != nil {
		return 0, err
	}
	defer body.Close()
	n, err := io.ReadFull(body, p)
	if err != nil {
		return n, &bodyError{r.key, noEOF(err)}
	}
	return n, nil
}
