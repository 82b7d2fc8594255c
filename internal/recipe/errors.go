package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An Error is one fault of a recipe.
type Error struct {
	File string
	Line int    // from 1; 0 where the fault has no place in the file
	Col  int    // from 1, in characters
	Path string // such as teachers[0].base_url; "" for the file as a whole
	Msg  string // what is wrong
	Hint string // what to do about it

	cause error // the system's, where the file cannot be read
}

// Unwrap gives the system's error where the file could not be read.
func (e *Error) Unwrap() error { return e.cause }

// Error gives file:line:column: path: what is wrong; what to do.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Col)
	}
	b.WriteString(": ")
	if e.Path != "" {
		b.WriteString(e.Path)
		b.WriteString(": ")
	}
	b.WriteString(e.Msg)
	if e.Hint != "" {
		b.WriteString("; ")
		b.WriteString(e.Hint)
	}
	return b.String()
}

// Errors are all faults of a recipe, sorted by place.
type Errors []*Error

// Error gives one fault a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find the single faults.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i := range e {
		out[i] = e[i]
	}
	return out
}

func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col), cmp.Compare(a.Msg, b.Msg))
	})
	return e
}

// A place is a line and a column, both from 1.
type place struct{ line, col int }

// ErrorAt makes an error at the place of a path of the recipe, such as
// check[0].pattern; where the path is not in the file, at the nearest parent
// that is. Packages that check options of their own use it.
func (r *Recipe) ErrorAt(path, msg, hint string) *Error {
	e := &Error{File: r.File, Path: path, Msg: msg, Hint: hint}
	for p := path; ; {
		if at, ok := r.places[p]; ok {
			e.Line, e.Col = at.line, at.col
			return e
		}
		cut := strings.LastIndexAny(p, ".[")
		if cut < 0 {
			return e
		}
		p = p[:cut]
	}
}

// bounded keeps a file of nothing but faults from flooding the terminal.
func (e Errors) bounded() Errors {
	if len(e) <= maxFault {
		return e
	}
	last := e[maxFault-1]
	more := &Error{File: last.File, Line: last.Line, Col: last.Col, Msg: fmt.Sprintf("%d more faults follow", len(e)-maxFault+1), Hint: "correct the first ones"}
	return append(e[:maxFault-1:maxFault-1], more)
}

// quote shows a word of the file: printable, and no longer than a line.
func quote(s string) string {
	const longest = 64
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return strconv.Quote(s)
}
