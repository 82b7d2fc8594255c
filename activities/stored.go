package activities

import (
	"context"
	"io"
	"path"
	"strings"
	"unicode"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// StoredFile is an object as a source of prompts.
func StoredFile(b objstore.Bucket, key, name string, size int64, sha string) sources.File {
	return sources.File{
		Name: name, Key: key, Size: size, SHA256: sha,
		Open: func(ctx context.Context) (io.ReadCloser, error) {
			body, _, err := b.Get(ctx, key)
			return body, err
		},
		OpenAt: func(ctx context.Context) (io.ReaderAt, func() error, error) {
			return objstore.NewReaderAt(ctx, b, key, size), func() error { return nil }, nil
		},
	}
}

// ListStored finds the source files that an s3:// URL names in a bucket: one
// object, or with a glob or a trailing slash all that match. The version of
// each is pinned by its ETag, in SHA256's place.
func ListStored(ctx context.Context, b objstore.Bucket, bucketURL, pattern string) ([]sources.File, error) {
	fixed, _, globbed := strings.Cut(pattern, "*")
	if i := strings.IndexAny(fixed, "?["); i >= 0 {
		fixed, globbed = fixed[:i], true
	}
	folder := strings.HasSuffix(pattern, "/")
	var out []sources.File
	for at, err := range b.List(ctx, fixed, "") {
		if err != nil {
			return nil, err
		}
		switch {
		case globbed:
			if ok, err := path.Match(pattern, at.Key); err != nil {
				return nil, badSource("%s/%s: %v", bucketURL, pattern, err)
			} else if !ok {
				continue
			}
		case !folder && at.Key != pattern:
			continue
		case folder && !sources.KnownFormat(at.Key):
			continue
		}
		f := StoredFile(b, at.Key, path.Base(at.Key), at.Size, "etag:"+at.ETag)
		f.Key = bucketURL + "/" + at.Key
		out = append(out, f)
	}
	if len(out) == 0 {
		return nil, badSource("%s/%s: no such object; check the URL and that the credentials may list it", bucketURL, pattern)
	}
	return out, nil
}

// component makes a file's name fit for one part of a key.
func component(name string) string {
	var b strings.Builder
	for _, r := range path.Base(strings.ReplaceAll(name, `\`, "/")) {
		if unicode.IsControl(r) || r == '/' || r == '\uFFFD' {
			r = '_'
		}
		if b.Len() >= 200 {
			break
		}
		b.WriteRune(r)
	}
	if s := b.String(); objstore.ValidKey(s) == nil {
		return s
	}
	return "file"
}
