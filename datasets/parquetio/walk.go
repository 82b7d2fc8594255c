package parquetio

import (
	"reflect"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// A walk visits the value at p and adds its raw size to size. It reports
// whether all of its strings are valid UTF-8.
type walk func(p unsafe.Pointer, size *int64) bool

// walkOf compiles the visit of a row type once, so that bounding row groups by
// bytes and holding strings to UTF-8 costs no reflection per row.
func walkOf(t reflect.Type) walk {
	switch t.Kind() {
	case reflect.String:
		return func(p unsafe.Pointer, size *int64) bool {
			s := *(*string)(p)
			*size += int64(len(s))
			return utf8.ValidString(s)
		}
	case reflect.Pointer:
		inner := walkOf(t.Elem())
		return func(p unsafe.Pointer, size *int64) bool {
			if to := *(*unsafe.Pointer)(p); to != nil {
				return inner(to, size)
			}
			return true
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return func(p unsafe.Pointer, size *int64) bool {
				*size += int64(len(*(*[]byte)(p)))
				return true
			}
		}
		inner, step := walkOf(t.Elem()), t.Elem().Size()
		return func(p unsafe.Pointer, size *int64) bool {
			head := (*[]struct{})(p) // the header alone: data, length
			data, ok := unsafe.Pointer(unsafe.SliceData(*head)), true
			for i := range uintptr(len(*head)) {
				ok = inner(unsafe.Add(data, i*step), size) && ok
			}
			return ok
		}
	case reflect.Struct:
		type field struct {
			offset uintptr
			visit  walk
		}
		var fields []field
		for f := range t.Fields() {
			if written(f) {
				fields = append(fields, field{f.Offset, walkOf(f.Type)})
			}
		}
		return func(p unsafe.Pointer, size *int64) bool {
			ok := true
			for _, f := range fields {
				ok = f.visit(unsafe.Add(p, f.offset), size) && ok
			}
			return ok
		}
	default:
		n := int64(t.Size())
		return func(_ unsafe.Pointer, size *int64) bool {
			*size += n
			return true
		}
	}
}

// written reports whether a field is part of the file: those of an embedded
// struct are, whether or not its own name is exported.
func written(f reflect.StructField) bool {
	return (f.IsExported() || f.Anonymous) && f.Tag.Get("parquet") != "-"
}

// embed sanitises the fields of an embedded struct into those of out.
func embed(out, v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Type().Field(i); {
		case f.IsExported():
			out.Field(i).Set(sanitised(v.Field(i)))
		case f.Anonymous:
			embed(out.Field(i), v.Field(i))
		}
	}
}

// sanitised copies a value, all that it points to included, with every string
// made valid UTF-8. Rows share strings and messages, so nothing is changed in
// place.
func sanitised(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		out.SetString(strings.ToValidUTF8(v.String(), "\uFFFD"))
	case reflect.Pointer:
		if !v.IsNil() {
			to := reflect.New(v.Type().Elem())
			to.Elem().Set(sanitised(v.Elem()))
			out.Set(to)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 || v.IsNil() {
			return v
		}
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(sanitised(v.Index(i)))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch {
			case f.IsExported():
				out.Field(i).Set(sanitised(v.Field(i)))
			case f.Anonymous: // not to be set whole, but its fields are
				embed(out.Field(i), v.Field(i))
			}
		}
	default:
		return v
	}
	return out
}
