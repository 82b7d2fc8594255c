package answers

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"sync/atomic"
)

// A key file is a local extract of a segment: for every row, in order, the key
// and what the serving rule and the record cache need. It is searched on disk,
// so that memory does not grow with the number of answers.
//
//	rows × { key [32], cap uint64, started int64 µs, crc uint32 of the record, kind uint8 }
//	count uint64, crc uint32 of all before, magic "SHK1"
//
// All numbers are little-endian.
const (
	keyEntryBytes   = 32 + 8 + 8 + 4 + 1
	keyTrailerBytes = 8 + 4 + 4
	keyBlock        = 64 // entries read at once
	keyMagic        = "SHK1"
)

// A keyRow is what is known of a row without reading its record.
type keyRow struct {
	cap     int64
	started int64 // microseconds since 1970
	crc     uint32
	kind    kind
}

type keyWriter struct {
	buf   *bufio.Writer
	sum   hash.Hash32
	count uint64
}

func newKeyWriter(w io.Writer) *keyWriter {
	sum := crc32.New(castagnoli)
	return &keyWriter{buf: bufio.NewWriterSize(io.MultiWriter(w, sum), 16<<10), sum: sum}
}

func (w *keyWriter) add(key Key, row keyRow) error {
	w.count++
	entry := w.buf.AvailableBuffer()
	entry = append(entry, key[:]...)
	entry = binary.LittleEndian.AppendUint64(entry, uint64(row.cap))
	entry = binary.LittleEndian.AppendUint64(entry, uint64(row.started))
	entry = binary.LittleEndian.AppendUint32(entry, row.crc)
	entry = append(entry, byte(row.kind))
	_, err := w.buf.Write(entry)
	return err
}

func (w *keyWriter) close() error {
	var count [8]byte
	binary.LittleEndian.PutUint64(count[:], w.count)
	w.buf.Write(count[:])
	if err := w.buf.Flush(); err != nil {
		return fmt.Errorf("write key file: %w", err)
	}
	w.buf.Write(binary.LittleEndian.AppendUint32(nil, w.sum.Sum32()))
	w.buf.WriteString(keyMagic)
	if err := w.buf.Flush(); err != nil {
		return fmt.Errorf("write key file: %w", err)
	}
	return nil
}

func parseKeyRow(entry []byte) keyRow {
	return keyRow{
		cap:     int64(binary.LittleEndian.Uint64(entry[32:])),
		started: int64(binary.LittleEndian.Uint64(entry[40:])),
		crc:     binary.LittleEndian.Uint32(entry[48:]),
		kind:    kind(entry[52]),
	}
}

var errKeyFile = errors.New("damaged key file")

// A keyFile is an open key file. It is safe for concurrent use.
type keyFile struct {
	file   *os.File
	rows   int64
	min    Key
	max    Key
	filter *keyFilter // nil: memory for filters is used up
}

// openKeyFile opens a key file and checks all of it, once; what is damaged or
// does not fit the segment is an error that wraps errKeyFile. filters is the
// memory left for filters, in bytes.
func openKeyFile(path string, ref segmentRef, filters *atomic.Int64) (k *keyFile, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	body := ref.Rows * keyEntryBytes
	if info.Size() != body+keyTrailerBytes {
		return nil, fmt.Errorf("%w %s: %d bytes, want %d", errKeyFile, path, info.Size(), body+keyTrailerBytes)
	}
	sum := crc32.New(castagnoli)
	filter := newKeyFilter(ref.Rows, filters)
	defer func() {
		if err != nil {
			filter.close()
		}
	}()
	if err := readKeys(io.TeeReader(io.NewSectionReader(f, 0, body+8), sum), ref.Rows, filter); err != nil {
		return nil, fmt.Errorf("read key file %s: %w", path, err)
	}
	var trailer [keyTrailerBytes]byte
	if _, err := f.ReadAt(trailer[:], body); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint64(trailer[:]) != uint64(ref.Rows) ||
		binary.LittleEndian.Uint32(trailer[8:]) != sum.Sum32() ||
		string(trailer[12:]) != keyMagic {
		return nil, fmt.Errorf("%w %s: its trailer does not match", errKeyFile, path)
	}
	return &keyFile{file: f, rows: ref.Rows, min: parseKey(ref.Min), max: parseKey(ref.Max), filter: filter}, nil
}

