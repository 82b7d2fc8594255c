package arrowio

import (
	"reflect"
	"time"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// scalars are the codecs of plain kinds.
var scalars = map[reflect.Kind]codec{
	reflect.String: {
		typ:    arrow.BinaryTypes.String,
		append: func(b array.Builder, p unsafe.Pointer) { b.(*array.StringBuilder).Append(valid(*(*string)(p))) },
		// A byte that is no UTF-8 becomes three.
		size: func(p unsafe.Pointer) int64 { return slotBytes + int64(len(valid(*(*string)(p)))) },
	},
	reflect.Bool: {
		typ:    arrow.FixedWidthTypes.Boolean,
		append: func(b array.Builder, p unsafe.Pointer) { b.(*array.BooleanBuilder).Append(*(*bool)(p)) },
		size:   func(unsafe.Pointer) int64 { return 1 },
	},
	reflect.Int8:    fixed[int8](arrow.PrimitiveTypes.Int8),
	reflect.Int16:   fixed[int16](arrow.PrimitiveTypes.Int16),
	reflect.Int32:   fixed[int32](arrow.PrimitiveTypes.Int32),
	reflect.Int64:   fixed[int64](arrow.PrimitiveTypes.Int64),
	reflect.Uint8:   fixed[uint8](arrow.PrimitiveTypes.Uint8),
	reflect.Uint16:  fixed[uint16](arrow.PrimitiveTypes.Uint16),
	reflect.Uint32:  fixed[uint32](arrow.PrimitiveTypes.Uint32),
	reflect.Uint64:  fixed[uint64](arrow.PrimitiveTypes.Uint64),
	reflect.Float32: fixed[float32](arrow.PrimitiveTypes.Float32),
	reflect.Float64: fixed[float64](arrow.PrimitiveTypes.Float64),
	reflect.Int: {
		typ:    arrow.PrimitiveTypes.Int64,
		append: func(b array.Builder, p unsafe.Pointer) { b.(*array.Int64Builder).Append(int64(*(*int)(p))) },
		size:   func(unsafe.Pointer) int64 { return 8 },
	},
}

// fixed is the codec of numbers that lie in memory as Arrow has them.
func fixed[T any](typ arrow.DataType) codec {
	var zero T
	n := int64(unsafe.Sizeof(zero))
	return codec{
		typ:    typ,
		append: func(b array.Builder, p unsafe.Pointer) { b.(interface{ Append(T) }).Append(*(*T)(p)) },
		size:   func(unsafe.Pointer) int64 { return n },
	}
}

// timestamp is an instant in microseconds of UTC, what Parquet files and
// pandas have.
func timestamp() codec {
	return codec{
		typ: arrow.FixedWidthTypes.Timestamp_us,
		append: func(b array.Builder, p unsafe.Pointer) {
			b.(*array.TimestampBuilder).Append(arrow.Timestamp((*time.Time)(p).UnixMicro()))
		},
		size: func(unsafe.Pointer) int64 { return 8 },
	}
}

func binary() codec {
	return codec{
		typ:    arrow.BinaryTypes.Binary,
		append: func(b array.Builder, p unsafe.Pointer) { b.(*array.BinaryBuilder).Append(nonNil(*(*[]byte)(p))) },
		size:   func(p unsafe.Pointer) int64 { return slotBytes + int64(len(*(*[]byte)(p))) },
	}
}

// nonNil keeps the builder from taking no bytes for null.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// jsonText is JSON as text; nil is null.
func jsonText() codec {
	return codec{
		typ: arrow.BinaryTypes.String,
		append: func(b array.Builder, p unsafe.Pointer) {
			if text := *(*[]byte)(p); text != nil {
				b.(*array.StringBuilder).Append(valid(string(text)))
			} else {
				b.AppendNull()
			}
		},
		size: func(p unsafe.Pointer) int64 { return slotBytes + int64(len(valid(string(*(*[]byte)(p))))) },
	}
}
