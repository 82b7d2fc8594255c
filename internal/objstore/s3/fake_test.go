package s3

import (
	"bytes"
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A fakeS3 is as much of an S3 server as the client uses, over HTTP on
// loopback, in path style. Hooks see every request first and may answer it.
type fakeS3 struct {
	*httptest.Server
	mu      sync.Mutex
	bucket  string // "" until created
	objects map[string]*fakeObject
	uploads map[string]*fakeUpload
	log     []string // "METHOD operation key"
	hook    func(op, key string, w http.ResponseWriter, r *http.Request) (answered bool)
	after   func(op, key string, w *httptest.ResponseRecorder) // may change the answer
	pages   int                                                // keys of a page
}

type fakeObject struct {
	data     []byte
	etag     string
	checksum string
	header   http.Header
	modified time.Time
}

type fakeUpload struct {
	key    string
	header http.Header
	parts  map[int][]byte
}

const (
	fakeKey    = "test-key"
	fakeSecret = "test-secret"
)

func newFake(t *testing.T, bucket string) *fakeS3 {
	f := &fakeS3{bucket: bucket, objects: map[string]*fakeObject{}, uploads: map[string]*fakeUpload{}, pages: 1000}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// operation names what a request asks for, and its key.
func operation(r *http.Request) (op, bucket, key string) {
	bucket, key, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	switch {
	case key == "" && r.Method == http.MethodGet && q.Has("uploads"):
		op = "list-uploads"
	case key == "" && r.Method == http.MethodGet:
		op = "list"
	case key == "" && r.Method == http.MethodPost:
		op = "delete-many"
	case key == "":
		op = strings.ToLower(r.Method) + "-bucket"
	case q.Has("uploads"):
		op = "create-upload"
	case q.Has("uploadId"):
		op = map[string]string{http.MethodPut: "part", http.MethodPost: "complete", http.MethodDelete: "abort"}[r.Method]
	default:
		op = strings.ToLower(r.Method)
	}
	return op, bucket, key
}

func (f *fakeS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	op, bucket, key := operation(r)
	f.mu.Lock()
	f.log = append(f.log, op+" "+key)
	hook, after := f.hook, f.after
	f.mu.Unlock()
	if hook != nil && hook(op, key, w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	answer := httptest.NewRecorder()
	f.mu.Lock()
	f.serve(op, bucket, key, body, answer, r)
	f.mu.Unlock()
	if after != nil {
		after(op, key, answer)
	}
	maps.Copy(w.Header(), answer.Header())
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	if r.Method == http.MethodHead && answer.Header().Get("X-Length") != "" {
		w.Header().Set("Content-Length", answer.Header().Get("X-Length"))
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Amz-Request-Id", "REQ1")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>no: %s</Message></Error>`, code, code)
}

func (f *fakeS3) serve(op, bucket, key string, body []byte, w *httptest.ResponseRecorder, r *http.Request) {
	switch {
	case !strings.Contains(r.Header.Get("Authorization"), "Credential="+fakeKey+"/"):
		refuse(w, 403, "InvalidAccessKeyId")
		return
	case op == "put-bucket":
		f.bucket = bucket
		return
	case bucket != f.bucket:
		refuse(w, 404, "NoSuchBucket")
		return
	}
	if sum := r.Header.Get("X-Amz-Checksum-Crc32"); sum != "" && sum != crc(body) {
		refuse(w, 400, "BadDigest")
		return
	}
	switch op {
	case "put":
		f.store(key, body, etagOf(body), r.Header, r.Header, w)
	case "get", "head":
		f.get(op, key, w, r)
	case "delete":
		delete(f.objects, key)
		w.WriteHeader(204)
	case "delete-many":
		f.deleteMany(body, w, r)
	case "list":
		f.list(w, r)
	case "list-uploads":
		fmt.Fprint(w, `<ListMultipartUploadsResult>`)
		for id, u := range f.uploads { // whatever the prefix
			fmt.Fprintf(w, `<Upload><Key>%s</Key><UploadId>%s</UploadId><Initiated>2026-11-30T12:00:00Z</Initiated></Upload>`, u.key, id)
		}
		fmt.Fprint(w, `</ListMultipartUploadsResult>`)
	case "create-upload":
		id := rand.Text()
		f.uploads[id] = &fakeUpload{key: key, header: r.Header.Clone(), parts: map[int][]byte{}}
		fmt.Fprintf(w, `<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>`, id)
	default:
		f.upload(op, key, body, w, r)
	}
}

func crc(data []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(data)))
}

func etagOf(data []byte) string {
	sum := md5.Sum(data)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// store writes an object if its conditions hold.
func (f *fakeS3) store(key string, data []byte, etag string, conditions, header http.Header, w *httptest.ResponseRecorder) bool {
	old := f.objects[key]
	switch match := conditions.Get("If-Match"); {
	case conditions.Get("If-None-Match") == "*" && old != nil, match != "" && old != nil && match != old.etag:
		refuse(w, 412, "PreconditionFailed")
		return false
	case match != "" && old == nil:
		refuse(w, 404, "NoSuchKey")
		return false
	}
	f.objects[key] = &fakeObject{data: data, etag: etag, checksum: header.Get("X-Amz-Checksum-Crc32"), header: header.Clone(), modified: time.Now()}
	w.Header().Set("Etag", etag)
	return true
}

func (f *fakeS3) get(op, key string, w *httptest.ResponseRecorder, r *http.Request) {
	o := f.objects[key]
	if o == nil {
		if op == "head" {
			w.WriteHeader(404)
			return
		}
		refuse(w, 404, "NoSuchKey")
		return
	}
	data, status := o.data, 200
	if spec, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		first, last, _ := strings.Cut(spec, "-")
		from, _ := strconv.Atoi(first)
		to, err := strconv.Atoi(last)
		if err != nil || to >= len(data) {
			to = len(data) - 1
		}
		if from >= len(data) {
			refuse(w, 416, "InvalidRange")
			return
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(data)))
		data, status = data[from:to+1], 206
	} else if o.checksum != "" && r.Header.Get("X-Amz-Checksum-Mode") == "ENABLED" {
		w.Header().Set("X-Amz-Checksum-Crc32", o.checksum)
	}
	for name, values := range o.header {
		if strings.HasPrefix(name, "X-Amz-Meta-") || name == "Content-Type" {
			w.Header()[name] = values
		}
	}
	w.Header().Set("Etag", o.etag)
	w.Header().Set("Last-Modified", o.modified.UTC().Format(http.TimeFormat))
	w.Header().Set("X-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	if op == "get" {
		_, _ = w.Write(data)
	}
}

func (f *fakeS3) deleteMany(body []byte, w *httptest.ResponseRecorder, r *http.Request) {
	var in struct {
		Object []struct{ Key string }
	}
	if r.Header.Get("X-Amz-Checksum-Crc32") == "" || xml.Unmarshal(body, &in) != nil || len(in.Object) > 1000 {
		refuse(w, 400, "MalformedXML")
		return
	}
	for _, o := range in.Object {
		delete(f.objects, o.Key)
	}
	fmt.Fprint(w, `<DeleteResult></DeleteResult>`)
}

func (f *fakeS3) list(w *httptest.ResponseRecorder, r *http.Request) {
	q := r.URL.Query()
	after := max(q.Get("start-after"), q.Get("continuation-token"))
	var out bytes.Buffer
	n, last, more := 0, "", false
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		if !strings.HasPrefix(key, q.Get("prefix")) || key <= after {
			continue
		}
		if n == f.pages {
			more = true
			break
		}
		n, last = n+1, key
		o := f.objects[key]
		out.WriteString("<Contents><Key>")
		_ = xml.EscapeText(&out, []byte(key))
		out.WriteString("</Key><ETag>")
		_ = xml.EscapeText(&out, []byte(o.etag))
		fmt.Fprintf(&out, "</ETag><Size>%d</Size><LastModified>%s</LastModified></Contents>", len(o.data), o.modified.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(w, "<ListBucketResult><IsTruncated>%t</IsTruncated>", more)
	if more {
		w.WriteString("<NextContinuationToken>")
		_ = xml.EscapeText(w, []byte(last))
		w.WriteString("</NextContinuationToken>")
	}
	_, _ = out.WriteTo(w)
	w.WriteString("</ListBucketResult>")
}

// upload serves the requests of an upload that was begun.
func (f *fakeS3) upload(op, key string, body []byte, w *httptest.ResponseRecorder, r *http.Request) {
	id := r.URL.Query().Get("uploadId")
	u := f.uploads[id]
	if u == nil {
		refuse(w, 404, "NoSuchUpload")
		return
	}
	switch op {
	case "part":
		n, _ := strconv.Atoi(r.URL.Query().Get("partNumber"))
		u.parts[n] = body
		w.Header().Set("Etag", etagOf(body))
		w.Header().Set("X-Amz-Checksum-Crc32", r.Header.Get("X-Amz-Checksum-Crc32"))
	case "abort":
		delete(f.uploads, id)
		w.WriteHeader(204)
	case "complete":
		var data []byte
		for _, n := range slices.Sorted(maps.Keys(u.parts)) {
			data = append(data, u.parts[n]...)
		}
		sum := md5.Sum(data)
		etag := fmt.Sprintf(`"%x-%d"`, sum, len(u.parts))
		if f.store(key, data, etag, r.Header, u.header, w) {
			delete(f.uploads, id)
			fmt.Fprintf(w, `<CompleteMultipartUploadResult><ETag>%s</ETag></CompleteMultipartUploadResult>`, strings.ReplaceAll(etag, `"`, "&quot;"))
		}
	}
}

// count is how many requests of an operation came.
func (f *fakeS3) count(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, line := range f.log {
		if strings.HasPrefix(line, op+" ") {
			n++
		}
	}
	return n
}

func (f *fakeS3) openUploads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.uploads)
}
