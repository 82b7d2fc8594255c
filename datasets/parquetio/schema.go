package parquetio

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// A Column of a table.
type Column struct {
	Name string `json:"name"`
	// Type is string, bool, int32, int64, double, bytes, list<T> or
	// struct{name: T, …}; a ? after a type inside another marks a field that
	// may be null.
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`
}

// A Table is the declaration of one table of a version.
type Table struct {
	Name        string   `json:"name"`
	Fingerprint string   `json:"fingerprint"`
	Columns     []Column `json:"columns"`
}

// Tables are the declarations of every table, in the order that people read
// them.
func Tables() []Table {
	return []Table{
		{datasets.TableTrain, Fingerprint[datasets.Row](), Columns[datasets.Row]()},
		{datasets.TableTest, Fingerprint[datasets.Row](), Columns[datasets.Row]()},
		{datasets.TablePairs, Fingerprint[datasets.Pair](), Columns[datasets.Pair]()},
		{datasets.TableCandidates, Fingerprint[datasets.Candidate](), Columns[datasets.Candidate]()},
		{datasets.TablePrompts, Fingerprint[datasets.PromptRow](), Columns[datasets.PromptRow]()},
		{datasets.TableAttempts, Fingerprint[datasets.Attempt](), Columns[datasets.Attempt]()},
		{datasets.TableLogprobs, Fingerprint[datasets.LogprobRow](), Columns[datasets.LogprobRow]()},
		{datasets.TableStudentFit, Fingerprint[datasets.FitRow](), Columns[datasets.FitRow]()},
		{datasets.TableJudgements, Fingerprint[datasets.JudgeRow](), Columns[datasets.JudgeRow]()},
	}
}

// TableFingerprint is the fingerprint that files of a table have, "" for a
// table that this program does not know.
func TableFingerprint(table string) string {
	for _, t := range Tables() {
		if t.Name == table {
			return t.Fingerprint
		}
	}
	return ""
}

// Columns lists the columns of the table that T declares, in file order.
func Columns[T any]() []Column {
	return columnsOf(schemaOf[T]())
}

// Fingerprint names the columns of T: the hex of the first 16 bytes of
// SHA-256 over a line "name type nullable" for each, in file order. Encodings
// and compression are not part of it.
func Fingerprint[T any]() string {
	return fingerprintOf(Columns[T]())
}

func schemaOf[T any]() *parquet.Schema {
	var zero T
	schema := parquet.SchemaOf(&zero)
	if name, _, generic := strings.Cut(schema.Name(), "["); generic {
		return parquet.NewSchema(name, schema) // the paths of type arguments are nobody's business
	}
	return schema
}

func columnsOf(node parquet.Node) []Column {
	fields := node.Fields()
	columns := make([]Column, len(fields))
	for i, f := range fields {
		columns[i] = Column{Name: f.Name(), Type: typeOf(f), Nullable: f.Optional()}
	}
	return columns
}

func fingerprintOf(columns []Column) string {
	h := sha256.New()
	for _, c := range columns {
		fmt.Fprintf(h, "%s %s %t\n", c.Name, c.Type, c.Nullable)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// typeOf words a node's type without its own nullability.
func typeOf(n parquet.Node) string {
	if n.Leaf() {
		name := leafType(n.Type())
		if n.Repeated() {
			return "list<" + name + ">"
		}
		return name
	}
	if element, ok := listElement(n); ok {
		return "list<" + nested(element) + ">"
	}
	if key, value, ok := mapEntry(n); ok {
		return "map<" + nested(key) + ", " + nested(value) + ">"
	}
	var b strings.Builder
	b.WriteString("struct{")
	for i, f := range n.Fields() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(f.Name() + ": " + nested(f))
	}
	b.WriteString("}")
	if n.Repeated() {
		return "list<" + b.String() + ">"
	}
	return b.String()
}

func nested(n parquet.Node) string {
	if n.Optional() {
		return typeOf(n) + "?"
	}
	return typeOf(n)
}

func leafType(t parquet.Type) string {
	if l := logical(t); l != nil {
		switch v := l.(type) {
		case *format.StringType, *format.EnumType, *format.JsonType:
			return "string"
		case *format.IntType:
			if !v.IsSigned {
				return fmt.Sprintf("uint%d", v.BitWidth)
			}
			return fmt.Sprintf("int%d", v.BitWidth)
		default:
			return strings.ToLower(v.String())
		}
	}
	switch t.Kind() {
	case parquet.Boolean:
		return "bool"
	case parquet.Int32:
		return "int32"
	case parquet.Int64:
		return "int64"
	case parquet.Int96:
		return "int96"
	case parquet.Float:
		return "float"
	case parquet.Double:
		return "double"
	case parquet.FixedLenByteArray:
		return fmt.Sprintf("bytes[%d]", t.Length())
	default:
		return "bytes"
	}
}

func logical(t parquet.Type) format.LogicalTypeValue {
	if l := t.LogicalType(); l != nil {
		return l.Value
	}
	return nil
}

// listElement finds the element of a three-level list, or of the two-level
// lists that old writers made (rules: parquet-format LogicalTypes.md, Lists,
// backward compatibility).
func listElement(n parquet.Node) (parquet.Node, bool) {
	if n.Leaf() || n.Repeated() {
		return nil, false
	}
	if _, isList := logical(n.Type()).(*format.ListType); !isList {
		return nil, false
	}
	fields := n.Fields()
	if len(fields) != 1 || !fields[0].Repeated() {
		return nil, false
	}
	middle := fields[0]
	if middle.Leaf() || len(middle.Fields()) != 1 || middle.Name() == "array" || strings.HasSuffix(middle.Name(), "_tuple") {
		return parquet.Required(middle), true
	}
	return middle.Fields()[0], true
}

func mapEntry(n parquet.Node) (key, value parquet.Node, ok bool) {
	if n.Leaf() || n.Repeated() {
		return nil, nil, false
	}
	if _, isMap := logical(n.Type()).(*format.MapType); !isMap {
		return nil, nil, false
	}
	fields := n.Fields()
	if len(fields) != 1 || !fields[0].Repeated() || fields[0].Leaf() || len(fields[0].Fields()) != 2 {
		return nil, nil, false
	}
	entry := fields[0].Fields()
	return entry[0], entry[1], true
}

// check says whether rows of the wanted schema can be read from a file: every
// wanted column is there with its type, or may be null. Columns that the file
// has beyond those are a newer writer's and are left alone.
func check(want, have parquet.Node, path string) error {
	for _, w := range want.Fields() {
		name := strings.TrimPrefix(path+"."+w.Name(), ".")
		at := slices.IndexFunc(have.Fields(), func(f parquet.Field) bool { return f.Name() == w.Name() })
		if at < 0 {
			if w.Optional() {
				continue
			}
			return fmt.Errorf("%w: the file has no column %s (%s)", ErrSchema, name, typeOf(w))
		}
		h := have.Fields()[at]
		if w.Leaf() != h.Leaf() || w.Repeated() != h.Repeated() || (w.Leaf() && leafType(w.Type()) != leafType(h.Type())) {
			return fmt.Errorf("%w: column %s is %s in the file, not %s", ErrSchema, name, typeOf(h), typeOf(w))
		}
		if h.Optional() && !w.Optional() {
			return fmt.Errorf("%w: column %s may be null in the file and may not in the table", ErrSchema, name)
		}
		if err := check(w, h, name); err != nil {
			return err
		}
	}
	return nil
}
