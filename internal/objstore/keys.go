package objstore

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of a key: what S3 takes, and what a file name takes on the file
// systems under the embedded store.
const (
	MaxKeyBytes       = 1024
	MaxComponentBytes = 255
)

// ErrInvalidKey: the key or prefix can't be stored everywhere. Nothing was
// sent.
var ErrInvalidKey = errors.New("invalid key")

// ValidKey reports why a key can't be used: it must be 1 to 1024 bytes of
// UTF-8 without control characters, whose parts between slashes are 1 to 255
// bytes and are neither "." nor "..". Keys that pass mean the same to S3 and
// to a file system, and survive the XML of a listing.
func ValidKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: it is empty", ErrInvalidKey)
	}
	if len(key) > MaxKeyBytes {
		return fmt.Errorf("%w %.60q…: %d bytes, at most %d", ErrInvalidKey, key, len(key), MaxKeyBytes)
	}
	if !utf8.ValidString(key) {
		return fmt.Errorf("%w %q: not UTF-8", ErrInvalidKey, key)
	}
	if i := strings.IndexFunc(key, isControl); i >= 0 {
		return fmt.Errorf("%w %q: control character at byte %d", ErrInvalidKey, key, i)
	}
	for part := range strings.SplitSeq(key, "/") {
		switch {
		case part == "":
			return fmt.Errorf("%w %q: a slash at the start or end, or two in a row", ErrInvalidKey, key)
		case part == "." || part == "..":
			return fmt.Errorf("%w %q: %q as a part", ErrInvalidKey, key, part)
		case Reserved(part):
			return fmt.Errorf("%w %q: %q is a name of the embedded store's own", ErrInvalidKey, key, part)
		case len(part) > MaxComponentBytes:
			return fmt.Errorf("%w %q: a part of %d bytes, at most %d", ErrInvalidKey, key, len(part), MaxComponentBytes)
		}
	}
	return nil
}

// Reserved is true for the names of files and folders that the embedded store
// keeps among its objects: unfinished uploads, locks, and the temporary name
// of an object that is being replaced, which stays after a crash. They are not
// keys, and listings pass over them.
func Reserved(part string) bool {
	return part == ".sgwtmp" || part == ".vgwlocks" ||
		strings.HasPrefix(part, ".") && strings.Contains(part, ".sgwtmp.")
}

// isControl is true for what XML 1.0 can't hold or what would garble a
// terminal, U+FFFE and U+FFFF included.
func isControl(r rune) bool {
	return r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff
}

// ValidPrefix reports why a bucket's prefix can't be used. An empty one can;
// otherwise it follows the rules of a key.
func ValidPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	return ValidKey(prefix)
}

// JoinPrefix puts a key under a prefix; an empty prefix adds nothing. An empty
// key gives the prefix with its slash, which is what a listing of everything
// under it starts with.
func JoinPrefix(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "/" + key
}
