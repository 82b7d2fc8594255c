//go:build integration

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/s3"
)

// publisherEnv tells a process of this test's program to be a publisher, and
// what of: JSON of a publisherJob.
const publisherEnv = "STILLHOUSE_E2E_PUBLISHER"

// A publisherJob is one build as a process of its own runs it.
type publisherJob struct {
	Endpoint, Bucket, Region, Key, Secret string
	Dataset, Build                        string
	Files                                 []string // train, train, prompts
}

func init() {
	text := os.Getenv(publisherEnv)
	if text == "" {
		return
	}
	var job publisherJob
	err := json.Unmarshal([]byte(text), &job)
	if err == nil {
		var v catalog.Version
		if v, err = job.run(context.Background()); err == nil {
			fmt.Println(v.Number)
			os.Exit(0)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// run does what a build does in the store, from its entry to its end.
func (j *publisherJob) run(ctx context.Context) (catalog.Version, error) {
	b, err := s3.Open(ctx, s3.Options{URL: "s3://" + j.Bucket, Endpoint: j.Endpoint, Region: j.Region, AccessKey: j.Key, SecretKey: j.Secret})
	if err != nil {
		return catalog.Version{}, err
	}
	c := catalog.Open(b)
	if err := c.PutIntent(ctx, catalog.Intent{Dataset: j.Dataset, BuildID: j.Build}); err != nil {
		return catalog.Version{}, err
	}
	m := catalog.Manifest{Dataset: j.Dataset, BuildID: j.Build, Tool: "test", RecipeDigest: strings.Repeat("0", 64)}
	for i, f := range []struct {
		table, split string
		seq          int
	}{{"train", "train", 0}, {"train", "train", 1}, {"prompts", "all", 0}} {
		ref, err := c.Stage(ctx, j.Dataset, j.Build, f.table, f.split, f.seq, j.Files[i])
		if err != nil {
			return catalog.Version{}, err
		}
		m.Files = append(m.Files, ref)
	}
	v, err := c.Publish(ctx, m)
	if err != nil {
		return v, err
	}
	return v, c.FinishIntent(ctx, j.Dataset, j.Build, catalog.BuildDone, func(in *catalog.Intent) { in.Version = v.Number })
}

// publisherFiles are what the builds of a test publish.
func publisherFiles(t testing.TB) []string {
	dir := t.TempDir()
	rows := func(from, n int) (out []datasets.Row) {
		for i := range n {
			id, text := fmt.Sprintf("%032x", from+i), "text"
			out = append(out, datasets.Row{TaskID: id + "/math/high", PromptID: id, SampleID: id, Domain: "math", Effort: "high", Teacher: "k3",
				Messages: []chat.Message{{Role: "user", Content: &text}, {Role: "assistant", Content: &text, Train: true}}})
		}
		return out
	}
	return []string{
		tableFile(t, filepath.Join(dir, "a"), rows(0, 10)), tableFile(t, filepath.Join(dir, "b"), rows(10, 5)),
		tableFile(t, filepath.Join(dir, "c"), []datasets.PromptRow{{TaskID: "t", PromptID: "p"}}),
	}
}

func tableFile[T any](t testing.TB, path string, rows []T) string {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := parquetio.NewWriter[T](f, parquetio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(rows), w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// A killer stands between a publisher and the store. At one request it kills
// the publisher: before the store hears of it, in the middle of the body, or
// once the store has answered and nobody else knows.
type killer struct {
	proxy  *httputil.ReverseProxy
	at     int64
	moment int
	kill   func()
	count  atomic.Int64
	killed chan struct{}
}

const (
	killBefore = iota
	killMidway
	killAfter
	killMoments
)

func (k *killer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if k.count.Add(1) != k.at {
		k.proxy.ServeHTTP(w, r)
		return
	}
	die := func() {
		k.kill()
		close(k.killed)
		panic(http.ErrAbortHandler)
	}
	switch k.moment {
	case killMidway:
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), brokenBody{}))
		k.proxy.ServeHTTP(httptest.NewRecorder(), r)
	case killAfter:
		k.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	die()
}

// A brokenBody ends as a connection that is cut.
type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func reverseProxy(t testing.TB, endpoint string) *httputil.ReverseProxy {
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host
		}, // the host is signed
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
}

// TestKilledPublishers kills publishers with SIGKILL at every step, in every
// way, over the embedded store and the real client. STILLHOUSE_PUBLISH_ROUNDS
// is how often; make publish-rounds does 200.
func TestKilledPublishers(t *testing.T) {
	rounds := 30
	if text := os.Getenv("STILLHOUSE_PUBLISH_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	h := newHouse(t)
	h.serve()
	bucket, vars := h.store()
	c := catalog.Open(bucket)
	job := publisherJob{Bucket: vars["STILLHOUSE_BUCKET"], Region: vars["AWS_REGION"], Key: vars["AWS_ACCESS_KEY_ID"], Secret: vars["AWS_SECRET_ACCESS_KEY"],
		Dataset: "maths", Files: publisherFiles(t)}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	proxy := reverseProxy(t, vars["AWS_ENDPOINT_URL"])
	promised, killed := map[int64]string{}, 0
	// publish runs a publisher, which may be killed, and gives its requests.
	publish := func(k *killer) int64 {
		k.proxy, k.killed = proxy, make(chan struct{})
		server := httptest.NewServer(k)
		job.Endpoint = server.URL
		text, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		var out bytes.Buffer
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), publisherEnv+"="+string(text)), &out, &out
		started := make(chan struct{})
		k.kill = func() { <-started; _ = cmd.Process.Kill() }
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		close(started)
		err = cmd.Wait()
		server.CloseClientConnections()
		server.Close()
		select {
		case <-k.killed:
			killed++
			return k.count.Load()
		default:
		}
		if err != nil {
			t.Fatalf("build %s: %v\n%s", job.Build, err, out.String())
		}
		n, err := strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
		if err != nil || promised[n] != "" {
			t.Fatalf("build %s: promised %q, which %s has", job.Build, out.String(), promised[n])
		}
		promised[n] = job.Build
		return k.count.Load()
	}
	job.Build = "first"
	steps := int(publish(&killer{}))
	if steps < 12 {
		t.Fatalf("a build took only %d requests: they do not pass here", steps)
	}
	for round := range rounds {
		job.Build = fmt.Sprintf("b%03d", round)
		publish(&killer{at: int64(1 + round%steps), moment: (round + round/steps) % killMoments})
		if round%2 == 1 { // run again, as the same command would
			publish(&killer{})
		}
		if v, m, err := c.Latest(context.Background(), "maths"); err == nil {
			n := 0
			for _, err := range catalog.ReadTable[datasets.Row](context.Background(), c, m, "train") {
				if err != nil {
					t.Fatalf("round %d: half of version %d: %v", round, v.Number, err)
				}
				n++
			}
			if n != 15 {
				t.Fatalf("round %d: version %d has %d rows", round, v.Number, n)
			}
		} else if !errors.Is(err, catalog.ErrUnknown) {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	t.Logf("%d publishers were killed, over %d steps in %d ways; %d versions", killed, steps, killMoments, len(promised))
	if killed < rounds*9/10 {
		t.Errorf("only %d of %d publishers were killed", killed, rounds)
	}
	// Those that were never run again left entries of builds that run: with
	// them called dead, nothing is left that no version names.
	h.run(0, "gc", "maths", "--grace", "0", "--abandoned", "1ns", "--yes", "--json")
	mustBeTidy(t, c, bucket, "maths", promised)
}

// mustBeTidy holds a dataset to what was promised, and to nothing besides.
func mustBeTidy(t *testing.T, c *catalog.Catalog, b objstore.Bucket, name string, promised map[int64]string) {
	t.Helper()
	ctx := context.Background()
	all, err := c.Versions(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	named, builds := map[string]bool{}, map[string]int64{}
	for i, v := range all {
		r, err := c.Verify(ctx, v.Ref(), nil)
		if err != nil || !r.OK() || v.Number != int64(len(all)-i) || builds[v.BuildID] > 0 {
			t.Fatalf("%s (build %s, also version %d): %v %+v", v.Ref(), v.BuildID, builds[v.BuildID], err, r)
		}
		builds[v.BuildID], named[v.Manifest] = v.Number, true
		_, m, err := c.Resolve(ctx, v.Ref())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range m.Files {
			named[f.Key] = true
		}
	}
	for n, build := range promised {
		if builds[build] != n {
			t.Errorf("build %s was promised version %d and has %d", build, n, builds[build])
		}
	}
	for _, folder := range []string{"data/", "manifests/", "work/"} {
		for attr, err := range b.List(ctx, "datasets/"+name+"/"+folder, "") {
			if err != nil {
				t.Fatal(err)
			}
			if !named[attr.Key] {
				t.Errorf("%s is an orphan", attr.Key)
			}
		}
	}
	if sweeper, ok := b.(objstore.UploadSweeper); ok {
		if open, err := sweeper.Uploads(ctx); err != nil || len(open) > 0 {
			t.Errorf("unfinished uploads %v, %v", open, err)
		}
	}
}

// TestSixteenPublishersOverS3 runs sixteen builds at once through the real
// client, a network that delays every request by another time, and the embedded
// store.
func TestSixteenPublishersOverS3(t *testing.T) {
	h := newHouse(t)
	h.serve()
	bucket, vars := h.store()
	proxy := reverseProxy(t, vars["AWS_ENDPOINT_URL"])
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		delay := time.NewTimer(time.Duration(rand.IntN(40)) * time.Millisecond)
		defer delay.Stop()
		<-delay.C
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()
	files := publisherFiles(t)
	var mu sync.Mutex
	promised := map[int64]string{}
	var g errgroup.Group
	for i := range 16 {
		g.Go(func() error {
			job := publisherJob{Endpoint: server.URL, Bucket: vars["STILLHOUSE_BUCKET"], Region: vars["AWS_REGION"], Key: vars["AWS_ACCESS_KEY_ID"],
				Secret: vars["AWS_SECRET_ACCESS_KEY"], Dataset: "many", Build: fmt.Sprintf("b%02d", i), Files: files}
			v, err := job.run(context.Background())
			mu.Lock()
			defer mu.Unlock()
			promised[v.Number] = job.Build
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(promised) != 16 || promised[1] == "" || promised[16] == "" {
		t.Errorf("versions %v", promised)
	}
	h.run(0, "gc", "many", "--grace", "0", "--yes", "--json")
	mustBeTidy(t, catalog.Open(bucket), bucket, "many", promised)
}
