//go:build !noembed

package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/stillhouse-data/stillhouse/internal/home"
)

const parentArgument = "__run-the-services__"

// parentReport is what a process under test says when its services run.
type parentReport struct {
	Endpoints home.Endpoints
	Store     int // pid
	Ready     time.Duration
	RSS       int64 // bytes
}

// parentMain is a program that runs the services until it is killed.
func parentMain(args []string) (handled bool, code int) {
	if len(args) != 2 || args[0] != parentArgument {
		return false, 0
	}
	report, err := runParent(args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return true, 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return true, 1
	}
	select {}
}

func runParent(dir string) (*parentReport, error) {
	begin := time.Now()
	h, err := home.Open(dir)
	if err != nil {
		return nil, err
	}
	if _, err := h.Lock(); err != nil {
		return nil, err
	}
	s, err := Start(context.Background(), Options{Home: h, Binary: "test"})
	if err != nil {
		return nil, err
	}
	return &parentReport{Endpoints: s.Endpoints, Store: s.store.pid, Ready: time.Since(begin), RSS: rss(os.Getpid())}, nil
}

// rss reads a process's own resident memory, without the program's text, which
// the two processes share; 0 where the system has no /proc.
func rss(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, resident, shared int64 // in pages
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared); err != nil {
		return 0
	}
	return (resident - shared) * int64(os.Getpagesize())
}

// startParent runs the program on a home.
func startParent(t *testing.T, dir string) (*exec.Cmd, *parentReport) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, parentArgument, dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var report parentReport
	if err := json.NewDecoder(stdout).Decode(&report); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the services did not start: %v\n%s", err, stderr.String())
	}
	t.Logf("ready after %v, %d MiB and %d MiB for the store", report.Ready.Round(time.Millisecond), report.RSS>>20, rss(report.Store)>>20)
	return cmd, &report
}

// waitGone waits until a process has ended. One that nobody has reaped yet
// counts as ended.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}

func TestKillLeavesNothingBehindAndNothingIsLost(t *testing.T) {
	dir := t.TempDir()
	cmd, first := startParent(t, dir)
	h, err := home.Open(dir)
	if err != nil {
		t.Fatal(err)
	}

	// Another process attaches.
	e, err := h.ReadEndpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if e.PID != cmd.Process.Pid || e.Temporal != first.Endpoints.Temporal {
		t.Fatalf("attached to %+v, want %+v", e, first.Endpoints)
	}
	var locked *home.ErrLocked
	if _, err := h.Lock(); !errors.As(err, &locked) || locked.PID != cmd.Process.Pid {
		t.Fatalf("locking a held home: %v", err)
	}
	keys := home.Keys{AccessKey: e.AccessKey, SecretKey: e.SecretKey}
	put(t, openBucket(t, e.S3, keys, ""), "answers/1", []byte("paid for"))
	c := dial(t, e)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "build/demo/1", TaskQueue: "nobody"}, "Build")
	if err != nil {
		t.Fatal(err)
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	waitGone(t, first.Store)
	if _, err := h.ReadEndpoints(t.Context()); !errors.Is(err, home.ErrNotRunning) {
		t.Errorf("after the kill: %v, want ErrNotRunning", err)
	}

	second := restart(t, dir)
	if second.Endpoints.S3 != first.Endpoints.S3 || second.Endpoints.UI != first.Endpoints.UI || second.Endpoints.Temporal != first.Endpoints.Temporal {
		t.Errorf("the addresses moved: %+v, then %+v", first.Endpoints, second.Endpoints)
	}
	body, _, err := openBucket(t, second.Endpoints.S3, keys, "").Get(t.Context(), "answers/1")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || string(got) != "paid for" {
		t.Errorf("the object after the restart: %q, %v", got, err)
	}
	description, err := dial(t, &second.Endpoints).DescribeWorkflowExecution(t.Context(), run.GetID(), run.GetRunID())
	if err != nil {
		t.Fatal(err)
	}
	if closed := description.WorkflowExecutionInfo.CloseTime; closed != nil {
		t.Errorf("the workflow did not survive: closed at %v", closed.AsTime())
	}
}

// restart starts the services again and holds them to the 3 s that are
// promised. On a machine that is busy with other things they get three tries,
// each after another kill.
func restart(t *testing.T, dir string) *parentReport {
	t.Helper()
	const promise, tries = 3 * time.Second, 3
	for try := 1; ; try++ {
		cmd, report := startParent(t, dir)
		if report.Ready <= promise {
			return report
		}
		if try == tries {
			t.Fatalf("ready after %v, promised within %v", report.Ready, promise)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		waitGone(t, report.Store)
	}
}

// The pipe alone ends the child, where the kernel's signal is not there.
func TestChildEndsWithItsPipe(t *testing.T) {
	dir := t.TempDir()
	child, _ := runChildProcess(t, childConfig{
		Root: dir + "/store", SideCar: dir + "/sidecar", Lock: dir + "/lock",
		Bucket: Bucket, Region: Region, AccessKey: "access", SecretKey: "secret-secret",
	})
	child.end(t)
}

func TestDeadStoreIsReported(t *testing.T) {
	s := start(t, openHome(t))
	if err := s.Err(); err != nil {
		t.Fatalf("before anything happened: %v", err)
	}
	if err := syscall.Kill(s.store.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("nobody noticed that the store died")
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "store died") {
		t.Fatalf("Err is %v", err)
	}
	s.store.err = nil // the kill is not an error of stopping
}

func TestStopIsNotADeath(t *testing.T) {
	s := start(t, openHome(t))
	stop(t, s)
	select {
	case <-s.Done():
		t.Fatalf("Done is closed after Stop: %v", s.Err())
	default:
	}
	waitGone(t, s.store.pid)
	if _, err := os.Stat("/proc/self"); err == nil && rss(s.store.pid) != 0 {
		t.Error("the store is still in memory")
	}
}

func TestServicesStartAgainInOneProcess(t *testing.T) {
	h := openHome(t)
	stop(t, start(t, h))
	s := start(t, h)
	dial(t, &s.Endpoints)
}
