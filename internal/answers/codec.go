package answers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"time"
)

// The first byte of a record in a journal is its version. A reader refuses
// versions that it doesn't know: dropping them would lose paid answers.
const (
	recordVersion = 1 // without a ledger, as most are
	ledgerVersion = 2 // with the ledger before Raw
)

// maxRecordBytes bounds a record in a journal, before and after compression.
const maxRecordBytes = 256 << 20

var (
	errRecord        = errors.New("damaged record")
	errRecordVersion = errors.New("record of a newer version of this program")
)

// normal is a copy of the record as every later reader will see it: times
// rounded to what the columns hold, texts valid UTF-8, nothing as nil.
func (r *Record) normal() *Record {
	n := *r
	n.Started = time.UnixMicro(micros(r.Started)).UTC()
	n.TTFT = r.TTFT.Truncate(time.Millisecond)
	n.Latency = r.Latency.Truncate(time.Millisecond)
	for _, text := range []*string{&n.ID, &n.Teacher, &n.Model, &n.Finish, &n.Format, &n.ErrorClass, &n.ErrorText, &n.Ledger} {
		*text = valid(*text)
	}
	if n.Finish == purgedFinish {
		n.Finish = purgedFormat // only a purge makes tombstones
	}
	n.Headers = nil
	if len(r.Headers) > 0 {
		n.Headers = make(map[string]string, len(r.Headers))
		for name, value := range r.Headers {
			n.Headers[valid(name)] = valid(value)
		}
	}
	if len(r.Raw) == 0 {
		n.Raw = nil
	}
	return &n
}

// valid keeps text columns readable: some readers refuse a whole file for one
// byte that is not UTF-8. Raw is bytes and stays as it is.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// micros is t since 1970; the zero time, which is long before, is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// size is about what the record takes in memory.
func (r *Record) size() int64 {
	n := 400 + len(r.Raw) + len(r.ErrorText) + len(r.ID) + len(r.Ledger)
	for k, v := range r.Headers {
		n += len(k) + len(v) + 32
	}
	return int64(n)
}

// appendRecord appends the record as a journal holds it, before compression.
func appendRecord(dst []byte, r *Record) []byte {
	return appendText(appendHead(dst, r), r.Raw)
}

// appendHead appends all but Raw.
func appendHead(dst []byte, r *Record) []byte {
	if r.Ledger == "" {
		dst = append(dst, recordVersion)
	} else {
		dst = append(dst, ledgerVersion)
	}
	dst = appendText(dst, r.Endpoint)
	dst = append(dst, r.Key[:]...)
	dst = appendText(dst, r.ID)
	dst = binary.AppendVarint(dst, r.Cap)
	dst = binary.AppendVarint(dst, int64(r.Sample))
	dst = appendText(dst, r.Teacher)
	dst = appendText(dst, r.Model)
	if r.Complete {
		dst = append(dst, 1)
	} else {
		dst = append(dst, 0)
	}
	dst = appendText(dst, r.Finish)
	dst = appendText(dst, r.Format)
	dst = binary.AppendVarint(dst, int64(r.Status))
	dst = binary.AppendUvarint(dst, uint64(len(r.Headers)))
	names := make([]string, 0, len(r.Headers))
	for name := range r.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		dst = appendText(dst, name)
		dst = appendText(dst, r.Headers[name])
	}
	dst = binary.AppendVarint(dst, micros(r.Started))
	dst = binary.AppendVarint(dst, r.TTFT.Milliseconds())
	dst = binary.AppendVarint(dst, r.Latency.Milliseconds())
	dst = binary.AppendVarint(dst, int64(r.Attempts))
	dst = appendText(dst, r.ErrorClass)
	dst = appendText(dst, r.ErrorText)
	if r.Ledger != "" {
		dst = appendText(dst, r.Ledger)
	}
	return dst
}

// checksum is the CRC-32C of the whole record. It tells records apart that
// share key, cap and time, and tells whether one was read right.
func (r *Record) checksum() uint32 {
	buf := payloads.Get().(*[]byte)
	defer payloads.Put(buf)
	*buf = appendHead((*buf)[:0], r)
	return crc32.Update(crc32.Checksum(*buf, castagnoli), castagnoli, r.Raw)
}

func appendText[T string | []byte](dst []byte, s T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// decodeRecord reads what appendRecord wrote. The record keeps no part of data.
func decodeRecord(data []byte) (*Record, error) {
	d := decoder{rest: data}
	version := d.byte()
	switch {
	case d.failed:
		return nil, fmt.Errorf("%w: it is empty", errRecord)
	case version != recordVersion && version != ledgerVersion:
		return nil, fmt.Errorf("%w: %d, this one knows %d", errRecordVersion, version, ledgerVersion)
	}
	r := new(Record)
	r.Endpoint = d.text()
	copy(r.Key[:], d.take(uint64(len(r.Key))))
	r.ID = d.text()
	r.Cap = d.varint()
	r.Sample = int(d.varint())
	r.Teacher = d.text()
	r.Model = d.text()
	r.Complete = d.byte() != 0
	r.Finish = d.text()
	r.Format = d.text()
	r.Status = int(d.varint())
	r.Headers = d.headers()
	r.Started = time.UnixMicro(d.varint()).UTC()
	r.TTFT = d.millis()
	r.Latency = d.millis()
	r.Attempts = int32(d.varint())
	r.ErrorClass = d.text()
	r.ErrorText = d.text()
	if version == ledgerVersion {
		r.Ledger = d.text()
	}
	if raw := d.take(d.uvarint()); len(raw) > 0 {
		r.Raw = slices.Clone(raw)
	}
	if d.failed {
		return nil, fmt.Errorf("%w: it ends too early", errRecord)
	}
	if len(d.rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes too many", errRecord, len(d.rest))
	}
	if err := r.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", errRecord, err)
	}
	return r, nil
}

// A decoder reads from rest; after the first failure everything is zero.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) fail() {
	d.failed = true
	d.rest = nil
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) text() string { return string(d.take(d.uvarint())) }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) millis() time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(d.varint(), -most), most)) * time.Millisecond
}

func (d *decoder) headers() map[string]string {
	n := d.uvarint()
	if n == 0 {
		return nil
	}
	if n > uint64(len(d.rest))/2 { // a pair takes at least two bytes
		d.fail()
		return nil
	}
	m := make(map[string]string, n)
	for range n {
		name := d.text()
		m[name] = d.text()
	}
	return m
}
