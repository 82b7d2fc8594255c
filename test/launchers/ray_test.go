//go:build launchers

package launchers

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/launch/ray"
	"github.com/stillhouse-data/stillhouse/training/launch/rest"
)

const rayToken = "a-token-of-the-test-of-thirty-two-characters"

// A rayCluster is `ray start --head` on loopback, with its token.
type rayCluster struct {
	program, dashboard, dir string
	cmd                     *exec.Cmd
}

func (c *rayCluster) url() string { return "http://127.0.0.1:" + c.dashboard }

func (c *rayCluster) start(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ray") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c.dir = dir
	c.cmd = exec.Command(c.program, "start", "--head", "--block", "--num-cpus=2", "--disable-usage-stats",
		"--object-store-memory=80000000", "--node-ip-address=127.0.0.1", "--port="+freePort(t),
		"--dashboard-host=127.0.0.1", "--dashboard-port="+c.dashboard, "--dashboard-agent-listen-port="+freePort(t), "--temp-dir="+dir)
	c.cmd.Env = append(os.Environ(), "RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN="+rayToken, "RAY_JOB_STOP_WAIT_TIME_S=10")
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(t.TempDir(), "ray.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.stop(t) })
	until(t, "a Ray cluster", 2*time.Minute, func() (bool, string) {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url()+"/api/jobs/", nil)
		req.Header.Set("Authorization", "Bearer "+rayToken)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			text, _ := os.ReadFile(log.Name())
			return false, fmt.Sprintf("%v: %s", err, text)
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK, resp.Status
	})
}

// stop ends what start started, and nobody else's Ray.
func (c *rayCluster) stop(t *testing.T) {
	t.Helper()
	if c.cmd == nil {
		return
	}
	syscall.Kill(c.cmd.Process.Pid, syscall.SIGTERM) // it ends its processes
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(5 * time.Second): // it waits long for a job that runs
		syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		<-done
	}
	syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	c.cmd = nil
}

func TestRay(t *testing.T) {
	program, err := exec.LookPath("ray")
	if err != nil {
		missing(t, "ray", "`ray` is not in PATH: pip install 'ray[default]'")
	}
	t.Setenv("RAY_TOKEN_OF_THE_TEST", rayToken)
	s := newStore(t)
	c := &rayCluster{program: program, dashboard: freePort(t)}
	c.start(t)
	at := func(url string) launch.Launcher {
		l, err := ray.New(ray.Config{Config: rest.Config{URL: url, Token: "RAY_TOKEN_OF_THE_TEST"}, CPUs: 0.1, Work: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := at(c.url())

	t.Run("without its token", func(t *testing.T) {
		l, err := ray.New(ray.Config{Config: rest.Config{URL: c.url()}})
		if err != nil {
			t.Fatal(err)
		}
		id, spec := handOver(t, s, "true")
		var status *rest.StatusError
		if _, err := l.Submit(t.Context(), id, spec); !errors.As(err, &status) || status.Status != http.StatusUnauthorized {
			t.Errorf("%v", err)
		}
	})
	t.Run("succeeds, submitted eight times at once", func(t *testing.T) {
		id, spec := handOver(t, s, "echo trained on $(cat data/*.jsonl | wc -l) rows")
		var all sync.WaitGroup
		var ref launch.Ref
		var mu sync.Mutex
		for range 8 {
			all.Go(func() {
				got, err := l.Submit(t.Context(), id, spec)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ref = got
			})
		}
		all.Wait()
		if got := follow(t, l, s, ref); got.Phase != launch.Succeeded || got.Started.IsZero() || got.Ended.IsZero() {
			t.Errorf("%+v\n%s", got, logs(t, l, ref))
		}
		if files, err := exec.Command("grep", "-rlF", signature, c.dir).Output(); len(files) > 0 {
			t.Errorf("files of Ray hold presigned URLs: %s (%v)", files, err)
		}
		if n := s.triedToClaim(id); n != 1 {
			t.Errorf("%d runs tried to claim it", n)
		}
		if text := logs(t, l, ref); !strings.Contains(text, "\ntrained on 3 rows\n") {
			t.Errorf("the log is %s", text)
		}
		if _, err := l.Submit(t.Context(), id, spec); err != nil {
			t.Errorf("once more at the end: %v", err)
		}
	})
	t.Run("answers are lost", func(t *testing.T) {
		id, spec := handOver(t, s, "true")
		through := at(forgetful(t, c.url()))
		for range 3 {
			if _, err := through.Submit(t.Context(), id, spec); err != nil {
				t.Fatal(err)
			}
		}
		if got := follow(t, l, s, launch.Ref{LaunchID: id}); got.Phase != launch.Succeeded || s.triedToClaim(id) != 1 {
			t.Errorf("%+v after %d claims", got, s.triedToClaim(id))
		}
	})
	t.Run("what Ray says to a repeated id", func(t *testing.T) {
		id, spec := handOver(t, s, "exit 9")
		ref, err := l.Submit(t.Context(), id, spec)
		if err != nil {
			t.Fatal(err)
		}
		api, err := rest.New(rest.Config{URL: c.url(), Token: "RAY_TOKEN_OF_THE_TEST"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = api.Do(t.Context(), http.MethodPost, "/api/jobs/", map[string]any{"entrypoint": "true", "submission_id": id})
		var status *rest.StatusError
		if !errors.As(err, &status) || status.Status < 400 || !strings.Contains(status.Text, "already exists") {
			t.Errorf("%v: the double in the tests of training/launch/ray says otherwise", err)
		} else {
			t.Logf("status %d", status.Status)
		}
		got := follow(t, l, s, ref)
		if got.Phase != launch.Failed || got.ExitCode == nil || *got.ExitCode != 9 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		id, spec := handOver(t, s, "echo begun; sleep 600")
		ref, err := l.Submit(t.Context(), id, spec)
		if err != nil {
			t.Fatal(err)
		}
		begun(t, l, ref)
		if err := l.Cancel(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		got := follow(t, l, s, ref)
		// Whose end comes first, the trainer's or run.sh's, is up to the cluster.
		if got.Phase != launch.Cancelled || got.Result == nil || got.Result.State == training.ResultSucceeded || got.Result.ExitCode != 143 {
			t.Errorf("%+v of %+v", got, got.Result)
		}
		if err := l.Cancel(t.Context(), ref); err != nil {
			t.Errorf("once more at the end: %v", err)
		}
	})
	t.Run("the cluster is restarted", func(t *testing.T) {
		id, spec := handOver(t, s, "echo begun; sleep 600")
		ref, err := l.Submit(t.Context(), id, spec)
		if err != nil {
			t.Fatal(err)
		}
		begun(t, l, ref)
		c.stop(t)
		if _, err := l.Status(t.Context(), ref); err == nil {
			t.Error("a cluster that is down says something")
		}
		c.start(t)
		got := follow(t, l, s, ref)
		if got.Result != nil && got.Phase != launch.Cancelled || got.Result == nil && got.Phase != launch.Unknown {
			t.Errorf("%+v", got)
		}
		t.Logf("after the restart: %s: %s", got.Phase, got.Reason)
		// Who submits it again gets a second start, which does not train.
		if _, err := l.Submit(t.Context(), id, spec); err != nil {
			t.Fatal(err)
		}
		second := follow(t, l, s, ref)
		if second.Phase == launch.Succeeded || s.triedToClaim(id) != 2 || second.Phase != got.Phase {
			t.Errorf("%+v after %d claims", second, s.triedToClaim(id))
		}
	})
}
