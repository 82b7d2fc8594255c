package s3

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/objstoretest"
)

// openFake opens a bucket on a fake; retries follow at once.
func openFake(t *testing.T, f *fakeS3, change ...func(*Options)) *Bucket {
	t.Helper()
	o := Options{
		URL:       "s3://datasets/team-a",
		Endpoint:  f.URL,
		AccessKey: fakeKey,
		SecretKey: fakeSecret,
		backoff:   func(int, error) time.Duration { return time.Nanosecond },
	}
	for _, c := range change {
		c(&o)
	}
	b, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConformance(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Bucket { return openFake(t, newFake(t, "datasets")) })
}

func TestProbeLeavesNothing(t *testing.T) {
	f := newFake(t, "datasets")
	if err := openFake(t, f).Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(f.objects) != 0 || f.openUploads() != 0 {
		t.Fatalf("left %d objects and %d uploads", len(f.objects), f.openUploads())
	}
}

func TestProbeRefusesStoresThatIgnoreConditions(t *testing.T) {
	for _, test := range []struct{ op, header string }{
		{"put", "If-None-Match"}, {"put", "If-Match"}, {"complete", "If-None-Match"},
	} {
		t.Run(test.op+" "+test.header, func(t *testing.T) {
			f := newFake(t, "datasets")
			f.hook = func(op, _ string, _ http.ResponseWriter, r *http.Request) bool {
				if op == test.op {
					r.Header.Del(test.header)
				}
				return false
			}
			err := openFake(t, f).Probe(t.Context())
			if !errors.Is(err, objstore.ErrIgnoresConditions) || !strings.Contains(err.Error(), test.header) {
				t.Fatalf("error %v", err)
			}
		})
	}
}

