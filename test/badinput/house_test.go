//go:build integration

package badinput

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
)

const (
	// canary stands for a key: it is in the environment of every process, and
	// may be nowhere else.
	canary = "sk-canary-3f9c2a7d51"
	// commandLimit is when a command hangs; nobody may wait that long.
	commandLimit = 2 * time.Minute
	// patience is how long a person may have to wait until a bad endpoint or
	// source is reported. On an idle machine the slowest takes 12 s.
	patience  = 45 * time.Second
	mostLines = 15 // lines on stderr
)

// Exit codes, as the help lists them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitGate        = 3
	exitTeacher     = 5
	exitUnreachable = 6
)

// A house is a home folder and the commands that run on it.
type house struct {
	dir string
	env []string // beside the usual
}

// A said is what a command that has ended said.
type said struct {
	code        int
	out, errors string
	took        time.Duration
}

func (s *said) String() string {
	return fmt.Sprintf("exit code %d after %v\n--- stdout\n%s\n--- stderr\n%s", s.code, s.took, clip(s.out), clip(s.errors))
}

func clip(s string) string {
	const most = 4000
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// command prepares a command in a folder. Nothing of the machine's own settings
// reaches the program.
func (h *house) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, append([]string{"--home", h.dir}, args...)...)
	cmd.Dir = dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(h.dir), "TMPDIR=" + os.TempDir(),
		"TEACHER_KEY=" + canary, "AWS_EC2_METADATA_DISABLED=true",
	}, h.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// do runs a command to its end.
func (h *house) do(t *testing.T, dir string, args ...string) *said {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	return end(ctx, t, h.command(ctx, dir, args...))
}

// end runs a command until it has ended, which it must before ctx does.
func end(ctx context.Context, t *testing.T, cmd *exec.Cmd) *said {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Run()
	s := &said{cmd.ProcessState.ExitCode(), out.String(), errs.String(), time.Since(began)}
	if ctx.Err() != nil || cmd.ProcessState == nil {
		t.Errorf("%s does not end: %v\n%v", strings.Join(cmd.Args, " "), err, s)
	}
	return s
}

// must runs a command that succeeds.
func (h *house) must(t *testing.T, dir string, args ...string) *said {
	t.Helper()
	s := h.do(t, dir, args...)
	if s.code != exitDone {
		t.Fatalf("stillhouse %s: %v", strings.Join(args, " "), s)
	}
	return s
}

// serve runs the home's services until the test ends.
func (h *house) serve(t *testing.T) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "serve"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := h.command(context.Background(), "", "serve")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			t.Errorf("serve does not end: %v", <-ended)
		}
		text, err := os.ReadFile(log.Name())
		if err != nil {
			t.Error(err)
		}
		checkWords(t, string(text))
		if t.Failed() {
			t.Logf("serve says: %s", clip(string(text)))
		}
	})
	eventually(t, time.Minute, "the services run", func() bool {
		select {
		case err := <-ended:
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("serve ended: %v\n%s", err, text)
		default:
		}
		return h.do(t, "", "env", "--json").code == exitDone
	})
}

func eventually(t *testing.T, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// A want is how a bad command must end.
type want struct {
	code int
	say  []string // on stderr
	soon time.Duration
}

// check holds what a command said to what it must say, and to what none may
// say.
func (w want) check(t *testing.T, s *said) {
	t.Helper()
	if s.code != w.code {
		t.Errorf("exit code %d, want %d", s.code, w.code)
	}
	for _, text := range w.say {
		if !strings.Contains(s.errors, text) {
			t.Errorf("stderr does not say %q", text)
		}
	}
	if w.soon == 0 {
		w.soon = patience
	}
	if s.took > w.soon {
		t.Errorf("it took %v, more than %v", s.took, w.soon)
	}
	if n := strings.Count(s.errors, "\n"); n == 0 || n > mostLines {
		t.Errorf("%d lines on stderr, want 1 to %d", n, mostLines)
	}
	checkWords(t, s.out)
	checkWords(t, s.errors)
	if t.Failed() {
		t.Logf("%v", s)
	}
	t.Logf("exit code %d after %v", s.code, s.took.Round(100*time.Millisecond))
}

// checkWords refuses dumps, keys and what a terminal would obey.
func checkWords(t *testing.T, text string) {
	t.Helper()
	for _, never := range []string{canary, "panic:", "goroutine ", "runtime error", ".go:", "%!", "<nil>", "activity error", "scheduledEventID"} {
		if strings.Contains(text, never) {
			t.Errorf("it says %q", never)
		}
	}
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			t.Errorf("it holds the control character %q", r)
			break
		}
	}
}

// lay writes files into a new folder.
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// rows are n prompts with their gold answers and recorded answers.
func rows(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"q":"What is %d + %d?","a":"%d","c":"%d"}`+"\n", i, i, 2*i, 2*i)
	}
	return b.String()
}

const goodRecipe = `name: good
prompts:
  - path: p.jsonl
    fields: {prompt: q, gold: a}
teachers:
  - {id: r, api: recorded, path: p.jsonl, fields: {prompt: q, content: c}}
check: [{verifier: exact}]
`

// show describes a version of the catalog.
func (h *house) show(t *testing.T, ref string) string {
	t.Helper()
	return h.must(t, "", "show", ref, "--json").out
}

// digests lists the published files below a dataset's folder.
func digests(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	eachFile(t, root, func(path string, data []byte) { out[path] = fmt.Sprintf("%x", sha256.Sum256(data)) })
	if len(out) == 0 {
		t.Fatalf("%s holds nothing", root)
	}
	return out
}

// noCanary looks for the key in everything below a folder.
func noCanary(t *testing.T, root string) {
	t.Helper()
	seen := 0
	eachFile(t, root, func(path string, data []byte) {
		seen++
		if bytes.Contains(data, []byte(canary)) {
			t.Errorf("%s holds the key", path)
		}
	})
	if seen < 20 {
		t.Errorf("only %d files were looked at", seen)
	}
}

func eachFile(t *testing.T, root string, f func(path string, data []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			f(path, data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A result is what build --json ends with.
type result struct {
	Version   int64 `json:"version"`
	Unchanged bool  `json:"unchanged"`
}

func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v in %q", err, clip(text))
	}
}
