package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bubblewrap runs programs under bwrap.
//
// What it gives a program: user, pid, network, IPC, UTS and cgroup namespaces of
// its own, in which no further user namespace can be made; the system's
// programs and libraries, read-only; a tmpfs at /tmp of the stated size, and no
// other place to write; a minimal /dev and /proc; no environment but what is
// set here; a session of its own; three descriptors.
//
// As root it first becomes another user, one for each slot: the kernel does not
// hold root to RLIMIT_NPROC, and what root may read nobody in the box may.
type bubblewrap struct {
	path    string
	base    []string // arguments of every program
	root    bool     // we are root, and programs become other users
	uids    int      // first of the slots' users
	cgroups *cgroups // nil where none can be had
}

// openBubblewrap finds bwrap. Whether it works, the probe tells.
func openBubblewrap(o *Options) (isolation, string, error) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, "", errors.New("bwrap is not installed")
	}
	keepDescriptors()
	b := &bubblewrap{path: path, root: os.Geteuid() == 0, uids: slotUsers()}
	b.base = bubblewrapArgs()
	about := []string{}
	if b.cgroups = openCgroups(2 * o.AtOnce); b.cgroups != nil {
		about = append(about, "limits by "+b.cgroups.about)
	} else {
		about = append(about, "limits by rlimit alone: no cgroup can be had")
	}
	if b.root {
		about = append(about, "as users of its own")
	}
	return b, strings.Join(about, ", "), nil
}

// keepDescriptors keeps from programs what this process was itself given by
// whoever started it: Go closes its own files in what it starts, but not those.
func keepDescriptors() {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return // the box has no more than what we have been given
	}
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// slotUsers is the first of the user ids that programs run as, where we are
// root. They lie above all that systems give out, and those of two processes
// of ours seldom meet; where this user namespace has no such ids, all slots are
// nobody.
func slotUsers() int {
	const first, perProcess = 1_800_000_000, 64
	id := first + os.Getpid()%100_000*perProcess
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var inside, outside, count int
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err == nil && id >= inside && id+perProcess <= inside+count {
			return id
		}
	}
	return 0
}

// systemPaths are what programs see of the machine, where it is there.
var systemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
}

func bubblewrapArgs() []string {
	args := []string{
		"--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--disable-userns", "--uid", "1000", "--gid", "1000", "--hostname", "box",
		"--die-with-parent", "--new-session", "--clearenv",
	}
	for _, p := range systemPaths {
		switch target, err := os.Readlink(p); {
		case err == nil:
			args = append(args, "--symlink", target, p)
		default:
			args = append(args, "--ro-bind-try", p, p)
		}
	}
	return append(args, "--proc", "/proc", "--dev", "/dev")
}

func (b *bubblewrap) close() {
	if b.cgroups != nil {
		b.cgroups.close()
	}
}

func (b *bubblewrap) start(j *job, slot int) (process, error) {
	args := b.base[:len(b.base):len(b.base)]
	var extra, ours []*os.File
	defer func() {
		for _, f := range ours {
			_ = f.Close()
		}
	}()
	pass := func(f *os.File) string { // descriptors begin behind the three
		extra, ours = append(extra, f), append(ours, f)
		return strconv.Itoa(len(extra) + 2)
	}
	for _, f := range j.files {
		mem, err := memory(f.name, f.data)
		if err != nil {
			return nil, err
		}
		perms := "0444"
		if f.exec {
			perms = "0555"
		}
		args = append(args, "--perms", perms, "--ro-bind-data", pass(mem), "/box/"+f.name)
	}
	if j.bind != "" {
		args = append(args, "--ro-bind", j.bind, "/std")
	}
	size := strconv.FormatInt(max(4096, j.limits.Disk), 10)
	args = append(args,
		"--size", "4096", "--tmpfs", "/dev/shm", "--remount-ro", "/dev/shm", "--remount-ro", "/dev",
		"--size", size, "--perms", "0700", "--tmpfs", "/tmp", "--chdir", "/tmp", "--remount-ro", "/")
	for _, e := range environment {
		name, value, _ := strings.Cut(e, "=")
		args = append(args, "--setenv", name, value)
	}
	statusOurs, statusTheirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	blockTheirs, blockOurs, err := os.Pipe()
	if err != nil {
		_ = statusOurs.Close()
		_ = statusTheirs.Close()
		return nil, err
	}
	args = append(args, "--json-status-fd", pass(statusTheirs), "--block-fd", pass(blockTheirs), "--")
	args = append(args, limited(j, b.cgroups != nil)...)

	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, statusOurs.Close(), blockOurs.Close())
	}
	ours = append(ours, null)
	cmd := exec.Command(b.path, args...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{}, "/", extra
	cmd.Stdin, cmd.Stdout, cmd.Stderr = or(j.stdin, null), or(j.stdout, null), or(j.stderr, null)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if b.root {
		uid := uint32(65534)
		if b.uids > 0 {
			uid = uint32(b.uids + slot)
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	p := &wrapped{cmd: cmd, status: bufio.NewReader(statusOurs), statusFile: statusOurs}
	if b.cgroups != nil {
		p.group = b.cgroups.of(slot)
	}
	if err := p.begin(j, blockOurs); err != nil {
		_ = blockOurs.Close()
		return nil, err
	}
	return p, blockOurs.Close()
}

func or(f, other *os.File) *os.File {
	if f != nil {
		return f
	}
	return other
}

// memory is a file that exists in memory alone, so that nothing is left of it
// and no path leads to it.
func memory(name string, data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(data)
	if err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("fill a file in memory: %w", err), f.Close())
	}
	return f, nil
}

