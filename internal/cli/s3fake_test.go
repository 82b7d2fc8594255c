package cli

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// serveSample serves a copy of the sample store as s3://sample.
func serveSample() (*httptest.Server, error) {
	from, err := sampleStore()
	if err != nil {
		return nil, err
	}
	to := mem.New("sample")
	ctx := context.Background()
	for attr, err := range from.List(ctx, "", "") {
		if err != nil {
			return nil, err
		}
		data, _, err := objstore.ReadAll(ctx, from, attr.Key, 1<<20)
		if err != nil {
			return nil, err
		}
		if _, err := objstore.PutBytes(ctx, to, attr.Key, data, objstore.PutOptions{}); err != nil {
			return nil, err
		}
	}
	return httptest.NewServer(&s3Server{bucket: to}), nil
}

// An s3Server is as much of S3 over a bucket as the command line uses, in path
// style: small objects, conditions, listings of one page, and uploads in parts
// as far as a probe takes them.
type s3Server struct {
	bucket  *mem.Bucket
	mu      sync.Mutex
	uploads int
}

func (s *s3Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	switch {
	case name == "careless": // a store that ignores conditions
		r.Header.Del("If-None-Match")
		r.Header.Del("If-Match")
		r.URL.Path = "/sample/" + key
		s.ServeHTTP(w, r)
	case name != "sample":
		s3Refuse(w, http.StatusNotFound, "NoSuchBucket")
	case key == "" && r.Method == http.MethodGet:
		s.list(w, r)
	case key == "" && r.Method == http.MethodPost && q.Has("delete"):
		s.deleteMany(w, r)
	case r.Method == http.MethodPost && q.Has("uploads"):
		s.mu.Lock()
		s.uploads++
		id := s.uploads
		s.mu.Unlock()
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%d</UploadId></InitiateMultipartUploadResult>", id)
	case r.Method == http.MethodPut && q.Has("uploadId"):
		w.Header().Set("ETag", `"part"`)
	case r.Method == http.MethodPost && q.Has("uploadId"):
		s.complete(w, r, key)
	case r.Method == http.MethodDelete && q.Has("uploadId"):
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut:
		s.put(w, r, key)
	case r.Method == http.MethodDelete:
		_ = s.bucket.Delete(r.Context(), key)
		w.WriteHeader(http.StatusNoContent)
	default:
		s.get(w, r, key)
	}
}

// complete refuses to write over an object, which is what a probe tries.
func (s *s3Server) complete(w http.ResponseWriter, r *http.Request, key string) {
	if _, err := s.bucket.Head(r.Context(), key); err == nil && r.Header.Get("If-None-Match") == "*" {
		s3Refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	s3Refuse(w, http.StatusNotImplemented, "NotImplemented")
}

func (s *s3Server) list(w http.ResponseWriter, r *http.Request) {
	type object struct {
		Key  string
		Size int64
		ETag string
	}
	var page struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []object
	}
	most, err := strconv.Atoi(r.URL.Query().Get("max-keys"))
	if err != nil {
		most = 1 << 20
	}
	for attr, err := range s.bucket.List(r.Context(), r.URL.Query().Get("prefix"), r.URL.Query().Get("start-after")) {
		if err != nil {
			s3Refuse(w, http.StatusInternalServerError, "InternalError")
			return
		}
		if len(page.Contents) == most {
			break
		}
		page.Contents = append(page.Contents, object{attr.Key, attr.Size, attr.ETag})
	}
	_ = xml.NewEncoder(w).Encode(page)
}

func (s *s3Server) deleteMany(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Object []struct{ Key string }
	}
	if err := xml.NewDecoder(r.Body).Decode(&in); err != nil {
		s3Refuse(w, http.StatusBadRequest, "MalformedXML")
		return
	}
	for _, o := range in.Object {
		_ = s.bucket.Delete(r.Context(), o.Key)
	}
	fmt.Fprint(w, "<DeleteResult></DeleteResult>")
}

func (s *s3Server) put(w http.ResponseWriter, r *http.Request, key string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	attr, err := s.bucket.Put(r.Context(), key, bytes.NewReader(body), int64(len(body)), objstore.PutOptions{
		IfNoneMatch: r.Header.Get("If-None-Match") == "*", IfMatch: r.Header.Get("If-Match"),
	})
	switch {
	case errors.Is(err, objstore.ErrPrecondition):
		s3Refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case err != nil:
		s3Refuse(w, http.StatusBadRequest, "InvalidRequest")
	default:
		w.Header().Set("ETag", attr.ETag)
	}
}

func (s *s3Server) get(w http.ResponseWriter, r *http.Request, key string) {
	data, attr, err := objstore.ReadAll(r.Context(), s.bucket, key, 1<<20)
	if err != nil {
		s3Refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("ETag", attr.ETag)
	http.ServeContent(w, r, "", attr.Modified, bytes.NewReader(data))
}

func s3Refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no: %s</Message></Error>", code, code)
}
