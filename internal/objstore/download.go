package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Download writes an object to a local file, whole or not at all, and makes
// the folders above it, for their owner alone.
func Download(ctx context.Context, b Bucket, key, path string, mode os.FileMode) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	body, attr, err := b.Get(ctx, key)
	if err != nil {
		return err
	}
	defer body.Close()
	f, err := os.CreateTemp(filepath.Dir(path), ".download-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	n, err := io.Copy(f, body)
	if err != nil {
		return fmt.Errorf("download %s: %w", key, err)
	}
	if n != attr.Size {
		return fmt.Errorf("download %s: %d of %d bytes arrived", key, n, attr.Size)
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
