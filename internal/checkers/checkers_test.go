package checkers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

func pool(t *testing.T) *Pool {
	t.Helper()
	p := New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	p.procs = 1
	t.Cleanup(p.Close)
	return p
}

// script is a checker in sh.
func script(t *testing.T, text string) *verify.Command {
	t.Helper()
	file := filepath.Join(t.TempDir(), "check.sh")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &verify.Command{Argv: []string{"/bin/sh", file}, Version: "1", Timeout: 10 * time.Second}
}

func ask(t *testing.T, p *Pool, c *verify.Command, line string) (string, error) {
	t.Helper()
	reply, err := p.Check(context.Background(), c, []byte(line))
	return strings.TrimSpace(string(reply)), err
}

func TestACheckerIsKeptRunning(t *testing.T) {
	p := pool(t)
	c := script(t, "n=0\nwhile read -r line; do n=$((n+1)); echo \"$n $line\"; done\n")
	for i := 1; i <= 3; i++ {
		if got, err := ask(t, p, c, "x"); err != nil || got != fmt.Sprintf("%d x", i) {
			t.Fatalf("%d: %q, %v", i, got, err)
		}
	}
}

func TestACheckerThatEndsIsStartedAgain(t *testing.T) {
	p := pool(t)
	c := script(t, "read -r line; echo \"$$ $line\"\n") // one answer a process
	first, err := ask(t, p, c, "a")
	if err != nil {
		t.Fatal(err)
	}
	second, err := ask(t, p, c, "b")
	if err != nil || !strings.HasSuffix(second, " b") || strings.Fields(first)[0] == strings.Fields(second)[0] {
		t.Fatalf("%q then %q, %v", first, second, err)
	}
}

func TestWhatACheckerDoesWrongIsItsFault(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		want   error
	}{
		"ends":                    {"read -r line; exit 3\n", errEnded},
		"ends before it reads":    {"exit 0\n", errEnded},
		"hangs":                   {"read -r line; exec tail -f /dev/null\n", errSlow},
		"a child holds its pipes": {"tail -f /dev/null & read -r line; wait\n", errSlow},
		"talks":                   {"while read -r line; do printf 'a\\nb\\n'; done\n", errTalk},
		"never ends a line":       {"read -r line; exec tr '\\0' a </dev/zero\n", errLong},
		"answers another":         {"while read -r line; do echo '{\"id\":\"other\",\"verdict\":\"pass\"}'; done\n", errTalk},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pool(t)
			c := script(t, tc.script)
			if tc.want == errSlow {
				c.Timeout = 200 * time.Millisecond
			}
			_, err := ask(t, p, c, `{"id":"this"}`)
			if !errors.Is(err, tc.want) || !errors.Is(err, verify.ErrChecker) {
				t.Fatalf("%v, want %v", err, tc.want)
			}
		})
	}
}

// What nobody asked for is not taken for the reply to the next answer.
func TestALineThatComesLateIsNoReply(t *testing.T) {
	p := pool(t)
	mark := filepath.Join(t.TempDir(), "said")
	c := script(t, "read -r line; echo first; echo second; touch "+mark+"; read -r line; echo third\n")
	if got, err := ask(t, p, c, "a"); err == nil && got != "first" || err != nil && !errors.Is(err, errTalk) {
		t.Fatalf("%q, %v", got, err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := os.Stat(mark); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if got, err := ask(t, p, c, "b"); err == nil && got == "second" {
		t.Fatalf("the reply to a is taken for the one to b: %q", got)
	}
}

func TestACheckerSeesNoKeys(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-canary")
	t.Setenv("LANG", "C.UTF-8")
	p := pool(t)
	c := script(t, "while read -r line; do env | tr '\\n' ' '; echo; done\n")
	got, err := ask(t, p, c, "x")
	if err != nil || strings.Contains(got, "canary") || !strings.Contains(got, "LANG=C.UTF-8") || !strings.Contains(got, "STILLHOUSE_CHECKER=1") {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestCancellingEndsTheWait(t *testing.T) {
	p := pool(t)
	c := script(t, "read -r line; exec tail -f /dev/null\n")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := p.Check(ctx, c, []byte("x"))
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestALargeAnswerGoesThrough(t *testing.T) {
	p := pool(t)
	c := &verify.Command{Argv: []string{"/bin/sh", "-c", "while IFS= read -r line; do echo ${#line}; done"}, Version: "1", Timeout: time.Minute}
	if got, err := ask(t, p, c, strings.Repeat("x", 300<<10)); err != nil || got != fmt.Sprint(300<<10) {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestFind(t *testing.T) {
	if err := Find(&verify.Command{Argv: []string{"/bin/sh"}}); err != nil {
		t.Error(err)
	}
	err := Find(&verify.Command{Argv: []string{"no-such-checker"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-checker cannot be started here") || !strings.Contains(err.Error(), "install it") {
		t.Error(err)
	}
}

func TestAClosedPoolChecksNothing(t *testing.T) {
	p := New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	c := script(t, "while read -r line; do echo ok; done\n")
	if _, err := ask(t, p, c, "x"); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if _, err := ask(t, p, c, "x"); err == nil {
		t.Error("a closed pool checks")
	}
}
