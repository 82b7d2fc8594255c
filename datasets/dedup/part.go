package dedup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A part is what is kept of some of the documents: for each its order, its key
// in each band, and its features. It is written in chunks:
//
//	header   magic, bands, rows, shingle, flags
//	chunk    orders, keys of band 0, keys of band 1, …, digests of names,
//	         offsets of features, features
//	…
//	footer   of each chunk its place and how many documents it holds; their number;
//	         how many chunks; CRC-32C of header and footer; magic
//
// Numbers are little-endian. A band is read without the rest, and the features
// of one document are found with one more read.
const (
	partMagic   = "shdedup1"
	headerBytes = 8 + 4*4
	tailBytes   = 8 + 8 + 4 + 8

	chunkDocuments = 1 << 14  // most documents of a chunk
	chunkBytes     = 16 << 20 // of features, from which on a chunk is full
	flagAnyValues  = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A PartWriter writes a part. It holds one chunk in memory.
type PartWriter struct {
	w       io.Writer
	options NearOptions
	extract *extractor
	hash    *minhasher
	at      uint64 // bytes written
	header  []byte
	footer  []byte
	chunks  uint64
	count   uint64

	orders   []uint64
	keys     []uint64 // of a document after the other
	names    []uint64
	offsets  []uint64
	features []byte
	out      []byte
	err      error
}

// NewPartWriter begins a part. All parts that are compared need the same
// options.
func NewPartWriter(w io.Writer, o NearOptions) (*PartWriter, error) {
	o = o.WithDefaults()
	if err := o.Check(); err != nil {
		return nil, err
	}
	p := &PartWriter{w: w, options: o, extract: newExtractor(o), hash: newMinhasher(o)}
	p.header = headerOf(o)
	p.write(p.header)
	return p, p.err
}

func headerOf(o NearOptions) []byte {
	b := append([]byte(nil), partMagic...)
	flags := 0
	if o.AnyValues {
		flags = flagAnyValues
	}
	for _, n := range []int{o.Bands, o.Rows, o.Shingle, flags} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// Add takes the next document. The first error stays.
func (p *PartWriter) Add(d Document) error {
	if p.err != nil {
		return p.err
	}
	f := p.extract.features(&d)
	p.orders = append(p.orders, d.Order)
	p.keys = p.hash.keys(p.keys, f)
	p.names = append(p.names, f.named())
	p.offsets = append(p.offsets, uint64(len(p.features)))
	p.features = appendFeatures(p.features, f)
	p.count++
	if len(p.orders) == chunkDocuments || len(p.features) >= chunkBytes {
		p.flush()
	}
	return p.err
}

func (p *PartWriter) flush() {
	n := len(p.orders)
	if n == 0 {
		return
	}
	p.footer = binary.LittleEndian.AppendUint64(p.footer, p.at)
	p.footer = binary.LittleEndian.AppendUint64(p.footer, uint64(n))
	p.chunks++
	bands := p.options.Bands
	out := p.out[:0]
	out = appendWords(out, p.orders)
	for b := range bands {
		for i := range n {
			out = binary.LittleEndian.AppendUint64(out, p.keys[i*bands+b])
		}
	}
	out = appendWords(out, p.names)
	out = appendWords(out, append(p.offsets, uint64(len(p.features))))
	p.write(out)
	p.write(p.features)
	p.out = out
	p.orders, p.keys, p.names, p.offsets, p.features = p.orders[:0], p.keys[:0], p.names[:0], p.offsets[:0], p.features[:0]
}

func (p *PartWriter) write(b []byte) {
	if p.err != nil {
		return
	}
	if _, err := p.w.Write(b); err != nil {
		p.err = fmt.Errorf("near duplicates: write signatures: %w", err)
	}
	p.at += uint64(len(b))
}

// Close ends the part; it does not close the writer beneath.
func (p *PartWriter) Close() error {
	p.flush()
	foot := binary.LittleEndian.AppendUint64(p.footer, p.count)
	foot = binary.LittleEndian.AppendUint64(foot, p.chunks)
	sum := crc32.Update(crc32.Checksum(p.header, castagnoli), castagnoli, foot)
	foot = binary.LittleEndian.AppendUint32(foot, sum)
	p.write(append(foot, partMagic...))
	if p.err != nil {
		return p.err
	}
	p.err = errors.New("near duplicates: the part is closed")
	return nil
}

func appendWords(dst []byte, words []uint64) []byte {
	for _, w := range words {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	return dst
}

func appendFeatures(dst []byte, f *features) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, f.fixed)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.shingles)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(f.names)))
	dst = appendWords(dst, f.shingles)
	for _, list := range [][]uint32{f.names, f.words} {
		for _, v := range list {
			dst = binary.LittleEndian.AppendUint32(dst, v)
		}
	}
	return dst
}

