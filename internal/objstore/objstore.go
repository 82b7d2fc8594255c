// Package objstore is the store as the rest of the program sees it: a flat
// space of keys with conditional writes. s3/ speaks to any S3, mem/ is a
// working fake, dir/ reads the embedded store's files without a server, and
// objstoretest/ is the suite that every implementation passes.
package objstore

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Errors that callers branch on. Implementations wrap them with the operation
// and the key; compare with errors.Is.
var (
	// ErrNotFound: the key does not exist.
	ErrNotFound = errors.New("not found")
	// ErrPrecondition: IfNoneMatch or IfMatch did not hold (HTTP 412), or
	// IfMatch named a key that does not exist. A retried write may get it from
	// its own first success: read the key before saying who won.
	ErrPrecondition = errors.New("precondition failed")
	// ErrUnavailable: the store could not be reached or refused our
	// credentials; the command ends with exit code 6.
	ErrUnavailable = errors.New("store unavailable")
	// ErrReadOnly: the implementation only reads.
	ErrReadOnly = errors.New("read-only store")
)

// Attr describes an object. ETag is an opaque token for IfMatch, never a
// digest of the content.
type Attr struct {
	Key      string
	Size     int64
	ETag     string
	Modified time.Time
}

// PutOptions are the conditions of a write. At most one of IfNoneMatch and
// IfMatch is set; with neither the write replaces what is there.
type PutOptions struct {
	IfNoneMatch bool   // create only: fails with ErrPrecondition where the key exists
	IfMatch     string // replace only the object with this ETag
	ContentType string // default application/octet-stream
}

// A Bucket is one prefix of an object store. Keys are relative to the prefix,
// use forward slashes, and have components of at most 255 bytes. A write is
// seen whole or not at all, and by every reader once it has returned.
// Implementations are safe for concurrent use.
type Bucket interface {
	// String names the store in messages, such as s3://bucket/prefix.
	String() string
	// Get opens an object. The caller closes the body.
	Get(ctx context.Context, key string) (io.ReadCloser, Attr, error)
	// GetRange opens n bytes from off (n < 0: to the end).
	GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)
	// Head describes an object.
	Head(ctx context.Context, key string) (Attr, error)
	// Put writes size bytes of body. The body is seekable so that it can be
	// sent again; large bodies go up in parts.
	Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opt PutOptions) (Attr, error)
	// Delete removes keys; a key that is not there is no error.
	Delete(ctx context.Context, keys ...string) error
	// List yields the objects whose key starts with prefix and is greater
	// than after, in byte order. It ends at the first error.
	List(ctx context.Context, prefix, after string) iter.Seq2[Attr, error]
}
