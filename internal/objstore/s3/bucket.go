package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// Check asks the store for one key: it is reachable, takes our credentials,
// and the bucket exists in the region that we sign for. Its errors wrap
// ErrUnavailable and name the next step. (HeadBucket would do, but its errors
// have no body to tell them apart, and roles limited to a prefix may not.)
func (b *Bucket) Check(ctx context.Context) error {
	_, err := b.client.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{
		Bucket:  &b.bucket,
		Prefix:  aws.String(objstore.JoinPrefix(b.prefix, "")),
		MaxKeys: aws.Int32(1),
	})
	if err == nil {
		b.exists.Store(true)
	}
	return b.wrap("check", "", err)
}

// EnsureBucket creates the bucket unless it is there. It is for the embedded
// store; elsewhere buckets are made by whoever pays for them.
func (b *Bucket) EnsureBucket(ctx context.Context) error {
	err := b.Check(ctx)
	var e *Error
	if !errors.As(err, &e) || e.Code != "NoSuchBucket" {
		return err
	}
	in := &awss3.CreateBucketInput{Bucket: &b.bucket}
	if b.region != defaultRegion {
		in.CreateBucketConfiguration = &s3types.CreateBucketConfiguration{LocationConstraint: s3types.BucketLocationConstraint(b.region)}
	}
	_, err = b.client.CreateBucket(ctx, in)
	switch code(err) {
	case "BucketAlreadyOwnedByYou", "BucketAlreadyExists":
		// Somebody was faster; whether it is ours shows now.
		return b.Check(ctx)
	}
	if err == nil {
		b.exists.Store(true)
	}
	return b.wrap("create bucket", "", err)
}

// Probe finds out, with a few small requests, whether the store does what
// publishing rests on: objstore.Probe's conditions, and If-None-Match when an
// upload in parts is completed, which some stores ignore while they honour it
// otherwise. It leaves nothing behind where it may delete.
func (b *Bucket) Probe(ctx context.Context) error {
	if err := objstore.Probe(ctx, b); err != nil {
		return err
	}
	return b.probeParts(ctx)
}

func (b *Bucket) probeParts(ctx context.Context) error {
	key := objstore.ProbeKey()
	if _, err := objstore.PutBytes(ctx, b, key, []byte("first"), objstore.PutOptions{}); err != nil {
		return fmt.Errorf("probe the store: %w", err)
	}
	defer func() { _ = b.Delete(context.WithoutCancel(ctx), key) }()
	err := b.completeOver(ctx, key)
	switch {
	case err == nil:
		return fmt.Errorf("probe the store: %s ignores If-None-Match on uploads in parts: %w; use a store that honours it", b, objstore.ErrIgnoresConditions)
	case status(err) == http.StatusPreconditionFailed:
		return nil
	}
	return b.wrap("probe uploads in parts of", key, err)
}

// completeOver tries to complete an upload onto a key that exists, which must
// fail. The upload is aborted in any case.
func (b *Bucket) completeOver(ctx context.Context, key string) error {
	full, err := b.full(key)
	if err != nil {
		return err
	}
	in := &awss3.CreateMultipartUploadInput{Bucket: &b.bucket, Key: full}
	if b.options.SSEKMSKeyID != "" { // a bucket's policy may insist
		in.ServerSideEncryption, in.SSEKMSKeyId = s3types.ServerSideEncryptionAwsKms, &b.options.SSEKMSKeyID
	}
	started, err := b.client.CreateMultipartUpload(ctx, in)
	if err != nil {
		return err
	}
	c := &partsClient{Client: b.client, upload: awss3.AbortMultipartUploadInput{Bucket: &b.bucket, Key: full, UploadId: started.UploadId}}
	defer c.abort(ctx)
	part, err := b.client.UploadPart(ctx, &awss3.UploadPartInput{
		Bucket: &b.bucket, Key: full, UploadId: started.UploadId,
		PartNumber: aws.Int32(1), Body: strings.NewReader("second"),
	})
	if err != nil {
		return err
	}
	_, err = b.client.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{
		Bucket: &b.bucket, Key: full, UploadId: started.UploadId, IfNoneMatch: aws.String("*"),
		MultipartUpload: &s3types.CompletedMultipartUpload{Parts: []s3types.CompletedPart{{
			PartNumber: aws.Int32(1), ETag: part.ETag,
			ChecksumCRC32: part.ChecksumCRC32, ChecksumCRC64NVME: part.ChecksumCRC64NVME,
		}}},
	})
	return err
}
