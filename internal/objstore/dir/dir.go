// Package dir reads the embedded store's objects from its files, so that
// commands that only look (list, show, plan) need no server. The gateway keeps
// the object of key k in the file root/k and replaces files by renaming, so an
// open file is one whole object.
//
// Its ETags are tokens of its own: they tell two states of a file apart, but a
// server's IfMatch does not know them.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// A Bucket is a folder seen as a store. It is safe for concurrent use and
// holds nothing open between calls.
type Bucket struct {
	root string // absolute
	name string
}

var _ objstore.Bucket = (*Bucket)(nil)

// Open returns the bucket of the files under root; name stands for it in
// messages. A folder that does not exist is an empty bucket, as before the
// first build. The absolute path is taken now, so the working directory may
// change afterwards.
func Open(root, name string) (*Bucket, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", name, err)
	}
	switch info, err := os.Stat(abs); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("open store %s: %w: %w", name, objstore.ErrUnavailable, err)
	case !info.IsDir():
		return nil, fmt.Errorf("open store %s: %s is not a folder", name, abs)
	}
	return &Bucket{root: abs, name: name}, nil
}

// String is the name that Open was given.
func (b *Bucket) String() string { return b.name }

// open opens the regular file of a key. os.Root keeps every step inside the
// root, whatever links lie in it.
func (b *Bucket) open(ctx context.Context, op, key string) (*os.File, objstore.Attr, error) {
	fail := func(err error) (*os.File, objstore.Attr, error) {
		return nil, objstore.Attr{}, fmt.Errorf("%s %s in %s: %w", op, key, b, err)
	}
	if err := objstore.ValidKey(key); err != nil {
		return fail(err)
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	root, err := os.OpenRoot(b.root)
	if err != nil {
		return fail(explain(err))
	}
	defer root.Close()
	name := filepath.FromSlash(key)
	// A pipe would block its opener, so the kind is looked at first.
	if info, err := root.Lstat(name); err != nil {
		return fail(explain(err))
	} else if !info.Mode().IsRegular() {
		return fail(objstore.ErrNotFound)
	}
	f, err := root.Open(name)
	if err != nil {
		return fail(explain(err))
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = objstore.ErrNotFound
	}
	if err != nil {
		f.Close()
		return fail(err)
	}
	return f, attr(key, info), nil
}

// explain maps a file system's error to the store's.
func explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return objstore.ErrNotFound
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", objstore.ErrUnavailable, err)
	}
	return err
}

func attr(key string, info fs.FileInfo) objstore.Attr {
	return objstore.Attr{
		Key:      key,
		Size:     info.Size(),
		ETag:     fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size()),
		Modified: info.ModTime().UTC(),
	}
}

// Get implements objstore.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (io.ReadCloser, objstore.Attr, error) {
	f, a, err := b.open(ctx, "get", key)
	if err != nil {
		return nil, objstore.Attr{}, err
	}
	return &body{ctx: ctx, r: io.LimitReader(f, a.Size), Closer: f}, a, nil
}

// GetRange implements objstore.Bucket.
func (b *Bucket) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	f, a, err := b.open(ctx, "get", key)
	if err != nil {
		return nil, err
	}
	off, n, err = objstore.ClampRange(off, n, a.Size)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("get %s in %s: %w", key, b, err)
	}
	return &body{ctx: ctx, r: io.NewSectionReader(f, off, n), Closer: f}, nil
}

// Head implements objstore.Bucket.
func (b *Bucket) Head(ctx context.Context, key string) (objstore.Attr, error) {
	f, a, err := b.open(ctx, "head", key)
	if err != nil {
		return objstore.Attr{}, err
	}
	f.Close()
	return a, nil
}

// Put implements objstore.Bucket: it always fails with ErrReadOnly.
func (b *Bucket) Put(_ context.Context, key string, _ io.ReadSeeker, _ int64, _ objstore.PutOptions) (objstore.Attr, error) {
	return objstore.Attr{}, fmt.Errorf("put %s in %s: %w", key, b, objstore.ErrReadOnly)
}

// Delete implements objstore.Bucket: it always fails with ErrReadOnly.
func (b *Bucket) Delete(_ context.Context, keys ...string) error {
	return fmt.Errorf("delete %d keys in %s: %w", len(keys), b, objstore.ErrReadOnly)
}

// A body reads a file until its context ends.
type body struct {
	ctx context.Context
	r   io.Reader
	io.Closer
}

func (b *body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.r.Read(p)
}

// List implements objstore.Bucket. Only the folders that can hold a listed key
// are read. Files that come and go meanwhile may be seen or not.
func (b *Bucket) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Attr, error] {
	return func(yield func(objstore.Attr, error) bool) {
		fail := func(err error) { yield(objstore.Attr{}, fmt.Errorf("list %s* in %s: %w", prefix, b, err)) }
		if err := ctx.Err(); err != nil {
			fail(err)
			return
		}
		root, err := os.OpenRoot(b.root)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			fail(explain(err))
			return
		}
		defer root.Close()
		w := &walk{ctx: ctx, root: root, prefix: prefix, after: after, yield: yield}
		if err := w.folder(""); err != nil && !errors.Is(err, errStopped) {
			fail(err)
		}
	}
}

var errStopped = errors.New("the caller has seen enough")

type walk struct {
	ctx           context.Context
	root          *os.Root
	prefix, after string
	yield         func(objstore.Attr, error) bool
}

// folder lists what is under dir, which is "" or ends with a slash.
func (w *walk) folder(dir string) error {
	entries, err := w.entries(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		key := dir + sortName(entry)
		switch {
		case entry.IsDir() && w.mayHold(key):
			err = w.folder(key)
		case entry.Type().IsRegular() && key > w.after && strings.HasPrefix(key, w.prefix) && objstore.ValidKey(key) == nil:
			err = w.file(key, entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entries reads a folder in the byte order of the keys under it. A folder that
// has gone is empty: the gateway removes those that lost their last object.
func (w *walk) entries(dir string) ([]fs.DirEntry, error) {
	name := "."
	if dir != "" {
		name = filepath.FromSlash(strings.TrimSuffix(dir, "/"))
	}
	f, err := w.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return objstore.Reserved(e.Name()) })
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	return entries, nil
}

// sortName gives a folder the slash that its keys have after its name: "a.b"
// comes before "a/b", though "a" comes before "a.b".
func sortName(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

// mayHold is true where a key that starts with dir can be listed.
func (w *walk) mayHold(dir string) bool {
	if !strings.HasPrefix(dir, w.prefix) && !strings.HasPrefix(w.prefix, dir) {
		return false
	}
	return dir > w.after || strings.HasPrefix(w.after, dir)
}

func (w *walk) file(key string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return explain(err)
	}
	// Between the listing and now it may have become something else.
	if !info.Mode().IsRegular() {
		return nil
	}
	if !w.yield(attr(key, info), nil) {
		return errStopped
	}
	return nil
}
