package objstore

import "errors"

// ErrChecksum: the bytes that arrived are not the bytes that were stored.
var ErrChecksum = errors.New("checksum mismatch")
