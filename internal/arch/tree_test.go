package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A file is one Go file of the repository, under whatever build tags.
type file struct {
	name    string // path from the root
	pkg     string // import path of its folder
	test    bool
	lines   int
	syntax  *ast.File
	imports []string
}

// readTree reads every Go file below the root. It reads files rather than ask
// `go list`, because the files of all build tags count, and because the test
// cache sees what this process reads but not what a child process does.
func readTree(root fs.FS) ([]file, error) {
	ignored, err := ignoredFolders(root)
	if err != nil {
		return nil, err
	}
	var files []file
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			hidden := name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"))
			if hidden || base == "testdata" && !hasPackage(root, name) || base == "vendor" || slices.Contains(ignored, name) {
				return fs.SkipDir
			}
			if _, err := fs.Stat(root, path.Join(name, "go.mod")); err == nil && name != "." {
				return fs.SkipDir // another module
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		f, err := readFile(root, name)
		files = append(files, f)
		return err
	})
	return files, err
}

// hasPackage tells whether a folder called testdata is a package after all.
func hasPackage(root fs.FS, dir string) bool {
	return dir == "internal/testdata" && len(glob(root, dir+"/*.go")) > 0
}

func glob(root fs.FS, pattern string) []string {
	names, _ := fs.Glob(root, pattern) // the only error is a bad pattern
	return names
}

// ignoredFolders are those that .gitignore names from the root: they are not
// part of the repository.
func ignoredFolders(root fs.FS) ([]string, error) {
	if len(glob(root, ".gitignore")) == 0 {
		return nil, nil
	}
	text, err := fs.ReadFile(root, ".gitignore")
	if err != nil {
		return nil, err
	}
	var folders []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "/") && strings.HasSuffix(line, "/") {
			folders = append(folders, strings.Trim(line, "/"))
		}
	}
	return folders, nil
}

func readFile(root fs.FS, name string) (file, error) {
	src, err := fs.ReadFile(root, name)
	if err != nil {
		return file{}, err
	}
	syntax, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return file{}, err
	}
	f := file{
		name: name, pkg: path.Join(module, path.Dir(name)),
		test: strings.HasSuffix(name, "_test.go"), lines: bytes.Count(src, []byte("\n")), syntax: syntax,
	}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return file{}, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		f.imports = append(f.imports, imported)
	}
	return f, nil
}

// sleeps tells whether a file calls time.Sleep, whatever it calls the package.
func (f *file) sleeps() bool {
	name := ""
	for _, spec := range f.syntax.Imports {
		if spec.Path.Value == `"testing/synctest"` {
			return false // its clock does not run while a test waits
		}
		if spec.Path.Value == `"time"` {
			name = "time"
			if spec.Name != nil {
				name = spec.Name.Name
			}
		}
	}
	found := false
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
			if x, ok := sel.X.(*ast.Ident); ok && name != "" && x.Name == name {
				found = true
			}
		}
		return !found
	})
	return found
}
