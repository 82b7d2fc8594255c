package parquetio

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// checkExpansion bounds what a compressed page expands to.
// The library decompresses whatever comes: a few bytes would take all memory.
func checkExpansion(codec format.CompressionCodec, body []byte) error {
	switch codec {
	case format.Zstd:
		return checkZstd(body)
	case format.Snappy:
		if n, k := binary.Uvarint(body); k <= 0 || n > maxPageBytes {
			return errExpansion
		}
		return nil
	case format.Gzip:
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return errExpansion
		}
		return checkStream(r)
	case format.Brotli:
		return checkStream(brotli.NewReader(bytes.NewReader(body)))
	default: // not compressed, or refused by the library
		return nil
	}
}

var errExpansion = fmt.Errorf("%w: a page is not compressed as it says or expands without bounds", ErrDamaged)

func checkStream(r io.Reader) error {
	if n, err := io.Copy(io.Discard, io.LimitReader(r, maxPageBytes+1)); err != nil || n > maxPageBytes {
		return errExpansion
	}
	return nil
}

// checkZstd bounds what the frames of a page can hold by their block headers
// (RFC 8878, 3.1.1.2), without decompressing them: a block is at most 128 KiB
// whatever it takes in the file.
func checkZstd(body []byte) error {
	const blockBytes, checksum = 128 << 10, 4
	var total int
	for len(body) > 0 {
		var h zstd.Header
		if err := h.Decode(body); err != nil {
			return errExpansion
		}
		if h.Skippable {
			if uint64(h.HeaderSize)+uint64(h.SkippableSize) > uint64(len(body)) {
				return errExpansion
			}
			body = body[uint64(h.HeaderSize)+uint64(h.SkippableSize):]
			continue
		}
		if h.HasFCS && h.FrameContentSize > maxPageBytes {
			return errExpansion
		}
		body = body[h.HeaderSize:]
		for last := false; !last; {
			if len(body) < 3 {
				return errExpansion
			}
			b := int(body[0]) | int(body[1])<<8 | int(body[2])<<16
			last = b&1 != 0
			n, kind := b>>3, b>>1&3
			switch kind {
			case 1: // one byte, n times
				total += n
				n = 1
			case 2:
				total += blockBytes
			default:
				total += n
			}
			if total > maxPageBytes || 3+n > len(body) {
				return errExpansion
			}
			body = body[3+n:]
		}
		if h.HasCheckSum {
			if len(body) < checksum {
				return errExpansion
			}
			body = body[checksum:]
		}
	}
	return nil
}
