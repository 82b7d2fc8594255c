package arrowio

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// A batcher gathers rows into record batches and gives each to emit, which may
// keep none of it.
type batcher struct {
	layout  *layout
	options Options
	builder *array.RecordBuilder
	emit    func(arrow.Record) error

	rows  int   // in the open batch
	bytes int64 // in the open batch
}

func newBatcher(l *layout, schema *arrow.Schema, opt Options, emit func(arrow.Record) error) *batcher {
	return &batcher{layout: l, options: opt, builder: array.NewRecordBuilder(newPool(), schema), emit: emit}
}

// add takes a row, given as a pointer to one. It keeps none of it.
func (b *batcher) add(row any) (err error) {
	defer guard(&err)
	v := reflect.ValueOf(row)
	if v.Kind() != reflect.Pointer || v.Type().Elem() != b.layout.row || v.IsNil() {
		return fmt.Errorf("%w: a row of this stream is a *%v, not %T", ErrType, b.layout.row, row)
	}
	p := v.UnsafePointer()
	size := b.layout.size(p)
	if size > maxRowBytes {
		return fmt.Errorf("%w: it has %d bytes, and a batch at most %d; leave its reasoning out, or export Parquet", ErrRowTooLarge, size, maxRowBytes)
	}
	if b.rows > 0 && b.bytes+size > b.options.BatchBytes {
		if err := b.flush(); err != nil {
			return err
		}
	}
	for i := range b.layout.fields {
		f := &b.layout.fields[i]
		f.append(b.builder.Field(i), unsafe.Add(p, f.offset))
	}
	b.rows++
	b.bytes += size
	if b.rows >= b.options.BatchRows {
		return b.flush()
	}
	return nil
}

// flush ends the open batch. Without rows it does nothing.
func (b *batcher) flush() (err error) {
	defer guard(&err)
	if b.rows == 0 {
		return nil
	}
	record := b.builder.NewRecord()
	defer record.Release()
	b.rows, b.bytes = 0, 0
	return b.emit(record)
}

func (b *batcher) release() { b.builder.Release() }
