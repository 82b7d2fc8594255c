package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// failing answers the first n requests of an operation with an error.
func failing(op string, n int32, status int, code string) func(string, string, http.ResponseWriter, *http.Request) bool {
	var seen atomic.Int32
	return func(got, _ string, w http.ResponseWriter, r *http.Request) bool {
		if got != op || seen.Add(1) > n {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		refuse(w, status, code)
		return true
	}
}

func TestAnswers(t *testing.T) {
	small, large := []byte("content"), bytes.Repeat([]byte("0123456789abcdef"), 17<<16)
	for _, test := range []struct {
		name     string
		op       string
		times    int32
		status   int
		code     string
		body     []byte
		want     error // nil: the write succeeds
		hint     string
		requests int
	}{
		{"conflict, then success", "put", 2, 409, "ConditionalRequestConflict", small, nil, "", 3},
		{"throttled, then success", "put", 3, 503, "SlowDown", small, nil, "", 4},
		{"server error, then success", "put", 2, 500, "InternalError", small, nil, "", 3},
		{"too many requests, then success", "put", 2, 429, "TooManyRequests", small, nil, "", 3},
		{"the gateway's leftover, then success", "put", 1, 400, "BadRequest", small, nil, "", 2},
		{"conflict for good", "put", 1 << 20, 409, "ConditionalRequestConflict", small, objstore.ErrUnavailable, "other writers", 10},
		{"throttled for good", "put", 1 << 20, 503, "SlowDown", small, objstore.ErrUnavailable, "10 attempts", 10},
		{"forbidden", "put", 1 << 20, 403, "AccessDenied", small, objstore.ErrUnavailable, "s3:PutObject", 1},
		{"wrong secret", "put", 1 << 20, 403, "SignatureDoesNotMatch", small, objstore.ErrUnavailable, "check the keys (given keys)", 1},
		{"unknown key at the gateway", "put", 1 << 20, 404, "XAdminUserNotFound", small, objstore.ErrUnavailable, "check the keys", 1},
		{"expired", "put", 1 << 20, 400, "ExpiredToken", small, objstore.ErrUnavailable, "log in again", 1},
		{"part throttled, then success", "part", 2, 503, "SlowDown", large, nil, "", 5},
		{"completion conflicts, then success", "complete", 1, 409, "ConditionalRequestConflict", large, nil, "", 2},
		{"completion fails, then success", "complete", 1, 500, "InternalError", large, nil, "", 2},
		{"completion forbidden", "complete", 1 << 20, 403, "AccessDenied", large, objstore.ErrUnavailable, "s3:PutObject", 1},
		{"part forbidden", "part", 1 << 20, 403, "AccessDenied", large, objstore.ErrUnavailable, "s3:PutObject", 0},
		{"upload forbidden", "create-upload", 1 << 20, 403, "AccessDenied", large, objstore.ErrUnavailable, "s3:PutObject", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, "datasets")
			f.hook = failing(test.op, test.times, test.status, test.code)
			b := openFake(t, f)
			_, err := objstore.PutBytes(t.Context(), b, "k", test.body, objstore.PutOptions{IfNoneMatch: true})
			if test.want == nil && err != nil || !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if err != nil {
				for _, want := range []string{"put k in s3://datasets/team-a: ", test.code, "request REQ1", test.hint} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error %q does not say %q", err, want)
					}
				}
			}
			if got := f.count(test.op); test.requests > 0 && got != test.requests {
				t.Errorf("%d requests, want %d", got, test.requests)
			}
			if n := f.openUploads(); n != 0 {
				t.Errorf("%d uploads were left open", n)
			}
			o := f.objects["team-a/k"]
			if (o != nil) != (err == nil) || o != nil && !bytes.Equal(o.data, test.body) {
				t.Errorf("error %v, but the object is %v", err, o != nil)
			}
		})
	}
}

