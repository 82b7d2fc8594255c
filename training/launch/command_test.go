package launch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
)

// TestMain makes this test's binary a supervisor, and a process that submits
// and may be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == SuperviseArg {
		os.Exit(Supervise(os.Args[2:]))
	}
	if len(os.Args) == 4 && os.Args[1] == "submit-for-test" {
		c := Command{Root: os.Args[2]}
		if _, err := c.Submit(context.Background(), testID, Spec{Dir: os.Args[3], Env: testEnv}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Under the race detector a process waits a second before it ends, to let
	// others report; ours are many and have nothing to report by then.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// testEnv reaches the supervisors, which are this test's binary too.
var testEnv = []string{"GORACE"}

var testID = strings.Repeat("0123456789abcdef", 4)

// testBundle is a launcher and a folder in which it runs a script.
type testBundle struct {
	*Command
	spec Spec
}

func setup(t *testing.T, script string) *testBundle {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, training.RunFile), []byte("set -eu\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	b := &testBundle{Command: &Command{Root: filepath.Join(t.TempDir(), "launches"), Grace: time.Minute}, spec: Spec{Dir: dir, Env: testEnv}}
	t.Cleanup(func() { b.end(t) })
	return b
}

// end leaves no process behind, whatever the test did.
func (b *testBundle) end(t *testing.T) {
	ref := Ref{Launcher: CommandLauncher, LaunchID: testID}
	if err := b.Cancel(context.Background(), ref); err != nil && !errors.Is(err, ErrUnknownRef) {
		t.Error(err)
	}
	f := folder(filepath.Join(b.Root, testID))
	if _, err := os.Stat(string(f)); err != nil {
		return
	}
	eventually(t, "every process of the launch is gone", func() bool {
		held, err := f.held(lockFile)
		if err != nil {
			t.Fatal(err)
		}
		return !held
	})
}

// result is a shell line that leaves a valid result.json.
func result(state string, exitCode, rows int) string {
	return fmt.Sprintf(`echo '{"apiVersion":"stillhouse/v1","launch_id":"%s","state":"%s","exit_code":%d,"started_at":"2026-12-01T00:00:00Z","ended_at":"2026-12-01T00:00:01Z","rows_seen":%d,"error":"so it was"}' >result.json
`, testID, state, exitCode, rows)
}

func (b *testBundle) submit(t *testing.T) Ref {
	t.Helper()
	ref, err := b.Submit(t.Context(), testID, b.spec)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func (b *testBundle) final(t *testing.T, ref Ref) State {
	t.Helper()
	var state State
	eventually(t, "the launch is over", func() bool {
		var err error
		if state, err = b.Status(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		return state.Phase.Final()
	})
	return state
}

func (b *testBundle) wait(t *testing.T, name string) {
	t.Helper()
	eventually(t, name+" appears", func() bool {
		_, err := os.Stat(filepath.Join(b.spec.Dir, name))
		return err == nil
	})
}

func (b *testBundle) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.spec.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("waited a minute until %s", what)
		case <-tick.C:
		}
	}
}

func TestRunsToItsEnd(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		rows         int64
		phase        Phase
		code         int
		reason       string
	}{
		{"succeeded", result("succeeded", 0, 7), 7, Succeeded, 0, ""},
		{"rows not asked for", result("succeeded", 0, 7), 0, Succeeded, 0, ""},
		{"other rows", result("succeeded", 0, 6), 7, Unknown, 0, "on 6 rows, not on the 7"},
		{"no result", "true\n", 7, Unknown, 0, "left no result.json"},
		{"broken result", "echo '{' >result.json\n", 7, Unknown, 0, "no valid result"},
		{"another launch's result", strings.ReplaceAll(result("succeeded", 0, 7), "0123", "4567"), 7, Unknown, 0, "launch_id is"},
		{"huge result", "head -c 70000 /dev/zero | tr '\\0' ' ' >result.json\n", 7, Unknown, 0, "larger than 65536"},
		{"a link for a result", "echo {} >real; ln -s real result.json\n", 7, Unknown, 0, "is a link"},
		{"a pipe for a result", "mkfifo result.json\n", 7, Unknown, 0, "not a plain file"},
		{"says failed", result("failed", 0, 7), 7, Failed, 0, "says that it failed: so it was"},
		{"exit code", result("failed", 3, 7) + "exit 3\n", 7, Failed, 3, "exit code 3: so it was"},
		{"exit code without result", "exit 3\n", 7, Failed, 3, "exit code 3"},
		{"success that failed", result("succeeded", 0, 7) + "exit 3\n", 7, Failed, 3, "exit code 3"},
		{"signal", "kill -9 $$\n", 7, Failed, 137, "exit code 137"},
		{"claimed elsewhere", "exit 75\n", 7, Failed, 75, "another machine has claimed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := setup(t, tc.script)
			b.spec.Rows = tc.rows
			if err := os.WriteFile(filepath.Join(b.spec.Dir, training.ResultFile), []byte("of an earlier launch"), 0o600); err != nil {
				t.Fatal(err)
			}
			state := b.final(t, b.submit(t))
			if state.Phase != tc.phase || state.ExitCode == nil || *state.ExitCode != tc.code {
				t.Errorf("got %+v, want %s with exit code %d", state, tc.phase, tc.code)
			}
			if !strings.Contains(state.Reason, tc.reason) || (tc.reason == "") != (state.Reason == "") {
				t.Errorf("reason %q, want one with %q", state.Reason, tc.reason)
			}
			if state.Started.IsZero() || state.Ended.Before(state.Started) {
				t.Errorf("started %s, ended %s", state.Started, state.Ended)
			}
		})
	}
}

