package sources

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
)

// A format is how a file holds rows.
type format int

const (
	formatJSONL format = iota
	formatJSON
	formatCSV
	formatParquet
)

// Formats names the file formats that are read, for messages.
const Formats = ".jsonl, .ndjson, .json, .csv, .parquet, .jsonl.gz, .ndjson.gz, .csv.gz"

func formatOf(name string) (format, error) {
	base := strings.ToLower(filepath.Base(name))
	plain, zipped := strings.CutSuffix(base, ".gz")
	switch ext := filepath.Ext(plain); {
	case ext == ".jsonl" || ext == ".ndjson":
		return formatJSONL, nil
	case ext == ".csv":
		return formatCSV, nil
	case ext == ".json" && !zipped:
		return formatJSON, nil
	case ext == ".parquet" && !zipped:
		return formatParquet, nil
	}
	return 0, fmt.Errorf("%s is of no known format; use one of %s", filepath.Base(name), Formats)
}

// Rows reads a file row by row, holding one row at a time. A row that cannot
// be read is a *[RowError], and iteration goes on after it; any other error
// ends it: a *[FileError] where the file is at fault. The format comes from the
// file's name:
//
//   - .jsonl, .ndjson: one object a line; blank lines do not count
//   - .json: an array of objects
//   - .csv: a header line, then records, comma separated (RFC 4180); all values
//     are texts; columns without a name are left out
//   - .parquet: through Options.OpenParquet
//
// Lines and records may be compressed as .gz. Text is UTF-8, with or without a
// byte order mark; lines end in LF or CRLF.
func Rows(ctx context.Context, f File, o Options) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		var way lostBytes
		err := rows(ctx, way.watch(f), o, yield)
		switch {
		case err == nil || errors.Is(err, errStopped):
		case ctx.Err() != nil || way.lost:
			yield(Row{}, fmt.Errorf("read %s: %w", f.Name, err))
		default:
			yield(Row{}, &FileError{"read", f.Name, err})
		}
	}
}

// lostBytes notes whether a file's bytes could not be had: what fails then is
// the way to the file and not the file.
type lostBytes struct{ lost bool }

// watch gives the same file with both of its readers watched.
func (l *lostBytes) watch(f File) File {
	open, openAt := f.Open, f.OpenAt
	f.Open = func(ctx context.Context) (io.ReadCloser, error) {
		r, err := open(ctx)
		l.note(err)
		return &watchedReader{r, l}, err
	}
	if openAt == nil {
		return f
	}
	f.OpenAt = func(ctx context.Context) (io.ReaderAt, func() error, error) {
		r, closeFile, err := openAt(ctx)
		l.note(err)
		return &watchedReaderAt{r, l}, closeFile, err
	}
	return f
}

func (l *lostBytes) note(err error) {
	if err != nil && !errors.Is(err, io.EOF) {
		l.lost = true
	}
}

type watchedReader struct {
	io.ReadCloser
	way *lostBytes
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.way.note(err)
	return n, err
}

type watchedReaderAt struct {
	io.ReaderAt
	way *lostBytes
}

func (w *watchedReaderAt) ReadAt(p []byte, off int64) (int, error) {
	n, err := w.ReaderAt.ReadAt(p, off)
	w.way.note(err)
	return n, err
}

// errStopped says that the caller left the loop.
var errStopped = errors.New("stopped")

type yieldFunc = func(Row, error) bool

func rows(ctx context.Context, f File, o Options, yield yieldFunc) error {
	form, err := formatOf(f.Name)
	if err != nil {
		return err
	}
	if o.MaxLine <= 0 {
		o.MaxLine = MaxLine
	}
	if form == formatParquet {
		return parquetRows(ctx, f, o, yield)
	}
	r, err := f.Open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	text, err := plainText(r, f.Name)
	if err != nil {
		return err
	}
	e := emitter{ctx: ctx, name: f.Name, yield: yield}
	switch form {
	case formatJSON:
		return jsonRows(&e, text, o.MaxLine)
	case formatCSV:
		return csvRows(&e, &lines{r: text, max: o.MaxLine})
	}
	return jsonlRows(&e, &lines{r: text, max: o.MaxLine})
}

// plainText undoes compression and drops the byte order mark.
func plainText(r io.Reader, name string) (*bufio.Reader, error) {
	const buffer = 64 << 10
	if strings.HasSuffix(strings.ToLower(name), ".gz") {
		z, err := gzip.NewReader(bufio.NewReaderSize(r, buffer))
		if err != nil {
			return nil, fmt.Errorf("is not gzip: %w", err)
		}
		r = z
	}
	text := bufio.NewReaderSize(r, buffer)
	if head, _ := text.Peek(3); string(head) == "\uFEFF" {
		_, _ = text.Discard(3) // they have been peeked at
	}
	return text, nil
}

// An emitter hands rows to the caller.
type emitter struct {
	ctx   context.Context
	name  string
	yield yieldFunc
}

// row hands over one row, or what is wrong with it.
func (e *emitter) row(where string, values map[string]any, reason error) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	var row Row
	var fault error
	if reason != nil {
		fault = &RowError{Where: where, Reason: reason.Error()}
	} else {
		row = Row{Where: where, Values: values}
	}
	if !e.yield(row, fault) {
		return errStopped
	}
	return nil
}

// lines reads lines of bounded length.
type lines struct {
	r   *bufio.Reader
	max int
	n   int // of the line that was read last, from 1
	buf []byte
}

var errTooLong = errors.New("too long")

// next returns the next line without its end, valid until the next call;
// io.EOF after the last; errTooLong for one that is larger than max, which is
// then skipped without being held.
func (l *lines) next() ([]byte, error) {
	l.n++
	l.buf = l.buf[:0]
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		if !tooLong && len(l.buf)+len(part) > l.max+2 {
			tooLong, l.buf = true, nil
		}
		switch {
		case err == nil && len(l.buf) == 0 && !tooLong:
			return trimEnd(part), nil // the usual case: no copy
		case !tooLong:
			l.buf = append(l.buf, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		switch line := trimEnd(l.buf); {
		case tooLong:
			return nil, errTooLong
		case err != nil && len(l.buf) == 0:
			return nil, io.EOF
		default:
			return line, nil
		}
	}
}

func trimEnd(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}

func (l *lines) tooLong() error {
	return fmt.Errorf("the line is larger than %d bytes; shorten it or split the file", l.max)
}

var errNotUTF8 = errors.New("holds bytes that are not UTF-8; save the file as UTF-8")

func jsonlRows(e *emitter, l *lines) error {
	for {
		line, err := l.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errTooLong):
			err = e.row(where(e.name, l.n), nil, l.tooLong())
		case err != nil:
			return fmt.Errorf("after line %d: %w", l.n-1, err)
		case isBlank(line):
		default:
			values, reason := parseObject(line)
			err = e.row(where(e.name, l.n), values, reason)
		}
		if err != nil {
			return err
		}
	}
}

func isBlank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

// parseObject reads one object from bytes that may change afterwards.
func parseObject(b []byte) (map[string]any, error) {
	if !utf8.Valid(b) {
		return nil, errNotUTF8
	}
	v, err := parseJSON(string(b))
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	values, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("is %s, want an object with fields", kindOf(v))
	}
	return values, nil
}
