package objstore

import "fmt"

// ClampRange turns a caller's range into one inside an object of size bytes:
// n < 0 reaches to the end, and a range that passes the end is cut there. A
// start at the very end is an empty range; a negative start, or one beyond the
// end, is an error.
func ClampRange(off, n, size int64) (start, length int64, err error) {
	if off < 0 || off > size {
		return 0, 0, fmt.Errorf("range from %d is outside the object of %d bytes", off, size)
	}
	if n < 0 || n > size-off {
		n = size - off
	}
	return off, n, nil
}
