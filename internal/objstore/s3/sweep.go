package s3

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

var _ objstore.UploadSweeper = (*Bucket)(nil)

// Uploads implements objstore.UploadSweeper.
func (b *Bucket) Uploads(ctx context.Context) ([]objstore.Upload, error) {
	prefix := objstore.JoinPrefix(b.prefix, "")
	in := &awss3.ListMultipartUploadsInput{Bucket: &b.bucket, Prefix: &prefix}
	var open []objstore.Upload
	pages := awss3.NewListMultipartUploadsPaginator(b.client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, b.wrap("list uploads in", "", err)
		}
		for _, u := range page.Uploads {
			// Some stores ignore the prefix here.
			if key, ok := strings.CutPrefix(aws.ToString(u.Key), prefix); ok {
				open = append(open, objstore.Upload{Key: key, ID: aws.ToString(u.UploadId), Began: aws.ToTime(u.Initiated)})
			}
		}
	}
	return open, nil
}

// AbortUpload implements objstore.UploadSweeper.
func (b *Bucket) AbortUpload(ctx context.Context, u objstore.Upload) error {
	full, err := b.full(u.Key)
	if err != nil {
		return err
	}
	_, err = b.client.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{Bucket: &b.bucket, Key: full, UploadId: &u.ID})
	if noSuchUpload(err) {
		return nil
	}
	return b.wrap("abort the upload of", u.Key, err)
}