func TestProgramThatIsNotThere(t *testing.T) {
	b := setup(t, "")
	b.spec.Argv = []string{"/no/such/trainer"}
	state := b.final(t, b.submit(t))
	if state.Phase != Failed || *state.ExitCode != 127 || !strings.Contains(state.Reason, "/no/such/trainer") {
		t.Errorf("got %+v", state)
	}
}

func TestStartsOnceUnderConcurrentSubmissions(t *testing.T) {
	b := setup(t, "echo started >>starts\n"+result("succeeded", 0, 1))
	var claims atomic.Int64
	b.Claim = func(_ context.Context, launchID, owner string) error {
		if launchID != testID || owner == "" {
			t.Errorf("claim of %q by %q", launchID, owner)
		}
		claims.Add(1)
		return nil
	}
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if _, err := b.Submit(t.Context(), testID, b.spec); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	b.final(t, b.submit(t))
	if got := b.read(t, "starts"); got != "started\n" {
		t.Errorf("started %d times", strings.Count(got, "\n"))
	}
	if n := claims.Load(); n != 1 {
		t.Errorf("claimed %d times", n)
	}
}

// A submission that is killed at any moment is submitted again by the next
// process; the trainer starts once all the same.
func TestStartsOnceWhenTheSubmitterIsKilled(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for round := range 50 {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			t.Parallel()
			b := setup(t, "echo started >>starts\n"+result("succeeded", 0, 1))
			within, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(60_000))*time.Microsecond)
			defer cancel()
			// The context kills it with SIGKILL.
			err := exec.CommandContext(within, self, "submit-for-test", b.Root, b.spec.Dir).Run()
			t.Logf("the first submission: %v", err)
			state := b.final(t, b.submit(t))
			if state.Phase != Succeeded {
				t.Errorf("got %+v", state)
			}
			if got := b.read(t, "starts"); got != "started\n" {
				t.Errorf("started %d times", strings.Count(got, "\n"))
			}
		})
	}
}

