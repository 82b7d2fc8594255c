//go:build !noembed

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3response"
)

// durable makes the gateway's writes survive a power cut, which it doesn't
// care for itself. An object's bytes reach the disk before the object appears,
// so that no crash can show a torn one; its metadata and the folders that lead
// to it reach the disk before the client is told. Parts of an upload need
// neither: an upload that a crash took is begun again.
type durable struct {
	*posix.Posix
	root    string // absolute
	sidecar string // absolute; "" where metadata are xattrs of the object
}

func (d *durable) PutObject(ctx context.Context, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	out, err := d.PutObjectWithPostFunc(ctx, in, (*os.File).Sync)
	if err != nil {
		return out, err
	}
	return out, d.settle(*in.Bucket, *in.Key)
}

func (d *durable) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput) (s3response.CompleteMultipartUploadResult, string, error) {
	out, version, err := d.CompleteMultipartUploadWithCopy(ctx, in, copyDurably)
	if err != nil {
		return out, version, err
	}
	return out, version, d.settle(*in.Bucket, *in.Key)
}

func (d *durable) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (s3response.CopyObjectOutput, error) {
	out, err := d.Posix.CopyObject(ctx, in)
	if err != nil {
		return out, err
	}
	return out, d.settle(*in.Bucket, *in.Key)
}

func (d *durable) CreateBucket(ctx context.Context, in *s3.CreateBucketInput, acl []byte) error {
	if err := d.Posix.CreateBucket(ctx, in, acl); err != nil {
		return err
	}
	return d.settle(*in.Bucket, "")
}

// copyDurably appends a part to the object that is being put together. The
// parts stay until all are, so a failed completion can be repeated. After a
// failure the gateway would copy the rest itself, without a sync, and call it
// done; closing the part makes that fail too.
func copyDurably(from, to *os.File) (idempotent bool, err error) {
	if _, err = io.Copy(to, from); err == nil {
		err = to.Sync()
	}
	if err != nil {
		from.Close()
	}
	return true, err
}

// settle brings what was published to the disk: the object's attributes, and
// each folder on the way to it. A clean folder costs next to nothing.
func (d *durable) settle(bucket, key string) error {
	if err := syncUp(filepath.Join(d.root, bucket, filepath.FromSlash(key)), d.root); err != nil {
		return fmt.Errorf("sync %s/%s: %w", bucket, key, err)
	}
	if d.sidecar == "" {
		return nil
	}
	attributes := filepath.Join(d.sidecar, bucket, filepath.FromSlash(key), "meta")
	entries, err := os.ReadDir(attributes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sync the metadata of %s/%s: %w", bucket, key, err)
	}
	for _, entry := range entries {
		if err := syncPath(filepath.Join(attributes, entry.Name())); err != nil {
			return fmt.Errorf("sync the metadata of %s/%s: %w", bucket, key, err)
		}
	}
	if err := syncUp(attributes, d.sidecar); err != nil {
		return fmt.Errorf("sync the metadata of %s/%s: %w", bucket, key, err)
	}
	return nil
}

// syncUp syncs a path and every folder above it up to root.
func syncUp(path, root string) error {
	for {
		if err := syncPath(path); err != nil {
			return err
		}
		if path == root || len(path) <= len(root) {
			return nil
		}
		path = filepath.Dir(path)
	}
}

// syncPath syncs one file or folder. One that is gone was deleted by a later
// request.
func syncPath(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
