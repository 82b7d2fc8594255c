package activities

import (
	"cmp"
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

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// A scratch is a store in a folder that is removed after use, for what runs on
// this machine alone. It makes no write durable.
type scratch struct{ dir string }

func newScratch(dir string) (*scratch, error) {
	path, err := os.MkdirTemp(dir, "scratch-*")
	if err != nil {
		return nil, err
	}
	return &scratch{path}, nil
}

// String is what messages call it.
func (s *scratch) String() string { return "a temporary folder" }

func (s *scratch) path(key string) string { return filepath.Join(s.dir, filepath.FromSlash(key)) }

// Get implements [objstore.Bucket].
func (s *scratch) Get(ctx context.Context, key string) (io.ReadCloser, objstore.Attr, error) {
	at, err := s.Head(ctx, key)
	if err != nil {
		return nil, at, err
	}
	f, err := os.Open(s.path(key))
	return f, at, err
}

// GetRange implements [objstore.Bucket].
func (s *scratch) GetRange(_ context.Context, key string, off, n int64) (io.ReadCloser, error) {
	f, err := os.Open(s.path(key))
	if err != nil {
		return nil, notThere(key, err)
	}
	if n < 0 {
		n = 1<<62 - off
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, off, n), f}, nil
}

// Head implements [objstore.Bucket].
func (s *scratch) Head(_ context.Context, key string) (objstore.Attr, error) {
	info, err := os.Stat(s.path(key))
	if err != nil {
		return objstore.Attr{}, notThere(key, err)
	}
	return objstore.Attr{Key: key, Size: info.Size(), ETag: info.ModTime().String(), Modified: info.ModTime()}, nil
}

func notThere(key string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", key, objstore.ErrNotFound)
	}
	return err
}

// Put implements [objstore.Bucket], without the condition IfMatch.
func (s *scratch) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opt objstore.PutOptions) (objstore.Attr, error) {
	if opt.IfMatch != "" {
		return objstore.Attr{}, fmt.Errorf("put %s into %s: it takes no IfMatch", key, s)
	}
	if _, err := s.Head(ctx, key); opt.IfNoneMatch && err == nil {
		return objstore.Attr{}, fmt.Errorf("put %s: %w", key, objstore.ErrPrecondition)
	}
	path := s.path(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return objstore.Attr{}, err
	}
	f, err := os.CreateTemp(s.dir, ".put-*")
	if err != nil {
		return objstore.Attr{}, err
	}
	n, err := io.Copy(f, body)
	if err == nil && n != size {
		err = fmt.Errorf("put %s: %d bytes, want %d", key, n, size)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return objstore.Attr{}, errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return objstore.Attr{}, err
	}
	return s.Head(ctx, key)
}

// Delete implements [objstore.Bucket].
func (s *scratch) Delete(_ context.Context, keys ...string) error {
	for _, key := range keys {
		if err := os.Remove(s.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// List implements [objstore.Bucket].
func (s *scratch) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Attr, error] {
	return func(yield func(objstore.Attr, error) bool) {
		var out []objstore.Attr
		err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".put-") {
				return err
			}
			rel, err := filepath.Rel(s.dir, path)
			if err != nil {
				return err
			}
			key := filepath.ToSlash(rel)
			if !strings.HasPrefix(key, prefix) || key <= after {
				return nil
			}
			at, err := s.Head(ctx, key)
			out = append(out, at)
			return err
		})
		if err != nil {
			yield(objstore.Attr{}, err)
			return
		}
		slices.SortFunc(out, func(a, b objstore.Attr) int { return cmp.Compare(a.Key, b.Key) })
		for _, at := range out {
			if !yield(at, nil) {
				return
			}
		}
	}
}
