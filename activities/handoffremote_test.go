package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
)

// signature is part of every URL of a signed bucket, and of nothing else.
const signature = "X-Amz-Signature=0123456789abcdef"

// signed is a bucket that machines without credentials reach by URLs.
type signed struct {
	*mem.Bucket
	url string
}

func serve(t *testing.T, b *mem.Bucket) *signed {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.URL.Path, "/")
		if r.URL.RawQuery != r.Method+"&"+signature {
			http.Error(w, "not signed for that", http.StatusForbidden)
			return
		}
		if r.Method == http.MethodGet {
			body, _, err := b.Get(r.Context(), key)
			if err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			defer body.Close()
			_, _ = io.Copy(w, body)
			return
		}
		text, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = objstore.PutBytes(r.Context(), b, key, text, objstore.PutOptions{IfNoneMatch: r.Header.Get("If-None-Match") == "*"})
		}
		if errors.Is(err, objstore.ErrPrecondition) {
			http.Error(w, err.Error(), http.StatusPreconditionFailed)
		} else if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	return &signed{b, server.URL}
}

func (s *signed) PresignGet(_ context.Context, key string, _ time.Duration) (string, error) {
	return s.url + "/" + key + "?GET&" + signature, nil
}

func (s *signed) PresignPut(_ context.Context, key string, _ time.Duration) (string, error) {
	return s.url + "/" + key + "?PUT&" + signature, nil
}

// cluster is a platform that starts whatever it is given, as often as it is
// given it: what makes a launch start once is the launch itself.
type cluster struct {
	t    *testing.T
	mu   sync.Mutex
	runs []*clusterRun
	lost bool // the answers of submissions are lost
	told int  // times that it was told to end something
}

type clusterRun struct {
	ended chan struct{}
	code  int
	out   string
}

func (c *cluster) Remote() {}

func (c *cluster) Submit(_ context.Context, launchID string, spec launch.Spec) (launch.Ref, error) {
	argv := launch.Bootstrap()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = c.t.TempDir()
	_, values := spec.Variables()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		cmd.Env = append(cmd.Env, name+"="+values[name])
	}
	run := &clusterRun{ended: make(chan struct{})}
	go func() {
		defer close(run.ended)
		out, _ := cmd.CombinedOutput()
		run.out, run.code = string(out), cmd.ProcessState.ExitCode()
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = append(c.runs, run)
	if c.lost {
		return launch.Ref{}, errors.New("connection reset")
	}
	return launch.Ref{Launcher: "fake", LaunchID: launchID, Where: "job/1"}, nil
}

// Status tells of the run that ended last, as a platform that was given a name
// twice might.
func (c *cluster) Status(context.Context, launch.Ref) (launch.State, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.runs) == 0 {
		return launch.State{}, launch.ErrUnknownRef
	}
	run := c.runs[len(c.runs)-1]
	select {
	case <-run.ended:
	default:
		if c.told > 0 {
			return launch.State{Phase: launch.Cancelled}, nil
		}
		return launch.State{Phase: launch.Running}, nil
	}
	s := launch.State{Phase: launch.Succeeded, ExitCode: &run.code}
	if run.code != 0 {
		s.Phase = launch.Failed
	}
	return s, nil
}

func (c *cluster) Cancel(context.Context, launch.Ref) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told++
	return nil
}

func (c *cluster) Logs(context.Context, launch.Ref, int) (string, error) { return "", nil }

func (c *cluster) wait(t *testing.T) {
	t.Helper()
	for _, run := range c.runs {
		<-run.ended
		if strings.Contains(run.out, signature) {
			t.Errorf("a URL is in the output: %s", run.out)
		}
		t.Logf("exit code %d: %s", run.code, run.out)
	}
}

// withCluster is withTrainer whose launches run on a cluster.
func withCluster(t *testing.T) (*world, *cluster, wire.HandOffInput) {
	w, ref := withTrainer(t)
	w.a.Bucket = serve(t, w.bucket)
	c := &cluster{t: t}
	w.a.Trainers.Launchers["fake"] = c
	t.Setenv("STARTS", t.TempDir()+"/starts")
	t.Setenv("STILLHOUSE_PYTHON", "/nonexistent")
	t.Setenv("ROWS_OF_TRAIN", fmt.Sprint(w.trainRows()))
	in := handOff(ref, `echo started >>"$STARTS"; env | grep -c "`+signature[:15]+`" >>"$STARTS"; printf %s "$ROWS_OF_TRAIN" >"$STILLHOUSE_ROWS_FILE"`)
	in.Launcher = "fake"
	return w, c, in
}

