//go:build integration

package s3

import (
	"os"
	"strings"
	"testing"

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
