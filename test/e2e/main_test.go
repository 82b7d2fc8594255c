//go:build integration

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// workDir holds what the whole run shares: the programs under test.
var workDir string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stillhouse-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	workDir = dir
	return m.Run()
}

// A built is a program that is built once, by the first test that needs it.
type built struct {
	once sync.Once
	path string
	err  error
}

func (b *built) get(t testing.TB, name, source, pkg string) string {
	t.Helper()
	b.once.Do(func() {
		b.path = filepath.Join(workDir, name)
		cmd := exec.Command("go", "build", "-o", b.path, pkg)
		cmd.Dir = source
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("build %s in %s: %w\n%s", pkg, source, err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

var stillhouseBuilt, teachersimBuilt built

// stillhouse is the path of the program under test.
func stillhouse(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("STILLHOUSE_BIN"); path != "" {
		return path
	}
	return stillhouseBuilt.get(t, "stillhouse", testdata.Repository(t), "./cmd/stillhouse")
}

// teachersim is the path of the endpoint simulator.
func teachersim(t testing.TB) string {
	t.Helper()
	return teachersimBuilt.get(t, "teachersim", testdata.Path(t, "tools/teachersim"), ".")
}
