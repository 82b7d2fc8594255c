package sources

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxFiles bounds what one pattern may name: more is a mistyped pattern.
const maxFiles = 100_000

// ErrNoFiles is in the error of a pattern that names nothing.
var ErrNoFiles = errors.New("no file matches")

// A Finder finds files here and, through Remote, in stores.
type Finder struct {
	// Dir is where relative patterns start.
	Dir string
	// Remote lists what an s3:// URL names; nil where there is no store.
	Remote func(ctx context.Context, url string) ([]File, error)
}

// Find returns the files that a path, glob, folder or s3:// URL names, sorted
// by path, each with its size and digest. In a glob, * and ? stay within one
// folder, ** crosses them and [ab] is a set. A folder means every file in it,
// at any depth, that has a known format; hidden files are left out. It fails
// with a *[FileError] where nothing matches, and where a file is empty, of no
// known format or not to be read.
func (f Finder) Find(ctx context.Context, pattern string) ([]File, error) {
	if strings.Contains(pattern, "://") {
		return f.remote(ctx, pattern)
	}
	path := filepath.FromSlash(pattern)
	if !filepath.IsAbs(path) {
		path = filepath.Join(f.Dir, path)
	}
	paths, err := match(path)
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%w in %s; check the path, which starts at the recipe's folder", ErrNoFiles, baseOf(path))
	}
	if err != nil {
		return nil, notFound(pattern, err)
	}
	files := make([]File, 0, len(paths))
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("find %s: %w", pattern, err)
		}
		file, err := local(p)
		if err != nil {
			return nil, notFound(pattern, err)
		}
		files = append(files, file)
	}
	return files, nil
}

func notFound(pattern string, err error) error { return &FileError{"find", pattern, err} }

// Find returns the files that a path, glob or folder names; see [Finder.Find].
func Find(dir, pattern string) ([]File, error) {
	return Finder{Dir: dir}.Find(context.Background(), pattern)
}

func (f Finder) remote(ctx context.Context, url string) ([]File, error) {
	if !strings.HasPrefix(url, "s3://") {
		return nil, notFound(url, errors.New("want a path or an s3:// URL"))
	}
	if f.Remote == nil {
		return nil, notFound(url, errors.New("no store is open here; download the files and name them by path"))
	}
	files, err := f.Remote(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", url, err)
	}
	if len(files) == 0 {
		return nil, notFound(url, fmt.Errorf("%w; check bucket and prefix", ErrNoFiles))
	}
	for i := range files {
		if _, err := formatOf(files[i].Name); err != nil {
			return nil, notFound(url, err)
		}
		if files[i].Size == 0 {
			return nil, notFound(url, fmt.Errorf("%s is empty; remove it or fill it", files[i].Name))
		}
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Key, b.Key) })
	return files, nil
}

// match lists the files that a path, folder or glob names, sorted. A path that
// exists is itself, even if it holds a glob's characters.
func match(path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		var out []string
		err := walk(path, 0, func(p string) error {
			if _, err := formatOf(p); err != nil {
				return nil
			}
			return appendPath(&out, p)
		})
		slices.Sort(out)
		return out, err
	case err == nil:
		return []string{path}, nil
	case !errors.Is(err, fs.ErrNotExist) || !hasMeta(path):
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	re, err := globRegexp(path)
	if err != nil {
		return nil, err
	}
	var out []string
	err = walk(baseOf(path), 0, func(p string) error {
		if !re.MatchString(filepath.ToSlash(p)) {
			return nil
		}
		return appendPath(&out, p)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	slices.Sort(out)
	return out, err
}

func appendPath(out *[]string, p string) error {
	if len(*out) >= maxFiles {
		return fmt.Errorf("more than %d files match; narrow the pattern", maxFiles)
	}
	*out = append(*out, p)
	return nil
}

// walk calls f for every file under dir that is not hidden. Links to files
// count as files; links to folders below dir are not followed, since they may
// lead back.
func walk(dir string, depth int, f func(path string) error) error {
	const deepest = 32
	if depth > deepest {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		p := filepath.Join(dir, e.Name())
		if e.IsDir() {
			if err := walk(p, depth+1, f); err != nil {
				return err
			}
			continue
		}
		if e.Type()&fs.ModeSymlink != 0 {
			if info, err := os.Stat(p); err == nil && info.IsDir() {
				continue
			}
		}
		if err := f(p); err != nil {
			return err
		}
	}
	return nil
}

func hasMeta(path string) bool { return strings.ContainsAny(path, "*?[") }

// baseOf is the folder that a pattern is looked for in: the part before its
// first name with a wildcard.
func baseOf(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	for path = filepath.Dir(path); hasMeta(path); {
		path = filepath.Dir(path)
	}
	return path
}

// globRegexp translates a glob over slash-separated paths.
func globRegexp(glob string) (*regexp.Regexp, error) {
	g := filepath.ToSlash(glob)
	var b strings.Builder
	b.WriteString("^")
	for i := 0; i < len(g); {
		switch {
		case strings.HasPrefix(g[i:], "**/"):
			b.WriteString("(?:[^/]+/)*")
			i += 3
			continue
		case strings.HasPrefix(g[i:], "**"):
			b.WriteString(".*")
			i += 2
			continue
		case g[i] == '*':
			b.WriteString("[^/]*")
		case g[i] == '?':
			b.WriteString("[^/]")
		case g[i] == '[':
			end := strings.IndexByte(g[i:], ']')
			if end < 2 {
				return nil, errors.New("a [ in the pattern has no ]; close it")
			}
			set := strings.ReplaceAll(g[i+1:i+end], `\`, `\\`)
			if set[0] == '!' {
				set = "^" + set[1:]
			}
			b.WriteString("[" + set + "]")
			i += end
		default:
			_, n := decodeRune(g[i:])
			b.WriteString(regexp.QuoteMeta(g[i : i+n]))
			i += n
			continue
		}
		i++
	}
	b.WriteString("$")
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, errors.New("the pattern is no glob; use *, ?, ** and [ab]")
	}
	return re, nil
}

// local describes a file on this machine, by reading it once.
func local(path string) (File, error) {
	if _, err := formatOf(path); err != nil {
		return File{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return File{}, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return File{}, fmt.Errorf("%s is not a plain file; copy its content into one", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return File{}, err
	}
	if size == 0 {
		return File{}, fmt.Errorf("%s is empty; remove it or fill it", path)
	}
	return File{
		Name: filepath.Base(path), Path: path, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)),
		Open: func(context.Context) (io.ReadCloser, error) { return os.Open(path) },
		OpenAt: func(context.Context) (io.ReaderAt, func() error, error) {
			f, err := os.Open(path)
			if err != nil {
				return nil, nil, err
			}
			return f, f.Close, nil
		},
	}, nil
}
