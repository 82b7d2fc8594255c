package objstore

import (
	"context"
	"time"
)

// An Upload is one in parts that was begun and neither completed nor aborted.
type Upload struct {
	Key   string
	ID    string // of the store
	Began time.Time
}

// An UploadSweeper finds and removes what broken uploads in parts left behind:
// a process that was killed can't abort its own, the parts are in no listing,
// and they take space until somebody removes them. Stores that have such
// uploads implement it next to Bucket.
type UploadSweeper interface {
	// Uploads returns the open uploads under the bucket's prefix.
	Uploads(ctx context.Context) ([]Upload, error)
	// AbortUpload ends an upload; one that has ended already is no error.
	AbortUpload(ctx context.Context, u Upload) error
}
