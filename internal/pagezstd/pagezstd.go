// Package pagezstd compresses the pages of Parquet files. The codec of
// parquet-go makes an encoder of 16 MiB anew whenever a garbage collection has
// emptied its pool, which for pages of a few kilobytes costs more than packing
// them; the encoders here are made once a process and are small.
package pagezstd

import (
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// window is how far back a match may lie: pages are seldom larger.
const window = 1 << 20

// maxPage bounds what a page may unpack to; readers of untrusted files check
// pages before that.
const maxPage = 1 << 30

// A Codec is a zstd codec for parquet.Compression. It is safe for concurrent
// use.
type Codec struct{ encoder func() *zstd.Encoder }

// Fastest packs quickly: for files that are rewritten soon.
var Fastest = codec(zstd.SpeedFastest)

// Default packs like zstd level 3: for files that are kept.
var Default = codec(zstd.SpeedDefault)

// codec makes its encoders when the first page is packed.
func codec(level zstd.EncoderLevel) *Codec {
	return &Codec{sync.OnceValue(func() *zstd.Encoder { return newEncoder(level) })}
}

func newEncoder(level zstd.EncoderLevel) *zstd.Encoder {
	e, err := zstd.NewWriter(nil,
		zstd.WithEncoderConcurrency(min(runtime.GOMAXPROCS(0), 8)),
		zstd.WithEncoderLevel(level),
		zstd.WithWindowSize(window),
		zstd.WithLowerEncoderMem(true),
		zstd.WithZeroFrames(true), // an empty page is a frame too
		zstd.WithEncoderCRC(false),
		// Ids are hexadecimal digits without a match: half a byte each, where
		// they are not left as they are.
		zstd.WithAllLitEntropyCompression(true),
	)
	if err != nil {
		panic("pagezstd: encoder: " + err.Error()) // only wrong options fail
	}
	return e
}

var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxPage))
	if err != nil {
		panic("pagezstd: decoder: " + err.Error())
	}
	return d
})

// String names the codec in messages.
func (c *Codec) String() string { return "ZSTD" }

// CompressionCodec is the codec's code in a Parquet file.
func (c *Codec) CompressionCodec() format.CompressionCodec { return format.Zstd }

// Encode packs src into dst, which grows where it is too small.
func (c *Codec) Encode(dst, src []byte) ([]byte, error) {
	return c.encoder().EncodeAll(src, dst[:0]), nil
}

// Decode unpacks src into dst, which grows where it is too small.
func (c *Codec) Decode(dst, src []byte) ([]byte, error) {
	return decoder().DecodeAll(src, dst[:0])
}
