package arrowio

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// A layout is how rows of one Go type become columns, compiled once.
type layout struct {
	row    reflect.Type
	schema *arrow.Schema
	fields []field
	size   func(unsafe.Pointer) int64
}

// A field is one column, or one field of a struct.
type field struct {
	name   string
	offset uintptr
	codec
}

// A codec appends the value at a place to a column, and measures it.
type codec struct {
	typ    arrow.DataType
	append func(array.Builder, unsafe.Pointer)
	size   func(unsafe.Pointer) int64 // bytes that its column grows by, about
	// feature declares it to Hugging Face datasets; nil: by its Arrow type.
	feature any
}

// maxDepth bounds nesting, and ends with a type that holds itself.
const maxDepth = 32

var layouts sync.Map // of layout or error, by reflect.Type

// layoutOf compiles a row type: a struct of exported fields.
func layoutOf(row reflect.Type) (*layout, error) {
	known, ok := layouts.Load(row)
	if !ok {
		l, err := compile(row)
		if err != nil {
			known, _ = layouts.LoadOrStore(row, err)
		} else {
			known, _ = layouts.LoadOrStore(row, l)
		}
	}
	if err, failed := known.(error); failed {
		return nil, err
	}
	return known.(*layout), nil
}

func compile(row reflect.Type) (*layout, error) {
	if row == nil || row.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: a row is a struct, not %v", ErrType, row)
	}
	fields, err := fieldsOf(row, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %v: %w", ErrType, row, err)
	}
	return &layout{row: row, fields: fields, schema: arrow.NewSchema(arrowFields(fields), nil), size: sizeOf(fields)}, nil
}

func arrowFields(fields []field) []arrow.Field {
	out := make([]arrow.Field, len(fields))
	for i, f := range fields {
		// Nullable throughout, as every library makes them: a table of them can
		// be joined with another's, and datasets takes the declared features
		// only where the columns are exactly what it would make of them.
		out[i] = arrow.Field{Name: f.name, Type: f.typ, Nullable: true, Metadata: f.extension()}
	}
	return out
}

func sizeOf(fields []field) func(unsafe.Pointer) int64 {
	return func(p unsafe.Pointer) (n int64) {
		for i := range fields {
			n += fields[i].size(unsafe.Add(p, fields[i].offset))
		}
		return n
	}
}

// fieldsOf compiles the fields of a struct by their parquet tags, those of an
// embedded one as its own.
func fieldsOf(t reflect.Type, depth int) ([]field, error) {
	var out []field
	for f := range t.Fields() {
		tag := f.Tag.Get("parquet")
		name, options, _ := strings.Cut(tag, ",")
		embedded := f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct
		if name == "-" || !f.IsExported() && !embedded {
			continue
		}
		if embedded {
			inner, err := fieldsOf(f.Type, depth+1)
			if err != nil {
				return nil, err
			}
			for _, one := range inner {
				one.offset += f.Offset
				out = append(out, one)
			}
			continue
		}
		if name == "" {
			name = f.Name
		}
		one, err := fieldOf(f, name, slices.Contains(strings.Split(options, ","), "optional"), depth)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%v has no exported fields", t)
	}
	for i, f := range out {
		if slices.ContainsFunc(out[:i], func(o field) bool { return o.name == f.name }) {
			return nil, fmt.Errorf("%v has two fields %s", t, f.name)
		}
	}
	return out, nil
}

func fieldOf(f reflect.StructField, name string, optional bool, depth int) (field, error) {
	c, nullable, err := codecOf(f.Type, depth+1)
	if err != nil {
		return field{}, fmt.Errorf("field %s: %w", name, err)
	}
	if optional && !nullable {
		if f.Type.Kind() != reflect.Slice {
			// The Parquet library makes "" and 0 null here: two meanings of one
			// value, which a pointer keeps apart.
			return field{}, fmt.Errorf("field %s: optional needs a pointer or a list, not %v", name, f.Type)
		}
		c = nullWhereNil(c)
	}
	return field{name: name, offset: f.Offset, codec: c}, nil
}

