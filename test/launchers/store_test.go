//go:build launchers

package launchers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
)

const rows = 3

// A store is objects behind presigned URLs, as far as run.sh asks for them.
type store struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string][]byte
	claims  map[string]int // tries by launch
}

const signature = "X-Amz-Signature=5e0d1f&X-Amz-Expires=600"

func newStore(t *testing.T) *store {
	s := &store{objects: map[string][]byte{}, claims: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *store) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/")
	data, there := s.objects[key]
	switch {
	case err != nil || r.URL.RawQuery != signature:
		w.WriteHeader(http.StatusForbidden)
	case r.Method == http.MethodGet && there:
		w.Write(data)
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPut:
		if r.Header.Get("If-None-Match") == "*" {
			s.claims[key]++
			if there {
				w.WriteHeader(http.StatusPreconditionFailed)
				return
			}
		}
		s.objects[key] = body
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (s *store) put(key string, data []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = data
	return s.url(key)
}

func (s *store) url(key string) string { return s.URL + "/" + key + "?" + signature }

// triedToClaim tells how many runs of a launch came as far as its claim.
func (s *store) triedToClaim(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[training.Key(id, training.ClaimFile)]
}

func (s *store) result(id string) (*training.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return training.ParseResult(s.objects[training.Key(id, training.ResultFile)], id)
}

// handOver puts a bundle whose trainer is a line of shell into the store.
func handOver(t *testing.T, s *store, script string) (id string, spec launch.Spec) {
	t.Helper()
	text := []byte(strings.Repeat("{}\n", rows))
	sum := sha256.Sum256(text)
	rendered := &training.Rendered{
		Trainer: training.Trainer{Name: "custom", Method: "custom", For: "sh", Configs: []string{"configs/custom/name"}, Command: []string{"sh", "-c", script}},
		Files:   []training.File{{Name: "configs/custom/name", Data: []byte(t.Name())}},
	}
	manifest := strings.Repeat("b", 64)
	id, err := training.LaunchID(manifest, rendered, 1)
	if err != nil {
		t.Fatal(err)
	}
	name := training.ViewFileName("train", 0, 1, "jsonl")
	b := &training.Bundle{
		APIVersion: training.APIVersion, LaunchID: id, Attempt: 1, CreatedAt: time.Now().UTC(),
		Dataset: training.Dataset{Name: "maths", Version: 1, BuildID: "20261201T090000Z-00000000", Manifest: "datasets/maths/manifests/m.json", ManifestDigest: manifest},
		View: training.View{
			Name: "messages", Rows: map[string]int64{"train": rows},
			Files: []training.ViewFile{{Name: name, Split: "train", Bytes: int64(len(text)), Rows: rows, SHA256: hex.EncodeToString(sum[:])}},
		},
		Teachers: []training.Teacher{{ID: "k3", Model: "kimi-k3", Rows: rows, Training: training.TrainingAllowed}},
		Trainer:  rendered.Trainer, Claim: training.ClaimFile, Result: training.ResultFile,
	}
	files, err := b.Files(rendered)
	if err != nil {
		t.Fatal(err)
	}
	urls := name + "\t" + s.put(training.Key(id, name), text) + "\n"
	archive, err := training.Archive(slices.Concat(files, []training.File{{Name: training.URLsFile, Mode: 0o600, Data: []byte(urls)}}))
	if err != nil {
		t.Fatal(err)
	}
	sum = sha256.Sum256(archive)
	return id, launch.Spec{Rows: rows, Remote: &launch.Remote{
		BundleURL: s.put(training.Key(id, "bundle.tar.gz"), archive), BundleSHA256: hex.EncodeToString(sum[:]),
		ClaimURL: s.url(training.Key(id, training.ClaimFile)), ResultURL: s.url(training.Key(id, training.ResultFile)),
		Expires: time.Now().Add(time.Hour),
	}}
}

// until asks again every tenth of a second until the answer is yes.
func until(t *testing.T, what string, limit time.Duration, yes func() (bool, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	said := ""
	for {
		ok, text := yes()
		if ok {
			return
		}
		said = text
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s: %s", what, limit, said)
		case <-tick.C:
		}
	}
}

// follow waits for a launch's end and weighs it like the program does.
func follow(t *testing.T, l launch.Launcher, s *store, ref launch.Ref) launch.State {
	t.Helper()
	var state launch.State
	until(t, "the end of "+ref.LaunchID, 2*time.Minute, func() (bool, string) {
		var err error
		state, err = l.Status(t.Context(), ref)
		return err == nil && state.Phase.Final(), fmt.Sprintf("%+v, %v", state, err)
	})
	result, err := s.result(ref.LaunchID)
	return launch.Judge(state, result, err, rows)
}

// begun waits until the trainer says so. What comes sooner may meet the launch
// while it claims.
func begun(t *testing.T, l launch.Launcher, ref launch.Ref) {
	t.Helper()
	until(t, "the start of "+ref.LaunchID, 2*time.Minute, func() (bool, string) {
		text, err := l.Logs(t.Context(), ref, 64<<10)
		return strings.Contains(text, "\nbegun\n"), fmt.Sprintf("%v: %s", err, text)
	})
}

func logs(t *testing.T, l launch.Launcher, ref launch.Ref) string {
	t.Helper()
	text, err := l.Logs(t.Context(), ref, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, signature) {
		t.Errorf("the log holds a presigned URL: %s", text)
	}
	return text
}

// forgetful passes requests on, and loses the answer of every POST.
func forgetful(t *testing.T, to string) string {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, to+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		req.Header = r.Header.Clone()
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer resp.Body.Close()
		if r.Method == http.MethodPost {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(resp.StatusCode)
		io.Copy(w, resp.Body)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// missing skips what is not installed, or fails where it must be.
func missing(t *testing.T, cluster, why string) {
	t.Helper()
	if slices.Contains(strings.Fields(os.Getenv("STILLHOUSE_REQUIRE_LAUNCHERS")), cluster) {
		t.Fatalf("%s: %s", cluster, why)
	}
	t.Skipf("%s: %s", cluster, why)
}
