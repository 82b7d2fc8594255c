package recipe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a recipe file. They are far above what a person writes and keep
// the parser's work small whatever the file holds.
const (
	maxFile  = 1 << 20 // bytes
	maxDepth = 32      // of nesting
	maxNodes = 100_000 // of YAML, aliases counted each time they are used
	maxFault = 50      // faults that are reported
)

// Load reads a recipe from a file. The error is an [Errors].
func Load(path string) (*Recipe, error) {
	data, err := read(path)
	if err != nil {
		return nil, Errors{unreadable(path, err)}
	}
	return Parse(path, data)
}

func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil, errNoFile
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

var errNoFile = errors.New("is a folder or a device, want a recipe file")

// unreadable says why a recipe cannot be read.
func unreadable(path string, err error) *Error {
	e := &Error{File: path, Msg: "cannot be read", Hint: "check that it is a file that you may read", cause: err}
	var system *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Msg, e.Hint = "there is no such recipe", "check the path, or make a recipe with: stillhouse init"
	case errors.Is(err, errNoFile):
		e.Msg, e.Hint = err.Error(), "name the .yaml file"
	case errors.As(err, &system):
		e.Msg += ": " + system.Err.Error()
	}
	return e
}

// Parse reads a recipe from its bytes; name is the file's name for messages,
// and its folder is where relative paths start. The error is an [Errors].
func Parse(name string, data []byte) (*Recipe, error) {
	body, fault := parseYAML(data)
	if fault != nil {
		fault.File = name
		return nil, Errors{fault}
	}
	r := &Recipe{Raw: bytes.Clone(data), File: name, Dir: filepath.Dir(name)}
	d := decoder{file: name, places: map[string]place{}, texts: map[string]string{}, anchors: map[string]ast.Node{}}
	d.decode(body, reflect.ValueOf(r).Elem(), "", nil)
	r.places, r.texts = d.places, d.texts
	c := checker{r: r, errs: d.errs}
	if len(c.errs) == 0 {
		// What is out of shape would only raise echoes here.
		r.fillDefaults()
		c.run()
	}
	if len(c.errs) > 0 {
		return nil, c.errs.sorted().bounded()
	}
	return r, nil
}

// parseYAML returns the one document of a file, or its first fault.
func parseYAML(data []byte) (body ast.Node, fault *Error) {
	if fault := checkBytes(data); fault != nil {
		return nil, fault
	}
	// The library has had panics on broken input; a recipe file must not be
	// able to bring the program down.
	defer func() {
		if p := recover(); p != nil {
			body, fault = nil, &Error{Line: 1, Col: 1, Msg: "is not valid YAML", Hint: "check the indentation and the quotes"}
		}
	}()
	text := strings.TrimPrefix(string(data), "\uFEFF")
	tokens := lexer.Tokenize(text)
	if fault := checkTokens(tokens); fault != nil {
		return nil, fault
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxError(err)
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			at := positionOf(doc.Body)
			return nil, &Error{Line: at.line, Col: at.col, Msg: "a second document starts here", Hint: "keep one recipe a file"}
		}
		body = doc.Body
	}
	if body == nil {
		return nil, &Error{Line: 1, Col: 1, Msg: "the file is empty", Hint: "write a recipe; stillhouse init makes one that works"}
	}
	return body, nil
}

func checkBytes(data []byte) *Error {
	if len(data) > maxFile {
		return &Error{Line: 1, Col: 1, Msg: "the file is larger than 1 MiB", Hint: "keep prompts in files of their own and name them under prompts"}
	}
	if utf8.Valid(data) {
		if i := bytes.IndexByte(data, 0); i >= 0 {
			at := placeOf(data, i)
			return &Error{Line: at.line, Col: at.col, Msg: "a zero byte", Hint: "save the file as UTF-8 text"}
		}
		return nil
	}
	i := 0
	for i < len(data) {
		c, n := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	at := placeOf(data, i)
	return &Error{Line: at.line, Col: at.col, Msg: fmt.Sprintf("byte 0x%02x is not UTF-8", data[i]), Hint: "save the file as UTF-8"}
}

// placeOf is the place of a byte.
func placeOf(data []byte, offset int) place {
	before := data[:offset]
	start := bytes.LastIndexByte(before, '\n') + 1
	return place{line: 1 + bytes.Count(before, []byte("\n")), col: 1 + utf8.RuneCount(before[start:])}
}

// checkTokens bounds the nesting before anything recursive walks it.
func checkTokens(tokens token.Tokens) *Error {
	flow, line, dashes := 0, 0, 0
	for i, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			dashes++
		}
		if flow > maxDepth || dashes > maxDepth || i > 2*maxNodes {
			return &Error{Line: line, Col: t.Position.Column, Msg: "is nested too deeply or holds too much", Hint: "a recipe has a few levels and a few thousand entries"}
		}
	}
	return nil
}

// syntaxError keeps the library's words and place, and adds what usually helps.
func syntaxError(err error) *Error {
	e := &Error{Line: 1, Col: 1, Msg: "is not valid YAML", Hint: "check the indentation (spaces, no tabs) and the quotes"}
	var at yaml.Error
	if errors.As(err, &at) {
		e.Msg = "is not valid YAML: " + at.GetMessage()
		if strings.Contains(e.Msg, "flow map") {
			e.Hint = "between { and } a text with a comma or a colon needs quotes, such as when: 'get(meta, \"level\") == \"hard\"'; check also that every bracket is closed"
		}
		if t := at.GetToken(); t != nil && t.Position != nil {
			e.Line, e.Col = max(1, t.Position.Line), max(1, t.Position.Column)
		}
	}
	return e
}

func positionOf(n ast.Node) place {
	if n == nil {
		return place{1, 1}
	}
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return positionOf(m.Values[0].Key)
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return positionOf(m.Key)
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return place{1, 1}
	}
	return place{max(1, t.Position.Line), max(1, t.Position.Column)}
}
