package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/home"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// declaredCodes are the constants of exit.go.
func declaredCodes(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "exit.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "exit") && len(spec.Values) == 1 {
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
				codes[spec.Names[0].Name] = lit.Value
			}
		}
		return true
	})
	return codes
}

// The help's table says every code that there is, once, and no other.
func TestTheHelpShowsEveryCode(t *testing.T) {
	a, out, _ := newApp(t, nil)
	if code := a.run(t.Context(), []string{"--help"}); code != exitDone {
		t.Fatalf("help ends with %d", code)
	}
	var shown []string
	_, table, ok := strings.Cut(out.String(), "Exit codes:\n")
	if !ok {
		t.Fatal("the help has no table")
	}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			break
		}
		shown = append(shown, fields[0])
	}
	var declared []string
	for _, value := range declaredCodes(t) {
		declared = append(declared, value)
	}
	slices.Sort(shown)
	slices.Sort(declared)
	if len(declared) < 8 || !slices.Equal(shown, declared) {
		t.Errorf("the help shows the codes %v, exit.go declares %v", shown, declared)
	}
	for _, c := range exitCodes {
		if c.code != exitDone && !slices.Contains(exitOrder, c.code) {
			t.Errorf("code %d has no rank", c.code)
		}
	}
}

// Codes are always said by name, so that none is made up beside the table.
func TestCodesAreNamed(t *testing.T) {
	names := declaredCodes(t)
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	seen := 0
	inspect := func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || len(lit.Elts) == 0 {
			return true
		}
		if id, ok := lit.Type.(*ast.Ident); !ok || id.Name != "codedError" {
			return true
		}
		value := lit.Elts[0]
		if pair, ok := value.(*ast.KeyValueExpr); ok {
			value = pair.Value
		}
		id, ok := value.(*ast.Ident)
		if !ok {
			t.Errorf("a codedError with a code that has no name: %#v", value)
			return true
		}
		if _, known := names[id.Name]; known {
			seen++
		} else if id.Name != "code" {
			t.Errorf("a codedError with the code %s, which exit.go does not declare", id.Name)
		}
		return true
	}
	for _, f := range files {
		ast.Inspect(f, inspect)
	}
	if seen == 0 {
		t.Error("no code was found: the test looks at nothing")
	}
}

func TestExitCode(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("do it: %w", err) }
	for _, tc := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, exitDone},
		{"anything", errors.New("x"), exitFailed},
		{"usage", wrap(usage("x")), exitUsage},
		{"recipe", wrap(recipe.Errors{{Msg: "x"}}), exitUsage},
		{"one fault of a recipe", wrap(&recipe.Error{Msg: "x"}), exitUsage},
		{"unknown reference", wrap(catalog.ErrUnknown), exitUsage},
		{"invalid reference", wrap(catalog.ErrInvalid), exitUsage},
		{"damage", wrap(catalog.ErrDamaged), exitFailed},
		{"removed", wrap(catalog.ErrRemoved), exitFailed},
		{"store", wrap(objstore.ErrUnavailable), exitUnreachable},
		{"locked home", wrap(&home.ErrLocked{}), exitUnreachable},
		{"timeout", wrap(context.DeadlineExceeded), exitUnreachable},
		{"interrupted", wrap(context.Canceled), exitInterrupted},
		{"said already", wrap(&codedError{code: exitGate}), exitGate},
	} {
		if got := exitCode(tc.err); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestWorstOf(t *testing.T) {
	for _, tc := range []struct {
		codes []int
		want  int
	}{
		{nil, exitDone},
		{[]int{exitTeacher, exitGate}, exitGate},
		{[]int{exitBudget, exitTeacher}, exitBudget},
		{[]int{exitFailed, exitUnreachable}, exitUnreachable},
		{[]int{exitUsage, exitUnreachable}, exitUsage},
		{[]int{exitUsage, exitInterrupted}, exitInterrupted},
	} {
		if got := worstOf(tc.codes...); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.codes, got, tc.want)
		}
	}
}

// What a message carries from elsewhere can't take the terminal over.
func TestErrorsArePrintable(t *testing.T) {
	a, _, talk := newApp(t, nil)
	if code := a.run(t.Context(), []string{"show", "\x1b[2Jx"}); code != exitUsage {
		t.Errorf("ended with %d", code)
	}
	if bytes.ContainsAny(talk.Bytes(), "\x1b\u009b") || talk.Len() == 0 {
		t.Errorf("the terminal gets %q", talk)
	}
}
