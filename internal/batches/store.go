package batches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

const (
	maxOpen  = 4 << 20
	maxState = 1 << 20
	// casTries is how often a change is tried over anew when others change the
	// same object.
	casTries = 20
)

// ErrRaced: another build changed the endpoint's open batches meanwhile. What
// was planned on the old list must be planned anew.
var ErrRaced = errors.New("another build changed the open batches of this endpoint; the step is done again")

// A Store holds the batches of one endpoint.
type Store struct {
	bucket   objstore.Bucket
	endpoint string
}

// Open gives the batches of an endpoint, by its identity of 32 hex digits.
func Open(b objstore.Bucket, endpoint string) *Store { return &Store{b, endpoint} }

func (s *Store) prefix() string { return "batches/" + s.endpoint + "/" }

func (s *Store) openKey() string { return s.prefix() + "open.json" }

func (s *Store) stateKey(key string) string { return s.prefix() + key + "/state.json" }

func (s *Store) asksKey(key string) string { return s.prefix() + key + "/asks.jsonl.zst" }

func (s *Store) requestsKey(key string) string { return s.prefix() + key + "/requests.jsonl.zst" }

// RefusedKey is where rows that did not belong are kept.
func (s *Store) RefusedKey(key string) string { return s.prefix() + key + "/refused.jsonl" }

// A List is the open batches of an endpoint as they were at one moment.
type List struct {
	// Serial grows with every change, so that no two states are alike.
	Serial int64    `json:"serial"`
	Keys   []string `json:"open"`
	etag   string
}

// List reads the open batches.
func (s *Store) List(ctx context.Context) (*List, error) {
	text, attr, err := objstore.ReadAll(ctx, s.bucket, s.openKey(), maxOpen)
	if errors.Is(err, objstore.ErrNotFound) {
		return &List{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the open batches: %w", err)
	}
	l := &List{etag: attr.ETag}
	if err := json.Unmarshal(text, l); err != nil {
		return nil, fmt.Errorf("read the open batches %s: %w", s.openKey(), err)
	}
	return l, nil
}

// change writes a changed list in the place of l; ErrRaced where that is not
// the newest any more.
func (s *Store) change(ctx context.Context, l *List, keys []string) (*List, error) {
	next := &List{Serial: l.Serial + 1, Keys: keys}
	text, err := json.Marshal(next)
	if err != nil {
		return nil, err
	}
	attr, err := objstore.PutBytes(ctx, s.bucket, s.openKey(), text, condition(l.etag))
	if errors.Is(err, objstore.ErrPrecondition) {
		return nil, ErrRaced
	}
	if err != nil {
		return nil, fmt.Errorf("write the open batches: %w", err)
	}
	next.etag = attr.ETag
	return next, nil
}

// Add puts a batch that Make has written on the list l of open batches.
func (s *Store) Add(ctx context.Context, l *List, key string) (*List, error) {
	return s.change(ctx, l, append(append([]string(nil), l.Keys...), key))
}

// Since tells what became of a list: which batches came and went. It is false
// where more has changed than that, so that a batch may have come and gone.
func (l *List) Since(before *List) (came, went []string, all bool) {
	for _, key := range l.Keys {
		if !contains(before.Keys, key) {
			came = append(came, key)
		}
	}
	for _, key := range before.Keys {
		if !contains(l.Keys, key) {
			went = append(went, key)
		}
	}
	return came, went, l.Serial-before.Serial == int64(len(came)+len(went))
}

func condition(etag string) objstore.PutOptions {
	if etag == "" {
		return objstore.PutOptions{IfNoneMatch: true, ContentType: "application/json"}
	}
	return objstore.PutOptions{IfMatch: etag, ContentType: "application/json"}
}

// remove takes a closed batch off the list.
func (s *Store) remove(ctx context.Context, key string) error {
	for range casTries {
		l, err := s.List(ctx)
		if err != nil {
			return err
		}
		var keys []string
		for _, k := range l.Keys {
			if k != key {
				keys = append(keys, k)
			}
		}
		if len(keys) == len(l.Keys) {
			return nil
		}
		if _, err = s.change(ctx, l, keys); !errors.Is(err, ErrRaced) {
			return err
		}
	}
	return fmt.Errorf("close batch %s: %w", key, ErrRaced)
}

// A State is a record with the version that it was read at.
type State struct {
	Record
	etag string
}

// Load reads a batch's record; objstore.ErrNotFound where there is none.
func (s *Store) Load(ctx context.Context, key string) (*State, error) {
	text, attr, err := objstore.ReadAll(ctx, s.bucket, s.stateKey(key), maxState)
	if err != nil {
		return nil, fmt.Errorf("read the record of batch %s: %w", key, err)
	}
	st := &State{etag: attr.ETag}
	if err := json.Unmarshal(text, &st.Record); err != nil {
		return nil, fmt.Errorf("read the record of batch %s: %w", key, err)
	}
	return st, nil
}

// ErrMoved: somebody else moved the batch on. Load it again.
var ErrMoved = errors.New("another process moved this batch on")

// Save writes the record in the place of the version that it was read at;
// ErrMoved where another came first. When the answer of the store is lost, the
// record is read again to see whose it is.
func (s *Store) Save(ctx context.Context, st *State) error {
	text, err := json.Marshal(&st.Record)
	if err != nil {
		return err
	}
	attr, err := objstore.PutBytes(ctx, s.bucket, s.stateKey(st.Key), text, condition(st.etag))
	if err == nil {
		st.etag = attr.ETag
		return nil
	}
	// The store may have done it: a retried write meets its own first success.
	there, now, readErr := objstore.ReadAll(ctx, s.bucket, s.stateKey(st.Key), maxState)
	switch {
	case readErr == nil && string(there) == string(text):
		st.etag = now.ETag
		return nil
	case errors.Is(err, objstore.ErrPrecondition):
		return ErrMoved
	}
	return fmt.Errorf("write the record of batch %s: %w", st.Key, err)
}

// Close ends a batch whose record is closed: it leaves the list, and its files
// of asks and requests go. It may be called again.
func (s *Store) Close(ctx context.Context, key string) error {
	if err := s.remove(ctx, key); err != nil {
		return err
	}
	if err := s.bucket.Delete(ctx, s.asksKey(key), s.requestsKey(key)); err != nil {
		return fmt.Errorf("delete the requests of batch %s: %w", key, err)
	}
	return nil
}
