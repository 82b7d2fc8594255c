package arrowio

import (
	"bufio"
	"bytes"
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
	after   func() error // each batch
	finish  func() error // the stream
	bytes   func() int64
	rows    int64
	closed  bool
	err     error
}

// writeBytes is what goes to the underlying writer at a time.
const writeBytes = 256 << 10

// NewWriter starts a stream of rows of a struct type on w. It writes nothing
// before the first batch is full, or Close.
func NewWriter(w io.Writer, row reflect.Type, opt Options) (*Writer, error) {
	out := &tail{w: w}
	buffer := bufio.NewWriterSize(out, writeBytes)
	s := &Writer{
		after: buffer.Flush,
		finish: func() error {
			if err := buffer.Flush(); err != nil {
				return err
			}
			return out.end()
		},
		bytes: func() int64 { return out.n },
	}
	return s.start(row, opt, func(schema *arrow.Schema) *ipc.Writer { return ipc.NewWriter(buffer, ipc.WithSchema(schema)) })
}

// NewMessages starts a stream whose messages, the schema's first, go to send:
// the header and the body of each as Arrow Flight wants them. Send keeps
// neither. Such a stream has no mark of its end: what carries it says whether
// it is whole.
func NewMessages(row reflect.Type, opt Options, send func(header, body []byte) error) (*Writer, error) {
	out := &payloads{send: send}
	nothing := func() error { return nil }
	s := &Writer{after: nothing, finish: nothing, bytes: func() int64 { return out.n }}
	return s.start(row, opt, func(schema *arrow.Schema) *ipc.Writer {
		return ipc.NewWriterWithPayloadWriter(out, ipc.WithSchema(schema))
	})
}

func (s *Writer) start(row reflect.Type, opt Options, stream func(*arrow.Schema) *ipc.Writer) (*Writer, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	l, err := layoutOf(row)
	if err != nil {
		return nil, err
	}
	schema := l.described(opt.Metadata)
	s.stream = stream(schema)
	s.batches = newBatcher(l, schema, opt, s.batch)
	return s, nil
}

// Schema is a stream of the rows' schema without a row, which is how Arrow
// Flight tells of one.
func Schema(row reflect.Type, opt Options) ([]byte, error) {
	var out bytes.Buffer
	w, err := NewWriter(&out, row, opt)
	if err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// batch writes one record batch.
func (s *Writer) batch(record arrow.Record) error {
	if err := s.stream.Write(record); err != nil {
		return err
	}
	return s.after()
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
	return s.finish()
}

// Rows counts the rows that Write took.
func (s *Writer) Rows() int64 { return s.rows }

// Bytes is what has gone out: the size of the stream, once it is closed.
func (s *Writer) Bytes() int64 { return s.bytes() }

// described is the schema with metadata, in the order of its keys.
func (l *layout) described(metadata map[string]string) *arrow.Schema {
	keys, values := []string{featuresKey}, []string{l.features()}
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		keys, values = append(keys, k), append(values, metadata[k])
	}
	m := arrow.NewMetadata(keys, values)
	return arrow.NewSchema(arrowFields(l.fields), &m)
}
