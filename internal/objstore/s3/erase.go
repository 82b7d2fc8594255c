package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

var _ objstore.Eraser = (*Bucket)(nil)

// Erase implements objstore.Eraser. Where the bucket keeps versions, or once did,
// all of a key's are deleted, and its delete markers; where the role may not ask
// whether it does, they are looked for all the same. An object under a lock or a
// legal hold is an error.
func (b *Bucket) Erase(ctx context.Context, keys ...string) error {
	if err := b.Delete(ctx, keys...); err != nil {
		return err
	}
	versioned, err := b.Versioned(ctx)
	if err != nil || !versioned {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deleteWorkers)
	for _, key := range keys {
		group.Go(func() error { return b.eraseVersions(ctx, key) })
	}
	return group.Wait()
}

// Versioned tells whether the bucket keeps versions of its objects, or may hold
// some from when it did. A store that does not know the question keeps none.
func (b *Bucket) Versioned(ctx context.Context) (bool, error) {
	out, err := b.client.GetBucketVersioning(ctx, &awss3.GetBucketVersioningInput{Bucket: &b.bucket})
	if err != nil {
		switch status(err) {
		case http.StatusNotImplemented, http.StatusMethodNotAllowed, http.StatusNotFound:
			return false, nil
		case http.StatusForbidden:
			return true, nil // perhaps
		}
		if code(err) == "VersioningNotConfigured" {
			return false, nil
		}
		return false, b.wrap("ask for the versioning of", "", err)
	}
	return out.Status != "", nil
}

func (b *Bucket) eraseVersions(ctx context.Context, key string) error {
	full, err := b.full(key)
	if err != nil {
		return err
	}
	in := &awss3.ListObjectVersionsInput{Bucket: &b.bucket, Prefix: full}
	pages := awss3.NewListObjectVersionsPaginator(b.client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			switch status(err) {
			case http.StatusNotImplemented, http.StatusMethodNotAllowed:
				return nil // it keeps none
			}
			return eraseHint(b.wrap("list the versions of", key, err))
		}
		for _, v := range page.Versions {
			if aws.ToString(v.Key) == *full {
				if err := b.eraseVersion(ctx, key, full, v.VersionId); err != nil {
					return err
				}
			}
		}
		for _, v := range page.DeleteMarkers {
			if aws.ToString(v.Key) == *full {
				if err := b.eraseVersion(ctx, key, full, v.VersionId); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *Bucket) eraseVersion(ctx context.Context, key string, full, version *string) error {
	_, err := b.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &b.bucket, Key: full, VersionId: version})
	if err == nil {
		return nil
	}
	var gone *s3types.NoSuchKey
	if errors.As(err, &gone) || code(err) == "NoSuchVersion" {
		return nil
	}
	return eraseHint(b.wrap("delete a version of", key, err))
}

// eraseHint says what a purge of a bucket with versions needs.
func eraseHint(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusForbidden {
		return fmt.Errorf("%w; the bucket keeps versions, so that erasing needs s3:ListBucketVersions and s3:DeleteObjectVersion, and no lock on the object", err)
	}
	return err
}
