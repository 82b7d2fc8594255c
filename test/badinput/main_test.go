//go:build integration

package badinput

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// program is the path of the program under test.
var program string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if program = os.Getenv("STILLHOUSE_BIN"); program != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "stillhouse-badinput-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "stillhouse")
	build := exec.Command("go", "build", "-o", program, "../../cmd/stillhouse")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