// A write whose answer got lost is sent again, and must not lose to itself.
func TestLostAnswers(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 17<<16)
	for _, test := range []struct {
		name, op string
		body     []byte
		replace  bool
	}{
		{"create", "put", []byte("new"), false},
		{"replace", "put", []byte("new"), true},
		{"create in parts", "complete", large, false},
		{"replace in parts", "complete", large, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t, "datasets")
			b := openFake(t, f)
			opt := objstore.PutOptions{IfNoneMatch: true}
			if test.replace {
				old, err := objstore.PutBytes(t.Context(), b, "k", []byte("old"), objstore.PutOptions{})
				if err != nil {
					t.Fatal(err)
				}
				opt = objstore.PutOptions{IfMatch: old.ETag}
			}
			var lost atomic.Bool
			f.after = func(op, _ string, w *httptest.ResponseRecorder) {
				if op == test.op && lost.CompareAndSwap(false, true) {
					w.Body.Reset()
					w.Code = 500
				}
			}
			attr, err := objstore.PutBytes(t.Context(), b, "k", test.body, opt)
			if err != nil {
				t.Fatal(err)
			}
			head, err := b.Head(t.Context(), "k")
			if err != nil || head.ETag != attr.ETag || head.Size != int64(len(test.body)) {
				t.Fatalf("put gave %+v, head %+v, %v", attr, head, err)
			}
			// Whoever else tries has lost.
			if _, err := objstore.PutBytes(t.Context(), b, "k", test.body, opt); !errors.Is(err, objstore.ErrPrecondition) {
				t.Fatalf("another write: %v", err)
			}
		})
	}
}

