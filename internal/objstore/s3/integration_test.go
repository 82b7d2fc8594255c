//go:build integration

package s3

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/objstoretest"
)

// openReal opens a fresh prefix of a real store, named by
// STILLHOUSE_TEST_S3_ENDPOINT, _BUCKET (default stillhouse-test), _ACCESS_KEY
// and _SECRET_KEY.
func openReal(t testing.TB, prefix string) *Bucket {
	t.Helper()
	endpoint := os.Getenv("STILLHOUSE_TEST_S3_ENDPOINT")
	if endpoint == "" {
		t.Skip("set STILLHOUSE_TEST_S3_ENDPOINT, STILLHOUSE_TEST_S3_ACCESS_KEY and STILLHOUSE_TEST_S3_SECRET_KEY to run this test")
	}
	bucket := os.Getenv("STILLHOUSE_TEST_S3_BUCKET")
	if bucket == "" {
		bucket = "stillhouse-test"
	}
	b, err := Open(t.Context(), Options{
		URL:       "s3://" + bucket + "/" + prefix,
		Endpoint:  endpoint,
		AccessKey: os.Getenv("STILLHOUSE_TEST_S3_ACCESS_KEY"),
		SecretKey: os.Getenv("STILLHOUSE_TEST_S3_SECRET_KEY"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func freshPrefix() string {
	return strings.ReplaceAll(objstore.ProbeKey(), "/", "-")
}

func TestRealStore(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Bucket { return openReal(t, freshPrefix()) })
}

func TestRealStoreProbe(t *testing.T) {
	if err := openReal(t, freshPrefix()).Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkRealStorePutSmall(b *testing.B) {
	bucket := openReal(b, freshPrefix())
	data := make([]byte, 4096)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := objstore.PutBytes(b.Context(), bucket, objstore.ProbeKey(), data, objstore.PutOptions{IfNoneMatch: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRealStorePutLarge(b *testing.B) {
	bucket := openReal(b, freshPrefix())
	data := make([]byte, 100<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := objstore.PutBytes(b.Context(), bucket, objstore.ProbeKey(), data, objstore.PutOptions{IfNoneMatch: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRealStoreGetLarge(b *testing.B) {
	bucket := openReal(b, freshPrefix())
	if _, err := objstore.PutBytes(b.Context(), bucket, "k", make([]byte, 100<<20), objstore.PutOptions{}); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(100 << 20)
	for b.Loop() {
		if _, _, err := objstore.ReadAll(b.Context(), bucket, "k", 1<<30); err != nil {
			b.Fatal(err)
		}
	}
}

func TestRealStorePresigned(t *testing.T) {
	b := openReal(t, freshPrefix())
	send := func(method, url, body string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	put, err := b.PresignPut(t.Context(), "with space/result+1.json", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if status, text := send(http.MethodPut, put, "from a trainer"); status != http.StatusOK {
		t.Fatalf("put: %d %s", status, text)
	}
	get, err := b.PresignGet(t.Context(), "with space/result+1.json", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if status, text := send(http.MethodGet, get, ""); status != http.StatusOK || text != "from a trainer" {
		t.Fatalf("get: %d %s", status, text)
	}
	if status, _ := send(http.MethodGet, strings.Replace(get, "result", "other", 1), ""); status != http.StatusForbidden {
		t.Fatalf("get of another key: %d", status)
	}
}

func TestRealStoreUploads(t *testing.T) {
	b := openReal(t, freshPrefix())
	full, err := b.full("data/k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.client.CreateMultipartUpload(t.Context(), &awss3.CreateMultipartUploadInput{Bucket: &b.bucket, Key: full}); err != nil {
		t.Fatal(err)
	}
	open, err := b.Uploads(t.Context())
	if err != nil || len(open) != 1 || open[0].Key != "data/k" || time.Since(open[0].Began) > time.Hour {
		t.Fatalf("open: %+v, %v", open, err)
	}
	for range 2 {
		if err := b.AbortUpload(t.Context(), open[0]); err != nil {
			t.Fatal(err)
		}
	}
	if open, err = b.Uploads(t.Context()); err != nil || len(open) != 0 {
		t.Fatalf("after the abort: %+v, %v", open, err)
	}
}

func TestRealStoreRefusesAWrongSecret(t *testing.T) {
	b := openReal(t, freshPrefix())
	o := b.options
	o.SecretKey += "x"
	wrong, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.AccessKey += "x"
	unknown, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string]*Bucket{"secret": wrong, "access key": unknown} {
		_, headErr := b.Head(t.Context(), "k")
		_, _, getErr := b.Get(t.Context(), "k")
		for op, err := range map[string]error{"head": headErr, "get": getErr} {
			if !errors.Is(err, objstore.ErrUnavailable) || errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("%s with a wrong %s: %v", op, what, err)
			}
		}
	}
}