func TestHandOffToAnotherMachine(t *testing.T) {
	w, c, in := withCluster(t)
	prepared := must[wire.HandOffPrepared](w, wire.ActivityPrepare, in)
	// The answer of the first submission is lost, and this platform starts the
	// second one too.
	c.lost = true
	if _, err := call[wire.HandOffLaunched](w, wire.ActivityLaunch, in, prepared); err == nil {
		t.Fatal("the lost answer came")
	}
	c.lost = false
	launched := must[wire.HandOffLaunched](w, wire.ActivityLaunch, in, prepared)
	if !launched.Remote || launched.Where != "job/1" {
		t.Errorf("%+v", launched)
	}
	c.wait(t)
	prepared.Where = launched.Where
	out := must[wire.HandOffOutput](w, wire.ActivityCheck, in, prepared)
	if out.State != string(launch.Succeeded) || out.ExitCode != 0 {
		t.Errorf("%+v", out)
	}
	// It trained once, and the trainer saw no URL.
	if text, err := os.ReadFile(os.Getenv("STARTS")); err != nil || string(text) != "started\n0\n" {
		t.Errorf("it started: %q %v", text, err)
	}
	for at, err := range w.bucket.List(t.Context(), training.Key(prepared.LaunchID, ""), "") {
		if err != nil {
			t.Fatal(err)
		}
		text, _, err := objstore.ReadAll(t.Context(), w.bucket, at.Key, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), signature) || strings.Contains(at.Key, "bundle-") {
			t.Errorf("a URL is kept in %s", at.Key)
		}
	}
}

func TestRemoteLaunchesEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		after  func(w *world, in wire.HandOffInput, p *wire.HandOffPrepared)
		state  launch.Phase
		text   string
	}{
		"the trainer fails":      {"exit 3", nil, launch.Failed, "exit code 3"},
		"the trainer skips rows": {`printf 1 >"$STILLHOUSE_ROWS_FILE"`, nil, launch.Failed, "loaded 1 rows"},
		"nobody counted":         {"true", nil, launch.Unknown, "how many"},
		"the result is lost": {`printf %s "$ROWS_OF_TRAIN" >"$STILLHOUSE_ROWS_FILE"`, func(w *world, _ wire.HandOffInput, p *wire.HandOffPrepared) {
			if err := w.bucket.Delete(context.Background(), training.Key(p.LaunchID, training.ResultFile)); err != nil {
				w.t.Fatal(err)
			}
		}, launch.Unknown, "left no result.json"},
		"the result is of another launch": {"true", func(w *world, _ wire.HandOffInput, p *wire.HandOffPrepared) {
			text := []byte(`{"apiVersion":"stillhouse/v1","launch_id":"` + strings.Repeat("0", 64) + `","state":"succeeded","exit_code":0}`)
			if _, err := objstore.PutBytes(context.Background(), w.bucket, training.Key(p.LaunchID, training.ResultFile), text, objstore.PutOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}, launch.Unknown, "launch_id"},
	} {
		t.Run(name, func(t *testing.T) {
			w, c, in := withCluster(t)
			in.Command = []string{"sh", "-c", tc.script}
			prepared := must[wire.HandOffPrepared](w, wire.ActivityPrepare, in)
			must[wire.HandOffLaunched](w, wire.ActivityLaunch, in, prepared)
			c.wait(t)
			if tc.after != nil {
				tc.after(w, in, &prepared)
			}
			out := must[wire.HandOffOutput](w, wire.ActivityCheck, in, prepared)
			if out.State != string(tc.state) || !strings.Contains(out.Text, tc.text) {
				t.Errorf("%+v, want %s with %q", out, tc.state, tc.text)
			}
		})
	}
}

// A launch whose time is over is told to end; one that does not is not waited
// for for ever.
func TestDeadlines(t *testing.T) {
	w, c, in := withCluster(t)
	prepared := must[wire.HandOffPrepared](w, wire.ActivityPrepare, in)
	stuck := &clusterRun{ended: make(chan struct{})}
	c.runs = append(c.runs, stuck)
	prepared.Until = time.Now().Add(time.Hour)
	if out := must[wire.HandOffOutput](w, wire.ActivityCheck, in, prepared); out.State != string(launch.Running) || c.told != 0 {
		t.Errorf("before: %+v, told %d times", out, c.told)
	}
	prepared.Until = time.Now().Add(-time.Minute)
	if out := must[wire.HandOffOutput](w, wire.ActivityCheck, in, prepared); out.State != string(launch.Cancelled) || !strings.Contains(out.Text, "time was over") || c.told != 1 {
		t.Errorf("after: %+v, told %d times", out, c.told)
	}
	w.a.Trainers.Launchers["fake"] = deaf{c}
	if out := must[wire.HandOffOutput](w, wire.ActivityCheck, in, prepared); out.State != string(launch.Running) {
		t.Errorf("deaf: %+v", out)
	}
	prepared.Until = time.Now().Add(-2 * endingGrace)
	if out := must[wire.HandOffOutput](w, wire.ActivityCheck, in, prepared); out.State != string(launch.Unknown) || !strings.Contains(out.Text, "told to end") {
		t.Errorf("deaf for long: %+v", out)
	}
}

// deaf is a cluster that ends nothing.
type deaf struct{ *cluster }

func (d deaf) Status(context.Context, launch.Ref) (launch.State, error) {
	return launch.State{Phase: launch.Running}, nil
}

// A store that gives no URLs is of no use to other machines.
func TestRemoteLaunchesNeedURLs(t *testing.T) {
	w, _, in := withCluster(t)
	w.a.Bucket = w.bucket
	prepared := must[wire.HandOffPrepared](w, wire.ActivityPrepare, in)
	_, err := call[wire.HandOffLaunched](w, wire.ActivityLaunch, in, prepared)
	var application *temporal.ApplicationError
	if !asApplication(err, &application) || !application.NonRetryable() || !strings.Contains(err.Error(), "--store s3://") {
		t.Errorf("%v", err)
	}
}
