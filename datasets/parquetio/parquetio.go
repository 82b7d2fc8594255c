// Package parquetio reads and writes the tables of a dataset as Parquet: typed
// rows in, typed rows out, one declared schema each. It is the only door to
// the Parquet library; nothing else in a dataset's path knows it.
//
//	w, err := parquetio.NewWriter[datasets.Row](file, parquetio.Options{SortedBy: "prompt_id"})
//	err = w.Write(rows) // any number of times
//	err = w.Close()     // w.Rows(), w.Bytes() and w.SHA256() describe the file
//
//	r, err := parquetio.Open[datasets.Row](file, size)
//	for row, err := range r.All() { … }
//
// What it promises:
//   - The same rows, written in the same order in any pieces, give the same
//     bytes, in every process: no time, host or library version is in a file.
//   - Every string in a file is valid UTF-8. What is not is written with
//     U+FFFD in place of the bad bytes; the caller's rows stay as they are.
//   - A nil *string and an empty string stay apart. A nil list and an empty
//     list do not: both are written as an empty list and read back as an empty
//     list that is not nil, save where a field's tag says list,optional.
//   - Row groups are bounded by rows and by bytes, so that memory is, too.
//   - Pages carry checksums. A damaged file is an error that says so, never a
//     panic and never a shorter table.
package parquetio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// SchemaVersion is the version of the tables' declarations, in every file's
// footer under [KeySchema]. Within it columns are only added, and only
// nullable ones.
const SchemaVersion = "1"

// Keys of the footer's metadata.
const (
	KeySchema      = "stillhouse.schema"      // SchemaVersion
	KeyFingerprint = "stillhouse.fingerprint" // Fingerprint of the table's declaration
	KeyFeatures    = "huggingface"            // features as the datasets library declares them
)

// ErrDamaged is what every error about the content of a file wraps: it is not
// Parquet, is cut short, fails a checksum or contradicts itself.
var ErrDamaged = errors.New("damaged Parquet file")

// ErrSchema is what an error about a file with other columns than asked for
// wraps.
var ErrSchema = errors.New("schema mismatch")

// ErrUnsorted is returned by Write for a row that breaks the order which
// Options.SortedBy promises.
var ErrUnsorted = errors.New("row out of order")

// Defaults of Options. The rows keep a group of short rows cheap to skip; the
// bytes keep a group of long ones under the 100 to 300 MB in memory that
// dataset viewers and loaders expect.
const (
	DefaultRowGroupRows  = 10_000
	DefaultRowGroupBytes = 64 << 20
)

// Options of a Writer. The zero value is right for the tables of a version
// whose rows come in no particular order.
type Options struct {
	// RowGroupRows and RowGroupBytes (raw bytes of the rows, before encoding)
	// bound a row group; whichever comes first ends it. 0: the defaults. A
	// single row may be larger than RowGroupBytes and is then a group alone.
	RowGroupRows  int
	RowGroupBytes int64
	// Passing says that the file is read once and then removed: it is packed
	// fast rather than well. Columns whose tag names a codec keep that.
	Passing bool
	// SortedBy names a top-level string column that the rows come ordered by,
	// ascending by bytes. The writer holds the caller to it (ErrUnsorted) and
	// says so in the footer, where readers rely on it.
	SortedBy string
	// Metadata are further key-value pairs of the footer.
	Metadata map[string]string
}

// guard turns a panic of the Parquet library into an error that wraps
// ErrDamaged. Hostile footers and pages reach code there that panics.
func guard(err *error) {
	switch p := recover().(type) {
	case nil:
	case error:
		*err = fmt.Errorf("%w: %w", ErrDamaged, p)
	default:
		*err = fmt.Errorf("%w: %v", ErrDamaged, p)
	}
}

// openFile reads the footer of a file whose every byte is untrusted.
func openFile(reader io.ReaderAt, size int64) (f *parquet.File, err error) {
	defer guard(&err)
	r := markedReaderAt{reader, size}
	var tail [8]byte
	if size < 12 {
		return nil, fmt.Errorf("%w: %d bytes are too few to be a Parquet file", ErrDamaged, size)
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return nil, damaged(err)
	}
	n := int64(tail[0]) | int64(tail[1])<<8 | int64(tail[2])<<16 | int64(tail[3])<<24
	switch magic := string(tail[4:]); {
	case magic == "PARE":
		return nil, fmt.Errorf("%w: the file is encrypted", ErrSchema)
	case magic != "PAR1":
		return nil, fmt.Errorf("%w: it does not end with PAR1; it is cut short or is no Parquet file", ErrDamaged)
	case n > size-12 || n > maxFooterBytes:
		return nil, fmt.Errorf("%w: the footer would be %d bytes in a file of %d", ErrDamaged, n, size)
	}
	if _, err := scanThrift(bufio.NewReader(io.NewSectionReader(r, size-8-n, n)), n); err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	f, err = parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, damaged(err)
	}
	var rows int64
	for i, g := range f.RowGroups() {
		if err := checkCodecs(f.Metadata().RowGroups[i].Columns); err != nil {
			return nil, err
		}
		if g.NumRows() < 0 {
			return nil, fmt.Errorf("%w: row group %d has %d rows", ErrDamaged, i, g.NumRows())
		}
		rows += g.NumRows()
	}
	if rows != f.NumRows() {
		return nil, fmt.Errorf("%w: the footer counts %d rows, its row groups %d", ErrDamaged, f.NumRows(), rows)
	}
	return f, nil
}

// checkCodecs refuses LZ4. In v0.32.0 of the library compress/lz4 decompresses
// into a buffer of its own where the page's is smaller than three times the
// compressed size, and Column.decompress drops that buffer where its length is
// as expected, so that other bytes would be read. On damaged data it doubles
// the buffer for ever.
func checkCodecs(columns []format.ColumnChunk) error {
	for i := range columns {
		switch codec := columns[i].MetaData.Codec; codec {
		case format.Lz4Raw, format.Lz4:
			return fmt.Errorf("%w: it is compressed with %s, which can't be read; write it anew with zstd or snappy", ErrSchema, codec)
		}
	}
	return nil
}

// damaged marks what the library complains of as damage, except for errors
// that came from reading (a context that ended, a connection that broke).
func damaged(err error) error {
	if err == nil || errors.Is(err, ErrDamaged) || errors.Is(err, ErrSchema) {
		return err
	}
	var read *readError
	if errors.As(err, &read) {
		return read.err
	}
	return fmt.Errorf("%w: %s", ErrDamaged, strings.TrimSpace(err.Error()))
}

// A readError marks an error of the underlying reader on its way through the
// library, which would otherwise look like damage.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// markedReaderAt is the reader that the library gets: it marks the reader's own
// errors, and takes offsets outside of the file for what they are.
type markedReaderAt struct {
	r    io.ReaderAt
	size int64
}

func (m markedReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > m.size {
		return 0, fmt.Errorf("offset %d is outside of the file", off)
	}
	n, err := m.r.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = &readError{err}
	}
	return n, err
}
