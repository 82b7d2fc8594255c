package answers

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// A journal piece is a valid .zst file, also where its records are not packed.
func TestStoredFramesAreZstd(t *testing.T) {
	for _, n := range []int{1, 2, 255, 256, 257, 4096, storedBytes, 65535} {
		payload := bytes.Repeat([]byte{'x', 0, 0xff}, n/3+1)[:n]
		d, err := zstd.NewReader(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.DecodeAll(appendStored([]byte(nil), payload), nil)
		d.Close()
		if err != nil || !bytes.Equal(got, payload) {
			t.Errorf("%d bytes: read back %d, %v", n, len(got), err)
		}
	}
}
