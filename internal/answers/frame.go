package answers

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A journal piece is a valid .zst file: each record is one zstd frame, behind
// a skippable frame that holds its length and its CRC-32C:
//
//	magic  uint32  0x184D2A5A (zstd skips it)
//	size   uint32  8
//	length uint32  of the zstd frame that follows
//	crc    uint32  CRC-32C of length and zstd frame
//
// All numbers are little-endian. The last record of a piece may be torn; a
// damaged one in the middle costs itself alone, because the next header is
// found by its magic and believed by its CRC.
const (
	frameMagic  = 0x184D2A5A
	frameHeader = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
	if err != nil {
		panic("answers: zstd encoder: " + err.Error()) // only wrong options fail
	}
	return e
})

var decompressor = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxRecordBytes), zstd.WithDecoderConcurrency(0))
	if err != nil {
		panic("answers: zstd decoder: " + err.Error())
	}
	return d
})

var payloads = sync.Pool{New: func() any { return new([]byte) }}

// appendFrame appends the record as a journal holds it.
func appendFrame(dst []byte, r *Record) ([]byte, error) {
	buf := payloads.Get().(*[]byte)
	defer payloads.Put(buf)
	*buf = appendRecord((*buf)[:0], r)
	if len(*buf) > maxRecordBytes {
		return dst, fmt.Errorf("record of %d bytes; at most %d are kept", len(*buf), maxRecordBytes)
	}
	start := len(dst)
	dst = append(dst, make([]byte, frameHeader)...)
	if len(*buf) <= storedBytes {
		dst = appendStored(dst, *buf)
	} else {
		dst = encoder().EncodeAll(*buf, dst)
	}
	if cap(*buf) > 1<<20 {
		*buf = nil
	}
	head := dst[start : start+frameHeader]
	binary.LittleEndian.PutUint32(head[0:], frameMagic)
	binary.LittleEndian.PutUint32(head[4:], 8)
	binary.LittleEndian.PutUint32(head[8:], uint32(len(dst)-start-frameHeader))
	binary.LittleEndian.PutUint32(head[12:], frameCRC(dst[start:]))
	return dst, nil
}

// storedBytes is the longest record that a journal holds as it is. Most short
// ones are packed in a segment within a second, and packing each by itself
// would cost more than asking for it.
const storedBytes = 16 << 10

// appendStored appends a zstd frame of one raw block (RFC 8878, 3.1.1), for 1
// to 65,791 bytes.
func appendStored(dst, payload []byte) []byte {
	n := len(payload)
	dst = append(dst, 0x28, 0xb5, 0x2f, 0xfd)
	if n < 256 {
		dst = append(dst, 0x20, byte(n)) // single segment, one byte of size
	} else {
		dst = append(dst, 0x60) // single segment, two bytes of size less 256
		dst = binary.LittleEndian.AppendUint16(dst, uint16(n-256))
	}
	block := uint32(n)<<3 | 1 // raw, and the last
	dst = append(dst, byte(block), byte(block>>8), byte(block>>16))
	return append(dst, payload...)
}

// frameCRC covers the length and the zstd frame behind the header.
func frameCRC(frame []byte) uint32 {
	crc := crc32.Update(0, castagnoli, frame[8:12])
	return crc32.Update(crc, castagnoli, frame[frameHeader:])
}

// wholeFrame returns the frame at the start of data, or nil where there is no
// undamaged one.
func wholeFrame(data []byte) []byte {
	if len(data) < frameHeader ||
		binary.LittleEndian.Uint32(data[0:]) != frameMagic ||
		binary.LittleEndian.Uint32(data[4:]) != 8 {
		return nil
	}
	n := uint64(binary.LittleEndian.Uint32(data[8:]))
	if n == 0 || n > uint64(len(data)-frameHeader) {
		return nil
	}
	frame := data[:frameHeader+n]
	if frameCRC(frame) != binary.LittleEndian.Uint32(data[12:]) {
		return nil
	}
	return frame
}

// decodeFrame reads the record of a frame that wholeFrame returned.
func decodeFrame(frame []byte) (*Record, error) {
	payload, err := decompressor().DecodeAll(frame[frameHeader:], nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRecord, err)
	}
	return decodeRecord(payload)
}

// A frameReport says how a scan went.
type frameReport struct {
	end     int // behind the last whole frame
	damaged int // bytes that belong to no whole record
}

// scanFrames calls visit with each whole record of a piece. It ends early at
// visit's error and at a record of a newer version.
func scanFrames(data []byte, visit func(off, n int, r *Record) error) (frameReport, error) {
	var report frameReport
	var magic [8]byte
	binary.LittleEndian.PutUint32(magic[0:], frameMagic)
	binary.LittleEndian.PutUint32(magic[4:], 8)
	for off := 0; off < len(data); {
		frame := wholeFrame(data[off:])
		if frame == nil {
			skip := bytes.Index(data[off+1:], magic[:])
			if skip < 0 {
				report.damaged += len(data) - off
				break
			}
			report.damaged += skip + 1
			off += skip + 1
			continue
		}
		r, err := decodeFrame(frame)
		switch {
		case errors.Is(err, errRecordVersion):
			return report, err
		case err != nil:
			report.damaged += len(frame)
		default:
			if err := visit(off, len(frame), r); err != nil {
				return report, err
			}
		}
		off += len(frame)
		report.end = off
	}
	return report, nil
}
