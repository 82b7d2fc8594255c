package parquetio

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"github.com/parquet-go/parquet-go"
)

// An assembly fills rows of one type from the columns of one of our own files,
// column by column: for each column it walks from the row to where the column's
// values belong, by the levels that Dremel defines (see plan). The library
// goes row by row through a value of 24 bytes for each entry of each column,
// twice where a file has other columns than the row; that took as long as
// decompressing the pages.
//
// It is compiled once a file, for row types of structs, lists, pointers,
// strings, bytes, booleans and numbers. Types with more in them, and files that
// others wrote, are read by the library.
type assembly struct {
	columns []assembledColumn
}

// An assembledColumn says where in a row the values of a column belong.
type assembledColumn struct {
	leaf   int // in the file
	define int // definition level of a value
	steps  []step
	kind   valueKind
	offset uintptr // of the value, in what the last step leads to
}

// A step leads from a struct to another one: through a pointer that may be nil,
// or into the element of a list.
type step struct {
	offset uintptr      // of the pointer or list, in the struct before it
	define int          // level from which on the pointer or the list is there
	repeat int          // of a list: the level that starts another element; 0: a pointer
	typ    reflect.Type // of the list, or of what is pointed to
	size   uintptr      // of an element
}

// A valueKind is what a field holds.
type valueKind struct {
	pointer bool // nil for null
	kind    reflect.Kind
}

// assemblyOf compiles the assembly of rows of type t from a file, or reports
// that the library has to read it.
func assemblyOf(t reflect.Type, file *parquet.File) (*assembly, bool) {
	if file.Metadata().CreatedBy != createdBy || t.Kind() != reflect.Struct {
		return nil, false
	}
	root, err := planOf(file)
	if err != nil {
		return nil, false
	}
	a := &assembly{}
	if !a.group(t, root, nil, 0) {
		return nil, false
	}
	return a, len(a.columns) > 0
}

// group adds the columns of a struct that lies offset behind the last step.
func (a *assembly) group(t reflect.Type, p *plan, steps []step, offset uintptr) bool {
	for f := range t.Fields() {
		tag := f.Tag.Get("parquet")
		if tag == "-" {
			continue
		}
		if f.Anonymous { // its fields are the struct's own
			if f.Type.Kind() != reflect.Struct || !a.group(f.Type, p, steps, offset+f.Offset) {
				return false
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" || !known(options) || !known(strings.TrimPrefix(f.Tag.Get("parquet-element"), ",")) ||
			f.Tag.Get("parquet-key")+f.Tag.Get("parquet-value") != "" {
			return false
		}
		field := p.field(name)
		if field == nil {
			continue // of a newer release: it stays empty; see check
		}
		if !a.value(f.Type, field, steps, offset+f.Offset) {
			return false
		}
	}
	return true
}

// known reports whether the options of a tag say how values are kept, not what
// they mean.
func known(options string) bool {
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "", "optional", "list", "dict", "delta", "split", "plain", "zstd":
		default:
			return false
		}
	}
	return true
}

func (p *plan) field(name string) *plan {
	for _, f := range p.fields {
		if f.name == name {
			return f
		}
	}
	return nil
}

func (a *assembly) value(t reflect.Type, p *plan, steps []step, offset uintptr) bool {
	switch p.kind {
	case kindLeaf:
		kind, ok := leafKind(t, p.leaf.Kind())
		if !ok {
			return false
		}
		a.columns = append(a.columns, assembledColumn{leaf: p.first, define: p.define, steps: steps, kind: kind, offset: offset})
		return true
	case kindStruct:
		if t.Kind() == reflect.Pointer {
			s := step{offset: offset, define: p.define, typ: t.Elem()}
			return t.Elem().Kind() == reflect.Struct && a.group(t.Elem(), p, appended(steps, s), 0)
		}
		return t.Kind() == reflect.Struct && a.group(t, p, steps, offset)
	case kindList:
		if t.Kind() != reflect.Slice || t.Elem().Kind() == reflect.Uint8 || p.repeat > maxLists {
			return false
		}
		s := step{offset: offset, define: p.define, repeat: p.repeat, typ: t, size: t.Elem().Size()}
		return a.value(t.Elem(), p.fields[0], appended(steps, s), 0)
	default:
		return false
	}
}

func appended(steps []step, s step) []step { return append(steps[:len(steps):len(steps)], s) }

// leafKind says how values of a column are stored in a field of type t.
func leafKind(t reflect.Type, column parquet.Kind) (valueKind, bool) {
	k := valueKind{kind: t.Kind()}
	if k.kind == reflect.Pointer {
		k.pointer, t = true, t.Elem()
		k.kind = t.Kind()
	}
	switch k.kind {
	case reflect.String:
		return k, column == parquet.ByteArray
	case reflect.Slice:
		return k, column == parquet.ByteArray && t.Elem().Kind() == reflect.Uint8
	case reflect.Bool:
		return k, column == parquet.Boolean
	case reflect.Int32:
		return k, column == parquet.Int32
	case reflect.Int64:
		return k, column == parquet.Int64
	case reflect.Float32:
		return k, column == parquet.Float
	case reflect.Float64:
		return k, column == parquet.Double
	default:
		return k, false
	}
}

// leaves are the columns that are read; nil, which are all, for the library.
func (a *assembly) leaves() map[int]bool {
	if a == nil {
		return nil
	}
	read := map[int]bool{}
	for i := range a.columns {
		read[a.columns[i].leaf] = true
	}
	return read
}

// An assembler reads the rows of one row group.
type assembler struct {
	columns []*columnReader
}

func (a *assembly) open(group parquet.RowGroup) *assembler {
	chunks := group.ColumnChunks()
	out := &assembler{columns: make([]*columnReader, len(a.columns))}
	for i := range a.columns {
		out.columns[i] = &columnReader{assembledColumn: &a.columns[i], pages: chunks[a.columns[i].leaf].Pages()}
	}
	return out
}

// read fills n rows of size bytes at rows, which are zero.
func (a *assembler) read(rows unsafe.Pointer, n int, size uintptr) error {
	for _, c := range a.columns {
		if err := c.read(rows, n, size); err != nil {
			return fmt.Errorf("column %d: %w", c.leaf, err)
		}
	}
	return nil
}

func (a *assembler) close() error {
	var errs []error
	for _, c := range a.columns {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// end checks that no column holds more than was read.
func (a *assembler) end() error {
	for _, c := range a.columns {
		if more, err := c.more(); err != nil || more {
			if err == nil {
				err = fmt.Errorf("%w: it holds more rows than its row group", ErrDamaged)
			}
			return fmt.Errorf("column %d: %w", c.leaf, err)
		}
	}
	return nil
}
