package s3

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	tmtypes "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

const (
	minPart  = 8 << 20
	maxParts = 10000 // of one upload, S3's limit
	// partWorkers send parts of one upload at once; each holds a part in
	// memory, and so do the one being read and the first.
	partWorkers = 4
	// largeUploads run at once; with parts of 8 MiB they hold about 150 MiB.
	largeUploads = 3
	// abortTimeout is for cleaning up after a failure, when the caller's own
	// context may have ended.
	abortTimeout = 30 * time.Second
)

// partSize is the size of the parts of a body: 8 MiB up to 72 GiB, then whole
// MiB so that at most 9,000 of the 10,000 parts are used. All parts but the
// last are equal, which some stores insist on.
func partSize(size int64) int64 {
	const used = maxParts * 9 / 10
	part := (size + used - 1) / used
	part = (part + 1<<20 - 1) >> 20 << 20
	return max(part, minPart)
}

// putParts sends a large body in parts of one size.
func (b *Bucket) putParts(ctx context.Context, w *write) (objstore.Attr, error) {
	select {
	case b.large <- struct{}{}:
		defer func() { <-b.large }()
	case <-ctx.Done():
		return objstore.Attr{}, ctx.Err()
	}
	client := &partsClient{Client: b.client}
	manager := transfermanager.New(client, func(o *transfermanager.Options) {
		o.PartSizeBytes = partSize(w.size)
		o.MultipartUploadThreshold = minPart
		o.Concurrency = partWorkers
		// Its own default would override the client's.
		o.RequestChecksumCalculation = b.client.Options().RequestChecksumCalculation
		o.FailTimeout = abortTimeout
	})
	in := &transfermanager.UploadObjectInput{
		Bucket:      &b.bucket,
		Key:         w.full,
		Body:        w.body,
		ContentType: &w.opt.ContentType,
		Metadata:    w.metadata(),
		IfNoneMatch: w.ifNoneMatch(),
	}
	if b.options.SSEKMSKeyID != "" {
		in.ServerSideEncryption = tmtypes.ServerSideEncryptionAwsKms
		in.SSEKMSKeyID = &b.options.SSEKMSKeyID
	}
	out, err := manager.UploadObject(ctx, in)
	if client.failed != nil {
		err = client.failed
		client.abort(ctx)
	}
	if err != nil {
		return objstore.Attr{}, err
	}
	attr := w.attr(aws.ToString(out.ETag), out.ResultMetadata)
	return attr, b.checkParts(ctx, w)
}

// checkParts looks at what the store put together: an upload whose parts got
// lost must not count as written.
func (b *Bucket) checkParts(ctx context.Context, w *write) error {
	there, mark, err := b.head(ctx, *w.key)
	if err != nil {
		return fmt.Errorf("check the upload: %w", err)
	}
	if mark == w.mark && there.Size != w.size {
		return fmt.Errorf("the store made %d bytes of the %d that were sent: %w", there.Size, w.size, objstore.ErrChecksum)
	}
	return nil
}

// A partsClient stands between the transfer manager and the client. It keeps
// the error of the completion to itself, because the manager prints that to
// the standard log and hides it behind the error of a failed abort.
type partsClient struct {
	*awss3.Client
	failed error // of the completion
	upload awss3.AbortMultipartUploadInput
}

// CompleteMultipartUpload implements transfermanager.S3APIClient.
func (c *partsClient) CompleteMultipartUpload(ctx context.Context, in *awss3.CompleteMultipartUploadInput, options ...func(*awss3.Options)) (*awss3.CompleteMultipartUploadOutput, error) {
	out, err := c.Client.CompleteMultipartUpload(ctx, in, options...)
	if err != nil {
		c.failed = err
		c.upload = awss3.AbortMultipartUploadInput{Bucket: in.Bucket, Key: in.Key, UploadId: in.UploadId}
		return &awss3.CompleteMultipartUploadOutput{}, nil
	}
	return out, nil
}

// AbortMultipartUpload implements transfermanager.S3APIClient. A failed abort
// is not told: the upload's own error matters, and gc removes what stays.
func (c *partsClient) AbortMultipartUpload(ctx context.Context, in *awss3.AbortMultipartUploadInput, options ...func(*awss3.Options)) (*awss3.AbortMultipartUploadOutput, error) {
	_, _ = c.Client.AbortMultipartUpload(ctx, in, options...)
	return &awss3.AbortMultipartUploadOutput{}, nil
}

func (c *partsClient) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_, _ = c.Client.AbortMultipartUpload(ctx, &c.upload)
}
