package training

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// runBundle writes a bundle whose trainer is the given command, and returns
// its folder.
func runBundle(t *testing.T, command ...string) string {
	t.Helper()
	dir := t.TempDir()
	b := testBundle()
	b.Trainer.Command = command
	texts := map[string]string{"train": "{}\n{}\n{}\n", "test": "{}\n"}
	for i := range b.View.Files {
		f := &b.View.Files[i]
		sum := sha256.Sum256([]byte(texts[f.Split]))
		f.SHA256, f.Bytes = hex.EncodeToString(sum[:]), int64(len(texts[f.Split]))
		put(t, filepath.Join(dir, f.Name), texts[f.Split], 0o644)
	}
	files, err := b.Files(&Rendered{Files: []File{{Name: "configs/trl/sft.yaml", Data: []byte("x: 1\n")}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		mode := f.Mode
		if mode == 0 {
			mode = 0o644
		}
		put(t, filepath.Join(dir, filepath.FromSlash(f.Name)), string(f.Data), mode)
	}
	return dir
}

func put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// run runs run.sh from another folder and returns its exit code and its output.
func run(t *testing.T, dir string, env ...string) (int, string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", filepath.Join(dir, RunFile))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func TestRunScriptIsASyntacticShellScript(t *testing.T) {
	dir := runBundle(t, "it's", "a\nnew line", "`touch pwned`", "$(touch pwned)", "", "--x=\"'\"", `back\slash`)
	if out, err := exec.Command("/bin/sh", "-n", filepath.Join(dir, RunFile)).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestRunScript(t *testing.T) {
	const hasRows = "printf 3 >output/rows; "
	for _, tc := range []struct {
		name    string
		command []string
		damage  func(dir string) // what happens to the folder before
		code    int
		state   string
		rows    int64
		from    string
		text    string // part of the error
	}{
		{"succeeds", []string{"sh", "-c", "test \"$STILLHOUSE_LAUNCH_ID\" && cat data/train-*.jsonl"}, nil, 0, ResultSucceeded, 3, "files", ""},
		{"trainer counts", []string{"sh", "-c", hasRows}, nil, 0, ResultSucceeded, 3, "trainer", ""},
		{"trainer skips rows", []string{"sh", "-c", "printf 2 >output/rows"}, nil, ExitBadData, ResultFailed, 2, "trainer", "loaded 2 rows, not 3"},
		{"trainer counts nonsense", []string{"sh", "-c", "printf '3; rm' >output/rows"}, nil, 0, ResultSucceeded, 3, "files", ""},
		{"trainer fails", []string{"sh", "-c", "exit 9"}, nil, 9, ResultFailed, 3, "files", "exit code 9"},
		{"no such trainer", []string{"/no/such/trainer"}, nil, 127, ResultFailed, 3, "files", "exit code 127"},
		{"words stay words", []string{"sh", "-c", `test $# = 3 && test "$1" = "it's" && test "$2" = '$(touch pwned)'`, "sh", "it's", "$(touch pwned)", "a\nb"}, nil, 0, ResultSucceeded, 3, "files", ""},
		{"changed file", []string{"true"}, func(dir string) {
			put(t, filepath.Join(dir, ViewFileName("train", 0, 1, "jsonl")), "{}\n{}\n[]\n", 0o644)
		}, ExitBadData, ResultFailed, -1, "", "not what was handed over"},
		{"missing file", []string{"true"}, func(dir string) {
			if err := os.Remove(filepath.Join(dir, ViewFileName("test", 0, 1, "jsonl"))); err != nil {
				t.Fatal(err)
			}
		}, ExitBadData, ResultFailed, -1, "", "is missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := runBundle(t, tc.command...)
			if tc.damage != nil {
				tc.damage(dir)
			}
			code, out := run(t, dir)
			if code != tc.code {
				t.Errorf("exit code %d, want %d:\n%s", code, tc.code, out)
			}
			r, err := ReadResult(filepath.Join(dir, ResultFile), digest("a"))
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			if r.State != tc.state || r.ExitCode != tc.code || !strings.Contains(r.Error, tc.text) || r.RowsFrom != tc.from {
				t.Errorf("got %+v:\n%s", r, out)
			}
			if tc.rows < 0 && r.RowsSeen != nil || tc.rows >= 0 && (r.RowsSeen == nil || *r.RowsSeen != tc.rows) {
				t.Errorf("rows seen %v, want %d", r.RowsSeen, tc.rows)
			}
			if r.EndedAt.Before(r.StartedAt) || r.StartedAt.IsZero() {
				t.Errorf("from %s to %s", r.StartedAt, r.EndedAt)
			}
			if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
				t.Error("a word of the command was run by the shell")
			}
		})
	}
}

func TestRunScriptKeepsTheTrainersOwnResult(t *testing.T) {
	own := `{"apiVersion":"stillhouse/v1","launch_id":"` + digest("a") + `","state":"succeeded","exit_code":0,"metrics":{"loss":0.25}}`
	dir := runBundle(t, "sh", "-c", "printf '%s' '"+own+"' >result.json")
	put(t, filepath.Join(dir, ResultFile), "of an earlier launch", 0o644)
	if code, out := run(t, dir); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	if r, err := ReadResult(filepath.Join(dir, ResultFile), digest("a")); err != nil || r.Metrics["loss"] != 0.25 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestRunScriptSaysThatItWasCancelled(t *testing.T) {
	dir := runBundle(t, "sh", "-c", "echo here; exec sleep 600")
	cmd := exec.Command("/bin/sh", RunFile)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("here\n"))); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it ended well")
	}
	r, err := ReadResult(filepath.Join(dir, ResultFile), digest("a"))
	if err != nil || r.State != ResultCancelled || r.ExitCode != 143 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// remote is a store behind presigned URLs.
