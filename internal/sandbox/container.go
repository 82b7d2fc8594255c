package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// containers run programs with podman or docker: no network, a read-only root,
// one tmpfs, no capabilities, limits by the engine. They are slower to start
// than bubblewrap by two orders of magnitude.
type containers struct {
	engine, image, root string
}

// engineWait bounds what is asked of an engine beside running programs.
const engineWait = 15 * time.Second

func openContainers(ctx context.Context, engine, image string) (isolation, string, error) {
	path, err := exec.LookPath(engine)
	if err != nil {
		return nil, "", fmt.Errorf("%s is not installed", engine)
	}
	ctx, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "image", "inspect", "--format", "{{.Id}}", image).CombinedOutput()
	if err != nil {
		return nil, "", fmt.Errorf("it has no image %s, or does not run: %s", image, oneLine(out))
	}
	root, err := tempFolder("box")
	if err != nil {
		return nil, "", err
	}
	return &containers{engine: path, image: strings.TrimSpace(string(out)), root: root}, "image " + image, os.Chmod(root, 0o711)
}

func (c *containers) close() { _ = os.RemoveAll(c.root) }

// args are the engine's, for a program whose files lie in dir.
func (c *containers) args(name, dir string, j *job) []string {
	l := &j.limits
	memory := strconv.FormatInt(l.Memory, 10)
	cpu := strconv.FormatInt(int64((l.CPU+time.Second-1)/time.Second), 10)
	args := []string{
		"run", "--rm", "--interactive", "--pull", "never", "--name", name, "--network", "none", "--read-only", "--init",
		"--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "65534:65534", "--hostname", "box",
		"--memory", memory, "--memory-swap", memory, "--pids-limit", strconv.Itoa(l.Processes + 2),
		"--ulimit", "core=0", "--ulimit", "cpu=" + cpu, "--ulimit", "nofile=256", "--ulimit", "fsize=" + strconv.FormatInt(l.Disk, 10),
		"--log-driver", "none", "--shm-size", "4096",
		"--tmpfs", "/tmp:rw,exec,nosuid,nodev,mode=1777,size=" + strconv.FormatInt(l.Disk, 10),
		"--volume", dir + ":/box:ro", "--workdir", "/tmp",
	}
	for _, e := range environment {
		args = append(args, "--env", e)
	}
	return append(append(args, c.image), j.argv...)
}

func (c *containers) start(j *job, _ int) (process, error) {
	dir, err := writeFiles(c.root, j.files)
	if err != nil {
		return nil, err
	}
	nonce, err := newNonce()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p := &contained{containers: c, name: "stillhouse-" + nonce, dir: dir}
	p.cmd = exec.Command(c.engine, c.args(p.name, dir, j)...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	setFiles(p.cmd, j)
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.engine, err), os.RemoveAll(dir))
	}
	return p, nil
}

type contained struct {
	*containers
	cmd       *exec.Cmd
	name, dir string
}

// kill ends the container; its client ends with it.
func (p *contained) kill() {
	ctx, cancel := context.WithTimeout(context.Background(), engineWait)
	defer cancel()
	if err := exec.CommandContext(ctx, p.engine, "kill", p.name).Run(); err != nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may not have begun
	}
}

func (p *contained) wait() (exit, error) {
	err := p.cmd.Wait()
	_ = os.RemoveAll(p.dir)
	e, err := exitOf(p.cmd, err)
	switch {
	case err != nil:
		return e, err
	case e.code == 125:
		return e, errors.New("the container did not start")
	case e.code == 128+int(sigXCPU):
		e.limit = endedCPU
	case e.code == 128+int(syscall.SIGKILL):
		// Nobody but the kernel ends it so before kill does.
		e.limit = endedMemory
	}
	return e, nil
}

// sigXCPU is what a program gets that used its processor time up.
const sigXCPU = 24
