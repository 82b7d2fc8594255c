// Package sandbox runs the code of models where it can harm nothing, and tells
// whether it passed its tests in a way that the code cannot forge.
//
//	box, err := sandbox.Open(ctx, sandbox.Options{})  // probes by running
//	defer box.Close()
//	outcome, err := box.Run(ctx, verify.Program{…})
//
// Two ideas carry it.
//
// The box: each program runs under bubblewrap (or a container) with namespaces
// of its own, a read-only root, one small tmpfs, no network, no environment, no
// descriptor but its three, and limits of time, memory, processes and output.
// See [Kind] and docs/sandbox.md.
//
// The proof: the tests and the answer never share a process, nor a sandbox. The
// tests run in one box, the answer in another, and between them goes a pipe on
// which calls and values travel as plain data. What the answer sends is only
// ever a value, so all it can do to pass is to compute the right ones. The
// tests' process reports a nonce of that run after the last check returned; the
// nonce is never in the answer's box.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// A Kind is a way to isolate a program.
type Kind string

// The kinds, best first.
const (
	Bubblewrap Kind = "bubblewrap"
	Podman     Kind = "podman"
	Docker     Kind = "docker"
	// Unsafe isolates nothing: the program runs as the user that started us.
	Unsafe Kind = "unsafe"
)

// Options of a sandbox.
type Options struct {
	// Kinds are tried in this order; nil: bubblewrap, podman, docker.
	Kinds []Kind
	// Unsafe runs programs without isolation where no kind works. It is a
	// decision of whoever starts the process, never of a recipe.
	Unsafe bool
	// Image that containers run; it must be on this machine already, with the
	// languages' tools. Default [DefaultImage].
	Image string
	// AtOnce is how many programs run at once; 0: one for each processor.
	AtOnce int
}

// DefaultImage is the container image that programs run in. Nothing is pulled.
const DefaultImage = "stillhouse-sandbox:latest"

// ErrNone is the error of a machine on which no sandbox works.
var ErrNone = errors.New("no sandbox works here")

// Limits of one program.
type Limits struct {
	CPU       time.Duration // processor time of each process
	Wall      time.Duration // on the clock
	Memory    int64         // bytes: of all processes where a cgroup can be had, else of each
	Processes int           // processes and threads
	Disk      int64         // bytes of /tmp, the one place to write
	Output    int64         // bytes of standard output that are read
}

// A file is put into the box, below /box.
type file struct {
	name string // without a slash
	data []byte
	exec bool
}

// A job is one program to run.
type job struct {
	argv   []string
	files  []file
	limits Limits
	bind   string   // a folder of this machine that the program sees at /std; "" for none
	stdin  *os.File // nil: empty
	stdout *os.File // nil: thrown away
	stderr *os.File // nil: thrown away
}

// How a program ended, where it was not simply by itself.
const (
	endedCPU    = "time limit"
	endedMemory = "memory limit"
)

// An exit is how a program ended.
type exit struct {
	code  int    // 128 + signal where one ended it
	limit string // endedCPU or endedMemory where that ended it
}

// A process is a job that was started.
type process interface {
	// wait waits until the program has ended and nothing of it is left. The
	// error is the sandbox's own: the program did not run.
	wait() (exit, error)
	// kill ends the program and all that it started.
	kill()
}

// An isolation starts jobs. slot, below the number of jobs at once, is the
// job's own while it runs.
type isolation interface {
	start(j *job, slot int) (process, error)
	close()
}

// A Box runs programs. It is safe for use by several goroutines.
type Box struct {
	kind  Kind
	about string
	in    isolation
	slots chan int
	tools tools

	golang goTools
}

