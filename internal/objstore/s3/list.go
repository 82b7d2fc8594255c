package s3

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// List implements objstore.Bucket. Objects whose key is none of ours, such as
// the folder markers of web consoles, are passed over.
func (b *Bucket) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Attr, error] {
	return func(yield func(objstore.Attr, error) bool) {
		in := &awss3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: aws.String(objstore.JoinPrefix(b.prefix, prefix))}
		if after != "" {
			in.StartAfter = aws.String(objstore.JoinPrefix(b.prefix, after))
		}
		last := after
		pages := awss3.NewListObjectsV2Paginator(b.client, in, func(o *awss3.ListObjectsV2PaginatorOptions) {
			o.StopOnDuplicateToken = true
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(objstore.Attr{}, b.wrap("list", prefix+"*", err))
				return
			}
			b.exists.Store(true)
			for _, object := range page.Contents {
				attr, ok := b.listed(object)
				if !ok {
					continue
				}
				if attr.Key <= last && last != "" {
					yield(objstore.Attr{}, fmt.Errorf("list %s* in %s: the store sent %q after %q; a store must list in byte order", prefix, b, attr.Key, last))
					return
				}
				last = attr.Key
				if !yield(attr, nil) {
					return
				}
			}
		}
	}
}

func (b *Bucket) listed(object s3types.Object) (objstore.Attr, bool) {
	key := aws.ToString(object.Key)
	if b.prefix != "" {
		var ok bool
		if key, ok = strings.CutPrefix(key, b.prefix+"/"); !ok {
			return objstore.Attr{}, false
		}
	}
	if objstore.ValidKey(key) != nil {
		return objstore.Attr{}, false
	}
	return objstore.Attr{
		Key:      key,
		Size:     aws.ToInt64(object.Size),
		ETag:     aws.ToString(object.ETag),
		Modified: aws.ToTime(object.LastModified),
	}, true
}

const (
	deleteBatch   = 1000 // keys of one request, S3's limit
	deleteWorkers = 8    // single deletes at once
)

// Delete implements objstore.Bucket: up to 1000 keys a request, or one by one
// where the store does not take batches.
func (b *Bucket) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if _, err := b.full(key); err != nil {
			return err
		}
	}
	if len(keys) == 1 {
		return b.deleteOne(ctx, keys[0])
	}
	for batch := range slices.Chunk(keys, deleteBatch) {
		err := b.deleteBatch(ctx, batch)
		if noBatches(err) {
			err = b.deleteSingly(ctx, batch)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// noBatches is true for the answers of stores that do not know DeleteObjects,
// or want another checksum for it than the one that S3 takes now.
func noBatches(err error) bool {
	switch status(err) {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return false
}

func (b *Bucket) deleteBatch(ctx context.Context, keys []string) error {
	objects := make([]s3types.ObjectIdentifier, len(keys))
	for i, key := range keys {
		objects[i].Key = aws.String(objstore.JoinPrefix(b.prefix, key))
	}
	out, err := b.client.DeleteObjects(ctx, &awss3.DeleteObjectsInput{
		Bucket: &b.bucket,
		Delete: &s3types.Delete{Objects: objects, Quiet: aws.Bool(true)},
	})
	if err != nil {
		return b.wrap("delete", fmt.Sprintf("%d keys from %s", len(keys), keys[0]), err)
	}
	// A key that failed in the batch is tried alone: its error then says more.
	var again []string
	for _, e := range out.Errors {
		if aws.ToString(e.Code) != "NoSuchKey" {
			key := aws.ToString(e.Key)
			if b.prefix != "" {
				key = strings.TrimPrefix(key, b.prefix+"/")
			}
			again = append(again, key)
		}
	}
	return b.deleteSingly(ctx, again)
}

func (b *Bucket) deleteSingly(ctx context.Context, keys []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deleteWorkers)
	for _, key := range keys {
		group.Go(func() error { return b.deleteOne(ctx, key) })
	}
	return group.Wait()
}

func (b *Bucket) deleteOne(ctx context.Context, key string) error {
	full, err := b.full(key)
	if err != nil {
		return err
	}
	_, err = b.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &b.bucket, Key: full})
	if err = b.wrap("delete", key, err); errors.Is(err, objstore.ErrNotFound) {
		return nil
	}
	return err
}

// PresignGet implements objstore.Presigner.
func (b *Bucket) PresignGet(ctx context.Context, key string, ttl time.Duration) (string, error) {
	full, err := b.full(key)
	if err != nil {
		return "", err
	}
	out, err := awss3.NewPresignClient(b.client).PresignGetObject(ctx,
		&awss3.GetObjectInput{Bucket: &b.bucket, Key: full}, awss3.WithPresignExpires(ttl))
	if err != nil {
		return "", b.wrap("presign get of", key, err)
	}
	return out.URL, nil
}

// PresignPut implements objstore.Presigner.
func (b *Bucket) PresignPut(ctx context.Context, key string, ttl time.Duration) (string, error) {
	full, err := b.full(key)
	if err != nil {
		return "", err
	}
	// The body is not known yet, so no checksum of it may be signed.
	unsummed := awss3.WithPresignClientFromClientOptions(func(o *awss3.Options) {
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	})
	out, err := awss3.NewPresignClient(b.client, unsummed).PresignPutObject(ctx,
		&awss3.PutObjectInput{Bucket: &b.bucket, Key: full}, awss3.WithPresignExpires(ttl))
	if err != nil {
		return "", b.wrap("presign put of", key, err)
	}
	return out.URL, nil
}
