package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// largeBody is the size from which a new body goes up in parts.
const largeBody = 16 << 20

// writeMark is the metadata key that holds a random mark of one write. Where a
// write was sent twice because the first answer got lost, the mark tells the
// write's own success from somebody else's.
const writeMark = "stillhouse-write"

const defaultContentType = "application/octet-stream"

// A write is one Put with all that its attempts share.
type write struct {
	key, full *string
	body      io.ReadSeeker
	start     int64
	size      int64
	opt       objstore.PutOptions
	mark      string
}

// Put implements objstore.Bucket. The Modified time that it returns is that of
// the answer, not yet the one that Head will tell.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opt objstore.PutOptions) (objstore.Attr, error) {
	full, err := b.full(key)
	if err != nil {
		return objstore.Attr{}, err
	}
	if opt.IfNoneMatch && opt.IfMatch != "" {
		return objstore.Attr{}, fmt.Errorf("put %s in %s: IfNoneMatch and IfMatch are both set", key, b)
	}
	start, err := objstore.BodySize(body, size)
	if err != nil {
		return objstore.Attr{}, fmt.Errorf("put %s in %s: %w", key, b, err)
	}
	if opt.ContentType == "" {
		opt.ContentType = defaultContentType
	}
	w := &write{key: &key, full: full, body: body, start: start, size: size, opt: opt, mark: rand.Text()}
	send := b.putWhole
	// In one request, however large, where it replaces what was read: some
	// stores ignore If-Match when an upload in parts is completed.
	if size >= largeBody && opt.IfMatch == "" {
		send = b.putParts
	}
	attr, err := b.try(ctx, w, send)
	if err == nil {
		b.exists.Store(true)
		return attr, nil
	}
	return b.settle(ctx, w, err)
}

// try sends the write until the store no longer answers with a conflict
// between writers, which is neither a win nor a loss (S3: "retry the upload";
// for one in parts, from its start).
func (b *Bucket) try(ctx context.Context, w *write, send func(context.Context, *write) (objstore.Attr, error)) (objstore.Attr, error) {
	for attempt := 1; ; attempt++ {
		attr, err := send(ctx, w)
		if !conflict(err) || attempt >= b.maxAttempts {
			return attr, err
		}
		if err := b.pause(ctx, attempt, err); err != nil {
			return objstore.Attr{}, err
		}
		if _, err := w.body.Seek(w.start, io.SeekStart); err != nil {
			return objstore.Attr{}, fmt.Errorf("rewind the body: %w", err)
		}
	}
}

// settle maps a failed write. Where the failure may be the echo of its own
// success, the object's mark decides.
func (b *Bucket) settle(ctx context.Context, w *write, err error) (objstore.Attr, error) {
	failed := b.wrapPut(w, err)
	if !errors.Is(failed, objstore.ErrPrecondition) && !noSuchUpload(err) {
		return objstore.Attr{}, failed
	}
	attr, mark, headErr := b.head(ctx, *w.key)
	if headErr == nil && mark == w.mark && attr.Size == w.size {
		return attr, nil
	}
	return objstore.Attr{}, failed
}

func (b *Bucket) wrapPut(w *write, err error) error {
	err = b.wrap("put", *w.key, err)
	var e *Error
	if w.opt.IfMatch != "" && errors.As(err, &e) && e.kind == objstore.ErrNotFound {
		e.kind = objstore.ErrPrecondition
	}
	if errors.As(err, &e) && conflict(e.cause) {
		e.kind = objstore.ErrUnavailable
		e.Hint = "other writers of this key kept getting in the way; try again"
	}
	return err
}

// putWhole sends the body in one request.
func (b *Bucket) putWhole(ctx context.Context, w *write) (objstore.Attr, error) {
	in := &awss3.PutObjectInput{
		Bucket:        &b.bucket,
		Key:           w.full,
		Body:          w.body,
		ContentLength: &w.size,
		ContentType:   &w.opt.ContentType,
		Metadata:      w.metadata(),
		IfNoneMatch:   w.ifNoneMatch(),
		IfMatch:       w.ifMatch(),
	}
	if b.options.SSEKMSKeyID != "" {
		in.ServerSideEncryption = s3types.ServerSideEncryptionAwsKms
		in.SSEKMSKeyId = &b.options.SSEKMSKeyID
	}
	out, err := b.client.PutObject(ctx, in)
	if err != nil {
		return objstore.Attr{}, err
	}
	return w.attr(aws.ToString(out.ETag), out.ResultMetadata), nil
}

func (w *write) metadata() map[string]string { return map[string]string{writeMark: w.mark} }

func (w *write) ifNoneMatch() *string {
	if w.opt.IfNoneMatch {
		return aws.String("*")
	}
	return nil
}

func (w *write) ifMatch() *string {
	if w.opt.IfMatch != "" {
		return &w.opt.IfMatch
	}
	return nil
}

func (w *write) attr(etag string, answer middleware.Metadata) objstore.Attr {
	modified, ok := awsmiddleware.GetServerTime(answer)
	if !ok {
		modified = time.Now()
	}
	return objstore.Attr{Key: *w.key, Size: w.size, ETag: etag, Modified: modified.UTC()}
}
