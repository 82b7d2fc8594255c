package s3

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// PathStyle says whether the bucket's name goes into the path of a request or
// into its host name.
type PathStyle string

// Values of PathStyle.
const (
	PathStyleAuto PathStyle = "auto" // path where the endpoint is not Amazon's own choice
	PathStyleOn   PathStyle = "on"
	PathStyleOff  PathStyle = "off"
)

// ChecksumMode says when requests carry a CRC32 and answers are held against
// theirs. Stores that do not know these headers need ChecksumWhenRequired.
type ChecksumMode string

// Values of ChecksumMode.
const (
	ChecksumDefault       ChecksumMode = "" // as the environment or profile says, else when supported
	ChecksumWhenSupported ChecksumMode = "when_supported"
	ChecksumWhenRequired  ChecksumMode = "when_required"
)

// DefaultMaxAttempts is how often a request is sent before the store counts as
// unavailable. The SDK's own 3 are too few for a build that meets throttling.
const DefaultMaxAttempts = 10

// Options of Open. Only URL is needed.
type Options struct {
	// URL names bucket and prefix: s3://bucket or s3://bucket/some/prefix.
	URL string
	// Endpoint is the base URL of the store. Default: AWS_ENDPOINT_URL_S3,
	// AWS_ENDPOINT_URL or the profile's, else Amazon's.
	Endpoint string
	// Region of the bucket. Default: the environment's or profile's; us-east-1
	// where an endpoint is set, since other stores mostly ignore it; else the
	// one that Amazon says the bucket is in.
	Region string
	// AccessKey and SecretKey, set together, are the credentials, and then
	// nothing is read from the environment, from files or from the network:
	// Endpoint must be set too. This is how the embedded store is opened.
	AccessKey string
	SecretKey string
	// PathStyle of requests; default auto: on where an endpoint is set.
	PathStyle PathStyle
	// ChecksumMode of requests and answers.
	ChecksumMode ChecksumMode
	// SSEKMSKeyID, where set, asks the store to encrypt with this KMS key.
	SSEKMSKeyID string
	// MaxAttempts of each request; default 10.
	MaxAttempts int

	backoff   backoff           // of tests
	transport http.RoundTripper // of tests: in the place of the network
}

func (o *Options) validate() error {
	if (o.AccessKey == "") != (o.SecretKey == "") {
		return fmt.Errorf("access key and secret key must be set together")
	}
	if o.AccessKey != "" && o.Endpoint == "" {
		return fmt.Errorf("an access key without an endpoint; set both, or neither to use the environment")
	}
	if o.Endpoint != "" {
		u, err := url.Parse(o.Endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("endpoint %q is not an http or https URL", shownURL(o.Endpoint))
		}
	}
	switch o.PathStyle {
	case "", PathStyleAuto, PathStyleOn, PathStyleOff:
	default:
		return fmt.Errorf("path style %q is not auto, on or off", o.PathStyle)
	}
	switch o.ChecksumMode {
	case ChecksumDefault, ChecksumWhenSupported, ChecksumWhenRequired:
	default:
		return fmt.Errorf("checksum mode %q is not when_supported or when_required", o.ChecksumMode)
	}
	if o.MaxAttempts < 0 {
		return fmt.Errorf("max attempts %d is negative", o.MaxAttempts)
	}
	return nil
}

// ParseURL takes s3://bucket/prefix apart. Slashes at the end are ignored.
func ParseURL(s string) (bucket, prefix string, err error) {
	rest, ok := strings.CutPrefix(s, "s3://")
	if !ok {
		return "", "", fmt.Errorf("store %q does not start with s3://", s)
	}
	bucket, prefix, _ = strings.Cut(strings.TrimRight(rest, "/"), "/")
	if bucket == "" {
		return "", "", fmt.Errorf("store %q names no bucket; write s3://bucket/prefix", s)
	}
	if strings.ContainsAny(bucket, "?#@: \\%") {
		return "", "", fmt.Errorf("store %q: %q is not a bucket's name; write s3://bucket/prefix", s, bucket)
	}
	if err := objstore.ValidPrefix(prefix); err != nil {
		return "", "", fmt.Errorf("store %q: %w", s, err)
	}
	return bucket, prefix, nil
}