// readKeys reads r to its end and adds the keys of its rows to the filter.
func readKeys(r io.Reader, rows int64, filter *keyFilter) error {
	if filter == nil {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	in := bufio.NewReaderSize(r, keyBlock*keyEntryBytes)
	for range rows {
		entry, err := in.Peek(keyEntryBytes)
		if err != nil {
			return noEOF(err)
		}
		filter.add(entry[:32])
		_, _ = in.Discard(keyEntryBytes)
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

func (k *keyFile) close() {
	k.filter.close()
	k.file.Close()
}

var keyBlocks = sync.Pool{New: func() any { return new([keyBlock * keyEntryBytes]byte) }}

// find calls visit with each row of the key, in order, until it returns false.
func (k *keyFile) find(key Key, visit func(row int64, r keyRow) bool) error {
	if bytes.Compare(key[:], k.min[:]) < 0 || bytes.Compare(key[:], k.max[:]) > 0 || !k.filter.mayHold(&key) {
		return nil
	}
	buf := keyBlocks.Get().(*[keyBlock * keyEntryBytes]byte)
	defer keyBlocks.Put(buf)
	row, block, err := k.lowerBound(key, buf[:])
	if err != nil {
		return err
	}
	for {
		for len(block) > 0 {
			if Key(block[:32]) != key || !visit(row, parseKeyRow(block)) {
				return nil
			}
			row++
			block = block[keyEntryBytes:]
		}
		if row >= k.rows {
			return nil
		}
		if block, err = k.block(row, buf[:]); err != nil {
			return err
		}
	}
}

// block reads the entries from a row on, as many as buf holds.
func (k *keyFile) block(row int64, buf []byte) ([]byte, error) {
	n := min(k.rows-row, keyBlock)
	block := buf[:n*keyEntryBytes]
	if _, err := k.file.ReadAt(block, row*keyEntryBytes); err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	return block, nil
}

// lowerBound is the first row whose key is not below the given one, and the
// entries from there on that have been read (none where it lies at the end).
// Keys are hashes, so interpolation lands within a few blocks; after some steps
// without luck it halves, whatever the keys are.
func (k *keyFile) lowerBound(key Key, buf []byte) (int64, []byte, error) {
	lo, hi := int64(0), k.rows // the bound is in [lo, hi]
	low, high := prefix(k.min), prefix(k.max)
	want := prefix(key)
	for step := 0; lo < hi; step++ {
		guess := lo + (hi-lo)/2
		if step < 8 && high > low {
			guess = lo + int64((want-low)/(high-low)*float64(hi-lo))
		}
		start := min(max(guess-keyBlock/2, lo), max(hi-keyBlock, lo))
		block, err := k.block(start, buf)
		if err != nil {
			return 0, nil, err
		}
		n := len(block) / keyEntryBytes
		first, last := Key(block[:32]), Key(block[(n-1)*keyEntryBytes:][:32])
		switch {
		case bytes.Compare(last[:], key[:]) < 0:
			lo, low = start+int64(n), prefix(last)
		case start > lo && bytes.Compare(first[:], key[:]) >= 0:
			hi, high = start, prefix(first)
		default:
			i := 0
			for bytes.Compare(block[i*keyEntryBytes:][:32], key[:]) < 0 {
				i++
			}
			return start + int64(i), block[i*keyEntryBytes:], nil
		}
		want = min(max(want, low), high)
	}
	return lo, nil, nil
}

// prefix is the key's first 8 bytes as a number.
func prefix(k Key) float64 { return float64(binary.BigEndian.Uint64(k[:8])) }
