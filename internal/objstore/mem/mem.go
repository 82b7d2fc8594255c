// Package mem is an object store in memory with the exact semantics of the
// real ones, for tests and previews: conditional writes are atomic, listings
// are in byte order, and an ETag depends on nothing but the content, as S3's
// does. Faults can be injected before and after an operation takes effect.
package mem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// Operations that a fault can hit.
const (
	OpGet    = "get"
	OpRange  = "range"
	OpHead   = "head"
	OpPut    = "put"
	OpDelete = "delete"
	OpList   = "list" // its key is the prefix
)

// A Bucket is a store in memory. It is safe for concurrent use.
type Bucket struct {
	name string

	// Fault, where set, is asked before an operation on a key takes effect;
	// its error is the operation's. Lost is asked afterwards: the operation
	// has happened, and the caller gets an error in place of the answer, as
	// when a connection breaks. Set both before the bucket is used; they are
	// called from many goroutines.
	Fault func(op, key string) error
	Lost  func(op, key string) error

	mu      sync.Mutex
	objects map[string]object
}

type object struct {
	data     []byte // never changed once stored
	modified time.Time
}

func (o object) attr(key string) objstore.Attr {
	return objstore.Attr{Key: key, Size: int64(len(o.data)), ETag: etag(o.data), Modified: o.modified}
}

func etag(data []byte) string {
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// New returns an empty bucket; its name shows in messages as mem://name.
func New(name string) *Bucket {
	return &Bucket{name: name, objects: make(map[string]object)}
}

// String is mem://name.
func (b *Bucket) String() string { return "mem://" + b.name }

// do runs act under the lock, between the two faults. Its errors name
// operation and key.
func (b *Bucket) do(ctx context.Context, op, key string, act func() error) error {
	wrap := func(err error) error { return fmt.Errorf("%s %s in %s: %w", op, key, b, err) }
	if err := ctx.Err(); err != nil {
		return wrap(err)
	}
	if op != OpList {
		if err := objstore.ValidKey(key); err != nil {
			return wrap(err)
		}
	}
	if b.Fault != nil {
		if err := b.Fault(op, key); err != nil {
			return wrap(err)
		}
	}
	b.mu.Lock()
	err := act()
	b.mu.Unlock()
	if err != nil {
		return wrap(err)
	}
	if b.Lost != nil {
		if err := b.Lost(op, key); err != nil {
			return wrap(err)
		}
	}
	return nil
}

// lookup is called with the lock held.
func (b *Bucket) lookup(key string) (object, error) {
	o, ok := b.objects[key]
	if !ok {
		return object{}, objstore.ErrNotFound
	}
	return o, nil
}

// Get implements objstore.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (io.ReadCloser, objstore.Attr, error) {
	var o object
	err := b.do(ctx, OpGet, key, func() (err error) {
		o, err = b.lookup(key)
		return err
	})
	if err != nil {
		return nil, objstore.Attr{}, err
	}
	return newBody(ctx, o.data), o.attr(key), nil
}

// GetRange implements objstore.Bucket.
func (b *Bucket) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	var o object
	err := b.do(ctx, OpRange, key, func() (err error) {
		if o, err = b.lookup(key); err != nil {
			return err
		}
		off, n, err = objstore.ClampRange(off, n, int64(len(o.data)))
		return err
	})
	if err != nil {
		return nil, err
	}
	return newBody(ctx, o.data[off:off+n]), nil
}

// Head implements objstore.Bucket.
func (b *Bucket) Head(ctx context.Context, key string) (objstore.Attr, error) {
	var o object
	err := b.do(ctx, OpHead, key, func() (err error) {
		o, err = b.lookup(key)
		return err
	})
	if err != nil {
		return objstore.Attr{}, err
	}
	return o.attr(key), nil
}

// Put implements objstore.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opt objstore.PutOptions) (objstore.Attr, error) {
	if _, err := objstore.BodySize(body, size); err != nil {
		return objstore.Attr{}, fmt.Errorf("put %s in %s: %w", key, b, err)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(body, data); err != nil {
		return objstore.Attr{}, fmt.Errorf("put %s in %s: read the body: %w", key, b, err)
	}
	o := object{data: data, modified: time.Now().UTC()}
	err := b.do(ctx, OpPut, key, func() error {
		if err := b.allowed(key, opt); err != nil {
			return err
		}
		b.objects[key] = o
		return nil
	})
	if err != nil {
		return objstore.Attr{}, err
	}
	return o.attr(key), nil
}

// allowed is called with the lock held.
func (b *Bucket) allowed(key string, opt objstore.PutOptions) error {
	old, exists := b.objects[key]
	switch {
	case opt.IfNoneMatch && opt.IfMatch != "":
		return fmt.Errorf("IfNoneMatch and IfMatch are both set")
	case opt.IfNoneMatch && exists:
		return fmt.Errorf("the key exists: %w", objstore.ErrPrecondition)
	case opt.IfMatch != "" && !exists:
		return fmt.Errorf("the key does not exist: %w", objstore.ErrPrecondition)
	case opt.IfMatch != "" && opt.IfMatch != etag(old.data):
		return fmt.Errorf("the object is another one: %w", objstore.ErrPrecondition)
	}
	return nil
}

// Delete implements objstore.Bucket.
func (b *Bucket) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		err := b.do(ctx, OpDelete, key, func() error {
			delete(b.objects, key)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// List implements objstore.Bucket. It shows the keys of the moment when it
// starts, less those that have gone since.
func (b *Bucket) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Attr, error] {
	return func(yield func(objstore.Attr, error) bool) {
		var keys []string
		err := b.do(ctx, OpList, prefix, func() error {
			keys = slices.Sorted(maps.Keys(b.objects))
			return nil
		})
		if err != nil {
			yield(objstore.Attr{}, err)
			return
		}
		for _, key := range keys {
			if !strings.HasPrefix(key, prefix) || key <= after {
				continue
			}
			if err := ctx.Err(); err != nil {
				yield(objstore.Attr{}, fmt.Errorf("list %s in %s: %w", prefix, b, err))
				return
			}
			b.mu.Lock()
			o, ok := b.objects[key]
			b.mu.Unlock()
			if ok && !yield(o.attr(key), nil) {
				return
			}
		}
	}
}

// body reads data until ctx ends, as a body from a network does.
type body struct {
	ctx context.Context
	*bytes.Reader
}

func newBody(ctx context.Context, data []byte) io.ReadCloser {
	// Only Read is offered, as by a network: nobody should come to rely on more.
	return struct{ io.ReadCloser }{&body{ctx, bytes.NewReader(data)}}
}

func (b *body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}

func (b *body) Close() error { return nil }
