package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
)

// SuperviseArg is the first argument with which a program calls [Supervise].
const SuperviseArg = "launch-supervise"

// watchArg is the second argument of the process that stays.
const watchArg = "watch"

// lockFD is the inherited lock of the launch's folder.
const lockFD = 3

// pipeDelay is how long output is read after the trainer has ended, where
// something that it started holds on to it.
const pipeDelay = 5 * time.Second

// Supervise is the supervisor of a launch that [Command] starts; args are what
// follows [SuperviseArg]. A program that uses Command calls it first thing, and
// exits with what it returns:
//
//	if len(os.Args) > 1 && os.Args[1] == launch.SuperviseArg {
//		os.Exit(launch.Supervise(os.Args[2:]))
//	}
func Supervise(args []string) int {
	var err error
	switch {
	case len(args) == 1:
		err = detach(args[0])
	case len(args) == 2 && args[1] == watchArg:
		err = watch(folder(args[0]))
	default:
		err = errors.New("it is started by stillhouse train, not by hand")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", SuperviseArg, err)
		return 1
	}
	return 0
}

// detach starts the process that stays and returns at once, so that the
// submitter has no child to wait for.
func detach(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	lock := os.NewFile(lockFD, lockFile)
	cmd := exec.Command(self, SuperviseArg, dir, watchArg)
	cmd.Dir = dir
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// watch starts the trainer, keeps its output and leaves its exit code.
func watch(f folder) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)

	lock := os.NewFile(lockFD, lockFile)
	defer lock.Close() // not before the exit code is kept
	alive, err := f.try(watchFile)
	if err != nil {
		return err
	}
	if alive == nil {
		return errors.New("the launch is supervised already")
	}
	defer alive.Close()
	var j job
	if found, err := f.read(jobFile, &j); err != nil || !found {
		return fmt.Errorf("no job in %s: %w", f, err)
	}
	mark, err := json.Marshal(started{PID: os.Getpid(), At: time.Now().UTC()})
	if err != nil {
		return err
	}
	if first, err := f.create(startFile, mark); err != nil || !first {
		return err // started before: not again
	}
	end := f.train(j, lock, stop)
	end.At = time.Now().UTC()
	text, err := json.Marshal(end)
	if err != nil {
		return err
	}
	return f.write(exitFile, text)
}

// train runs the trainer to its end.
func (f folder) train(j job, lock *os.File, stop <-chan os.Signal) exit {
	if f.has(cancelFile) {
		return exit{Code: 128 + int(syscall.SIGTERM)}
	}
	if err := os.RemoveAll(filepath.Join(j.Dir, training.ResultFile)); err != nil {
		return exit{Code: 1, Error: fmt.Sprintf("remove an old result: %v", err)}
	}
	out, err := newRing(f.path(logFile), j.MaxLog)
	if err != nil {
		return exit{Code: 1, Error: fmt.Sprintf("open the log: %v", err)}
	}
	defer out.Close()

	cmd := exec.Command(j.Argv[0], j.Argv[1:]...)
	cmd.Dir = j.Dir
	cmd.Env = os.Environ()
	for name, value := range j.Set {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.ExtraFiles = []*os.File{lock} // the launch lives while the trainer does
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = pipeDelay
	if err := cmd.Start(); err != nil {
		return exit{Code: 127, Error: fmt.Sprintf("start the trainer: %v", err)}
	}
	text, err := json.Marshal(group{PGID: cmd.Process.Pid})
	if err == nil {
		err = f.write(groupFile, text)
	}
	if err != nil {
		fmt.Fprintf(out, "\nstillhouse: the process group could not be kept: %v\n", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	waited := await(cmd.Process.Pid, j.Grace, stop, ended)
	return exit{Code: exitCode(cmd.ProcessState, waited)}
}

// await waits for the trainer. When told to stop it ends the trainer's whole
// group: by request first, by force after the grace time.
func await(pgid int, grace time.Duration, stop <-chan os.Signal, ended <-chan error) error {
	var force <-chan time.Time
	for {
		select {
		case err := <-ended:
			if force != nil { // what the trainer started ends with it
				syscall.Kill(-pgid, syscall.SIGKILL)
			}
			return err
		case <-stop:
			syscall.Kill(-pgid, syscall.SIGTERM)
			if force == nil {
				timer := time.NewTimer(grace)
				defer timer.Stop()
				force = timer.C
			}
		case <-force:
			syscall.Kill(-pgid, syscall.SIGKILL)
		}
	}
}

// exitCode is the trainer's own, 128 + signal where a signal ended it.
func exitCode(state *os.ProcessState, waited error) int {
	if state == nil {
		return 1
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	if code := state.ExitCode(); code != 0 || waited == nil || errors.Is(waited, exec.ErrWaitDelay) {
		return code
	}
	return 1 // its output could not be kept
}
