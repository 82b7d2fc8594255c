//go:build integration

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// commandLimit bounds one command; on an idle machine none comes near it.
	commandLimit = 4 * time.Minute
	pollEvery    = 20 * time.Millisecond
)

// A house is a home folder and the commands that run on it.
type house struct {
	t    testing.TB
	dir  string
	more []string // variables of its commands, beside the clean environment
}

func newHouse(t testing.TB) *house {
	t.Helper()
	return &house{t: t, dir: filepath.Join(t.TempDir(), "home")}
}

// on is the same home for a subtest.
func (h *house) on(t testing.TB) *house { return &house{t, h.dir, h.more} }

// A process is a command that runs. Its output goes to files, so that no child
// that it leaves behind could keep a pipe of ours open.
type process struct {
	t          testing.TB
	cmd        *exec.Cmd
	name       string
	outF, errF string
	ended      chan struct{}
	code       int
	started    time.Time
	lasted     time.Duration
}

// start runs a command on this home in the background.
func (h *house) start(args ...string) *process {
	h.t.Helper()
	return startProcess(h.t, stillhouse(h.t), append([]string{"--home", h.dir}, args...), h.env())
}

// env is a clean environment: nothing of the machine's own settings reaches
// the program.
func (h *house) env() []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(h.dir), "TMPDIR=" + os.TempDir()}, h.more...)
}

func startProcess(t testing.TB, path string, args, env []string) *process {
	t.Helper()
	dir := t.TempDir()
	p := &process{t: t, name: strings.Join(args, " "), outF: filepath.Join(dir, "stdout"), errF: filepath.Join(dir, "stderr"), ended: make(chan struct{})}
	stdout, err := os.Create(p.outF)
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	stderr, err := os.Create(p.errF)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = stdout, stderr, env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		p.lasted = time.Since(p.started)
		p.code = p.cmd.ProcessState.ExitCode()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("--- %s\n%s", p.name, tail(p.stderr(), 4000))
		}
	})
	return p
}

// kill ends the process with SIGKILL and waits for its end.
func (p *process) kill() {
	select {
	case <-p.ended:
		return
	default:
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// interrupt is Ctrl-C.
func (p *process) interrupt() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// wait waits for the end and gives the exit code.
func (p *process) wait(limit time.Duration) int {
	p.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
		return p.code
	case <-timer.C:
		p.t.Fatalf("%s still runs after %v\n%s", p.name, limit, tail(p.stderr(), 4000))
		return 0
	}
}

func (p *process) stdout() string { return readText(p.outF) }
func (p *process) stderr() string { return readText(p.errF) }

func readText(path string) string {
	text, _ := os.ReadFile(path) // a file of ours; empty where nothing was written
	return string(text)
}

// said waits until the process has written text to stderr.
func (p *process) said(text string) {
	p.t.Helper()
	eventually(p.t, time.Minute, p.name+" says "+text, func() bool {
		if strings.Contains(p.stderr(), text) {
			return true
		}
		if !p.running() {
			p.t.Fatalf("%s ended with %d before it said %q:\n%s", p.name, p.code, text, tail(p.stderr(), 4000))
		}
		return false
	})
}

// run runs a command to its end and checks the exit code.
func (h *house) run(want int, args ...string) *process {
	h.t.Helper()
	p := h.start(args...)
	if got := p.wait(commandLimit); got != want {
		h.t.Fatalf("stillhouse %s: exit code %d, want %d\n%s\n%s", p.name, got, want, tail(p.stdout(), 2000), tail(p.stderr(), 4000))
	}
	return p
}

// A result is what `build --json` ends with.
type result struct {
	Dataset       string           `json:"dataset"`
	Version       int64            `json:"version"`
	BuildID       string           `json:"build_id"`
	Manifest      string           `json:"manifest"`
	Tasks         int64            `json:"tasks"`
	Asks          int64            `json:"asks"`
	AnswersNew    int64            `json:"answers_new"`
	AnswersReused int64            `json:"answers_reused"`
	Candidates    int64            `json:"candidates"`
	Accepted      int64            `json:"accepted"`
	Rejected      map[string]int64 `json:"rejected"`
	Rows          map[string]int64 `json:"rows"`
	Teachers      map[string]struct {
		Asks, Answers, Accepted int64
	} `json:"teachers"`
	CostUSD      float64 `json:"cost_usd"`
	UnpricedAsks int64   `json:"unpriced_asks"`
	DurationS    float64 `json:"duration_s"`
	Unchanged    bool    `json:"unchanged"`
}

// build runs a build to its end and reads its result.
func (h *house) build(recipe string) *result {
	h.t.Helper()
	p := h.run(0, "build", recipe, "--json", "--yes")
	return p.result()
}

func (p *process) result() *result {
	p.t.Helper()
	var r result
	decodeJSON(p.t, p.stdout(), &r)
	return &r
}

func decodeJSON(t testing.TB, text string, v any) {
	t.Helper()
	if err := json.NewDecoder(bytes.NewReader([]byte(text))).Decode(v); err != nil {
		t.Fatalf("want JSON, have %q: %v", tail(text, 1000), err)
	}
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// eventually waits until cond holds.
func eventually(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// holds checks that cond stays true for a while.
func holds(t testing.TB, while time.Duration, what string, cond func() bool) {
	t.Helper()
	end := time.NewTimer(while)
	defer end.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if !cond() {
			t.Fatalf("did not hold for %v: %s", while, what)
		}
		select {
		case <-tick.C:
		case <-end.C:
			return
		}
	}
}
