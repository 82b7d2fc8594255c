package views

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// partialName marks a prefix as an export that has begun, so that the same
// command can go on where it was interrupted.
const partialName = "manifest.json.partial"

type bucket struct {
	bucket objstore.Bucket
	prefix string
}

func (b bucket) String() string { return strings.TrimSuffix(b.bucket.String()+"/"+b.prefix, "/") }

func (b bucket) key(name string) string { return objstore.JoinPrefix(b.prefix, name) }

func (b bucket) begin(ctx context.Context, a *about) (sink, error) {
	if err := objstore.ValidPrefix(b.prefix); err != nil {
		return nil, err
	}
	sizes, err := b.list(ctx)
	if err != nil {
		return nil, err
	}
	old, err := b.existing(ctx, sizes)
	switch {
	case err != nil:
		return nil, err
	case old != nil && !a.replaces(old):
		return nil, fmt.Errorf("%w: %s holds an export of %s, view %s; name another prefix", ErrForeign, b, old.Dataset, old.View)
	case old != nil && old.Identity == a.Identity && old.complete(sizes):
		a.Files, a.Rows = old.Files, old.Rows
		return nil, b.bucket.Delete(ctx, b.key(partialName)) // left where the last step was cut off
	}
	work, err := os.MkdirTemp("", "stillhouse-export-")
	if err != nil {
		return nil, err
	}
	s := &bucketSink{bucket: b, work: work, stale: sizes}
	if err := s.start(ctx, a); err != nil {
		return nil, errors.Join(err, os.RemoveAll(work))
	}
	return s, nil
}

// list is the size of every object of the export's prefix, by its name there.
func (b bucket) list(ctx context.Context) (map[string]int64, error) {
	sizes := map[string]int64{}
	under := ""
	if b.prefix != "" {
		under = b.prefix + "/"
	}
	for attr, err := range b.bucket.List(ctx, under, "") {
		if err != nil {
			return nil, err
		}
		sizes[strings.TrimPrefix(attr.Key, under)] = attr.Size
	}
	return sizes, nil
}

// existing is the export that is there, begun or whole; nil for nothing.
func (b bucket) existing(ctx context.Context, sizes map[string]int64) (*about, error) {
	if len(sizes) == 0 {
		return nil, nil
	}
	for _, name := range []string{manifestName, partialName} {
		if _, ok := sizes[name]; !ok {
			continue
		}
		data, _, err := objstore.ReadAll(ctx, b.bucket, b.key(name), maxAboutBytes)
		if err != nil {
			return nil, err
		}
		a := parseAbout(data)
		if a == nil {
			break
		}
		for other := range sizes {
			if !a.wrote(other) {
				return nil, fmt.Errorf("%w: %s holds %s, which the export did not write; name a new prefix", ErrForeign, b, other)
			}
		}
		return a, nil
	}
	return nil, fmt.Errorf("%w: %s holds %d objects and is no export; name a new prefix", ErrForeign, b, len(sizes))
}

// wrote reports whether an export has a file of that name. One that has only
// begun does not know its files yet.
func (a *about) wrote(name string) bool {
	if name == manifestName || name == partialName || name == cardName {
		return true
	}
	dir, base := path.Split(name)
	begun := (dir == "data/" || slices.Contains(exported, strings.TrimSuffix(dir, "/"))) && strings.HasSuffix(base, "."+a.Form) && strings.Contains(base, "-of-")
	return begun || slices.ContainsFunc(a.Files, func(f File) bool { return f.Path == name })
}

// complete reports whether every file is there with its size.
func (a *about) complete(sizes map[string]int64) bool {
	if _, ok := sizes[manifestName]; !ok || len(a.Files) == 0 {
		return false
	}
	for _, f := range a.Files {
		if n, ok := sizes[f.Path]; !ok || n != f.Bytes {
			return false
		}
	}
	return true
}

// A bucketSink writes each file here and uploads it.
type bucketSink struct {
	bucket bucket
	work   string
	stale  map[string]int64 // what is there of an earlier export
}

// start marks the prefix as ours and takes the manifest of an earlier export
// away, so that no reader trusts it while its files change.
func (s *bucketSink) start(ctx context.Context, a *about) error {
	data, err := a.encode()
	if err != nil {
		return err
	}
	if _, err := objstore.PutBytes(ctx, s.bucket.bucket, s.bucket.key(partialName), data, objstore.PutOptions{}); err != nil {
		return err
	}
	return s.bucket.bucket.Delete(ctx, s.bucket.key(manifestName))
}

func (s *bucketSink) write(ctx context.Context, name string, fill func(io.Writer) (int64, error)) (file File, err error) {
	local := filepath.Join(s.work, filepath.FromSlash(name))
	file, err = writeLocal(local, name, fill)
	if err != nil {
		return File{}, err
	}
	defer func() { err = errors.Join(err, os.Remove(local)) }() // one file at a time is here
	key := s.bucket.key(name)
	if _, err := objstore.PutFile(ctx, s.bucket.bucket, key, local, objstore.PutOptions{}); err != nil {
		return File{}, err
	}
	attr, err := s.bucket.bucket.Head(ctx, key)
	if err == nil && attr.Size != file.Bytes {
		err = fmt.Errorf("%s was uploaded with %d bytes and has %d there", key, file.Bytes, attr.Size)
	}
	delete(s.stale, name)
	return file, err
}

func (s *bucketSink) commit(ctx context.Context, a *about) error {
	data, err := a.encode()
	if err != nil {
		return err
	}
	_, err = s.bucket.bucket.Put(ctx, s.bucket.key(manifestName), bytes.NewReader(data), int64(len(data)), objstore.PutOptions{ContentType: "application/json"})
	if err != nil {
		return err
	}
	gone := []string{s.bucket.key(partialName)}
	for name := range s.stale {
		if name != manifestName && name != partialName {
			gone = append(gone, s.bucket.key(name))
		}
	}
	return s.bucket.bucket.Delete(ctx, gone...)
}

func (s *bucketSink) abort() { _ = os.RemoveAll(s.work) }
