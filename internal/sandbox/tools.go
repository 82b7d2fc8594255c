package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tools find the programs that run a language.
type tools struct {
	dirs []string // nil: the search path of this process
	any  bool     // they are in an image: nobody can look from here
}

// toolsOfSystem are those that a box of bubblewrap sees.
func toolsOfSystem() tools {
	return tools{dirs: []string{"/usr/bin", "/bin", "/usr/local/bin", "/usr/local/go/bin", "/opt/go/bin"}}
}

func toolsOfImage() tools { return tools{any: true} }

func toolsOfPath() tools { return tools{} }

// A noTool is the error of a program that is not there.
type noTool struct{ name, where string }

func (e *noTool) Error() string {
	return fmt.Sprintf("%s is not installed %s", e.name, e.where)
}

// need finds a program.
func (t tools) need(name string) (string, error) {
	switch {
	case t.any:
		return name, nil
	case t.dirs == nil:
		path, err := exec.LookPath(name)
		if err != nil {
			return "", &noTool{name, "on this machine"}
		}
		return behindShim(name, path), nil
	}
	for _, dir := range t.dirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", &noTool{name, "where the sandbox sees it (/usr, /opt); one of a home folder does not count"}
}

// behindShim is the program that a version manager's stand-in starts. The
// stand-in needs variables that programs do not get.
func behindShim(name, path string) string {
	if name != "python3" {
		return path
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineWait)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-I", "-c", "import sys; print(sys.executable)").Output()
	if real := strings.TrimSpace(string(out)); err == nil && filepath.IsAbs(real) {
		return real
	}
	return path
}
