// Package arrowio writes typed rows as Arrow: record batches in the IPC
// streaming format, which pyarrow, polars, DuckDB and Hugging Face datasets
// read without decoding a page, and, in its package flight, over the network.
// It is the only door to the Arrow library; nothing of that library is in its
// exported names, so that moving to a later one is a change of this package
// alone. Arrow's Parquet code is not used: parquetio reads and writes those.
//
//	w, err := arrowio.NewWriter(file, reflect.TypeFor[views.Conversation](), arrowio.Options{})
//	err = w.Write(&row) // any number of times
//	err = w.Close()     // w.Rows() and w.Bytes() describe the stream
//
// What it promises:
//   - The columns come from the row's type, by the same parquet tags that
//     parquetio reads, and never depend on what the rows hold.
//   - The same rows give the same bytes, however they are cut into writes.
//   - Every string is valid UTF-8. What is not is written with U+FFFD in its
//     place, as parquetio does.
//   - Batches are bounded by rows and by bytes, far below the 2 GiB that the
//     offsets of an Arrow column can count.
//   - A stream that was not closed is refused by every reader: there is no
//     moment at which what has gone out looks like a shorter stream.
package arrowio

import (
	"errors"
	"fmt"
	"math"
)

// Errors that callers branch on.
var (
	// ErrType: a row's Go type has a part that no Arrow column holds.
	ErrType = errors.New("type has no Arrow columns")
	// ErrRowTooLarge: one row holds more than the offsets of a batch can count.
	ErrRowTooLarge = errors.New("row is too large for Arrow")
	// ErrStream is what every error wraps that comes from the library while it
	// makes a batch, and not from writing it.
	ErrStream = errors.New("make an Arrow stream")
)

// Defaults of Options. A thousand rows are what Hugging Face datasets writes
// at a time; the bytes keep a batch of long ones cheap to hold and to send.
const (
	DefaultBatchRows  = 1000
	DefaultBatchBytes = 16 << 20

	// maxBatchBytes is the most that may be asked for. Offsets count 2 GiB.
	maxBatchBytes = 1 << 30
	// maxRowBytes is the most that one row may hold; it is a batch alone.
	maxRowBytes = math.MaxInt32 - 1<<20
)

// Options of a stream. The zero value is right for files and pipes.
type Options struct {
	// BatchRows and BatchBytes (bytes of the rows' values) bound a batch;
	// whichever comes first ends it. 0: the defaults. A single row may be
	// larger than BatchBytes, up to almost 2 GiB, and is then a batch alone.
	BatchRows  int
	BatchBytes int64
	// Metadata are further key-value pairs of the schema.
	Metadata map[string]string
}

func (o Options) withDefaults() (Options, error) {
	if o.BatchRows == 0 {
		o.BatchRows = DefaultBatchRows
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = DefaultBatchBytes
	}
	if o.BatchRows < 0 || o.BatchBytes < 0 || o.BatchBytes > maxBatchBytes {
		return o, fmt.Errorf("batches of %d rows and %d bytes: want at least 1, and at most %d bytes", o.BatchRows, o.BatchBytes, maxBatchBytes)
	}
	return o, nil
}

// guard turns a panic of the Arrow library into an error that wraps ErrStream.
func guard(err *error) {
	switch p := recover().(type) {
	case nil:
	case error:
		*err = fmt.Errorf("%w: %w", ErrStream, p)
	default:
		*err = fmt.Errorf("%w: %v", ErrStream, p)
	}
}
