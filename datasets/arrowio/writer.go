package arrowio

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
)

// A Writer writes rows of one type as an IPC stream. It is for one goroutine.
type Writer struct {
	batches *batcher
	stream  *ipc.Writer
	buffer  *bufio.Writer
	out     *tail
	rows    int64
	closed  bool
	err     error
}

// writeBytes is what goes to the underlying writer at a time.
const writeBytes = 256 << 10

// NewWriter starts a stream of rows of a struct type on w. It writes nothing
// before the first batch is full, or Close.
func NewWriter(w io.Writer, row reflect.Type, opt Options) (*Writer, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	l, err := layoutOf(row)
	if err != nil {
		return nil, err
	}
	schema := l.described(opt.Metadata)
	out := &tail{w: w}
	buffer := bufio.NewWriterSize(out, writeBytes)
	s := &Writer{buffer: buffer, out: out, stream: ipc.NewWriter(buffer, ipc.WithSchema(schema))}
	s.batches = newBatcher(l, schema, opt, s.batch)
	return s, nil
}

// batch writes one record batch.
func (s *Writer) batch(record arrow.Record) error {
	if err := s.stream.Write(record); err != nil {
		return err
	}
	return s.buffer.Flush()
}

// Write appends a row, given as a pointer to one. It keeps none of it. After
// an error every later call returns the same.
func (s *Writer) Write(row any) error {
	if s.err == nil && s.closed {
		s.err = errors.New("write to a closed Arrow stream")
	}
	if s.err != nil {
		return s.err
	}
	if s.err = s.batches.add(row); s.err == nil {
		s.rows++
	}
	return s.err
}

// Close ends the stream: the last batch and the mark that readers take for its
// end. A stream that is not closed, because its rows ended with an error, is
// one that readers refuse.
func (s *Writer) Close() (err error) {
	if s.closed || s.err != nil {
		return s.err
	}
	defer func() {
		s.batches.release()
		s.closed, s.err = true, err
	}()
	defer guard(&err)
	if err := s.batches.flush(); err != nil {
		return err
	}
	if err := s.stream.Close(); err != nil {
		return err
	}
	if err := s.buffer.Flush(); err != nil {
		return err
	}
	return s.out.end()
}

// Rows counts the rows that Write took.
func (s *Writer) Rows() int64 { return s.rows }

// Bytes is the size of the stream, once it is closed.
func (s *Writer) Bytes() int64 { return s.out.n }

// described is the schema with metadata, in the order of its keys.
func (l *layout) described(metadata map[string]string) *arrow.Schema {
	keys, values := []string{featuresKey}, []string{l.features()}
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		keys, values = append(keys, k), append(values, metadata[k])
	}
	m := arrow.NewMetadata(keys, values)
	return arrow.NewSchema(arrowFields(l.fields), &m)
}
