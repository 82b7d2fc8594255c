package s3

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/objstoretest"
)

// moto is a second implementation of S3 by other people (PyPI: moto[server]). It
// is started once where STILLHOUSE_MOTO is the path of its moto_server;
// STILLHOUSE_REQUIRE_MOTO=1 makes its absence a failure. .ci/stores sets both.
var moto = sync.OnceValues(startMoto)

var motoProcess *os.Process

func TestMain(m *testing.M) {
	code := m.Run()
	if motoProcess != nil {
		_ = motoProcess.Kill()
		_, _ = motoProcess.Wait()
	}
	os.Exit(code)
}

var errNoMoto = errors.New("no second implementation to test against: pip install -r test/stores/requirements.txt, and set STILLHOUSE_MOTO to the path of moto_server")

func startMoto() (string, error) {
	path := os.Getenv("STILLHOUSE_MOTO")
	if path == "" {
		return "", errNoMoto
	}
	cmd := exec.Command(path, "-H", "127.0.0.1", "-p", "0") // it says which port it got
	// The process outlives the test that started it, so its pipe is our own.
	out, in, err := os.Pipe()
	if err != nil {
		return "", err
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		return "", errors.Join(err, in.Close(), out.Close())
	}
	motoProcess = cmd.Process
	if err := in.Close(); err != nil {
		return "", err
	}
	found := make(chan string, 1)
	go func() {
		where := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if url := where.FindString(lines.Text()); url != "" {
				select {
				case found <- url:
				default:
				}
			}
		}
		close(found)
	}()
	select {
	case url, ok := <-found:
		if !ok {
			return "", errors.New("moto_server ended before it listened")
		}
		return url, nil
	case <-time.After(time.Minute):
		return "", errors.New("moto_server does not say where it listens")
	}
}

