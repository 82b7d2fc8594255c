package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// readPinned reads an object that its SHA-256 names, and refuses any other
// content: who may write to a store is not thereby trusted as who started the
// build. A recipe says which keys go where.
func readPinned(ctx context.Context, b objstore.Bucket, key, digest string, most int64) ([]byte, error) {
	data, _, err := objstore.ReadAll(ctx, b, key, most)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != digest {
		return nil, badSource("%s is not what was submitted: somebody has changed it in the store; start the build again", key)
	}
	return data, nil
}
