//go:build integration

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNothingLeftBehind kills the main process: no child survives it, and the
// next command needs no cleaning up.
func TestNothingLeftBehind(t *testing.T) {
	s := startSim(t, "-models", "a", "-ttft", "100ms", "-chunk", "400")
	h := newHouse(t)
	m := made{dir: t.TempDir(), name: "left", teachers: teacher(s, "a", ", limits: {concurrency: 4}")}
	prompts(t, filepath.Join(m.dir, "prompts.jsonl"), map[string]int{"math": 120})
	recipe := m.write(t)

	p := h.start("build", recipe, "--yes")
	eventually(t, time.Minute, "some answers have come", func() bool { return s.total().Completed > 10 })
	before := processes(t, h.dir)
	if len(before) < 2 {
		t.Fatalf("%d processes use the home: %v; want the main one and its store", len(before), before)
	}
	if err := syscall.Kill(p.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	killed := time.Now()
	var after map[int]string
	eventually(t, 10*time.Second, "no process uses the home", func() bool {
		after = processes(t, h.dir)
		return len(after) == 0
	})
	gone := time.Since(killed)

	next := h.start("build", recipe, "--json", "--yes")
	if code := next.wait(commandLimit); code != 0 {
		t.Fatalf("the next build ended with %d:\n%s", code, tail(next.stderr(), 2000))
	}
	if r := next.result(); r.Version != 1 {
		t.Errorf("the next build: %+v; want version 1", r)
	}
	if st := s.total(); st.UniqueCompleted != 120 || st.PaidTwice > 4 {
		t.Errorf("%d answers, %d paid twice; want 120, and twice at most the 4 in flight", st.UniqueCompleted, st.PaidTwice)
	}
	if left := processes(t, h.dir); len(left) != 0 {
		t.Errorf("processes that outlive a build: %v", left)
	}
	t.Logf("%d processes before the kill, none %v after it; the next build took %v", len(before), gone.Round(time.Millisecond), next.lasted.Round(time.Millisecond))
}

// processes finds the processes that use a folder, by their arguments, working
// directory and open files, and says how.
func processes(t testing.TB, dir string) map[int]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skipf("this system has no /proc: %v", err)
	}
	out := map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if how := uses(pid, dir); how != "" {
			out[pid] = how
		}
	}
	return out
}

// uses says how a process uses a folder, "" where it does not. A process that
// has ended meanwhile uses nothing.
func uses(pid int, dir string) string {
	proc := fmt.Sprintf("/proc/%d/", pid)
	if args, err := os.ReadFile(proc + "cmdline"); err == nil && strings.Contains(string(args), dir) {
		return "arguments " + strings.ReplaceAll(string(args), "\x00", " ")
	}
	if cwd, err := os.Readlink(proc + "cwd"); err == nil && strings.HasPrefix(cwd, dir) {
		return "working directory " + cwd
	}
	files, err := os.ReadDir(proc + "fd")
	if err != nil {
		return ""
	}
	for _, f := range files {
		if path, err := os.Readlink(proc + "fd/" + f.Name()); err == nil && strings.HasPrefix(path, dir) {
			return "open file " + path
		}
	}
	return ""
}
