package teachers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode"
)

// ClassExpired is a row that its batch's window passed over: it was not paid
// for and may be sent again.
const ClassExpired = "expired"

// ClassMismatch is an answer from another model than was asked.
const ClassMismatch = "model_mismatch"

// A BatchRow is one line of a file of results. Its slices are good until the
// next line is read.
type BatchRow struct {
	Line      int // from 1
	CustomID  string
	Status    int // of the row's own request; 0 where it was never sent
	RequestID string
	Format    string // of Body, for Parse
	Body      []byte // the response body, as it came; nil for a row without an answer
	Failure   *Error // why there is no answer
	Raw       []byte // the whole line
}

func (r *BatchRow) fail(class, words string) {
	r.Failure = &Error{Class: class, Status: r.Status, Excerpt: words}
	r.Body = nil
}

// ErrCutLine is the last line of a file that ends in the middle of a row.
var ErrCutLine = errors.New("the file of results ends in the middle of a row")

// maxRowOverhead is what a row holds beside its answer, in bytes.
const maxRowOverhead = 1 << 20

// Read takes a file of results apart, line by line, in the order of the file.
// A line that cannot be read is a row without a custom id. A last line that is
// cut is ErrCutLine, after all rows before it. An error of each ends reading.
func (b *BatchClient) Read(r io.Reader, each func(*BatchRow) error) error {
	_, format := b.client.dialect.formats()
	secrets := b.secrets()
	return readBatch(b.form, format, r, b.client.limits.MaxBytes+maxRowOverhead, func(row *BatchRow) error {
		secrets.cleanRow(row)
		if row.Failure != nil {
			row.Failure.Excerpt = secrets.excerpt(row.Failure.Excerpt)
			row.Failure.Teacher = b.client.config.name()
		}
		return each(row)
	})
}

func readBatch(form batchForm, format string, r io.Reader, max int64, each func(*BatchRow) error) error {
	lines := lineReader{r: bufio.NewReaderSize(r, 256<<10), max: max}
	for n := 1; ; n++ {
		line, ended, err := lines.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		line = bytes.TrimFunc(line, unicode.IsSpace)
		if len(line) == 0 && !lines.tooLong {
			continue
		}
		row := BatchRow{Line: n, Format: format, Raw: line}
		switch {
		case lines.tooLong:
			readRow(form, line, &row) // whose it is stands at the beginning
			row.fail(ClassTooLarge, "a row is larger than limits.max_bytes")
		case !wholeValue(line):
			if !ended {
				return ErrCutLine
			}
			row.fail(ClassMalformed, "a row is not JSON")
		default:
			readRow(form, line, &row)
		}
		if err := each(&row); err != nil {
			return err
		}
	}
}

// readRow takes a row apart. A fault of ours costs one row.
func readRow(form batchForm, line []byte, row *BatchRow) {
	defer func() {
		if r := recover(); r != nil {
			row.fail(ClassMalformed, fmt.Sprintf("the row cannot be read; that is a fault of this program (%v)", r))
		}
	}()
	form.read(line, row)
}

// wholeValue tells whether a line is one JSON object and nothing else.
func wholeValue(line []byte) bool {
	end, err := skipValue(line, 0, 0)
	return err == nil && end == len(line) && line[0] == '{'
}

// A lineReader reads lines of bounded length: of a longer one the beginning.
type lineReader struct {
	r       *bufio.Reader
	max     int64
	buf     []byte
	tooLong bool // the line that was read last
}

// next is the next line without its end; ended tells whether it had one. The
// error is io.EOF after the last line.
func (l *lineReader) next() (line []byte, ended bool, err error) {
	l.buf, l.tooLong = l.buf[:0], false
	for {
		piece, err := l.r.ReadSlice('\n')
		if room := l.max - int64(len(l.buf)); int64(len(piece)) > room {
			l.tooLong = true
			piece = piece[:room]
		}
		l.buf = append(l.buf, piece...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(l.buf, []byte{'\n'}), true, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && (len(l.buf) > 0 || l.tooLong):
			return l.buf, false, nil
		default:
			return nil, false, err
		}
	}
}
