package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"os"

	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// memoryBytes is up to what size a file is read in memory; a larger one goes
// through a temporary file.
const memoryBytes = 16 << 20

// ReadTable yields the rows of a table of the version, file after file in the
// manifest's order. Each file is held to its digest before its first row is
// given, so that damage is an error (ErrDamaged) and never a shorter table. At
// most one file is on this machine at a time. It ends at the first error.
func ReadTable[T any](ctx context.Context, c *Catalog, m *Manifest, table string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		for _, ref := range m.TableFiles(table) {
			more, err := readFile(ctx, c, ref, yield)
			if err != nil {
				yield(zero, fmt.Errorf("read table %s of %s: %s: %w", table, m.Dataset, ref.Key, err))
				return
			}
			if !more {
				return
			}
		}
	}
}

func readFile[T any](ctx context.Context, c *Catalog, ref FileRef, yield func(T, error) bool) (more bool, err error) {
	local, err := c.fetch(ctx, ref)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	r, err := parquetio.OpenTrusted[T](local, ref.Bytes)
	if err != nil {
		return false, err
	}
	if n := r.NumRows(); n != ref.Rows {
		return false, fmt.Errorf("%w: it has %d rows, not the manifest's %d", ErrDamaged, n, ref.Rows)
	}
	for row, err := range r.All() {
		if err != nil {
			return false, err
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if !yield(row, nil) {
			return false, nil
		}
	}
	return true, nil
}

// Head yields the first rows of a table without reading whole files: pages
// carry checksums, but digests of files are not tried. For a look, not for
// training.
func Head[T any](ctx context.Context, c *Catalog, m *Manifest, table string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		for _, ref := range m.TableFiles(table) {
			r, err := parquetio.OpenTrusted[T](objstore.NewReaderAt(ctx, c.bucket, ref.Key, ref.Bytes), ref.Bytes)
			if err != nil {
				yield(zero, fmt.Errorf("read table %s of %s: %s: %w", table, m.Dataset, ref.Key, err))
				return
			}
			for row, err := range r.All() {
				if err != nil {
					err = fmt.Errorf("read table %s of %s: %s: %w", table, m.Dataset, ref.Key, err)
				}
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// A local is a copy of a file that has been held to its digest.
type local interface {
	io.ReaderAt
	io.Closer
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// fetch copies a file here and holds the copy to size and digest.
func (c *Catalog) fetch(ctx context.Context, ref FileRef) (local, error) {
	out, sum, n, err := c.download(ctx, ref)
	if err != nil {
		return nil, err
	}
	if n != ref.Bytes || sum != ref.SHA256 {
		return nil, errors.Join(fmt.Errorf("%w: it has %d bytes and the SHA-256 %s, not the manifest's %d and %s",
			ErrDamaged, n, sum, ref.Bytes, ref.SHA256), out.Close())
	}
	return out, nil
}

// download copies a file here, whatever it is, up to a byte more than its size.
func (c *Catalog) download(ctx context.Context, ref FileRef) (out local, sum string, n int64, err error) {
	h := sha256.New()
	if ref.Bytes <= memoryBytes {
		var buf bytes.Buffer
		buf.Grow(int(ref.Bytes) + bytes.MinRead)
		n, err := c.copy(ctx, ref, io.MultiWriter(&buf, h))
		return memory{bytes.NewReader(buf.Bytes())}, hexOf(h), n, err
	}
	f, err := temporary()
	if err != nil {
		return nil, "", 0, err
	}
	n, err = c.copy(ctx, ref, io.MultiWriter(f, h))
	if err != nil {
		return nil, "", n, errors.Join(err, f.Close())
	}
	return f, hexOf(h), n, nil
}

func hexOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// temporary opens a file that is gone once it is closed, or once the process
// ends, however it ends.
func temporary() (*os.File, error) {
	f, err := os.CreateTemp("", "stillhouse-*.parquet")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w; TMPDIR names the folder", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// copyTries is how often a body that breaks off is taken up again.
const copyTries = 4

func (c *Catalog) copy(ctx context.Context, ref FileRef, w io.Writer) (n int64, err error) {
	for range copyTries {
		var body io.ReadCloser
		body, err = c.bucket.GetRange(ctx, ref.Key, n, ref.Bytes+1-n)
		if errors.Is(err, objstore.ErrNotFound) {
			return n, fmt.Errorf("%w: it is gone: %w", ErrDamaged, err)
		}
		if err != nil {
			return n, err
		}
		var m int64
		m, err = io.Copy(w, body)
		n += m
		err = errors.Join(err, body.Close())
		if err == nil || ctx.Err() != nil {
			return n, err
		}
	}
	return n, err
}