var (
	timeType = reflect.TypeFor[time.Time]()
	jsonType = reflect.TypeFor[json.RawMessage]()
)

// codecOf compiles a value's type, of which a pointer may be null.
func codecOf(t reflect.Type, depth int) (c codec, nullable bool, err error) {
	defer func() {
		if own := ownFeature(t); own != nil && err == nil {
			c.feature = own
		}
	}()
	if depth > maxDepth {
		return codec{}, false, fmt.Errorf("%v is nested deeper than %d", t, maxDepth)
	}
	switch {
	case t.Kind() == reflect.Pointer:
		if t.Elem().Kind() == reflect.Pointer {
			return codec{}, false, fmt.Errorf("a pointer to a pointer (%v)", t)
		}
		inner, _, err := codecOf(t.Elem(), depth+1)
		return throughPointer(inner), true, err
	case t == timeType:
		return timestamp(), false, nil
	case t == jsonType:
		return jsonText(), true, nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return binary(), false, nil
	case t.Kind() == reflect.Slice:
		c, err = listOf(t, depth)
		return c, false, err
	case t.Kind() == reflect.Struct:
		c, err = structOf(t, depth)
		return c, false, err
	}
	c, ok := scalars[t.Kind()]
	if !ok {
		return codec{}, false, fmt.Errorf("Go type %v", t)
	}
	return c, false, nil
}

func throughPointer(inner codec) codec {
	return codec{
		typ: inner.typ, feature: inner.feature,
		append: func(b array.Builder, p unsafe.Pointer) {
			if to := *(*unsafe.Pointer)(p); to != nil {
				inner.append(b, to)
			} else {
				b.AppendNull()
			}
		},
		size: func(p unsafe.Pointer) int64 {
			if to := *(*unsafe.Pointer)(p); to != nil {
				return inner.size(to)
			}
			return slotBytes
		},
	}
}

// nullWhereNil makes a nil slice null.
func nullWhereNil(inner codec) codec {
	c := inner
	c.append = func(b array.Builder, p unsafe.Pointer) {
		if *(*unsafe.Pointer)(p) == nil { // the header's first word is the data
			b.AppendNull()
		} else {
			inner.append(b, p)
		}
	}
	return c
}

func listOf(t reflect.Type, depth int) (codec, error) {
	element, _, err := codecOf(t.Elem(), depth+1)
	if err != nil {
		return codec{}, fmt.Errorf("list of %v: %w", t.Elem(), err)
	}
	step := t.Elem().Size()
	return codec{
		typ:     arrow.ListOf(element.typ),
		feature: []any{element.declared()},
		append: func(b array.Builder, p unsafe.Pointer) {
			list := b.(*array.ListBuilder)
			list.Append(true)
			head := (*[]struct{})(p) // the header alone: data, length
			data, values := unsafe.Pointer(unsafe.SliceData(*head)), list.ValueBuilder()
			for i := range uintptr(len(*head)) {
				element.append(values, unsafe.Add(data, i*step))
			}
		},
		size: func(p unsafe.Pointer) int64 {
			n, head := int64(slotBytes), (*[]struct{})(p)
			data := unsafe.Pointer(unsafe.SliceData(*head))
			for i := range uintptr(len(*head)) {
				n += element.size(unsafe.Add(data, i*step))
			}
			return n
		},
	}, nil
}

func structOf(t reflect.Type, depth int) (codec, error) {
	fields, err := fieldsOf(t, depth)
	if err != nil {
		return codec{}, err
	}
	return codec{
		typ:     arrow.StructOf(arrowFields(fields)...),
		feature: declared(fields),
		append: func(b array.Builder, p unsafe.Pointer) {
			s := b.(*array.StructBuilder)
			s.Append(true)
			for i := range fields {
				fields[i].append(s.FieldBuilder(i), unsafe.Add(p, fields[i].offset))
			}
		},
		size: sizeOf(fields),
	}, nil
}

// slotBytes is what a value takes beside its own bytes: an offset, and its bit.
const slotBytes = 5

func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
