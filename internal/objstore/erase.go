package objstore

import "context"

// An Eraser deletes objects for good. Delete takes an object from what readers
// see; a store that keeps versions of its objects keeps what was there, and an
// Eraser deletes that too. Stores that can have versions implement it next to
// Bucket.
type Eraser interface {
	// Erase deletes the keys with every version of them; a key that is not
	// there is no error.
	Erase(ctx context.Context, keys ...string) error
}
