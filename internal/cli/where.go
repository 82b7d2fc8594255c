package cli

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

const (
	maxWhere      = 4096 // bytes of an expression
	maxWhereNodes = 500
)

// whereFunctions are the functions that a condition may call. None of them
// iterates over more than it is given, so a condition takes time in proportion
// to the row. They are those of a recipe's when.
var whereFunctions = []string{
	"len", "lower", "upper", "trim", "trimPrefix", "trimSuffix", "indexOf", "lastIndexOf",
	"hasPrefix", "hasSuffix", "int", "float", "string", "abs", "ceil", "floor", "round",
	"min", "max", "type", "get",
}

// A where is a condition over rows of one table, in the expr language. Its
// words are the rows' JSON field names; a field that is null is nil.
type where struct {
	program *vm.Program
	used    map[string]bool // words that the expression reads
}

// compileWhere compiles a condition over rows of T, a table's row. Every fault
// is a usage error that shows the place.
func compileWhere[T any](source string) (*where, error) {
	if strings.TrimSpace(source) == "" || len(source) > maxWhere {
		return nil, usage("--where: want an expression of at most %d bytes, such as teacher == \"k3\" && !accepted", maxWhere)
	}
	row := reflect.TypeFor[T]()
	words := wordsOf(row)
	look := &whereVisitor{used: map[string]bool{}}
	options := []expr.Option{
		expr.Env(words), expr.AsBool(), expr.MaxNodes(maxWhereNodes), expr.DisableAllBuiltins(), expr.Patch(look),
	}
	for _, name := range whereFunctions {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(source, options...)
	switch {
	case look.fault != "":
		return nil, whereFault(source, look.at, look.fault, "compare fields with ==, in, contains, matches and join them with &&, ||, !")
	case err != nil:
		return nil, whereError(source, err, words)
	}
	return &where{program: program, used: look.used}, nil
}

// match evaluates the condition for one row. It fails where a value is of
// another kind than the expression needs, such as null.
func (w *where) match(row any) (bool, error) {
	out, err := expr.Run(w.program, envOf(reflect.ValueOf(row).Elem(), w.used))
	if err != nil {
		return false, errors.New(firstLine(err.Error()))
	}
	ok, _ := out.(bool) // an expression over a null may give nil
	return ok, nil
}

// whereFault points at a place of an expression; at counts bytes from 0.
func whereFault(source string, at int, fault, hint string) error {
	at = max(0, min(at, len(source)))
	line := source[strings.LastIndexByte(source[:at], '\n')+1:]
	column := at - (len(source) - len(line))
	line = firstLine(line)
	return usage("--where: column %d: %s; %s\n  %s\n  %s^", column+1, fault, hint, line, strings.Repeat(" ", column))
}

func whereError(source string, err error, words types.Map) error {
	hint := "write it such as teacher == \"k3\" && !accepted"
	var at *file.Error
	if !errors.As(err, &at) {
		return usage("--where: %s; %s", firstLine(err.Error()), hint)
	}
	fault := firstLine(at.Message)
	if strings.HasPrefix(fault, "unknown name") {
		hint = "texts stand in quotes; the table's fields are " + strings.Join(sortedKeys(words), ", ")
	}
	return whereFault(source, at.From, fault, hint)
}

// wordsOf are the fields of a row with the types that expressions are held to.
// What may be null is of any type.
func wordsOf(t reflect.Type) types.Map {
	words := types.Map{}
	for i := range t.NumField() {
		kind := types.Type(types.Any)
		switch ft := t.Field(i).Type; {
		case ft.Kind() == reflect.String:
			kind = types.String
		case ft.Kind() == reflect.Bool:
			kind = types.Bool
		case ft.Kind() == reflect.Int32, ft.Kind() == reflect.Int64:
			kind = types.Int64
		case ft.Kind() == reflect.Slice && ft.Elem().Kind() == reflect.String:
			kind = types.Array(types.String)
		case ft.Kind() == reflect.Slice:
			kind = types.Array(types.Any)
		}
		words[jsonName(t.Field(i))] = kind
	}
	return words
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// envOf is a row as an expression sees it; only the words in used, all for nil.
func envOf(row reflect.Value, used map[string]bool) map[string]any {
	env := make(map[string]any, row.NumField())
	for i := range row.NumField() {
		if name := jsonName(row.Type().Field(i)); used == nil || used[name] {
			env[name] = plainOf(row.Field(i))
		}
	}
	return env
}

func plainOf(v reflect.Value) any {
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil():
		return nil
	case v.Kind() == reflect.Pointer:
		return plainOf(v.Elem())
	case v.Kind() == reflect.Struct:
		return envOf(v, nil)
	case v.Kind() == reflect.Int32:
		return v.Int()
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = envOf(v.Index(i), nil)
		}
		return list
	}
	return v.Interface()
}

// A whereVisitor notes the words that are read and refuses what can loop or
// grow: closures, ranges, variables, and patterns that come from data.
type whereVisitor struct {
	used  map[string]bool
	fault string
	at    int
}

// Visit implements ast.Visitor.
func (v *whereVisitor) Visit(node *ast.Node) {
	fault := ""
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		v.used[n.Value] = true
	case *ast.PredicateNode:
		fault = "loops are not allowed in a condition"
	case *ast.VariableDeclaratorNode:
		fault = "variables are not allowed in a condition"
	case *ast.CallNode, *ast.BuiltinNode:
		if name := calledName(n); name != "" && !slices.Contains(whereFunctions, name) {
			fault = fmt.Sprintf("there is no function %s here", name)
		}
	case *ast.BinaryNode:
		if n.Operator == ".." {
			fault = "ranges are not allowed in a condition"
		}
		if _, ok := n.Right.(*ast.StringNode); n.Operator == "matches" && !ok {
			fault = "the pattern after matches must be written out"
		}
	}
	if fault != "" && v.fault == "" {
		v.fault, v.at = fault, (*node).Location().From
	}
}

func calledName(node ast.Node) string {
	switch n := node.(type) {
	case *ast.BuiltinNode:
		return n.Name
	case *ast.CallNode:
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
			return callee.Value
		}
	}
	return ""
}