type remote struct {
	*httptest.Server
	mu    sync.Mutex
	files map[string]string
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not here: fetching and claiming by URL are not tested")
	}
	r := &remote{files: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		name := strings.TrimPrefix(req.URL.Path, "/")
		if req.Method == http.MethodGet {
			text, ok := r.files[name]
			if !ok {
				w.WriteHeader(http.StatusNotFound)
			}
			io.WriteString(w, text)
			return
		}
		if _, there := r.files[name]; there && req.Header.Get("If-None-Match") == "*" {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.files[name] = string(body)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *remote) get(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.files[name]
}

func TestRunScriptFetchesClaimsAndReports(t *testing.T) {
	r := newRemote(t)
	dir := runBundle(t, "sh", "-c", "cat data/train-*.jsonl")
	var urls bytes.Buffer
	for _, f := range testBundle().View.Files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		r.files[f.Name] = string(text)
		urls.WriteString(f.Name + "\t" + r.URL + "/" + f.Name + "?signature=a%2Bb&x=1\n")
	}
	if err := os.RemoveAll(filepath.Join(dir, DataFolder)); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(t.TempDir(), "urls")
	put(t, list, urls.String(), 0o600)
	env := []string{"STILLHOUSE_URLS=" + list, "STILLHOUSE_CLAIM_URL=" + r.URL + "/claim.json", "STILLHOUSE_RESULT_URL=" + r.URL + "/result.json"}

	if code, out := run(t, dir, env...); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	if got, err := ParseResult([]byte(r.get("result.json")), digest("a")); err != nil || got.State != ResultSucceeded {
		t.Errorf("reported %+v, %v", got, err)
	}
	if claim := r.get("claim.json"); !strings.Contains(claim, digest("a")) {
		t.Errorf("claimed with %q", claim)
	}

	// A second machine stops before it trains, and leaves the result alone.
	before := r.get("result.json")
	again := runBundle(t, "sh", "-c", "touch trained")
	code, out := run(t, again, env...)
	if code != ExitClaimed || !strings.Contains(out, "another machine has claimed") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if _, err := os.Stat(filepath.Join(again, "trained")); err == nil {
		t.Error("it trained without a claim")
	}
	if r.get("result.json") != before {
		t.Error("the loser's result replaced the winner's")
	}
}

func TestRunScriptWithoutAnswerToItsClaim(t *testing.T) {
	r := newRemote(t)
	r.Close()
	dir := runBundle(t, "sh", "-c", "touch trained")
	code, out := run(t, dir, "STILLHOUSE_CLAIM_URL="+r.URL+"/claim.json")
	if code != ExitClaimed || !strings.Contains(out, "nothing is started") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "trained")); err == nil {
		t.Error("it trained without a claim")
	}
}

func TestQuote(t *testing.T) {
	for _, s := range []string{"", "plain", "it's", "''", "a b\nc", "$x`y`\\", "*?[", "-n"} {
		out, err := exec.Command("/bin/sh", "-c", "printf %s "+Quote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q came back as %q, %v", s, out, err)
		}
	}
}
