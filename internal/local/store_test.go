//go:build !noembed

package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/home"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/objstoretest"
	"github.com/stillhouse-data/stillhouse/internal/objstore/s3"
)

// startStoreAlone runs the store without the other services.
func startStoreAlone(t testing.TB, h *home.Home) (*store, home.Keys) {
	t.Helper()
	keys, err := h.Keys()
	if err != nil {
		t.Fatal(err)
	}
	s, err := startStore(t.Context(), h, keys, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s, keys
}

func openBucket(t testing.TB, url string, keys home.Keys, prefix string) *s3.Bucket {
	t.Helper()
	b, err := s3.Open(t.Context(), s3.Options{
		URL: "s3://" + Bucket + prefix, Endpoint: url, Region: Region,
		AccessKey: keys.AccessKey, SecretKey: keys.SecretKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestStoreConformance(t *testing.T) {
	s, keys := startStoreAlone(t, openHome(t))
	var n atomic.Int32
	objstoretest.Run(t, func(t *testing.T) objstore.Bucket {
		return openBucket(t, s.url, keys, fmt.Sprintf("/suite-%d", n.Add(1)))
	})
}

func put(t testing.TB, b objstore.Bucket, key string, data []byte) {
	t.Helper()
	if _, err := b.Put(t.Context(), key, bytes.NewReader(data), int64(len(data)), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestObjectsArePlainPrivateFiles(t *testing.T) {
	h := openHome(t)
	s, keys := startStoreAlone(t, h)
	b := openBucket(t, s.url, keys, "")
	small := []byte("PAR1")
	large := make([]byte, 40<<20) // goes up in parts
	if _, err := rand.Read(large); err != nil {
		t.Fatal(err)
	}
	put(t, b, "datasets/demo/data/a.parquet", small)
	put(t, b, "datasets/demo/data/b.parquet", large)
	for key, want := range map[string][]byte{"a.parquet": small, "b.parquet": large} {
		path := h.Path("store", Bucket, "datasets", "demo", "data", key)
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s holds other bytes than the object", path)
		}
	}
	err := filepath.WalkDir(h.Path("store"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v: other users can read it", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(h.Path("logs", "store.log"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(log), keys.SecretKey) {
		t.Error("the log holds the secret key")
	}
}

func TestStoreRefusesWrongKeys(t *testing.T) {
	s, keys := startStoreAlone(t, openHome(t))
	wrong := keys
	wrong.SecretKey = strings.Repeat("0", len(keys.SecretKey))
	if err := openBucket(t, s.url, wrong, "").Check(t.Context()); err == nil {
		t.Error("a wrong secret key was accepted")
	}
	resp, err := http.Get(s.url + "/" + Bucket)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("an anonymous request got %s", resp.Status)
	}
}

// The store changes the working directory of its process, which is not ours.
func TestStoreLeavesOurWorkingDirectory(t *testing.T) {
	before, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	startStoreAlone(t, openHome(t))
	if after, err := os.Getwd(); err != nil || after != before {
		t.Fatalf("the working directory went from %s to %s (%v)", before, after, err)
	}
}

// Where the file system has no user attributes, metadata are files beside the
// objects. The fallback is chosen by the child; here it is forced.
func TestStoreWithSideCar(t *testing.T) {
	dir := t.TempDir()
	cfg := childConfig{
		Root: filepath.Join(dir, "store"), SideCar: filepath.Join(dir, "sidecar"), Lock: filepath.Join(dir, "lock"),
		Bucket: Bucket, Region: Region, AccessKey: "access", SecretKey: "secret-secret", ForceSideCar: true,
	}
	child, url := runChildProcess(t, cfg)
	b := openBucket(t, url, home.Keys{AccessKey: cfg.AccessKey, SecretKey: cfg.SecretKey}, "")
	put(t, b, "a/b", []byte("hello"))
	attr, err := b.Head(t.Context(), "a/b")
	if err != nil || attr.ETag == "" {
		t.Fatalf("head: %+v, %v", attr, err)
	}
	if err := b.Probe(t.Context()); err != nil {
		t.Errorf("conditional writes: %v", err)
	}
	if _, err := os.Stat(filepath.Join(cfg.SideCar, Bucket, "a", "b", "meta", "etag")); err != nil {
		t.Error(err)
	}
	child.end(t)
}

// childProcess is a store run by hand.
type childProcess struct {
	cmd  *exec.Cmd
	pipe interface{ Close() error }
}

func runChildProcess(t *testing.T, cfg childConfig) (*childProcess, string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	reports, reportEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reports.Close()
	cmd := exec.Command(program, childArgument)
	cmd.ExtraFiles = []*os.File{reportEnd}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reportEnd.Close()
	if err := json.NewEncoder(pipe).Encode(cfg); err != nil {
		t.Fatal(err)
	}
	var report childReport
	if err := json.NewDecoder(reports).Decode(&report); err != nil || report.Error != "" {
		t.Fatalf("child: %+v, %v", report, err)
	}
	return &childProcess{cmd: cmd, pipe: pipe}, "http://" + report.Address
}

// end closes the pipe, as the death of the parent does.
func (c *childProcess) end(t *testing.T) {
	t.Helper()
	if err := c.pipe.Close(); err != nil {
		t.Error(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the child ended with %v", err)
		}
	case <-time.After(15 * time.Second):
		t.Error("the child outlived its pipe")
		_ = c.cmd.Process.Kill()
		<-ended
	}
}

func TestSecondStoreOnOneHomeIsRefused(t *testing.T) {
	h := openHome(t)
	_, keys := startStoreAlone(t, h)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	second, err := startStore(ctx, h, keys, 0)
	if err == nil {
		_ = second.stop(ctx)
		t.Fatal("two stores run on one folder")
	}
	if !strings.Contains(err.Error(), "another store is running") {
		t.Errorf("got %v", err)
	}
}

func BenchmarkStorePut(b *testing.B) {
	h := openHome(b)
	s, keys := startStoreAlone(b, h)
	bucket := openBucket(b, s.url, keys, "")
	for _, size := range []int{4 << 10, 8 << 20} {
		data := make([]byte, size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for i := 0; b.Loop(); i++ {
				put(b, bucket, fmt.Sprintf("bench/%d/%d", size, i), data)
			}
		})
	}
}
