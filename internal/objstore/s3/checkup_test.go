package s3

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// found runs a checkup and gives the findings by name, as "state what".
func found(t *testing.T, b *Bucket) map[string]Finding {
	t.Helper()
	list, err := b.Checkup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Finding{}
	for _, f := range list {
		out[f.Name] = f
		t.Logf("%-5s %-20s %s", f.State, f.Name, f.Found)
		if (f.State == FindingOK) != (f.Fix == "") || f.Found == "" {
			t.Errorf("%+v: what is not ok has a fix, and nothing else", f)
		}
	}
	return out
}

func TestCheckupOfAGoodStore(t *testing.T) {
	f := newFake(t, "datasets")
	for name, one := range found(t, openFake(t, f)) {
		if one.State == FindingFail {
			t.Errorf("%s: %s", name, one.Found)
		}
	}
	if len(f.objects) != 0 || f.openUploads() != 0 {
		t.Errorf("left %d objects and %d uploads", len(f.objects), f.openUploads())
	}
}

func TestMotoCheckup(t *testing.T) {
	for name, one := range found(t, openMoto(t, nil)) {
		if one.State == FindingFail {
			t.Errorf("%s: %s", name, one.Found)
		}
	}
	// With the checksums that it gives back wrongly, the fix is named.
	parts := found(t, openMoto(t, nil, func(o *Options) { o.ChecksumMode = ChecksumWhenSupported }))["parts"]
	if parts.State != FindingFail || !strings.Contains(parts.Fix, "when_required") {
		t.Errorf("%+v", parts)
	}
}

// TestCheckupFindsFaults gives a store one fault at a time: the check of that
// name fails, with a fix.
func TestCheckupFindsFaults(t *testing.T) {
	for _, test := range []struct {
		name, fix string
		hook      func(op, key string, w http.ResponseWriter, r *http.Request) bool
	}{
		{"conditions", "honours it", func(op, _ string, _ http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("If-Match")
			return false
		}},
		{"on completion", "honours it", func(op, _ string, _ http.ResponseWriter, r *http.Request) bool {
			if op == "complete" {
				r.Header.Del("If-None-Match")
			}
			return false
		}},
		{"race", "honours it", func(op, _ string, _ http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("If-None-Match")
			return false
		}},
		{"permissions", "s3:PutObject", func(op, key string, w http.ResponseWriter, _ *http.Request) bool {
			if op == "put" && strings.Contains(key, "answers/") {
				refuse(w, http.StatusForbidden, "AccessDenied")
				return true
			}
			return false
		}},
		{"ranges", "Range", func(op, _ string, _ http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("Range")
			return false
		}},
		{"checksums", "AWS_REQUEST_CHECKSUM_CALCULATION=when_required", func(op, key string, w http.ResponseWriter, r *http.Request) bool {
			if op == "put" && strings.HasSuffix(key, "checksums") && r.Header.Get("X-Amz-Checksum-Crc32") != "" {
				refuse(w, http.StatusBadRequest, "InvalidArgument")
				return true
			}
			return false
		}},
		{"clock", "clock", func(op, _ string, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Date", time.Now().Add(-20*time.Minute).UTC().Format(http.TimeFormat))
			return false
		}},
		{"region", "AWS_REGION=eu-north-1", func(op, _ string, w http.ResponseWriter, _ *http.Request) bool {
			if op == "head-bucket" {
				w.Header().Set("X-Amz-Bucket-Region", "eu-north-1")
				w.WriteHeader(http.StatusMovedPermanently)
				return true
			}
			return false
		}},
		{"encryption", "STILLHOUSE_S3_KMS_KEY", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, "datasets")
			f.hook = test.hook
			b := openFake(t, f, func(o *Options) {
				if test.name == "encryption" {
					o.SSEKMSKeyID = "alias/team"
				}
			})
			got := found(t, b)[test.name]
			if got.State != FindingFail || !strings.Contains(got.Fix, test.fix) {
				t.Fatalf("%+v", got)
			}
		})
	}
}

func TestCheckupOfNothing(t *testing.T) {
	list, err := openFake(t, newFake(t, "other")).Checkup(context.Background())
	if !errors.Is(err, objstore.ErrUnavailable) || len(list) != 1 || list[0].State != FindingFail {
		t.Fatalf("%+v, %v", list, err)
	}
}
