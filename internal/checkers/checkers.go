// Package checkers keeps the commands of a recipe running that judge answers:
// programs of the user's own, which read a line of JSON for each answer and
// reply with one.
//
//	pool := checkers.New(log)
//	defer pool.Close()
//	reply, err := pool.Check(ctx, command, line)
//
// A program is trusted as far as the recipe is: nothing isolates it. It is kept
// from what it has no use for: its environment holds no variable but the few in
// [Environment], it gets no open file, and its replies are bounded in size and
// time. One that ends is started again, one that hangs is killed with all that
// it started.
package checkers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

// Environment lists the variables that a checker is given, where they are set.
var Environment = []string{"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV"}

// keptWords is how much of what a checker says on its standard error is logged
// when it ends, in bytes.
const keptWords = 2 << 10

// A Pool runs checkers, as many of each as there are processors. It implements
// [verify.Checkers].
type Pool struct {
	log   *slog.Logger
	procs int

	mu       sync.Mutex
	programs map[string]*program
	closed   bool
}

var _ verify.Checkers = (*Pool)(nil)

// New makes a pool. It starts nothing until something is to be checked.
func New(log *slog.Logger) *Pool {
	return &Pool{log: log, procs: runtime.GOMAXPROCS(0), programs: map[string]*program{}}
}

// A program is one command with its places for processes.
type program struct {
	slots chan *process // of each place: its process, nil where it is to be started
}

// Find says whether a command can be started here.
func Find(c *verify.Command) error {
	if _, err := exec.LookPath(c.Argv[0]); err != nil {
		return fmt.Errorf("checker %s cannot be started here: %w; install it on this machine, or write its whole path", c.Argv[0], err)
	}
	return nil
}

// Check implements [verify.Checkers]. An answer on which a process ends is given
// to another one, once.
func (p *Pool) Check(ctx context.Context, c *verify.Command, line []byte) ([]byte, error) {
	prog, err := p.program(c)
	if err != nil {
		return nil, err
	}
	var proc *process
	select {
	case proc = <-prog.slots:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { prog.slots <- proc }()
	for try := 0; ; try++ {
		if proc == nil {
			if proc, err = p.start(c); err != nil {
				return nil, err
			}
		}
		reply, err := proc.ask(ctx, c.Timeout, line)
		if err == nil {
			return reply, nil
		}
		words := proc.kill()
		proc = nil
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		p.log.Warn("a checker was stopped", "command", c.Argv[0], "why", err.Error(), "stderr", words)
		if try > 0 || !errors.Is(err, errEnded) {
			return nil, err
		}
	}
}

func (p *Pool) program(c *verify.Command) (*program, error) {
	key := strings.Join(c.Argv, "\x00") + "\x00\x00" + c.Version
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("%w: the build is ending", verify.ErrChecker)
	}
	prog := p.programs[key]
	if prog == nil {
		prog = &program{slots: make(chan *process, p.procs)}
		for range p.procs {
			prog.slots <- nil
		}
		p.programs[key] = prog
	}
	return prog, nil
}

// Close ends all checkers, each when its answer in hand is judged.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	programs := p.programs
	p.programs = nil
	p.mu.Unlock()
	for _, prog := range programs {
		for range cap(prog.slots) {
			if proc := <-prog.slots; proc != nil {
				proc.kill()
			}
		}
	}
}

// What a checker did wrong.
var (
	errEnded = fmt.Errorf("%w ended without a reply", verify.ErrChecker)
	errSlow  = fmt.Errorf("%w took too long", verify.ErrChecker)
	errLong  = fmt.Errorf("%w wrote too long a line", verify.ErrChecker)
	errTalk  = fmt.Errorf("%w wrote more than one line for an answer", verify.ErrChecker)
)

// A process is one that runs. It belongs to whoever took it out of its place.
type process struct {
	cmd *exec.Cmd
	in  *os.File
	out *os.File
	buf *bufio.Reader

	errs  *os.File
	words chan string // what it said on standard error, once that is closed
}

