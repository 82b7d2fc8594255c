package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

// TestUnsafeJudgesAsTheSandboxDoes: what is missing is isolation, not proof.
func TestUnsafeJudgesAsTheSandboxDoes(t *testing.T) {
	b, err := Open(t.Context(), Options{Kinds: []Kind{}, Unsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.Kind() != Unsafe {
		t.Fatalf("kind %s", b.Kind())
	}
	if _, err := b.tools.need("python3"); err != nil {
		t.Skip(err)
	}
	command := `{"command": ["sh", "check.sh"], "files": {"check.sh": "x=$(printf 3 | ./run) && [ \"$x\" = 6 ]"}}`
	for _, tc := range []struct{ tests, answer, want string }{
		{`["assert f(2) == 4"]`, "def f(x): return x * x", datasets.Pass},
		{`["assert f(2) == 4"]`, "def f(x): return x", datasets.Fail},
		{`["assert f(2) == 4"]`, "import os\nos._exit(0)", datasets.Fail},
		{`["assert f(2) == 4"]`, "def f(x):\n    while True: pass", datasets.Fail},
		{`[{"input": "3", "output": "6"}]`, "print(2 * int(input()))", datasets.Pass},
		{command, "print(2 * int(input()))", datasets.Pass},
	} {
		v := verdict(t, b, map[string]any{"language": "python", "timeout": "3s"}, tc.tests, tc.answer)
		if v.Verdict != tc.want {
			t.Errorf("%q: %s: %s, want %s", tc.answer, v.Verdict, v.Reason, tc.want)
		}
	}
	left, err := filepath.Glob(filepath.Join(b.in.(*bare).root, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestNoSandboxNamesTheFix(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Open(t.Context(), Options{})
	if !errors.Is(err, ErrNone) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"bubblewrap: ", "podman is not installed", "docker is not installed", "apt-get install bubblewrap", "--unsafe-code"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("does not say %q: %v", want, err)
		}
	}
}

// TestContainersAreAskedForEveryLimit holds the command line of an engine that
// the tests cannot run to what the documentation promises.
func TestContainersAreAskedForEveryLimit(t *testing.T) {
	c := &containers{engine: "docker", image: "sha256:1"}
	j := &job{argv: []string{"python3", "/box/answer.py"}, limits: Limits{CPU: 1500 * time.Millisecond, Memory: 1 << 20, Processes: 8, Disk: 1 << 16}}
	args := c.args("stillhouse-x", "/tmp/d", j)
	for _, want := range [][]string{
		{"--network", "none"}, {"--read-only"}, {"--cap-drop", "ALL"}, {"--security-opt", "no-new-privileges"}, {"--user", "65534:65534"},
		{"--memory", "1048576"}, {"--memory-swap", "1048576"}, {"--pids-limit", "10"}, {"--ulimit", "core=0"}, {"--ulimit", "cpu=2"},
		{"--pull", "never"}, {"--volume", "/tmp/d:/box:ro"}, {"--tmpfs", "/tmp:rw,exec,nosuid,nodev,mode=1777,size=65536"},
		{"sha256:1", "python3", "/box/answer.py"},
	} {
		found := false
		for i := range args {
			found = found || len(args)-i >= len(want) && slices.Equal(args[i:i+len(want)], want)
		}
		if !found {
			t.Errorf("no %v in %v", want, args)
		}
	}
}

// TestContainerEngine runs answers by an engine that is a script here: it
// starts what docker would start.
func TestContainerEngine(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/sh
case $1 in
image) echo sha256:abc; exit 0;;
kill) exit 1;;
esac
for a; do
  case $a in *:/box:ro) box=${a%:/box:ro};; esac
done
while [ "$1" != sha256:abc ]; do shift; done
shift
n=$#
while [ $n -gt 0 ]; do
  a=$(printf '%s' "$1" | sed "s|/box/|$box/|g"); shift; set -- "$@" "$a"; n=$((n-1))
done
cd "$box"
case $3 in *probe*) exec "$1" "$2" "$(printf '%s' "$3" | sed 's|>/tmp/x|>/dev/null|')";; esac
for f in answer.json tests.json; do [ ! -f "$f" ] || set -- "$@" "$box/$f"; done
exec "$@"
`
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	b, err := Open(t.Context(), Options{Kinds: []Kind{Docker}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	v := verdict(t, b, map[string]any{"language": "python"}, `["assert f(2) == 4"]`, "def f(x): return x * x")
	if v.Verdict != datasets.Pass {
		t.Errorf("%s: %s", v.Verdict, v.Reason)
	}
	v = verdict(t, b, map[string]any{"language": "go"}, `[{"input": "", "output": ""}]`, "package main\nfunc main() {}")
	if v.Verdict != datasets.Unknown || !strings.Contains(v.Reason, "need bubblewrap") {
		t.Errorf("%s: %s", v.Verdict, v.Reason)
	}
}

// A fakeProcess ends when it is killed, or by itself.
type fakeProcess struct {
	end    chan exit
	killed bool
}

func (p *fakeProcess) wait() (exit, error) { return <-p.end, nil }
func (p *fakeProcess) kill()               { p.killed = true; p.end <- exit{code: 137} }

func TestWatchEndsWithTheClockAndTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProcess{end: make(chan exit, 1)}
		if e, timeout, err := watch(t.Context(), p, time.Second); e.code != 137 || !timeout || err != nil || !p.killed {
			t.Errorf("exit %v, timeout %v, %v", e, timeout, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p = &fakeProcess{end: make(chan exit, 1)}
		if _, timeout, err := watch(ctx, p, time.Hour); timeout || !errors.Is(err, context.Canceled) || !p.killed {
			t.Errorf("timeout %v, %v", timeout, err)
		}
		p = &fakeProcess{end: make(chan exit, 1)}
		p.end <- exit{code: 3}
		if e, timeout, err := watch(t.Context(), p, time.Hour); e.code != 3 || timeout || err != nil || p.killed {
			t.Errorf("exit %v, timeout %v, %v", e, timeout, err)
		}
	})
}

// TestReportsNeedTheNonce: nothing but the report of this very run counts.
func TestReportsNeedTheNonce(t *testing.T) {
	pass := `{"outcome": "pass", "reason": "all tests passed"}`
	for _, tc := range []struct {
		name, said string
		tested     exit
		answer     ended
		timeout    bool
		want       string
	}{
		{"passed", "noise\n" + "nonce" + pass + "\n", exit{}, ended{}, false, verify.Passed},
		{"another nonce", "\nother" + pass + "\n", exit{}, ended{}, false, verify.Faulty},
		{"no nonce", "\n" + pass + "\n", exit{}, ended{}, false, verify.Faulty},
		{"not at the beginning of a line", "x nonce" + pass, exit{}, ended{}, false, verify.Faulty},
		{"no JSON", "\nnonce{pass\n", exit{}, ended{}, false, verify.Faulty},
		{"an outcome that is none", "\nnonce" + `{"outcome": "passed"}` + "\n", exit{}, ended{}, false, verify.Failed},
		{"own objects", "\nnonce" + `{"outcome": "own"}` + "\n", exit{}, ended{}, false, verify.Undecided},
		{"the answer's memory", "\nnonce" + `{"outcome": "fail", "reason": "the answer's process ended"}` + "\n", exit{}, ended{exit: exit{limit: endedMemory}}, false, verify.Failed},
		{"the answer's sandbox", "\nnonce" + `{"outcome": "fail", "reason": "the answer's process ended"}` + "\n", exit{}, ended{err: errors.New("bwrap")}, false, verify.NotRun},
		{"time", "", exit{code: 137}, ended{}, true, verify.Failed},
		{"the tests crash", "Segmentation fault", exit{code: 139}, ended{}, false, verify.Faulty},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := judge("nonce", []byte(tc.said), tc.tested, tc.answer, tc.timeout); got.Kind != tc.want {
				t.Errorf("%+v, want %s", got, tc.want)
			}
		})
	}
}

// TestAnswersAreJudgedAtOnce: as many as there are slots, and no more.
func TestSlots(t *testing.T) {
	b := &Box{slots: make(chan int, 1)}
	b.slots <- 0
	_, done, err := b.slot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := b.Run(ctx, &verify.Program{}); !errors.Is(err, context.Canceled) {
		t.Errorf("ran beside another: %+v, %v", out, err)
	}
	done()
	if _, _, err := b.slot(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestKilledProcessesAreSwept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dead := filepath.Join(os.TempDir(), "stillhouse-go-4194399-1")
	alive := filepath.Join(os.TempDir(), fmt.Sprintf("stillhouse-go-%d-1", os.Getpid()))
	other := filepath.Join(os.TempDir(), "stillhouse-go-notes")
	for _, dir := range []string{dead, alive, other} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tempFolder("go"); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{dead: false, alive: true, other: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
