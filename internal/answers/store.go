package answers

import (
	"context"
	"errors"
	"iter"
	"log/slog"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// Options configure a [Store].
type Options struct {
	Bucket objstore.Bucket
	// Dir holds journal and cache, on a disk of this machine. One store at a
	// time opens it.
	Dir string
	// Worker names this home in the store's journal; default: a random name
	// that is kept in Dir.
	Worker string
	Log    *slog.Logger // default: discarded
	// CacheBytes bounds the segments that are kept on the local disk;
	// default 20 GiB.
	CacheBytes int64
}

// A Store keeps answers for one worker. It is safe for concurrent use.
type Store struct{}

// Open opens the store and indexes the records that an earlier process of this
// home left in its journal.
func Open(ctx context.Context, opt Options) (*Store, error) { return nil, errors.ErrUnsupported }

// Append makes the record durable in the local journal.
func (s *Store) Append(ctx context.Context, r *Record) error { return errors.ErrUnsupported }

// Flush returns when every record that was appended before the call is in the
// index.
func (s *Store) Flush(ctx context.Context) error { return errors.ErrUnsupported }

// Lookup returns, for each ask, the answer that serves it; else the newest
// failure with the same key and cap; else nil.
func (s *Store) Lookup(ctx context.Context, asks []Ask) ([]*Record, error) {
	return nil, errors.ErrUnsupported
}

// Answered tells, for each ask, whether an answer serves it.
func (s *Store) Answered(ctx context.Context, asks []Ask) ([]bool, error) {
	return nil, errors.ErrUnsupported
}

// AdoptOrphans indexes what workers that are no longer live left in the store's
// journal, and returns how many records that were.
func (s *Store) AdoptOrphans(ctx context.Context, live func(worker string) bool) (int, error) {
	return 0, errors.ErrUnsupported
}

// Import indexes recorded answers of one endpoint.
func (s *Store) Import(ctx context.Context, endpoint string, records iter.Seq2[*Record, error]) (added int, err error) {
	return 0, errors.ErrUnsupported
}

// Worker is the name of this home in the store's journal.
func (s *Store) Worker() string { return "" }

// Close indexes what is pending and ends the store's goroutines.
func (s *Store) Close(ctx context.Context) error { return errors.ErrUnsupported }

// A Reader looks answers up and writes nothing to the store.
type Reader struct{}

// OpenReader opens the answers for reading.
func OpenReader(bucket objstore.Bucket, cacheDir string) (*Reader, error) {
	return nil, errors.ErrUnsupported
}

// Lookup is [Store.Lookup].
func (r *Reader) Lookup(ctx context.Context, asks []Ask) ([]*Record, error) {
	return nil, errors.ErrUnsupported
}

// Answered is [Store.Answered].
func (r *Reader) Answered(ctx context.Context, asks []Ask) ([]bool, error) {
	return nil, errors.ErrUnsupported
}

// Close removes a cache that the reader made for itself.
func (r *Reader) Close() error { return errors.ErrUnsupported }
