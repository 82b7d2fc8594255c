package parquetio

import (
	"fmt"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// A plan assembles nested values from the flat columns of a row, by the levels
// that Dremel (Melnik et al., VLDB 2010) defines: a definition level below a
// node's own says that the node is absent, a repetition level equal to a
// list's own starts another element.
type plan struct {
	kind        kind
	name        string // in its parent
	first, last int    // the leaf columns below: [first, last)
	define      int    // the definition level at which this value is present
	repeat      int    // of a list: the repetition level that starts another element
	fields      []*plan
	leaf        parquet.Type
}

type kind int

const (
	kindLeaf kind = iota
	kindStruct
	kindList // fields[0] is the element
	kindMap  // fields[0] is the key, fields[1] the value
)

// maxDepth bounds the nesting of untrusted schemas.
const maxDepth = 64

func planOf(file *parquet.File) (root *plan, err error) {
	defer guard(&err)
	next := 0
	root, err = planNode(file.Root(), "", 0, 0, &next, 0)
	if err != nil {
		return nil, err
	}
	if len(root.fields) == 0 {
		return nil, fmt.Errorf("%w: the file has no columns", ErrSchema)
	}
	return root, nil
}

// planNode plans n whose parent is present at level define and repeats at
// level repeat.
func planNode(n parquet.Node, name string, define, repeat int, next *int, depth int) (*plan, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: columns are nested deeper than %d", ErrSchema, maxDepth)
	}
	if n.Repeated() { // a repeated field outside of a list is a list itself
		return planList(parquet.Required(n), name, define, define+1, repeat+1, next, depth)
	}
	if n.Optional() {
		define++
	}
	if element, ok := listElement(n); ok {
		return planList(element, name, define, define+1, repeat+1, next, depth)
	}
	p := &plan{kind: kindStruct, name: name, first: *next, define: define, repeat: repeat}
	if n.Leaf() {
		p.kind, p.leaf = kindLeaf, n.Type()
		*next++
		p.last = *next
		return p, nil
	}
	inner, innerRepeat := n.Fields(), repeat
	if _, _, ok := mapEntry(n); ok {
		p.kind, p.repeat = kindMap, repeat+1
		inner, define, innerRepeat = n.Fields()[0].Fields(), define+1, repeat+1
	}
	for _, f := range inner {
		field, err := planNode(f, f.Name(), define, innerRepeat, next, depth+1)
		if err != nil {
			return nil, err
		}
		p.fields = append(p.fields, field)
	}
	p.last = *next
	return p, nil
}

// planList plans a list that is present at level define.
func planList(element parquet.Node, name string, define, elementDefine, elementRepeat int, next *int, depth int) (*plan, error) {
	p := &plan{kind: kindList, name: name, first: *next, define: define, repeat: elementRepeat}
	inner, err := planNode(element, "", elementDefine, elementRepeat, next, depth+1)
	if err != nil {
		return nil, err
	}
	p.fields, p.last = []*plan{inner}, *next
	return p, nil
}

// maxRowBytes bounds what a row takes in memory: a page of a few bytes can name
// one long text of its dictionary a million times.
const maxRowBytes = 512 << 20

// valueBytes is about what a value takes beside its text.
const valueBytes = 48

var errRowTooLarge = fmt.Errorf("%w: a row is larger than the %d bytes that are read", ErrDamaged, maxRowBytes)

// row assembles a row of which as many bytes as left says may be made; what it
// makes it takes off.
func (p *plan) row(columns [][]parquet.Value, left *int) (map[string]any, error) {
	row := make(map[string]any, len(p.fields))
	for _, f := range p.fields {
		v, err := f.value(columns, left)
		if err != nil {
			return nil, err
		}
		row[f.name] = v
	}
	return row, nil
}

// value assembles the value whose part of each column is columns[first:last].
func (p *plan) value(columns [][]parquet.Value, left *int) (any, error) {
	if *left -= valueBytes; *left < 0 {
		return nil, errRowTooLarge
	}
	if p.last <= p.first { // a struct without columns
		return map[string]any{}, nil
	}
	head := columns[p.first]
	if len(head) == 0 {
		return nil, fmt.Errorf("%w: column %d has no value where one must be", ErrDamaged, p.first)
	}
	level := head[0].DefinitionLevel()
	if level < p.define {
		return nil, nil
	}
	switch p.kind {
	case kindLeaf:
		if k := head[0].Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
			if *left -= len(head[0].ByteArray()); *left < 0 {
				return nil, errRowTooLarge
			}
		}
		return leafValue(p.leaf, head[0])
	case kindStruct:
		return p.row(columns, left)
	case kindMap:
		return p.mapValue(columns, level, left)
	default:
		list := []any{}
		if level == p.define {
			return list, nil // present and empty
		}
		err := p.elements(columns, func(part [][]parquet.Value) error {
			v, err := p.fields[0].value(part, left)
			list = append(list, v)
			return err
		})
		return list, err
	}
}

func (p *plan) mapValue(columns [][]parquet.Value, level int, left *int) (any, error) {
	m := map[string]any{}
	if level == p.define {
		return m, nil
	}
	err := p.elements(columns, func(part [][]parquet.Value) error {
		key, err := p.fields[0].value(part, left)
		if err != nil {
			return err
		}
		value, err := p.fields[1].value(part, left)
		m[fmt.Sprint(key)] = value
		return err
	})
	return m, err
}

// elements cuts the columns below a list where a repetition level starts
// another element. Every column must have as many elements as the first.
func (p *plan) elements(columns [][]parquet.Value, visit func([][]parquet.Value) error) error {
	part := make([][]parquet.Value, p.last)
	rest := make([][]parquet.Value, p.last)
	copy(rest[p.first:], columns[p.first:p.last])
	for len(rest[p.first]) > 0 {
		for c := p.first; c < p.last; c++ {
			if len(rest[c]) == 0 {
				return fmt.Errorf("%w: columns of one list differ in length", ErrDamaged)
			}
			end := 1
			for end < len(rest[c]) && rest[c][end].RepetitionLevel() > p.repeat {
				end++
			}
			part[c], rest[c] = rest[c][:end], rest[c][end:]
		}
		if err := visit(part); err != nil {
			return err
		}
	}
	for c := p.first; c < p.last; c++ {
		if len(rest[c]) != 0 {
			return fmt.Errorf("%w: columns of one list differ in length", ErrDamaged)
		}
	}
	return nil
}

func text(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	return append([]byte(nil), b...)
}