func (p *Pool) start(c *verify.Command) (*process, error) {
	var files []*os.File
	done := func() {
		for _, f := range files {
			f.Close()
		}
	}
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			files = append(files, r, w)
		}
		return r, w, err
	}
	inR, inW, err := pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := pipe()
	if err != nil {
		done()
		return nil, err
	}
	errR, errW, err := pipe()
	if err != nil {
		done()
		return nil, err
	}
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that what it starts ends with it
	if err := cmd.Start(); err != nil {
		done()
		return nil, fmt.Errorf("%w cannot be started", verify.ErrChecker)
	}
	inR.Close()
	outW.Close()
	errW.Close()
	proc := &process{cmd: cmd, in: inW, out: outR, buf: bufio.NewReaderSize(outR, 4<<10), errs: errR, words: make(chan string, 1)}
	go func() { proc.words <- lastWords(errR) }()
	return proc, nil
}

func environment() []string {
	out := []string{"STILLHOUSE_CHECKER=1"}
	for _, name := range Environment {
		if v, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+v)
		}
	}
	return out
}

// lastWords reads to the end and gives the last of it.
func lastWords(r io.Reader) string {
	var kept []byte
	part := make([]byte, keptWords)
	for {
		n, err := r.Read(part)
		if kept = append(kept, part[:n]...); len(kept) > keptWords {
			kept = slices.Clone(kept[len(kept)-keptWords:])
		}
		if err != nil {
			return strings.ToValidUTF8(strings.TrimSpace(string(kept)), "\uFFFD")
		}
	}
}

// ask writes a line and reads one, within a time.
func (p *process) ask(ctx context.Context, timeout time.Duration, line []byte) ([]byte, error) {
	if p.spoke() {
		return nil, errTalk // whose answer would that be?
	}
	deadline := time.Now().Add(timeout)
	if err := errors.Join(p.in.SetWriteDeadline(deadline), p.out.SetReadDeadline(deadline)); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() {
		past := time.Unix(1, 0)
		p.in.SetWriteDeadline(past) //nolint:errcheck // the deadline above holds then
		p.out.SetReadDeadline(past) //nolint:errcheck // as above
	})()
	if _, err := p.in.Write(append(slices.Clip(line), '\n')); err != nil {
		return nil, fault(err)
	}
	var reply []byte
	for {
		part, err := p.buf.ReadSlice('\n')
		if len(reply)+len(part) > verify.MaxCommandReply {
			return nil, errLong
		}
		reply = append(reply, part...)
		switch {
		case err == nil:
			if p.buf.Buffered() > 0 || !about(line, reply) {
				return nil, errTalk
			}
			return reply, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fault(err)
		}
	}
}

// spoke tells whether the process has written what nobody asked for.
func (p *process) spoke() bool {
	if p.buf.Buffered() > 0 {
		return true
	}
	raw, err := p.out.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		n, _ = syscall.Read(int(fd), one[:]) // the pipe does not block
		return true
	})
	return err == nil && n > 0
}

// about tells whether a reply is to a question: where it repeats the question's
// id it must be that one.
func about(question, reply []byte) bool {
	var q, r struct {
		ID *string `json:"id"`
	}
	if json.Unmarshal(reply, &r) != nil || r.ID == nil {
		return true // its reader finds it wanting, or has to trust it
	}
	return json.Unmarshal(question, &q) == nil && q.ID != nil && *q.ID == *r.ID
}

func fault(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSlow
	}
	return errEnded
}

// kill ends the process and all that it started, waits for it, and gives its
// last words.
func (p *process) kill() string {
	// The group is named after the process, which is ours until it is waited for.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.in.Close()
	p.out.Close()
	_ = p.cmd.Wait()                   // it was killed
	p.errs.SetReadDeadline(time.Now()) //nolint:errcheck // a grandchild that left the group may hold it
	words := <-p.words
	p.errs.Close()
	return words
}