// openMoto opens a fresh bucket there, through what stands before it. Composite
// checksums come back from moto as if they were of the whole object, as from
// some other stores: it needs when_required.
func openMoto(t testing.TB, through func(endpoint string) string, change ...func(*Options)) *Bucket {
	t.Helper()
	endpoint, err := moto()
	switch {
	case errors.Is(err, errNoMoto) && os.Getenv("STILLHOUSE_REQUIRE_MOTO") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	o := Options{
		URL: "s3://" + strings.ToLower(rand.Text()) + "/prefix", Endpoint: endpoint, AccessKey: "a", SecretKey: "b", ChecksumMode: ChecksumWhenRequired,
		backoff: func(int, error) time.Duration { return time.Millisecond },
	}
	for _, c := range change {
		c(&o)
	}
	direct, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := direct.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	if through == nil {
		return direct
	}
	o.Endpoint = through(endpoint)
	b, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMotoConformance(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Bucket { return openMoto(t, nil) })
}

func TestMotoProbe(t *testing.T) {
	if err := openMoto(t, nil).Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestMotoKMS(t *testing.T) {
	b := openMoto(t, nil, func(o *Options) { o.SSEKMSKeyID = "alias/team" })
	for key, size := range map[string]int{"small": 10, "large": 17 << 20} {
		if _, err := objstore.PutBytes(t.Context(), b, key, make([]byte, size), objstore.PutOptions{IfNoneMatch: true}); err != nil {
			t.Fatal(err)
		}
		full, err := b.full(key)
		if err != nil {
			t.Fatal(err)
		}
		out, err := b.client.HeadObject(t.Context(), &awss3.HeadObjectInput{Bucket: &b.bucket, Key: full})
		if err != nil || out.ServerSideEncryption != s3types.ServerSideEncryptionAwsKms || !strings.Contains(aws.ToString(out.SSEKMSKeyId), "alias/team") {
			t.Errorf("%s: %v %s, %v", key, out.ServerSideEncryption, aws.ToString(out.SSEKMSKeyId), err)
		}
	}
}

// Erasing takes every version of a key, and nothing of its neighbours.
func TestMotoErase(t *testing.T) {
	b := openMoto(t, nil)
	_, err := b.client.PutBucketVersioning(t.Context(), &awss3.PutBucketVersioningInput{
		Bucket: &b.bucket, VersioningConfiguration: &s3types.VersioningConfiguration{Status: s3types.BucketVersioningStatusEnabled},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a/k", "a/k", "a/k", "a/k2", "b"} {
		if _, err := objstore.PutBytes(t.Context(), b, key, []byte(rand.Text()), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Delete(t.Context(), "a/k"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Erase(t.Context(), "a/k", "absent"); err != nil {
			t.Fatal(err)
		}
	}
	out, err := b.client.ListObjectVersions(t.Context(), &awss3.ListObjectVersionsInput{Bucket: &b.bucket})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, v := range out.Versions {
		left = append(left, *v.Key)
	}
	for _, m := range out.DeleteMarkers {
		left = append(left, "marker of "+*m.Key)
	}
	if got := strings.Join(left, " "); got != "prefix/a/k2 prefix/b" {
		t.Fatalf("left: %s", got)
	}
}

// A faultProxy stands before a real store and breaks requests in turn: some get
// no answer at all, some a 503, some a body that is cut, some an answer that is
// lost after the store has done what was asked.
type faultProxy struct {
	n     atomic.Int64
	hits  [5]atomic.Int64
	every int64 // of so many requests one is broken
}

const (
	dropped = iota
	refused
	cut
	lostAnswer
	delayed
)

func (p *faultProxy) start(t testing.TB, target string) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(u); r.Out.Host = r.In.Host },
		Transport: &http.Transport{DialContext: (&net.Dialer{}).DialContext},
	}
	server := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := p.n.Add(1)
		if n%p.every != 0 {
			proxy.ServeHTTP(w, r)
			return
		}
		fault := int(n / p.every % int64(len(p.hits)))
		p.hits[fault].Add(1)
		switch fault {
		case dropped:
			panic(http.ErrAbortHandler)
		case refused:
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>`)
		case cut, lostAnswer:
			answer := &recorded{header: http.Header{}}
			proxy.ServeHTTP(answer, r)
			if fault == cut && answer.body.Len() > 1 {
				for name, values := range answer.header {
					w.Header()[name] = values
				}
				w.Header().Set("Content-Length", fmt.Sprint(answer.body.Len()))
				w.WriteHeader(answer.status)
				_, _ = w.Write(answer.body.Bytes()[:answer.body.Len()/2])
			}
			panic(http.ErrAbortHandler)
		case delayed:
			ctx, cancel := context.WithTimeout(r.Context(), 30*time.Millisecond)
			defer cancel()
			<-ctx.Done()
			proxy.ServeHTTP(w, r)
		}
	}))
	return server
}

// newServer serves on a free port of the loopback, and says nothing.
func newServer(t testing.TB, h http.Handler) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ErrorLog: nil}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return "http://" + listener.Addr().String()
}

// recorded keeps an answer.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorded) Header() http.Header         { return r.header }
func (r *recorded) Write(p []byte) (int, error) { return r.body.Write(p) }
func (r *recorded) WriteHeader(status int)      { r.status = status }

// TestMotoBehindFaults runs the whole suite with one request in seven broken.
// Whatever was written is there, whoever won has won, and nothing is short.
func TestMotoBehindFaults(t *testing.T) {
	p := &faultProxy{every: 7}
	objstoretest.Run(t, func(t *testing.T) objstore.Bucket {
		return openMoto(t, func(endpoint string) string { return p.start(t, endpoint) })
	})
	if t.Failed() || t.Skipped() {
		return
	}
	for fault := range p.hits {
		if n := p.hits[fault].Load(); n == 0 && p.n.Load() > 0 {
			t.Errorf("fault %d never came", fault)
		}
	}
	t.Logf("%d requests, broken: %d dropped, %d refused, %d cut, %d lost, %d delayed", p.n.Load(),
		p.hits[dropped].Load(), p.hits[refused].Load(), p.hits[cut].Load(), p.hits[lostAnswer].Load(), p.hits[delayed].Load())
}

// Behind faults, of many creators of one key exactly one is told that it won,
// and large bodies come whole or not at all.
func TestMotoRacesBehindFaults(t *testing.T) {
	p := &faultProxy{every: 5}
	b := openMoto(t, func(endpoint string) string { return p.start(t, endpoint) })
	for round := range 10 {
		key := fmt.Sprintf("race-%d", round)
		var won atomic.Int64
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				_, err := objstore.PutBytes(t.Context(), b, key, fmt.Appendf(nil, "writer %d", i), objstore.PutOptions{IfNoneMatch: true})
				switch {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, objstore.ErrPrecondition):
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		group.Wait()
		if won.Load() != 1 {
			t.Errorf("round %d: %d winners", round, won.Load())
		}
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/2)
	if _, err := objstore.PutBytes(t.Context(), b, "large", large, objstore.PutOptions{IfNoneMatch: true}); err != nil {
		t.Fatal(err)
	}
	got, _, err := objstore.ReadAll(t.Context(), b, "large", 1<<30)
	if err != nil || !bytes.Equal(got, large) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if _, err := io.Copy(io.Discard, io.NewSectionReader(objstore.NewReaderAt(t.Context(), b, "large", int64(len(large))), 0, int64(len(large)))); err != nil {
		t.Fatal(err)
	}
}
