package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// Get implements objstore.Bucket. The body's last read fails with ErrChecksum
// where the bytes are not those that were stored, and with ErrUnavailable
// where the connection breaks.
func (b *Bucket) Get(ctx context.Context, key string) (io.ReadCloser, objstore.Attr, error) {
	full, err := b.full(key)
	if err != nil {
		return nil, objstore.Attr{}, err
	}
	out, err := b.client.GetObject(ctx, &awss3.GetObjectInput{Bucket: &b.bucket, Key: full})
	if err != nil {
		return nil, objstore.Attr{}, b.wrap("get", key, err)
	}
	if out.ContentLength == nil {
		out.Body.Close()
		return nil, objstore.Attr{}, fmt.Errorf("get %s in %s: the store does not say how long the object is", key, b)
	}
	attr := objstore.Attr{
		Key:      key,
		Size:     *out.ContentLength,
		ETag:     aws.ToString(out.ETag),
		Modified: aws.ToTime(out.LastModified),
	}
	return &body{bucket: b, key: key, inner: out.Body}, attr, nil
}

// GetRange implements objstore.Bucket.
func (b *Bucket) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	full, err := b.full(key)
	if err != nil {
		return nil, err
	}
	if off < 0 || n == 0 {
		return b.emptyRange(ctx, key, off, n)
	}
	ranges := fmt.Sprintf("bytes=%d-", off)
	if n > 0 {
		ranges += fmt.Sprint(off + n - 1)
	}
	out, err := b.client.GetObject(ctx, &awss3.GetObjectInput{Bucket: &b.bucket, Key: full, Range: &ranges})
	if status(err) == http.StatusRequestedRangeNotSatisfiable {
		return b.emptyRange(ctx, key, off, n)
	}
	if err != nil {
		return nil, b.wrap("get", key, err)
	}
	if got := aws.ToString(out.ContentRange); !strings.HasPrefix(got, fmt.Sprintf("bytes %d-", off)) {
		out.Body.Close()
		return nil, fmt.Errorf("get %s in %s: asked for %s, the store sent %q", key, b, ranges, got)
	}
	return &body{bucket: b, key: key, inner: out.Body}, nil
}

// emptyRange tells a range of no bytes, which HTTP can't ask for, from one
// outside the object.
func (b *Bucket) emptyRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	attr, err := b.Head(ctx, key)
	if err != nil {
		return nil, err
	}
	if _, _, err := objstore.ClampRange(off, n, attr.Size); err != nil {
		return nil, fmt.Errorf("get %s in %s: %w", key, b, err)
	}
	return io.NopCloser(bytes.NewReader(nil)), nil
}

// Head implements objstore.Bucket.
func (b *Bucket) Head(ctx context.Context, key string) (objstore.Attr, error) {
	attr, _, err := b.head(ctx, key)
	return attr, err
}

// head also gives the mark of the write that made the object.
func (b *Bucket) head(ctx context.Context, key string) (objstore.Attr, string, error) {
	full, err := b.full(key)
	if err != nil {
		return objstore.Attr{}, "", err
	}
	out, err := b.client.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &b.bucket, Key: full})
	if err != nil {
		err = b.wrap("head", key, err)
		if errors.Is(err, objstore.ErrNotFound) && !b.exists.Load() {
			// The answer to HEAD has no body that would tell a missing bucket.
			if bucketErr := b.Check(ctx); bucketErr != nil {
				return objstore.Attr{}, "", bucketErr
			}
		}
		return objstore.Attr{}, "", err
	}
	b.exists.Store(true)
	return objstore.Attr{
		Key:      key,
		Size:     aws.ToInt64(out.ContentLength),
		ETag:     aws.ToString(out.ETag),
		Modified: aws.ToTime(out.LastModified),
	}, out.Metadata[writeMark], nil
}

// A body gives read errors their subject, and the sentinel that they are.
type body struct {
	bucket *Bucket
	key    string
	inner  io.ReadCloser
}

func (r *body) Read(p []byte) (int, error) {
	n, err := r.inner.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	switch {
	case isContext(err):
		err = fmt.Errorf("read %s in %s: %w", r.key, r.bucket, err)
	case strings.Contains(err.Error(), "checksum did not match"):
		// The SDK has no type for it; a test holds the text.
		err = fmt.Errorf("read %s in %s: %w: %w", r.key, r.bucket, objstore.ErrChecksum, err)
	default:
		err = fmt.Errorf("read %s in %s: %w: the connection broke: %w", r.key, r.bucket, objstore.ErrUnavailable, err)
	}
	return n, err
}

func (r *body) Close() error { return r.inner.Close() }
