package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The stories in testdata run the command line against a home that holds the
// sample store (STILLHOUSE_HOME), and against a store over HTTP ($S3ENV holds
// the variables that open it).
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata",
		Setup: setupScript,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  cmdExits,
			"plain":  cmdPlain,
			"damage": cmdDamage,
			"lines":  cmdLines,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

func setupScript(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, "home")
	if err := plant(filepath.Join(home, "store", "stillhouse")); err != nil {
		return err
	}
	server, err := serveSample()
	if err != nil {
		return err
	}
	env.Defer(server.Close)
	env.Setenv("STILLHOUSE_HOME", home)
	env.Setenv("XDG_DATA_HOME", filepath.Join(env.WorkDir, "xdg"))
	env.Setenv("TZ", "UTC")
	env.Setenv("AWS_ENDPOINT_URL", server.URL)
	env.Setenv("AWS_ACCESS_KEY_ID", "key")
	env.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	env.Setenv("AWS_REGION", "us-east-1")
	env.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	env.Setenv("AWS_CONFIG_FILE", filepath.Join(env.WorkDir, "none"))
	env.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(env.WorkDir, "none"))
	return nil
}

// exits CODE COMMAND ARG... runs a command, which must end with that code.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%s ended with %d, not %d", strings.Join(args[1:], " "), got, want)
	}
}

// plain FILE fails where a file (or stdout, stderr) holds a character that a
// terminal obeys, save new lines and tabs.
func cmdPlain(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: plain FILE")
	}
	text := ts.ReadFile(args[0])
	if text == "" {
		ts.Fatalf("%s is empty", args[0])
	}
	if safe := printable(text); safe != text {
		ts.Fatalf("%s holds control characters: %q", args[0], text)
	}
}

// lines N FILE fails where a file has another number of lines.
func cmdLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines N FILE")
	}
	if got := strings.Count(ts.ReadFile(args[1]), "\n"); fmt.Sprint(got) != args[0] {
		ts.Fatalf("%s has %d lines, not %s", args[1], got, args[0])
	}
}

// damage PATTERN [cut] turns one bit of the middle of the one file that a
// pattern matches, or cuts its second half off.
func cmdDamage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: damage PATTERN [cut]")
	}
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%s matches %d files", args[0], len(found))
	}
	data, err := os.ReadFile(found[0])
	ts.Check(err)
	if data[len(data)/2] ^= 0x10; len(args) == 2 {
		data = data[:len(data)/2]
	}
	ts.Check(os.WriteFile(found[0], data, 0o600))
}