// A wrapped is a program under bwrap.
type wrapped struct {
	cmd        *exec.Cmd
	statusFile *os.File
	status     *bufio.Reader // JSON texts: first the pid, last the exit code
	group      *cgroup       // nil for none
	oomBefore  int64

	mu     sync.Mutex
	child  int // pidfd of the box's first process, which holds all others; -1 once it was waited for
	killed bool
}

// setUp bounds how long bwrap may take until the program could start.
const setUp = 20 * time.Second

// begin starts bwrap, sets the limits of the program while it waits, and lets
// it go by a byte on block.
func (p *wrapped) begin(j *job, block *os.File) error {
	if p.group != nil {
		if err := p.group.set(&j.limits); err != nil {
			_ = p.statusFile.Close()
			return fmt.Errorf("set the limits of a cgroup: %w", err)
		}
		p.oomBefore = p.group.kills()
	}
	if err := p.cmd.Start(); err != nil {
		_ = p.statusFile.Close()
		return fmt.Errorf("start bwrap: %w", err)
	}
	for _, f := range p.cmd.ExtraFiles {
		_ = f.Close() // the only writer of status is bwrap now
	}
	fail := func(err error) error {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		_ = p.cmd.Wait()
		_ = p.statusFile.Close()
		return err
	}
	_ = p.statusFile.SetReadDeadline(time.Now().Add(setUp))
	line, err := p.status.ReadBytes('\n')
	var started struct {
		PID int `json:"child-pid"`
	}
	if err != nil || json.Unmarshal(line, &started) != nil || started.PID <= 0 {
		return fail(errors.New("bwrap did not set up a sandbox: it may be older than 0.8, or this machine may forbid user namespaces (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)"))
	}
	_ = p.statusFile.SetReadDeadline(time.Time{})
	if p.child, err = unix.PidfdOpen(started.PID, 0); err != nil {
		return fail(fmt.Errorf("hold a program: %w", err))
	}
	if p.group != nil {
		if err := p.group.add(started.PID); err != nil {
			return fail(fmt.Errorf("put a program into its cgroup: %w", err))
		}
	}
	if _, err := block.Write([]byte{1}); err != nil {
		return fail(fmt.Errorf("let a program go: %w", err))
	}
	return nil
}

// limited has a shell within the box set the rlimits of a program and become
// it. They are lowered there since that needs no right: to do so from outside,
// even root may lack CAP_SYS_RESOURCE.
func limited(j *job, grouped bool) []string {
	l := &j.limits
	seconds := int64((l.CPU + time.Second - 1) / time.Second)
	script := fmt.Sprintf("ulimit -c 0 && ulimit -S -t %d && ulimit -H -t %d && ulimit -f %d && ulimit -n 256 && { ulimit -u %d 2>/dev/null || ulimit -p %[4]d; }",
		seconds, seconds+1, (l.Disk+511)/512, l.Processes+boxProcesses)
	if !grouped {
		script += fmt.Sprintf(" && ulimit -v %d", l.Memory/1024)
	}
	return append([]string{"/bin/sh", "-c", script + ` && exec "$@"`, "sh"}, j.argv...)
}

// boxProcesses is how many processes of a box are its own.
const boxProcesses = 2

// kill ends the first process of the box, and with it all others. bwrap, which
// waits for it outside, ends once none of them is left, so that neither
// processes nor their memory count against the program that comes next.
func (p *wrapped) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child < 0 {
		return // its number may be another program's by now
	}
	p.killed = true
	_ = unix.PidfdSendSignal(p.child, unix.SIGKILL, nil, 0)
}

// waited lets go of a program that has ended, and tells whether it was killed.
func (p *wrapped) waited() (killed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = unix.Close(p.child)
	p.child = -1
	return p.killed
}

func (p *wrapped) wait() (exit, error) {
	defer p.statusFile.Close()
	err := p.cmd.Wait()
	killed := p.waited()
	var e exit
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		return e, fmt.Errorf("wait for bwrap: %w", err)
	}
	state := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if e.code = state.ExitStatus(); state.Signaled() {
		e.code = 128 + int(state.Signal())
	}
	switch {
	case p.group != nil && p.group.kills() > p.oomBefore:
		e.limit = endedMemory
	case e.code == 128+int(syscall.SIGXCPU):
		e.limit = endedCPU
	}
	if e.limit != "" || state.Signaled() || killed {
		return e, nil
	}
	// bwrap tells an exit code only of a program that it could start.
	var told struct {
		Code *int `json:"exit-code"`
	}
	_ = p.statusFile.SetReadDeadline(time.Now().Add(lastWords))
	for told.Code == nil {
		line, err := p.status.ReadBytes('\n')
		_ = json.Unmarshal(line, &told)
		if err != nil {
			break
		}
	}
	if told.Code == nil {
		return e, fmt.Errorf("bwrap could not start the program, and ended with %d", e.code)
	}
	return e, nil
}