// The trainer outlives the process that submitted it, and the next one finds
// it.
func TestOutlivesItsSubmitter(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, "echo started >>starts\nwhile [ ! -e go ]; do read -r x <gate || true; done\n"+result("succeeded", 0, 1))
	if err := syscall.Mkfifo(filepath.Join(b.spec.Dir, "gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(self, "submit-for-test", b.Root, b.spec.Dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b.wait(t, "starts")
	ref := b.submit(t)
	if state, err := b.Status(t.Context(), ref); err != nil || state.Phase != Running {
		t.Errorf("got %+v, %v, want running", state, err)
	}
	b.open(t)
	if state := b.final(t, ref); state.Phase != Succeeded {
		t.Errorf("got %+v", state)
	}
	if got := b.read(t, "starts"); got != "started\n" {
		t.Errorf("started %d times", strings.Count(got, "\n"))
	}
}

// open lets a script go on that waits at its gate.
func (b *testBundle) open(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.spec.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.spec.Dir, "gate"), []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Where supervisor and trainer are killed, nobody can tell how it ended, and
// nobody starts it again.
func TestUnknownWhenItsProcessesAreKilled(t *testing.T) {
	b := setup(t, "echo started >>starts\nexec sleep 600\n")
	ref := b.submit(t)
	b.wait(t, "starts")
	f := folder(ref.Where)
	var s started
	var g group
	eventually(t, "the group is kept", func() bool {
		found, err := f.read(groupFile, &g)
		if err != nil {
			t.Fatal(err)
		}
		return found
	})
	if _, err := f.read(startFile, &s); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the supervisor is gone", func() bool {
		held, err := f.held(watchFile)
		return err == nil && !held
	})
	if state, err := b.Status(t.Context(), ref); err != nil || state.Phase != Running {
		t.Errorf("with a trainer alive: %+v, %v, want running", state, err)
	}
	if err := b.Cancel(t.Context(), ref); err != nil { // reaches the trainer itself
		t.Fatal(err)
	}
	state := b.final(t, ref)
	if state.Phase != Unknown || !strings.Contains(state.Reason, "left no exit code") {
		t.Errorf("got %+v, want unknown", state)
	}
	b.submit(t)
	if got := b.read(t, "starts"); got != "started\n" {
		t.Errorf("started %d times", strings.Count(got, "\n"))
	}
}

func TestCancelEndsTheWholeGroup(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		grace        time.Duration
		code         int
	}{
		{"at its request", "sleep 600 &\necho $! >child\nexec sleep 600\n", time.Minute, 143},
		{"by force", "trap '' TERM\nsh -c 'trap \"\" TERM; while :; do read -r x <gate || true; done' &\necho $! >child\nwhile :; do read -r x <gate || true; done\n", 50 * time.Millisecond, 137},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := setup(t, tc.script)
			b.Grace = tc.grace
			if err := syscall.Mkfifo(filepath.Join(b.spec.Dir, "gate"), 0o600); err != nil {
				t.Fatal(err)
			}
			ref := b.submit(t)
			var child int
			eventually(t, "the child is there", func() bool {
				text, _ := os.ReadFile(filepath.Join(b.spec.Dir, "child"))
				child, _ = strconv.Atoi(strings.TrimSpace(string(text)))
				return child > 0
			})
			if err := b.Cancel(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
			state := b.final(t, ref)
			if state.Phase != Cancelled || *state.ExitCode != tc.code {
				t.Errorf("got %+v, want cancelled with exit code %d", state, tc.code)
			}
			eventually(t, "the child is gone", func() bool { return !running(child) })
			if err := b.Cancel(t.Context(), ref); err != nil {
				t.Errorf("cancel of what is over: %v", err)
			}
		})
	}
}

// running tells whether a process runs; one that waits to be reaped does not.
func running(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		return !strings.Contains(string(stat), ") Z ")
	}
	return syscall.Kill(pid, 0) == nil
}