func TestEnsureBucket(t *testing.T) {
	f := newFake(t, "")
	b := openFake(t, f)
	err := b.Check(t.Context())
	if !errors.Is(err, objstore.ErrUnavailable) || !strings.Contains(err.Error(), "create the bucket datasets") {
		t.Fatalf("check without a bucket: %v", err)
	}
	for range 2 {
		if err := b.EnsureBucket(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.count("put-bucket"); got != 1 {
		t.Fatalf("created it %d times", got)
	}
	if err := b.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAMissingBucketIsNotAMissingKey(t *testing.T) {
	b := openFake(t, newFake(t, "other"))
	_, headErr := b.Head(t.Context(), "k")
	_, _, getErr := b.Get(t.Context(), "k")
	_, putErr := objstore.PutBytes(t.Context(), b, "k", nil, objstore.PutOptions{IfMatch: `"x"`})
	for op, err := range map[string]error{"head": headErr, "get": getErr, "put": putErr} {
		if !errors.Is(err, objstore.ErrUnavailable) || errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrPrecondition) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func TestOptionsAlone(t *testing.T) {
	f := newFake(t, "datasets")
	// What would redirect or sign otherwise if it were read.
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
	t.Setenv("AWS_ACCESS_KEY_ID", "stray")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "stray")
	t.Setenv("AWS_REGION", "eu-stray-1")
	t.Setenv("AWS_CONFIG_FILE", "/does/not/exist")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	b := openFake(t, f)
	if _, err := objstore.PutBytes(t.Context(), b, "k", []byte("x"), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.Describe(), "s3://datasets/team-a at "+f.URL+", region us-east-1, path style, credentials: given keys"; got != want {
		t.Fatalf("described as %q, want %q", got, want)
	}
}

// isolate keeps the machine's own AWS settings out of a test.
func isolate(t *testing.T) {
	for _, name := range []string{"AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_MAX_ATTEMPTS", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_WEB_IDENTITY_TOKEN_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/config")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/credentials")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func TestEnvironment(t *testing.T) {
	isolate(t)
	f := newFake(t, "datasets")
	t.Setenv("AWS_ENDPOINT_URL_S3", f.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", fakeKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", fakeSecret)
	b, err := Open(t.Context(), Options{URL: "s3://datasets"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := objstore.PutBytes(t.Context(), b, "k", []byte("x"), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.Describe(), "s3://datasets at "+f.URL+", region us-east-1, path style, credentials: EnvConfigCredentials"; got != want {
		t.Fatalf("described as %q, want %q", got, want)
	}
	if b.maxAttempts != DefaultMaxAttempts {
		t.Fatalf("%d attempts", b.maxAttempts)
	}
	t.Setenv("AWS_MAX_ATTEMPTS", "4")
	t.Setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
	if b, err = Open(t.Context(), Options{URL: "s3://datasets"}); err != nil {
		t.Fatal(err)
	}
	if b.maxAttempts != 4 {
		t.Fatalf("AWS_MAX_ATTEMPTS=4 gives %d attempts", b.maxAttempts)
	}
	// The parts of a large body must heed it as well.
	f.hook = func(op, _ string, _ http.ResponseWriter, r *http.Request) bool {
		if sum := r.Header.Get("X-Amz-Checksum-Crc32"); sum != "" && (op == "put" || op == "part") {
			t.Errorf("%s carries a checksum", op)
		}
		return false
	}
	for _, size := range []int{10, 17 << 20} {
		if _, err := objstore.PutBytes(t.Context(), b, "k", make([]byte, size), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNoCredentials(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_REGION", "eu-west-1")
	_, err := Open(t.Context(), Options{URL: "s3://datasets"})
	if !errors.Is(err, objstore.ErrUnavailable) || !strings.Contains(err.Error(), "set AWS_ACCESS_KEY_ID") {
		t.Fatalf("error %v", err)
	}
}

// A network answers requests in the place of Amazon.
type network func(*http.Request) (*http.Response, error)

func (n network) RoundTrip(r *http.Request) (*http.Response, error) { return n(r) }

func answer(r *http.Request, status int, headers map[string]string) (*http.Response, error) {
	out := &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}
	for name, value := range headers {
		out.Header.Set(name, value)
	}
	return out, nil
}

func TestRegionIsDiscovered(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_ACCESS_KEY_ID", fakeKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", fakeSecret)
	for status, want := range map[int]string{200: "eu-west-3", 301: "eu-west-3", 403: "eu-west-3", 400: "eu-west-3", 404: "", 500: ""} {
		var signed []string
		b, err := Open(t.Context(), Options{URL: "s3://datasets", MaxAttempts: 1, transport: network(func(r *http.Request) (*http.Response, error) {
			signed = append(signed, r.Header.Get("Authorization"))
			headers := map[string]string{}
			if want != "" {
				headers["X-Amz-Bucket-Region"] = want
			}
			return answer(r, status, headers)
		})})
		if want == "" {
			if !errors.Is(err, objstore.ErrUnavailable) || !strings.Contains(err.Error(), "set AWS_REGION") {
				t.Errorf("%d: error %v", status, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%d: %v", status, err)
		}
		_ = b.Check(t.Context())
		if len(signed) != 2 || !strings.Contains(signed[0], "/us-east-1/s3/") || !strings.Contains(signed[1], "/eu-west-3/s3/") || !strings.Contains(b.Describe(), "region eu-west-3") {
			t.Errorf("%d: signed %q, described as %s", status, signed, b.Describe())
		}
	}
}

func TestNoRegion(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_ACCESS_KEY_ID", fakeKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", fakeSecret)
	_, err := Open(t.Context(), Options{URL: "s3://datasets", MaxAttempts: 1, transport: network(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("no network here")
	})})
	if err == nil || !strings.Contains(err.Error(), "set AWS_REGION") {
		t.Fatalf("error %v", err)
	}
}

// Google's store and some proxies change Accept-Encoding, so it is not signed;
// Amazon's requests stay as the SDK signs them.
func TestAcceptEncodingIsNotSigned(t *testing.T) {
	f := newFake(t, "datasets")
	seen := 0
	f.hook = func(op, _ string, _ http.ResponseWriter, r *http.Request) bool {
		seen++
		if strings.Contains(r.Header.Get("Authorization"), "accept-encoding") || r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("%s: %q, Accept-Encoding %q", op, r.Header.Get("Authorization"), r.Header.Get("Accept-Encoding"))
		}
		return false
	}
	b := openFake(t, f)
	if _, err := objstore.PutBytes(t.Context(), b, "k", []byte("x"), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := objstore.ReadAll(t.Context(), b, "k", 10); err != nil || seen < 2 {
		t.Fatal(err)
	}
}

// Every request that stores something asks for the key, also the probe's.
func TestKMS(t *testing.T) {
	f := newFake(t, "datasets")
	f.hook = func(op, _ string, _ http.ResponseWriter, r *http.Request) bool {
		if op == "put" || op == "create-upload" {
			if r.Header.Get("X-Amz-Server-Side-Encryption") != "aws:kms" || r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") != "alias/team" {
				t.Errorf("%s without the key: %v", op, r.Header)
			}
		}
		return false
	}
	b := openFake(t, f, func(o *Options) { o.SSEKMSKeyID = "alias/team" })
	for _, size := range []int{10, 17 << 20} {
		if _, err := objstore.PutBytes(t.Context(), b, "k", make([]byte, size), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.count("put") == 0 || f.count("create-upload") == 0 {
		t.Fatal("the fake knows other operations")
	}
}

func TestBadOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"does not start with s3://":                 {URL: "https://x"},
		"names no bucket":                           {URL: "s3:///x"},
		"is not a bucket's name":                    {URL: "s3://b?x=y"},
		"invalid key":                               {URL: "s3://b/a/../c"},
		"must be set together":                      {URL: "s3://b", AccessKey: "a"},
		"without an endpoint":                       {URL: "s3://b", AccessKey: "a", SecretKey: "b"},
		"is not an http or https URL":               {URL: "s3://b", Endpoint: "localhost:9000"},
		"is not auto, on or off":                    {URL: "s3://b", PathStyle: "yes"},
		"is not when_supported or when_required":    {URL: "s3://b", ChecksumMode: "never"},
		"is negative":                               {URL: "s3://b", MaxAttempts: -1},
		`"-" is not an http or https URL`:           {URL: "s3://b", Endpoint: "-"},
		`endpoint "ftp://x" is not an http or http`: {URL: "s3://b", Endpoint: "ftp://x"},
	} {
		if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", o, err, want)
		}
	}
}

func TestParseURL(t *testing.T) {
	for url, want := range map[string][2]string{
		"s3://b":         {"b", ""},
		"s3://b/":        {"b", ""},
		"s3://b/p":       {"b", "p"},
		"s3://b/p/q r//": {"b", "p/q r"},
	} {
		bucket, prefix, err := ParseURL(url)
		if err != nil || bucket != want[0] || prefix != want[1] {
			t.Errorf("%s: %q %q %v", url, bucket, prefix, err)
		}
	}
}

func TestNothingListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := "http://" + listener.Addr().String()
	listener.Close()
	tries := 0
	b, err := Open(t.Context(), Options{
		URL: "s3://datasets", Endpoint: endpoint, AccessKey: "a", SecretKey: "b",
		backoff: func(int, error) time.Duration { tries++; return time.Nanosecond },
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Head(t.Context(), "k")
	if !errors.Is(err, objstore.ErrUnavailable) || !strings.Contains(err.Error(), "nothing answers at "+endpoint) || !strings.Contains(err.Error(), "connection refused") {
		t.Fatalf("error %v", err)
	}
	if tries != dialAttempts-1 {
		t.Fatalf("%d retries", tries)
	}
}

func TestCancelDuringRetries(t *testing.T) {
	f := newFake(t, "datasets")
	ctx, cancel := context.WithCancel(t.Context())
	f.hook = func(_, _ string, w http.ResponseWriter, _ *http.Request) bool {
		cancel()
		refuse(w, 503, "SlowDown")
		return true
	}
	b := openFake(t, f, func(o *Options) { o.backoff = func(int, error) time.Duration { return time.Hour } })
	_, err := b.Head(ctx, "k")
	if !errors.Is(err, context.Canceled) || errors.Is(err, objstore.ErrUnavailable) {
		t.Fatalf("error %v", err)
	}
}

// Some put the credentials of a proxy into the endpoint. They are no part of a
// message.
func TestEndpointIsShownWithoutPassword(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://user:hunter22@127.0.0.1:1/")
	t.Setenv("AWS_ACCESS_KEY_ID", fakeKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", fakeSecret)
	b, err := Open(t.Context(), Options{URL: "s3://datasets", MaxAttempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = b.Get(t.Context(), "k")
	if err == nil {
		t.Fatal("something answers at port 1")
	}
	_, bad := Open(t.Context(), Options{URL: "s3://datasets", Endpoint: "ftp://user:hunter22@127.0.0.1:1/"})
	for _, said := range []string{b.Describe(), err.Error(), bad.Error()} {
		if strings.Contains(said, "hunter22") || !strings.Contains(said, "127.0.0.1:1") {
			t.Errorf("said: %s", said)
		}
	}
}
