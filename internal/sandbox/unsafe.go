package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// A bare isolation is none. A program runs as the user that started us, in a
// folder of its own that is removed afterwards, and sees the machine; time and
// output are bounded, and nothing else is.
type bare struct{ root string }

func openUnsafe() (isolation, string, error) {
	root, err := tempFolder("unsafe")
	if err != nil {
		return nil, "", err
	}
	return &bare{root: root}, "no isolation at all", nil
}

func (u *bare) close() { _ = os.RemoveAll(u.root) }

func (u *bare) start(j *job, _ int) (process, error) {
	files := j.files
	if j.bind != "" {
		files = slices.Clone(files)
		for i := range files {
			files[i].data = bytes.ReplaceAll(files[i].data, []byte("/std/"), []byte(j.bind+"/"))
		}
	}
	dir, err := writeFiles(u.root, files)
	if err != nil {
		return nil, err
	}
	p := &bareProcess{dir: dir}
	argv := make([]string, len(j.argv))
	for i, a := range j.argv {
		argv[i] = strings.ReplaceAll(a, "/box/", dir+"/")
	}
	for _, name := range []string{"answer.json", "tests.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			argv = append(argv, filepath.Join(dir, name)) // where the harness looks
		}
	}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Dir = dir
	p.cmd.Env = append(slices.Clip(environment), "HOME="+dir, "TMPDIR="+dir) // the last of a name counts
	if path := os.Getenv("PATH"); path != "" {
		p.cmd.Env = append(p.cmd.Env, "PATH="+path)
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	setFiles(p.cmd, j)
	if err := p.cmd.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("start a program: %w", err)
	}
	return p, nil
}

// setFiles gives a program its three descriptors.
func setFiles(cmd *exec.Cmd, j *job) {
	if j.stdin != nil {
		cmd.Stdin = j.stdin
	}
	if j.stdout != nil {
		cmd.Stdout = j.stdout
	}
	if j.stderr != nil {
		cmd.Stderr = j.stderr
	}
}

// writeFiles puts a job's files into a new folder below root.
func writeFiles(root string, files []file) (string, error) {
	dir, err := os.MkdirTemp(root, "")
	if err != nil {
		return "", fmt.Errorf("make a program's folder: %w", err)
	}
	for _, f := range files {
		mode := os.FileMode(0o644)
		if f.exec {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(dir, f.name), f.data, mode); err != nil {
			return "", errors.Join(fmt.Errorf("write a program's file: %w", err), os.RemoveAll(dir))
		}
	}
	return dir, os.Chmod(dir, 0o755)
}

type bareProcess struct {
	cmd *exec.Cmd
	dir string

	mu   sync.Mutex
	gone bool
}

func (p *bareProcess) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone { // else its number may be another's by now
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

func (p *bareProcess) wait() (exit, error) {
	err := p.cmd.Wait()
	p.kill() // what it started and left
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	_ = os.RemoveAll(p.dir)
	return exitOf(p.cmd, err)
}

// exitOf reads how a command ended.
func exitOf(cmd *exec.Cmd, err error) (exit, error) {
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		return exit{}, fmt.Errorf("wait for a program: %w", err)
	}
	state := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if state.Signaled() {
		return exit{code: 128 + int(state.Signal())}, nil
	}
	return exit{code: state.ExitStatus()}, nil
}