// Open finds a sandbox that works here, by running a program in each kind in
// turn. The error wraps [ErrNone] and says of each kind why not and what to do.
func Open(ctx context.Context, o Options) (*Box, error) {
	if o.AtOnce <= 0 {
		o.AtOnce = runtime.NumCPU()
	}
	if o.Image == "" {
		o.Image = DefaultImage
	}
	kinds := o.Kinds
	if kinds == nil {
		kinds = []Kind{Bubblewrap, Podman, Docker}
	}
	if o.Unsafe {
		kinds = append(kinds[:len(kinds):len(kinds)], Unsafe)
	}
	var reasons []string
	for _, kind := range kinds {
		b, err := open(ctx, kind, &o)
		if err == nil {
			return b, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", kind, err))
	}
	return nil, fmt.Errorf("%w (%s); install bubblewrap (apt-get install bubblewrap) and allow user namespaces, or docker or podman with the image %s, or run the answers' code without a sandbox with --unsafe-code", ErrNone, strings.Join(reasons, "; "), o.Image)
}

func open(ctx context.Context, kind Kind, o *Options) (*Box, error) {
	b := &Box{kind: kind, slots: make(chan int, o.AtOnce)}
	for i := range o.AtOnce {
		b.slots <- i
	}
	var err error
	switch kind {
	case Bubblewrap:
		b.in, b.about, err = openBubblewrap(o)
		b.tools = toolsOfSystem()
	case Podman, Docker:
		b.in, b.about, err = openContainers(ctx, string(kind), o.Image)
		b.tools = toolsOfImage()
	case Unsafe:
		b.in, b.about, err = openUnsafe()
		b.tools = toolsOfPath()
	default:
		err = errors.New("unknown kind of sandbox")
	}
	if err != nil {
		return nil, err
	}
	if err := b.probe(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Kind is the kind that was found.
func (b *Box) Kind() Kind { return b.kind }

// String describes the sandbox in a line, such as for doctor.
func (b *Box) String() string {
	if b.about == "" {
		return string(b.kind)
	}
	return string(b.kind) + ", " + b.about
}

// Close gives back what the sandbox holds. No program is running any more.
func (b *Box) Close() {
	b.in.close()
	b.golang.close()
}

// slot waits for a place to run a program.
func (b *Box) slot(ctx context.Context) (slot int, done func(), err error) {
	select {
	case slot = <-b.slots:
		return slot, func() { b.slots <- slot }, nil
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
}

// probeText is what the probe has a program print.
const probeText = "a sandbox works here"

// probe runs a program and looks at what it says.
func (b *Box) probe(ctx context.Context) error {
	slot, done, err := b.slot(ctx)
	if err != nil {
		return err
	}
	defer done()
	j := &job{
		argv:   []string{"/bin/sh", "-c", "cat /box/probe && echo x >/tmp/x"},
		files:  []file{{name: "probe", data: []byte(probeText)}},
		limits: Limits{CPU: 5 * time.Second, Wall: 20 * time.Second, Memory: 256 << 20, Processes: 16, Disk: 1 << 20, Output: 1 << 10},
	}
	if b.kind == Unsafe {
		j.argv = []string{"/bin/sh", "-c", "echo '" + probeText + "'"}
	}
	got, err := b.capture(ctx, j, slot, nil)
	switch {
	case err != nil:
		return err
	case got.timeout:
		return errors.New("a first program did not end")
	case got.exit.code != 0 || strings.TrimSpace(string(got.stdout)) != probeText:
		return fmt.Errorf("a first program ended with %d: %s", got.exit.code, oneLine(got.stderr))
	}
	return nil
}

// A captured is what a program left.
type captured struct {
	exit    exit
	stdout  []byte
	stderr  []byte // the last of it
	flooded bool   // it wrote more than Limits.Output
	timeout bool   // it was killed at Limits.Wall
}

// tailBytes is how much of a program's standard error is kept.
const tailBytes = 16 << 10

// capture runs a job in a slot and keeps what it prints, within bounds. It
// returns once nothing of the program is left, and closes nothing of the job's.
func (b *Box) capture(ctx context.Context, j *job, slot int, stdin []byte) (*captured, error) {
	var pipes pipes
	defer pipes.close()
	out, err := pipes.reader(&j.stdout)
	if err != nil {
		return nil, err
	}
	errs, err := pipes.reader(&j.stderr)
	if err != nil {
		return nil, err
	}
	var in *os.File
	if len(stdin) > 0 {
		if in, err = pipes.writer(&j.stdin); err != nil {
			return nil, err
		}
	}
	p, err := b.in.start(j, slot)
	pipes.started()
	if err != nil {
		return nil, err
	}
	got := &captured{}
	if in != nil {
		go func() {
			_, _ = in.Write(stdin) // a program may end before it has read all
			_ = in.Close()
		}()
	}
	outDone := make(chan struct{})
	go func() {
		defer close(outDone)
		got.stdout, _ = io.ReadAll(io.LimitReader(out, j.limits.Output+1))
		if int64(len(got.stdout)) > j.limits.Output {
			got.flooded = true
			p.kill()
		}
	}()
	errDone := make(chan struct{})
	go func() {
		defer close(errDone)
		got.stderr = tail(errs)
	}()
	got.exit, got.timeout, err = watch(ctx, p, j.limits.Wall)
	// Whoever holds the other ends outside of the box is not waited for.
	soon := time.Now().Add(lastWords)
	for _, f := range []*os.File{out, errs} {
		_ = f.SetReadDeadline(soon)
	}
	<-outDone
	<-errDone
	return got, err
}

// lastWords is how long the output of a program that has ended is read on.
const lastWords = time.Second

// watch waits for a process, and kills it when its time is over or nobody wants
// it any more.
func watch(ctx context.Context, p process, wall time.Duration) (e exit, timeout bool, err error) {
	type end struct {
		exit
		err error
	}
	ended := make(chan end, 1)
	go func() {
		x, err := p.wait()
		ended <- end{x, err}
	}()
	timer := time.NewTimer(wall)
	defer timer.Stop()
	select {
	case x := <-ended:
		return x.exit, false, x.err
	case <-timer.C:
		p.kill()
		x := <-ended
		return x.exit, true, nil
	case <-ctx.Done():
		p.kill()
		<-ended
		return exit{}, false, ctx.Err()
	}
}

// tail reads all and keeps the last of it.
func tail(r io.Reader) []byte {
	var kept []byte
	buf := make([]byte, 8<<10)
	for {
		n, err := r.Read(buf)
		kept = append(kept, buf[:n]...)
		if len(kept) > 2*tailBytes {
			kept = append(kept[:0], kept[len(kept)-tailBytes:]...)
		}
		if err != nil {
			return kept[max(0, len(kept)-tailBytes):]
		}
	}
}

// oneLine is some of a program's words, for a message.
func oneLine(text []byte) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "?")), " ")
	if len(s) > 300 {
		s = "…" + strings.ToValidUTF8(s[len(s)-300:], "")
	}
	return s
}