// parse reads what appendFeatures wrote.
func (f *features) parse(b []byte) error {
	broken := errors.New("near duplicates: the features of a document are damaged; make the signatures again")
	if len(b) < 16 {
		return broken
	}
	f.fixed = binary.LittleEndian.Uint64(b)
	shingles, names := uint64(binary.LittleEndian.Uint32(b[8:])), uint64(binary.LittleEndian.Uint32(b[12:]))
	b = b[16:]
	if shingles*8+names*4 > uint64(len(b)) || len(b)%4 != 0 {
		return broken
	}
	f.shingles, f.names, f.words = f.shingles[:0], f.names[:0], f.words[:0]
	for range shingles {
		f.shingles = append(f.shingles, binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	for range names {
		f.names = append(f.names, binary.LittleEndian.Uint32(b))
		b = b[4:]
	}
	for len(b) > 0 {
		f.words = append(f.words, binary.LittleEndian.Uint32(b))
		b = b[4:]
	}
	return nil
}

// A Part is a part that was written, open for reading. It is safe for use by
// several goroutines.
type Part struct {
	r      io.ReaderAt
	size   int64
	chunks []chunk
	bands  int
	header [headerBytes]byte
	count  uint64
	sum    uint32
}

type chunk struct {
	at   int64
	n    int
	base uint64 // documents of the chunks before it
}

// OpenPart reads the footer of a part of size bytes.
func OpenPart(r io.ReaderAt, size int64) (*Part, error) {
	broken := func(what string) error {
		return fmt.Errorf("near duplicates: read signatures: %s; the file is damaged or was not written whole: make the signatures again", what)
	}
	if size < headerBytes+tailBytes {
		return nil, broken("too short")
	}
	p := &Part{r: r, size: size}
	if _, err := r.ReadAt(p.header[:], 0); err != nil {
		return nil, fmt.Errorf("near duplicates: read signatures: %w", err)
	}
	var tail [tailBytes]byte
	if _, err := r.ReadAt(tail[:], size-tailBytes); err != nil {
		return nil, fmt.Errorf("near duplicates: read signatures: %w", err)
	}
	if string(p.header[:8]) != partMagic || string(tail[20:]) != partMagic {
		return nil, broken("not a file of signatures")
	}
	p.count = binary.LittleEndian.Uint64(tail[0:])
	chunks := binary.LittleEndian.Uint64(tail[8:])
	p.sum = binary.LittleEndian.Uint32(tail[16:])
	if chunks > uint64(size-headerBytes-tailBytes)/16 {
		return nil, broken("the footer does not fit the file")
	}
	foot := make([]byte, chunks*16, chunks*16+16)
	if _, err := r.ReadAt(foot, size-tailBytes-int64(len(foot))); err != nil {
		return nil, fmt.Errorf("near duplicates: read signatures: %w", err)
	}
	if crc32.Update(crc32.Checksum(p.header[:], castagnoli), castagnoli, append(foot, tail[:16]...)) != p.sum {
		return nil, broken("the checksum is wrong")
	}
	p.bands = int(binary.LittleEndian.Uint32(p.header[8:]))
	if p.bands < 1 || p.bands > 256 {
		return nil, broken("an impossible number of bands")
	}
	var base uint64
	for ; len(foot) >= 16 && uint64(len(p.chunks)) < chunks; foot = foot[16:] {
		c := chunk{at: int64(binary.LittleEndian.Uint64(foot)), n: int(binary.LittleEndian.Uint64(foot[8:])), base: base}
		if c.n < 1 || c.n > chunkDocuments || c.at < headerBytes || c.at+c.columns(p.bands) > size {
			return nil, broken("a chunk does not fit the file")
		}
		base += uint64(c.n)
		p.chunks = append(p.chunks, c)
	}
	if base != p.count {
		return nil, broken("documents are missing")
	}
	return p, nil
}

// Documents is how many documents the part holds.
func (p *Part) Documents() int64 { return int64(p.count) }

// columns is how many bytes of a chunk come before the features.
func (c *chunk) columns(bands int) int64 { return 8 * (int64(c.n)*int64(bands+3) + 1) }

// column reads column i of a chunk into dst: 0 for the orders, 1 for the keys
// of band 0 and so on, and after the bands the digests of names.
func (p *Part) column(c *chunk, i int, dst []uint64, scratch []byte) ([]uint64, []byte, error) {
	size := 8 * c.n
	if cap(scratch) < size {
		scratch = make([]byte, 8*chunkDocuments)
	}
	scratch = scratch[:size]
	if _, err := p.r.ReadAt(scratch, c.at+int64(i)*int64(size)); err != nil {
		return dst, scratch, fmt.Errorf("near duplicates: read signatures: %w", err)
	}
	dst = dst[:0]
	for b := scratch; len(b) > 0; b = b[8:] {
		dst = append(dst, binary.LittleEndian.Uint64(b))
	}
	return dst, scratch, nil
}

// A place is where a document is: part, chunk and row in one number.
type place uint64

func placeOf(part, chunk, row int) place {
	return place(uint64(part)<<44 | uint64(chunk)<<14 | uint64(row))
}

func (p place) split() (part, chunk, row int) {
	return int(p >> 44), int(p >> 14 & (1<<30 - 1)), int(p & (chunkDocuments - 1))
}

// features reads those of one document into f.
func (p *Part) features(chunk, row int, f *features, scratch []byte) ([]byte, error) {
	c := &p.chunks[chunk]
	var b [16]byte
	at := c.at + 8*(int64(c.n)*int64(p.bands+2)+int64(row))
	if _, err := p.r.ReadAt(b[:], at); err != nil {
		return scratch, fmt.Errorf("near duplicates: read features: %w", err)
	}
	from, to := binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
	if left := p.size - c.at - c.columns(p.bands); to < from || to > uint64(left) {
		return scratch, errors.New("near duplicates: read features: the offsets are damaged; make the signatures again")
	}
	size := int(to - from)
	if cap(scratch) < size {
		scratch = make([]byte, size+size/2) // documents are of similar sizes
	}
	scratch = scratch[:size]
	if _, err := p.r.ReadAt(scratch, c.at+c.columns(p.bands)+int64(from)); err != nil {
		return scratch, fmt.Errorf("near duplicates: read features: %w", err)
	}
	return scratch, f.parse(scratch)
}
