package sandbox

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

//go:embed harness/values.go.txt
var valuesGo []byte

//go:embed harness/answer.go.txt
var answerGo []byte

//go:embed harness/tests.go.txt
var testsGo []byte

// goPair prepares the call of a Go answer by Go tests: two programs. The
// answer's offers its functions by name; the tests' has a function of the same
// signature for each that the tests use, which asks the other program.
//
// Signatures hold plain types only: numbers, text, booleans, error, and slices,
// arrays, maps and pointers of them.
func (b *Box) goPair(ctx context.Context, p *verify.Program, slot int) (*pair, *verify.Outcome, error) {
	if err := b.golang.prepare(b.tools); err != nil {
		return nil, nil, err
	}
	answer, fault := readGoAnswer(p)
	if fault != nil {
		return nil, fault, nil
	}
	tests, err := readGoTests(p.Tests.Code)
	if err != nil {
		return nil, &verify.Outcome{Kind: verify.Faulty, Reason: "the tests do not compile: " + err.Error()}, nil
	}
	stubs, err := answer.stubs(tests, p.Entry)
	if err != nil {
		return nil, &verify.Outcome{Kind: verify.Undecided, Reason: err.Error()}, nil
	}
	theirs, fault, err := b.buildGo(ctx, map[string][]byte{
		"answer.go": answer.source, "serve.go": []byte(strings.Replace(string(answerGo), "/*functions*/", answer.table(), 1)), "values.go": valuesGo,
	}, p, slot)
	if err != nil || fault != nil {
		return nil, fault, err
	}
	main := strings.Replace(string(testsGo), "/*tests*/", tests.testTable(), 1)
	ours, fault, err := b.buildGo(ctx, map[string][]byte{
		"tests.go": tests.source, "stubs.go": stubs, "main.go": []byte(main), "values.go": valuesGo,
	}, p, slot)
	if fault != nil {
		// The answer compiled, so what does not fit is how the tests call it.
		fault.Reason = strings.Replace(fault.Reason, "the answer does not compile", "the tests do not compile with the answer's functions", 1)
	}
	if err != nil || fault != nil {
		return nil, fault, err
	}
	pair, err := b.newPair(p, []string{"/box/answer"}, file{name: "answer", data: theirs, exec: true}, []string{"/box/tests"}, file{name: "tests", data: ours, exec: true})
	return pair, nil, err
}

// A goFile is a parsed file of package main.
type goFile struct {
	text   string // that was parsed
	edits  []edit
	source []byte // text with its edits
	set    *token.FileSet
	syntax *ast.File
}

// An edit puts another name in the place of one.
type edit struct {
	at, size int
	name     string
}

// parseGo parses a text, which may lack its package clause.
func parseGo(text string) (*goFile, error) {
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, "a.go", text, parser.SkipObjectResolution)
	if err != nil {
		var again error
		whole := "package main\n\n" + text
		if syntax, again = parser.ParseFile(set, "a.go", whole, parser.SkipObjectResolution); again != nil {
			if strings.Contains(text, "package ") {
				return nil, err
			}
			return nil, again
		}
		text = whole
	}
	f := &goFile{text: text, set: set, syntax: syntax}
	f.rename(syntax.Name, "main")
	return f, nil
}

// rename gives something another name.
func (f *goFile) rename(id *ast.Ident, name string) {
	if id.Name != name {
		f.edits = append(f.edits, edit{f.set.File(id.Pos()).Offset(id.Pos()), len(id.Name), name})
		id.Name = name
	}
}

// print makes the source of what was parsed, as it was written: to lay out anew
// what nests deeply would take the square of its length.
func (f *goFile) print() {
	slices.SortFunc(f.edits, func(a, b edit) int { return a.at - b.at })
	at := 0
	for _, e := range f.edits {
		f.source = append(append(f.source, f.text[at:e.at]...), e.name...)
		at = e.at + e.size
	}
	f.source = append(f.source, f.text[at:]...)
}

// functions lists the file's plain functions by name.
func (f *goFile) functions() map[string]*ast.FuncDecl {
	out := map[string]*ast.FuncDecl{}
	for _, d := range f.syntax.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name != "init" && fn.Name.Name != "_" {
			out[fn.Name.Name] = fn
		}
	}
	return out
}

// readGoAnswer reads an answer: a file, or the rest of the prompt's function.
func readGoAnswer(p *verify.Program) (*goFile, *verify.Outcome) {
	var first error
	for _, text := range []string{p.Source, p.Prompt + "\n" + p.Source, p.Prompt + "\n" + p.Source + "\n}"} {
		f, err := parseGo(text)
		if err != nil {
			first = firstError(first, err)
			continue
		}
		if p.Entry != "" && f.functions()[p.Entry] == nil && p.Prompt != "" {
			continue
		}
		for _, fn := range f.functions() {
			if fn.Name.Name == "main" {
				f.rename(fn.Name, "answerMain") // ours is the program's
			}
		}
		f.print()
		return f, nil
	}
	reason := "the answer has no function " + p.Entry
	if first != nil {
		reason = "the answer does not compile: " + first.Error()
	}
	return nil, &verify.Outcome{Kind: verify.Failed, Reason: reason}
}