func TestCancelledBeforeItStarted(t *testing.T) {
	b := setup(t, "echo started >>starts\n")
	refused := errors.New("the store is away")
	b.Claim = func(context.Context, string, string) error { return refused }
	if _, err := b.Submit(t.Context(), testID, b.spec); !errors.Is(err, refused) {
		t.Fatalf("got %v, want %v", err, refused)
	}
	ref := Ref{Launcher: CommandLauncher, LaunchID: testID}
	if _, err := b.Status(t.Context(), ref); !errors.Is(err, ErrUnknownRef) {
		t.Errorf("status of what was not started: %v", err)
	}
	if err := b.Cancel(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	b.Claim = nil
	if state := b.final(t, b.submit(t)); state.Phase != Cancelled {
		t.Errorf("got %+v, want cancelled", state)
	}
	if _, err := os.Stat(filepath.Join(b.spec.Dir, "starts")); err == nil {
		t.Error("it started after it was cancelled")
	}
}

// A claim that another launcher holds is refused; the token is the same at
// every try, so that a lost answer does not lock us out.
func TestClaimKeepsItsOwner(t *testing.T) {
	b := setup(t, result("succeeded", 0, 1))
	var owners []string
	b.Claim = func(_ context.Context, _, owner string) error {
		owners = append(owners, owner)
		if len(owners) == 1 {
			return errors.New("no answer")
		}
		return nil
	}
	if _, err := b.Submit(t.Context(), testID, b.spec); err == nil {
		t.Fatal("the first submission got no answer, and no error")
	}
	b.final(t, b.submit(t))
	if len(owners) != 2 || owners[0] != owners[1] {
		t.Errorf("claimed by %q", owners)
	}
}

func TestEnvironmentIsWithheld(t *testing.T) {
	t.Setenv("STILLHOUSE_TEST_SECRET", "secret")
	t.Setenv("STILLHOUSE_TEST_PASSED", "passed on")
	b := setup(t, "env >environment\n"+result("succeeded", 0, 1))
	b.spec.Env = append(b.spec.Env, "STILLHOUSE_TEST_PASSED", "STILLHOUSE_TEST_ABSENT")
	b.spec.Set = map[string]string{"STILLHOUSE_TEST_SET": "of its own; $(touch pwned)"}
	b.final(t, b.submit(t))
	got := b.read(t, "environment")
	for _, want := range []string{"STILLHOUSE_TEST_PASSED=passed on\n", "STILLHOUSE_TEST_SET=of its own; $(touch pwned)\n", "PATH="} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in the launch's environment", want)
		}
	}
	if strings.Contains(got, "secret") {
		t.Error("an undeclared variable reached the launch")
	}
	for _, name := range []string{jobFile, startFile, exitFile} {
		text, err := os.ReadFile(filepath.Join(b.Root, testID, name))
		if err != nil || strings.Contains(string(text), "passed on") {
			t.Errorf("%s: %v, %s", name, err, text)
		}
	}
}

func TestLogs(t *testing.T) {
	b := setup(t, "i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done; printf '\\033[31mred\\n' >&2\n")
	b.spec.MaxLog = 4000
	ref := b.submit(t)
	b.final(t, ref)
	text, err := b.Logs(t.Context(), ref, 30)
	if want := "line 998\nline 999\n[31mred\n"; err != nil || text != want {
		t.Errorf("got %q, %v, want %q", text, err, want)
	}
	all, err := b.Logs(t.Context(), ref, 1<<20)
	if err != nil || len(all) > 4000 || len(all) < 2000 || !strings.HasSuffix(all, "red\n") {
		t.Errorf("kept %d bytes, %v, want the newest 2000 to 4000", len(all), err)
	}
	if none, err := b.Logs(t.Context(), ref, 0); err != nil || none != "" {
		t.Errorf("no bytes asked: %q, %v", none, err)
	}
}

func TestRefusals(t *testing.T) {
	b := setup(t, "")
	for _, tc := range []struct {
		name, id, want string
		spec           Spec
	}{
		{"path for an id", "../../etc", "is no launch id", b.spec},
		{"relative folder", testID, "is not absolute", Spec{Dir: "here"}},
		{"no folder", testID, "no such file", Spec{Dir: filepath.Join(b.spec.Dir, "gone")}},
		{"file for a folder", testID, "is no folder", Spec{Dir: filepath.Join(b.spec.Dir, training.RunFile)}},
		{"name that is none", testID, "is no variable's name", Spec{Dir: b.spec.Dir, Env: []string{"A=B"}}},
		{"set that is none", testID, "is no variable's name", Spec{Dir: b.spec.Dir, Set: map[string]string{"A B": ""}}},
		{"negative log", testID, "can't be negative", Spec{Dir: b.spec.Dir, MaxLog: -1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := b.Submit(t.Context(), tc.id, tc.spec); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
	ref := Ref{Launcher: CommandLauncher, LaunchID: testID}
	if _, err := b.Status(t.Context(), ref); !errors.Is(err, ErrUnknownRef) {
		t.Errorf("status: %v", err)
	}
	if err := b.Cancel(t.Context(), ref); !errors.Is(err, ErrUnknownRef) {
		t.Errorf("cancel: %v", err)
	}
	if _, err := b.Logs(t.Context(), ref, 10); !errors.Is(err, ErrUnknownRef) {
		t.Errorf("logs: %v", err)
	}
}
