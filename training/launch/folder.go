package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
)

// Files of a launch's folder.
const (
	lockFile   = "lock"       // held by a submission, then by supervisor and trainer
	watchFile  = "watch.lock" // held by the supervisor alone
	ownerFile  = "owner"      // token of the claim
	jobFile    = "job.json"
	startFile  = "started.json" // created once: the mark that the launch was started
	groupFile  = "group.json"   // the trainer's process group
	cancelFile = "cancel"       // somebody wants it to end
	exitFile   = "exit.json"    // how it ended
	logFile    = "output.log"
)

// A folder holds all that is known of one launch. Files appear whole: they are
// renamed or linked into place.
type folder string

// started is started.json.
type started struct {
	PID int       `json:"pid"` // the supervisor's
	At  time.Time `json:"at"`
}

// group is group.json.
type group struct {
	PGID int `json:"pgid"`
}

// exit is exit.json.
type exit struct {
	Code  int       `json:"code"`  // 128 + signal where a signal ended it
	Error string    `json:"error"` // why the trainer could not be started
	At    time.Time `json:"at"`
}

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

func (f folder) has(name string) bool {
	_, err := os.Lstat(f.path(name))
	return err == nil
}

// read fills v from a file; found is false where there is none.
func (f folder) read(name string, v any) (found bool, err error) {
	text, err := os.ReadFile(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return false, fmt.Errorf("%s: %w", f.path(name), err)
	}
	return true, nil
}

// write puts a file in place, whole and durable.
func (f folder) write(name string, text []byte) error {
	temp, err := f.temp(name, text)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, f.path(name)); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return f.sync()
}

// create puts a file in place unless it is there, and tells whether it did.
func (f folder) create(name string, text []byte) (bool, error) {
	temp, err := f.temp(name, text)
	if err != nil {
		return false, err
	}
	defer os.Remove(temp)
	err = os.Link(temp, f.path(name))
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.sync()
}

func (f folder) temp(name string, text []byte) (string, error) {
	temp, err := os.CreateTemp(string(f), name+".*.new")
	if err != nil {
		return "", err
	}
	_, err = temp.Write(text)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return "", errors.Join(err, os.Remove(temp.Name()))
	}
	return temp.Name(), nil
}

func (f folder) sync() error {
	dir, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// owner is the token of this folder's claim, the same whenever it is asked for.
func (f folder) owner() (string, error) {
	if _, err := f.create(ownerFile, []byte(newOwner())); err != nil {
		return "", err
	}
	text, err := os.ReadFile(f.path(ownerFile))
	return strings.TrimSpace(string(text)), err
}

// try takes a lock file if nobody holds it; nil where somebody does.
func (f folder) try(name string) (*os.File, error) {
	file, err := os.OpenFile(f.path(name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return file, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", f.path(name), err)
}

// held tells whether somebody holds a lock file.
func (f folder) held(name string) (bool, error) {
	file, err := f.try(name)
	if err != nil || file == nil {
		return err == nil, err
	}
	return false, file.Close()
}

// lockUnlessStarted takes the lock, or returns nil where the launch was
// started. While another submission is under way it waits for its outcome.
func (f folder) lockUnlessStarted(ctx context.Context) (*os.File, error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		if f.has(startFile) {
			return nil, nil
		}
		lock, err := f.try(lockFile)
		if err != nil {
			return nil, err
		}
		if lock != nil {
			if f.has(startFile) { // and over since we looked
				return nil, lock.Close()
			}
			return lock, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// state tells what is known of the launch.
func (f folder) state() (State, error) {
	var end exit
	ended, err := f.read(exitFile, &end)
	if err != nil {
		return State{}, err
	}
	alive := false
	if !ended {
		if alive, err = f.held(lockFile); err != nil {
			return State{}, err
		}
		if !alive { // it may have ended since we looked
			if ended, err = f.read(exitFile, &end); err != nil {
				return State{}, err
			}
		}
	}
	var start started
	began, err := f.read(startFile, &start)
	if err != nil {
		return State{}, err
	}
	switch {
	case ended:
		return f.judge(start, end)
	case alive:
		return State{Phase: Running, Started: start.At}, nil
	case began:
		return State{Phase: Unknown, Started: start.At, Reason: "its processes are gone and left no exit code: the machine stopped, or they were killed; see " + f.path(logFile)}, nil
	case f.has(cancelFile):
		return State{Phase: Cancelled, Reason: "cancelled before it started"}, nil
	}
	return State{}, fmt.Errorf("%w: it was not started; submit it again", ErrUnknownRef)
}

// judge weighs an exit code against what the launch said of itself.
func (f folder) judge(start started, end exit) (State, error) {
	var j job
	if _, err := f.read(jobFile, &j); err != nil {
		return State{}, err
	}
	code := end.Code
	s := State{Phase: Failed, ExitCode: &code, Reason: end.Error, Started: start.At, Ended: end.At}
	if end.Error != "" {
		return s, nil
	}
	result, err := training.ReadResult(filepath.Join(j.Dir, training.ResultFile), j.LaunchID)
	if err != nil && !errors.Is(err, training.ErrNoResult) {
		return State{}, err
	}
	s.Result = result
	switch {
	case code != 0 && f.has(cancelFile):
		s.Phase, s.Reason = Cancelled, "cancelled"
	case code == training.ExitClaimed && result == nil:
		s.Reason = "another machine has claimed the launch"
	case code != 0:
		s.Reason = fmt.Sprintf("exit code %d", code)
		if result != nil && result.Error != "" {
			s.Reason += ": " + result.Error
		}
	case result == nil:
		s.Phase, s.Reason = Unknown, fmt.Sprintf("exit code 0, but %v", err)
	case result.State != training.ResultSucceeded:
		s.Reason = fmt.Sprintf("exit code 0, but it says that it %s: %s", result.State, result.Error)
	case j.Rows > 0 && result.RowsSeen == nil:
		s.Phase, s.Reason = Unknown, fmt.Sprintf("it says that it succeeded, but not on how many of the %d rows; install pyarrow where it runs, so that run.sh can count", j.Rows)
	case j.Rows > 0 && *result.RowsSeen != j.Rows:
		s.Phase, s.Reason = Unknown, fmt.Sprintf("it says that it succeeded, but on %d rows, not on the %d that were handed over", *result.RowsSeen, j.Rows)
	default:
		s.Phase = Succeeded
	}
	return s, nil
}

// cancel leaves the mark first: a supervisor that starts at this moment sees
// the mark, or we see the supervisor.
func (f folder) cancel() error {
	if _, err := f.create(cancelFile, nil); err != nil {
		return err
	}
	watched, err := f.held(watchFile)
	if err != nil {
		return err
	}
	if watched {
		var s started
		if found, err := f.read(startFile, &s); err != nil || !found {
			return err // it has yet to look for the mark
		}
		return signalled(syscall.Kill(s.PID, syscall.SIGTERM))
	}
	// The supervisor is gone. Where the trainer lives on, it holds the lock,
	// so its group is its own still.
	alive, err := f.held(lockFile)
	if err != nil || !alive {
		return err
	}
	var g group
	if found, err := f.read(groupFile, &g); err != nil || !found || g.PGID <= 1 {
		return err
	}
	return signalled(syscall.Kill(-g.PGID, syscall.SIGTERM))
}

// signalled takes a signal to what has just ended for delivered.
func signalled(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
