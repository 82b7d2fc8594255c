//go:build integration

package dir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/dir"
	"github.com/stillhouse-data/stillhouse/internal/objstore/s3"
)

// What the gateway serves and what lies in its folder (STILLHOUSE_TEST_S3_ROOT,
// the folder above its buckets) are the same.
func TestReadsWhatTheGatewayWrote(t *testing.T) {
	endpoint, root := os.Getenv("STILLHOUSE_TEST_S3_ENDPOINT"), os.Getenv("STILLHOUSE_TEST_S3_ROOT")
	if endpoint == "" || root == "" {
		t.Skip("set STILLHOUSE_TEST_S3_ENDPOINT and STILLHOUSE_TEST_S3_ROOT to run this test")
	}
	prefix := filepath.Base(objstore.ProbeKey())
	served, err := s3.Open(t.Context(), s3.Options{
		URL: "s3://stillhouse-test/" + prefix, Endpoint: endpoint,
		AccessKey: os.Getenv("STILLHOUSE_TEST_S3_ACCESS_KEY"),
		SecretKey: os.Getenv("STILLHOUSE_TEST_S3_SECRET_KEY"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := served.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := dir.Open(filepath.Join(root, "stillhouse-test", prefix), served.String())
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 17<<20)
	for _, key := range []string{"a-b", "a/b.parquet", "a/b/c+d e", "a.b", "ü/日本語", "refs/latest.json", "refs/latest.json"} {
		if _, err := objstore.PutBytes(t.Context(), served, key, content, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		content = append(content[:len(content)/3], key...)
	}
	for _, prefix := range []string{"", "a", "a/", "a/b", "re", "x"} {
		for _, after := range []string{"", "a", "a/b", "a/b/c", "refs/latest.json"} {
			if diff := cmp.Diff(keys(t, served, prefix, after), keys(t, files, prefix, after)); diff != "" {
				t.Errorf("prefix %q after %q (-served +files):\n%s", prefix, after, diff)
			}
		}
	}
	for _, key := range keys(t, served, "", "") {
		want, wantAttr, err := objstore.ReadAll(t.Context(), served, key, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		got, gotAttr, err := objstore.ReadAll(t.Context(), files, key, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) || gotAttr.Size != wantAttr.Size {
			t.Errorf("%s: %d bytes in the folder, %d served", key, len(got), len(want))
		}
		// The protocol's times have whole seconds.
		if d := gotAttr.Modified.Sub(wantAttr.Modified); d < -1e9 || d > 1e9 {
			t.Errorf("%s: modified %v in the folder, %v served", key, gotAttr.Modified, wantAttr.Modified)
		}
	}
}