func TestUploadInPartsIsAbortedWhenTheCallerLeaves(t *testing.T) {
	f := newFake(t, "datasets")
	ctx, cancel := context.WithCancel(t.Context())
	f.hook = func(op, _ string, _ http.ResponseWriter, _ *http.Request) bool {
		if op == "part" {
			cancel()
		}
		return false
	}
	_, err := objstore.PutBytes(ctx, openFake(t, f), "k", make([]byte, 20<<20), objstore.PutOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if n := f.openUploads(); n != 0 || f.count("abort") == 0 {
		t.Fatalf("%d uploads left open, %d aborts", n, f.count("abort"))
	}
}

func TestUploadsThatWereLeftOpen(t *testing.T) {
	f := newFake(t, "datasets")
	b := openFake(t, f)
	f.uploads["ours"] = &fakeUpload{key: "team-a/data/k"}
	f.uploads["theirs"] = &fakeUpload{key: "team-b/data/k"}
	open, err := b.Uploads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := objstore.Upload{Key: "data/k", ID: "ours", Began: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	if len(open) != 1 || open[0] != want {
		t.Fatalf("open: %+v, want %+v", open, want)
	}
	for range 2 { // the second time it has gone
		if err := b.AbortUpload(t.Context(), open[0]); err != nil {
			t.Fatal(err)
		}
	}
	if f.openUploads() != 1 || f.uploads["theirs"] == nil {
		t.Fatalf("left %v", f.uploads)
	}
}

func TestLostPartsAreNoticed(t *testing.T) {
	f := newFake(t, "datasets")
	f.hook = func(op, _ string, w http.ResponseWriter, r *http.Request) bool {
		if op != "part" || r.URL.Query().Get("partNumber") != "2" {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Etag", `"x"`) // and forgets the part
		return true
	}
	_, err := objstore.PutBytes(t.Context(), openFake(t, f), "k", make([]byte, 20<<20), objstore.PutOptions{})
	if !errors.Is(err, objstore.ErrChecksum) {
		t.Fatalf("error %v", err)
	}
}

// bodyFault changes the first n answers to get.
func bodyFault(n int32, change func(w *httptest.ResponseRecorder)) func(string, string, *httptest.ResponseRecorder) {
	var seen atomic.Int32
	return func(op, _ string, w *httptest.ResponseRecorder) {
		if op == "get" && seen.Add(1) <= n {
			change(w)
		}
	}
}

func flip(w *httptest.ResponseRecorder) { w.Body.Bytes()[0] ^= 1 }

func TestWrongBytesAreNoticed(t *testing.T) {
	f := newFake(t, "datasets")
	b := openFake(t, f)
	if _, err := objstore.PutBytes(t.Context(), b, "k", []byte("content"), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	f.after = bodyFault(2, flip)
	data, _, err := objstore.ReadAll(t.Context(), b, "k", 100)
	if err != nil || string(data) != "content" {
		t.Fatalf("two wrong bodies, then a right one: %q, %v", data, err)
	}
	f.after = bodyFault(1<<20, flip)
	if _, _, err := objstore.ReadAll(t.Context(), b, "k", 100); !errors.Is(err, objstore.ErrChecksum) {
		t.Fatalf("wrong bodies for good: %v", err)
	}
}

// truncate sends half of a get's body and breaks the connection, n times.
func truncate(f *fakeS3, n int32) func(string, string, http.ResponseWriter, *http.Request) bool {
	var seen atomic.Int32
	return func(op, key string, w http.ResponseWriter, _ *http.Request) bool {
		if op != "get" || seen.Add(1) > n {
			return false
		}
		f.mu.Lock()
		data := f.objects[key].data
		f.mu.Unlock()
		w.Header().Set("Content-Length", "7")
		w.Header().Set("Content-Range", "bytes 0-6/7")
		_, _ = w.Write(data[:3])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func TestTruncatedBody(t *testing.T) {
	f := newFake(t, "datasets")
	b := openFake(t, f)
	if _, err := objstore.PutBytes(t.Context(), b, "k", []byte("content"), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	f.hook = truncate(f, 1)
	body, _, err := b.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(body)
	body.Close()
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, objstore.ErrUnavailable) {
		t.Fatalf("read %q, %v", got, err)
	}
	f.hook = truncate(f, 2)
	if data, _, err := objstore.ReadAll(t.Context(), b, "k", 100); err != nil || string(data) != "content" {
		t.Fatalf("two broken bodies, then a whole one: %q, %v", data, err)
	}
	f.hook = truncate(f, 1)
	p := make([]byte, 7)
	if _, err := objstore.NewReaderAt(t.Context(), b, "k", 7).ReadAt(p, 0); err != nil || string(p) != "content" {
		t.Fatalf("ReaderAt over a broken body: %q, %v", p, err)
	}
	f.hook = truncate(f, 1<<20)
	if _, _, err := objstore.ReadAll(t.Context(), b, "k", 100); !errors.Is(err, objstore.ErrUnavailable) {
		t.Fatalf("broken bodies for good: %v", err)
	}
}

func TestRangeIgnored(t *testing.T) {
	f := newFake(t, "datasets")
	b := openFake(t, f)
	if _, err := objstore.PutBytes(t.Context(), b, "k", []byte("content"), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	f.hook = func(op, _ string, _ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Range")
		return false
	}
	if body, err := b.GetRange(t.Context(), "k", 2, 3); err == nil {
		body.Close()
		t.Fatal("a whole object was taken for a range")
	}
}

func TestWrongRegion(t *testing.T) {
	f := newFake(t, "datasets")
	f.hook = func(_, _ string, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("X-Amz-Bucket-Region", "eu-central-1")
		refuse(w, 301, "PermanentRedirect")
		return true
	}
	_, _, err := openFake(t, f).Get(t.Context(), "k")
	if !errors.Is(err, objstore.ErrUnavailable) || !strings.Contains(err.Error(), "set AWS_REGION=eu-central-1") {
		t.Fatalf("error %v", err)
	}
}

func TestListOutOfOrderIsRefused(t *testing.T) {
	f := newFake(t, "datasets")
	f.after = func(op, _ string, w *httptest.ResponseRecorder) {
		if op == "list" {
			w.Body.Reset()
			w.WriteString(`<ListBucketResult><Contents><Key>team-a/b</Key></Contents><Contents><Key>team-a/a</Key></Contents></ListBucketResult>`)
		}
	}
	var last error
	for _, err := range openFake(t, f).List(t.Context(), "", "") {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "byte order") {
		t.Fatalf("error %v", last)
	}
}

func TestListPassesOverForeignKeys(t *testing.T) {
	f := newFake(t, "datasets")
	f.pages = 2
	for _, key := range []string{"team-a/", "team-a/folder/", "team-a/folder/k", "team-a/folder/.k.sgwtmp.1", "team-a//x", "team-ab/k", "zzz"} {
		f.objects[key] = &fakeObject{data: []byte("x"), etag: `"x"`}
	}
	var got []string
	for attr, err := range openFake(t, f).List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, attr.Key)
	}
	if len(got) != 1 || got[0] != "folder/k" {
		t.Fatalf("listed %q", got)
	}
}

func TestDeleteFallsBackToSingleRequests(t *testing.T) {
	for _, answer := range []struct {
		status int
		code   string
	}{{501, "NotImplemented"}, {400, "InvalidRequest"}, {405, "MethodNotAllowed"}} {
		f := newFake(t, "datasets")
		b := openFake(t, f)
		for _, key := range []string{"a", "b", "c"} {
			if _, err := objstore.PutBytes(t.Context(), b, key, nil, objstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		f.hook = failing("delete-many", 1<<20, answer.status, answer.code)
		if err := b.Delete(t.Context(), "a", "missing", "b"); err != nil {
			t.Fatalf("%s: %v", answer.code, err)
		}
		if len(f.objects) != 1 || f.count("delete") != 3 {
			t.Fatalf("%s: %d objects left, %d single deletes", answer.code, len(f.objects), f.count("delete"))
		}
	}
}

func TestDeleteReportsTheKeyThatFails(t *testing.T) {
	f := newFake(t, "datasets")
	f.hook = func(op, key string, w http.ResponseWriter, _ *http.Request) bool {
		switch {
		case op == "delete-many":
			w.Write([]byte(`<DeleteResult><Error><Key>team-a/b</Key><Code>AccessDenied</Code></Error></DeleteResult>`))
		case op == "delete" && key == "team-a/b":
			refuse(w, 403, "AccessDenied")
		default:
			return false
		}
		return true
	}
	err := openFake(t, f).Delete(t.Context(), "a", "b")
	if !errors.Is(err, objstore.ErrUnavailable) || !strings.Contains(err.Error(), "delete b in ") {
		t.Fatalf("error %v", err)
	}
}

func TestPresign(t *testing.T) {
	f := newFake(t, "datasets")
	b := openFake(t, f)
	get, err := b.PresignGet(t.Context(), "a b", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	put, err := objstore.WithPrefix(b, "sub").(objstore.Presigner).PresignPut(t.Context(), "k", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for signed, want := range map[string][2]string{get: {"/datasets/team-a/a b", "3600"}, put: {"/datasets/team-a/sub/k", "60"}} {
		u, err := url.Parse(signed)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		if u.Path != want[0] || q.Get("X-Amz-Expires") != want[1] || q.Get("X-Amz-Signature") == "" {
			t.Errorf("signed %s", signed)
		}
		for name := range q {
			if strings.HasPrefix(strings.ToLower(name), "x-amz-checksum-crc32") || strings.HasPrefix(strings.ToLower(name), "x-amz-sdk-checksum") {
				t.Errorf("%s fixes the checksum of an unknown body", signed)
			}
		}
		if strings.Contains(signed, fakeSecret) {
			t.Error("the URL holds the secret")
		}
	}
}

func TestKMSKeyIsAskedFor(t *testing.T) {
	f := newFake(t, "datasets")
	b := openFake(t, f, func(o *Options) { o.SSEKMSKeyID = "key-1" })
	for _, size := range []int{3, 17 << 20} {
		if _, err := objstore.PutBytes(t.Context(), b, "k", make([]byte, size), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		h := f.objects["team-a/k"].header
		if h.Get("X-Amz-Server-Side-Encryption") != "aws:kms" || h.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id") != "key-1" {
			t.Errorf("%d bytes: headers %v", size, h)
		}
	}
}

func TestPartSize(t *testing.T) {
	const mib, gib, tib = int64(1) << 20, int64(1) << 30, int64(1) << 40
	for size, want := range map[int64]int64{
		17 * mib: 8 * mib,
		70 * gib: 8 * mib,
		78 * gib: 9 * mib,
		5 * tib:  583 * mib,
	} {
		got := partSize(size)
		if got != want {
			t.Errorf("%d bytes: parts of %d MiB, want %d", size, got>>20, want>>20)
		}
		if n := (size + got - 1) / got; n > maxParts {
			t.Errorf("%d bytes: %d parts", size, n)
		}
	}
}
