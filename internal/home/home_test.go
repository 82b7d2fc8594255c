package home

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The test binary is also a process that holds a home until its stdin closes.
func TestMain(m *testing.M) {
	if dir := os.Getenv("STILLHOUSE_TEST_HOLD"); dir != "" {
		if err := hold(dir, os.Getenv("STILLHOUSE_TEST_ENDPOINTS") != ""); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func hold(dir string, serve bool) error {
	h, err := Open(dir)
	if err != nil {
		return err
	}
	if _, err := h.Lock(); err != nil {
		return err
	}
	if serve {
		if err := h.WriteEndpoints(&Endpoints{Temporal: "127.0.0.1:1"}); err != nil {
			return err
		}
	}
	fmt.Println("held")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startHolder starts another process that holds the home.
func startHolder(t *testing.T, dir string, serve bool) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "STILLHOUSE_TEST_HOLD="+dir)
	if serve {
		cmd.Env = append(cmd.Env, "STILLHOUSE_TEST_ENDPOINTS=1")
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
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
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return cmd
}

func open(t *testing.T, dir string) *Home {
	t.Helper()
	h, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestOpenMakesAPrivateFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	h := open(t, dir)
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("mode is %v", info.Mode())
	}
	if got, want := h.Path("store", "x"), filepath.Join(h.Dir, "store", "x"); got != want {
		t.Errorf("Path is %s, want %s", got, want)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if info, err = os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("a folder that was open to others stayed so: %v, %v", info.Mode(), err)
	}
}

// --home . in a folder that others work in must not shut them out.
func TestOpenClosesNoFolderOfOthers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "notes.txt")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "--home or STILLHOUSE_HOME") {
		t.Errorf("opened: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

func TestOpenIsAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	h := open(t, "here")
	if !filepath.IsAbs(h.Dir) {
		t.Errorf("Dir is %s", h.Dir)
	}
}

func TestOpenRefusesWhatItCannotUse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"a file": file, "below a file": filepath.Join(file, "x")} {
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "--home") {
			t.Errorf("%s: %v, want a refusal that names --home", name, err)
		}
	}
	if os.Getuid() == 0 {
		t.Log("root writes everywhere; the read-only folder is not tried")
		return
	}
	readonly := filepath.Join(t.TempDir(), "ro")
	if err := os.Mkdir(readonly, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(readonly); err == nil {
		t.Error("a read-only folder was accepted")
	}
}

func TestDefault(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/data")
	if got, err := Default(); err != nil || got != "/data/stillhouse" {
		t.Errorf("Default is %q, %v", got, err)
	}
	t.Setenv("XDG_DATA_HOME", "relative")
	t.Setenv("HOME", "/home/ann")
	if got, err := Default(); err != nil || got != "/home/ann/.local/share/stillhouse" {
		t.Errorf("Default is %q, %v", got, err)
	}
}

func TestLockIsForOne(t *testing.T) {
	h := open(t, t.TempDir())
	lock, err := h.Lock()
	if err != nil {
		t.Fatal(err)
	}
	var locked *ErrLocked
	if _, err := h.Lock(); !errors.As(err, &locked) {
		t.Fatalf("a second lock: %v", err)
	}
	if locked.PID != os.Getpid() || time.Since(locked.Since) > time.Minute {
		t.Errorf("the holder is %+v", locked)
	}
	if !strings.Contains(locked.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("the message %q doesn't name the holder", locked)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if lock, err = h.Lock(); err != nil {
		t.Fatalf("after Unlock: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestDroppedLockStaysHeld(t *testing.T) {
	h := open(t, t.TempDir())
	if _, err := h.Lock(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		runtime.GC()
	}
	if running, err := h.running(); err != nil || !running {
		t.Errorf("the garbage collector gave the home away: %v, %v", running, err)
	}
}

func TestLockDiesWithItsProcess(t *testing.T) {
	h := open(t, t.TempDir())
	other := startHolder(t, h.Dir, true)
	var locked *ErrLocked
	if _, err := h.Lock(); !errors.As(err, &locked) || locked.PID != other.Process.Pid {
		t.Fatalf("while another process holds it: %v", err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	lock, err := h.Lock()
	if err != nil {
		t.Fatalf("after the kill: %v", err)
	}
	defer lock.Unlock()
	if _, err := os.Stat(h.endpointsPath()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead process's endpoints are still there: %v", err)
	}
}

// Readers that look at the lock must not make a starter believe that it is
// taken.
func TestLookingIsNotHolding(t *testing.T) {
	h := open(t, t.TempDir())
	lock, err := h.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_, _ = h.running()
					runtime.Gosched()
				}
			}
		})
	}
	for range 50 {
		// Each try may meet a look; LockFile waits it out.
		f, err := LockFile(h.lockPath(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	close(done)
	readers.Wait()
}

func TestEndpoints(t *testing.T) {
	h := open(t, t.TempDir())
	if _, err := h.ReadEndpoints(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Fatalf("with nothing there: %v", err)
	}
	lock, err := h.Lock()
	if err != nil {
		t.Fatal(err)
	}
	want := &Endpoints{Temporal: "127.0.0.1:1", Token: "t", S3: "http://127.0.0.1:2", Started: time.Now().UTC()}
	if err := h.WriteEndpoints(want); err != nil {
		t.Fatal(err)
	}
	got, err := h.ReadEndpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || got.PID != os.Getpid() {
		t.Errorf("pid %d, diff (-want +got):\n%s", got.PID, diff)
	}
	if info, err := os.Stat(h.endpointsPath()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ReadEndpoints(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("after Unlock: %v", err)
	}
}

func TestReadEndpointsWaitsForAStart(t *testing.T) {
	h := open(t, t.TempDir())
	lock, err := h.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := h.ReadEndpoints(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a holder that says nothing: %v", err)
	}
	found := make(chan error, 1)
	go func() {
		_, err := h.ReadEndpoints(t.Context())
		found <- err
	}()
	if err := h.WriteEndpoints(&Endpoints{Temporal: "127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	if err := <-found; err != nil {
		t.Fatal(err)
	}
}

func TestEndpointsOfAnotherProcess(t *testing.T) {
	h := open(t, t.TempDir())
	other := startHolder(t, h.Dir, true)
	e, err := h.ReadEndpoints(t.Context())
	if err != nil || e.PID != other.Process.Pid {
		t.Fatalf("got %+v, %v", e, err)
	}

	// A file that a dead holder left is not believed.
	e.PID = 1 << 30
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.endpointsPath(), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := h.endpoints(); e != nil || err != nil {
		t.Errorf("believed %+v, %v", e, err)
	}
}

func TestKeys(t *testing.T) {
	h := open(t, t.TempDir())
	first, err := h.Keys()
	if err != nil {
		t.Fatal(err)
	}
	if len(first.SecretKey) < 32 || len(first.Token) < 32 || len(first.UIToken) < 32 || first.Token == first.SecretKey {
		t.Errorf("weak keys: %+v", first)
	}
	again, err := h.Keys()
	if err != nil || again != first {
		t.Errorf("the keys changed: %v", err)
	}
	path := h.Path("keys.json")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Keys(); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("keys that everybody could read: %v", err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Keys(); err == nil || strings.Contains(err.Error(), first.Token) {
		t.Errorf("damaged keys: %v", err)
	}
}

func TestWriteFileReplacesInOneStep(t *testing.T) {
	h := open(t, t.TempDir())
	path := h.Path("run", "x.json")
	for _, text := range []string{"one", "two"} {
		if err := h.WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("read %q, %v", got, err)
		}
	}
	entries, err := os.ReadDir(h.Path("run"))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
