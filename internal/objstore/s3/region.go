package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// discoverRegion asks Amazon which region the bucket is in, where nobody has
// said it. The answer tells it also where it is a redirect or a refusal.
func (b *Bucket) discoverRegion(ctx context.Context) error {
	region, err := b.askRegion(ctx, defaultRegion)
	if err != nil {
		return fmt.Errorf("open %s: no region is set, and Amazon S3 was asked in vain: %w; set AWS_REGION to the bucket's region", b, err)
	}
	b.region = region
	options := b.client.Options()
	options.Region = region
	b.client = awss3.New(options)
	return nil
}

// askRegion asks for the region of the bucket, signed for the given one.
func (b *Bucket) askRegion(ctx context.Context, signed string) (string, error) {
	out, err := b.client.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: &b.bucket}, func(o *awss3.Options) { o.Region = signed })
	if err == nil {
		if region := aws.ToString(out.BucketRegion); region != "" {
			return region, nil
		}
		return signed, nil // it was found there
	}
	var response *awshttp.ResponseError
	if errors.As(err, &response) && response.Response != nil {
		if region := response.Response.Header.Get("X-Amz-Bucket-Region"); region != "" {
			return region, nil
		}
		if response.HTTPStatusCode() == http.StatusNotFound {
			return "", fmt.Errorf("%w: there is no bucket %s", objstore.ErrUnavailable, b.bucket)
		}
	}
	return "", b.wrap("find the region of", "", err)
}