func firstError(first, err error) error {
	if first != nil {
		return first
	}
	return err
}

func readGoTests(text string) (*goFile, error) {
	f, err := parseGo(text)
	if err != nil {
		return nil, err
	}
	for _, fn := range f.functions() {
		if fn.Name.Name == "main" {
			f.rename(fn.Name, "testsMain")
		}
	}
	f.print()
	return f, nil
}

// table names the answer's functions for the program that serves them.
func (f *goFile) table() string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(f.functions())) {
		if f.functions()[name].Type.TypeParams == nil {
			fmt.Fprintf(&out, "%q: %s,\n", name, f.functions()[name].Name.Name)
		}
	}
	return out.String()
}

// stubs makes a function for each of the answer's that the tests use. The words
// of the language mean to the tests what they mean to everybody: an answer's own
// max or recover is called by its entry point's name alone.
func (f *goFile) stubs(tests *goFile, entry string) ([]byte, error) {
	own := tests.functions()
	used := map[string]bool{}
	ast.Inspect(tests.syntax, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			used[id.Name] = true
		}
		return true
	})
	var out bytes.Buffer
	out.WriteString("package main\n")
	functions := f.functions()
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		if !used[name] || own[name] != nil || functions[name].Name.Name != name || types.Universe.Lookup(name) != nil && name != entry {
			continue
		}
		if err := f.stub(&out, functions[name]); err != nil {
			return nil, err
		}
	}
	return format.Source(out.Bytes())
}

// stub writes one function that asks.
func (f *goFile) stub(out *bytes.Buffer, fn *ast.FuncDecl) error {
	if fn.Type.TypeParams != nil {
		return fmt.Errorf("the answer's function %s is generic, which tests in another program cannot call", fn.Name.Name)
	}
	list := func(fields *ast.FieldList, prefix string) (decl, names, refs []string, err error) {
		if fields == nil {
			return nil, nil, nil, nil
		}
		for _, field := range fields.List {
			if !plainType(field.Type) {
				return nil, nil, nil, fmt.Errorf("the signature of the answer's function %s has types that tests in another program cannot know", fn.Name.Name)
			}
			var text bytes.Buffer
			if err := printer.Fprint(&text, f.set, field.Type); err != nil {
				return nil, nil, nil, err
			}
			for range max(1, len(field.Names)) {
				n := fmt.Sprintf("%s%d", prefix, len(names))
				decl, names, refs = append(decl, n+" "+text.String()), append(names, n), append(refs, "&"+n)
			}
		}
		return decl, names, refs, nil
	}
	params, _, args, err := list(fn.Type.Params, "p")
	if err != nil {
		return err
	}
	results, _, refs, err := list(fn.Type.Results, "r")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nfunc %s(%s) (%s) {\n\tharnessAsk(%q, []any{%s}, []any{%s})\n\treturn\n}\n", fn.Name.Name,
		strings.Join(params, ", "), strings.Join(results, ", "), fn.Name.Name, strings.Join(args, ", "), strings.Join(refs, ", "))
	return nil
}

// plainTypes are the named types that both programs know.
var plainTypes = []string{
	"bool", "string", "error", "byte", "rune", "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64",
	"float32", "float64", "complex64", "complex128",
}

// plainType tells whether values of a type travel.
func plainType(t ast.Expr) bool {
	switch t := t.(type) {
	case *ast.Ident:
		return slices.Contains(plainTypes, t.Name)
	case *ast.ArrayType:
		if _, ok := t.Len.(*ast.BasicLit); t.Len != nil && !ok {
			return false
		}
		return plainType(t.Elt)
	case *ast.Ellipsis:
		return plainType(t.Elt)
	case *ast.MapType:
		return plainType(t.Key) && plainType(t.Value)
	case *ast.StarExpr:
		return plainType(t.X)
	case *ast.ParenExpr:
		return plainType(t.X)
	}
	return false
}

// testTable lists the test functions, TestX(t *testing.T).
func (f *goFile) testTable() string {
	var out strings.Builder
	functions := f.functions()
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		if fn := functions[name]; strings.HasPrefix(name, "Test") && fn.Type.Params.NumFields() == 1 && fn.Type.Results.NumFields() == 0 {
			fmt.Fprintf(&out, "{Name: %q, F: harnessGuard(%s)},\n", name, name)
		}
	}
	return out.String()
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
