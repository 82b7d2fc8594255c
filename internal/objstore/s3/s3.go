// Package s3 is the object store over the S3 protocol: Amazon's, the embedded
// gateway, or any other that honours conditional writes (Probe finds out).
//
//	bucket, err := s3.Open(ctx, s3.Options{URL: "s3://datasets/team-a"})
//
// With no keys given, endpoint, region and credentials come from where AWS
// tools look: the environment, the shared files and their profiles, single
// sign-on, and the role of a container or an instance. With keys given (the
// embedded store), nothing but the options counts.
//
// Every request carries a checksum where the store takes one, and what comes
// back is held against the stored one. Small bodies go up in one request,
// large ones in parts of a size chosen from the known length. A write that was
// sent again and then meets its own first success is recognised and reported
// as the success that it is.
package s3

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

const defaultRegion = "us-east-1"

// A Bucket is one prefix of one bucket. It is safe for concurrent use.
type Bucket struct {
	client  *awss3.Client
	bucket  string
	prefix  string
	options Options

	endpoint    string // for messages; "" is Amazon's
	region      string
	credentials string // their source, for messages
	pathStyle   bool

	backoff     backoff
	maxAttempts int
	large       chan struct{} // bounds uploads in parts at once
	exists      atomic.Bool   // the bucket was seen, so a bare 404 means the key
}

var (
	_ objstore.Bucket    = (*Bucket)(nil)
	_ objstore.Presigner = (*Bucket)(nil)
)

// Open prepares access to a bucket. It finds the credentials, which may ask
// the machine's metadata service, but does not talk to the store yet.
func Open(ctx context.Context, o Options) (*Bucket, error) {
	bucket, prefix, err := ParseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("store %s: %w", o.URL, err)
	}
	b := &Bucket{
		bucket:  bucket,
		prefix:  prefix,
		options: o,
		backoff: o.backoff,
		large:   make(chan struct{}, largeUploads),
	}
	if b.backoff == nil {
		b.backoff = newBackoff()
	}
	if o.AccessKey != "" {
		b.openByHand()
		return b, nil
	}
	if err := b.openByEnvironment(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// openByHand uses the options alone: a stray variable or profile must not
// redirect the embedded store's traffic, and no metadata service is asked.
func (b *Bucket) openByHand() {
	o := awss3.Options{
		BaseEndpoint:               aws.String(b.options.Endpoint),
		Region:                     b.options.Region,
		Credentials:                credentials.NewStaticCredentialsProvider(b.options.AccessKey, b.options.SecretKey, ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
		HTTPClient:                 newHTTPClient(withoutProxy),
	}
	if o.Region == "" {
		o.Region = defaultRegion
	}
	b.finish(&o)
	b.credentials = "given keys"
	b.client = awss3.New(o)
}

func (b *Bucket) openByEnvironment(ctx context.Context) error {
	load := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{}), config.WithHTTPClient(newHTTPClient())}
	if b.options.Region != "" {
		load = append(load, config.WithRegion(b.options.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return fmt.Errorf("open %s: read the AWS settings: %w: %w; see AWS_PROFILE, ~/.aws/config and ~/.aws/credentials", b, objstore.ErrUnavailable, err)
	}
	b.client = awss3.NewFromConfig(cfg, func(o *awss3.Options) {
		if b.options.transport != nil {
			o.HTTPClient = &http.Client{Transport: b.options.transport}
		}
		if b.options.Endpoint != "" {
			o.BaseEndpoint = aws.String(b.options.Endpoint)
		}
		if o.Region == "" && o.BaseEndpoint != nil {
			o.Region = defaultRegion
		}
		if b.options.MaxAttempts == 0 && cfg.RetryMaxAttempts > 0 {
			b.options.MaxAttempts = cfg.RetryMaxAttempts
		}
		b.finish(o)
	})
	found, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("open %s: %w", b, ctx.Err())
		}
		return fmt.Errorf("open %s: %w: no AWS credentials: %w; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where a role is given", b, objstore.ErrUnavailable, err)
	}
	b.credentials = found.Source
	if b.region == "" {
		return b.discoverRegion(ctx)
	}
	return nil
}

// finish sets what both ways of opening share.
func (b *Bucket) finish(o *awss3.Options) {
	switch b.options.ChecksumMode {
	case ChecksumWhenSupported:
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenSupported
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenSupported
	case ChecksumWhenRequired:
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}
	switch b.options.PathStyle {
	case PathStyleOn:
		o.UsePathStyle = true
	case PathStyleOff:
		o.UsePathStyle = false
	default:
		o.UsePathStyle = o.BaseEndpoint != nil
	}
	b.maxAttempts = b.options.MaxAttempts
	if b.maxAttempts == 0 {
		b.maxAttempts = DefaultMaxAttempts
	}
	o.Retryer = newRetryer(b.maxAttempts, b.backoff, b.embedded())
	o.RetryMaxAttempts = 0 // the retryer has it
	// The SDK's remarks would go to stderr, across the progress bars.
	o.Logger = logging.Nop{}
	o.DisableLogOutputChecksumValidationSkipped = true
	if o.BaseEndpoint != nil {
		o.APIOptions = append(o.APIOptions, leaveAcceptEncodingUnsigned)
	}
	b.endpoint = shownURL(aws.ToString(o.BaseEndpoint))
	b.region = o.Region
	b.pathStyle = o.UsePathStyle
}

// shownURL is an endpoint for messages, without what may be a password.
func shownURL(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.User == nil && u.RawQuery == "" {
		return endpoint
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// embedded is true where the options stand alone.
func (b *Bucket) embedded() bool { return b.options.AccessKey != "" }

// String is the URL that the bucket was opened with.
func (b *Bucket) String() string {
	if b.prefix == "" {
		return "s3://" + b.bucket
	}
	return "s3://" + b.bucket + "/" + b.prefix
}

// Describe says in one line where requests go and which credentials sign
// them. It holds no secret.
func (b *Bucket) Describe() string {
	var s strings.Builder
	s.WriteString(b.String())
	if b.endpoint != "" {
		s.WriteString(" at " + b.endpoint)
	}
	style := "virtual-host style"
	if b.pathStyle {
		style = "path style"
	}
	fmt.Fprintf(&s, ", region %s, %s, credentials: %s", b.region, style, b.credentials)
	return s.String()
}

// full is the key as the store sees it.
func (b *Bucket) full(key string) (*string, error) {
	if err := objstore.ValidKey(key); err != nil {
		return nil, err
	}
	full := objstore.JoinPrefix(b.prefix, key)
	if len(full) > objstore.MaxKeyBytes {
		return nil, fmt.Errorf("%w %q under %s: %d bytes, at most %d", objstore.ErrInvalidKey, key, b, len(full), objstore.MaxKeyBytes)
	}
	return &full, nil
}
