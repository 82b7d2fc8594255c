package home

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// Lock is held by the one process that runs the services of a home.
type Lock struct {
	file *os.File
}

// held keeps the files of held locks from the garbage collector, which would
// close them and so give the home away under a caller that only dropped its
// Lock.
var held sync.Map

// ErrLocked says that another live process holds the home. PID is 0 where the
// holder has not said yet who it is.
type ErrLocked struct {
	Dir   string
	PID   int
	Since time.Time
}

func (e *ErrLocked) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("home %s is in use by another process; wait for it to end, or choose another folder with --home", e.Dir)
	}
	return fmt.Sprintf("home %s is in use by process %d since %s; wait for it to end, stop it, or choose another folder with --home",
		e.Dir, e.PID, e.Since.Local().Format(time.DateTime))
}

// holder is what the lock file says, for messages only: the kernel's lock
// decides.
type holder struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

const (
	// lockTries and lockPause let a reader's momentary look (see running) pass.
	lockTries = 5
	lockPause = 10 * time.Millisecond
)

// Lock takes the home for this process, or returns an [*ErrLocked]. A lock
// whose process died is free.
func (h *Home) Lock() (*Lock, error) {
	f, err := lockFile(h.lockPath())
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		who := readHolder(h.lockPath())
		return nil, &ErrLocked{Dir: h.Dir, PID: who.PID, Since: who.Since}
	case err != nil:
		return nil, fmt.Errorf("lock home %s: %w", h.Dir, err)
	}
	if err := os.Remove(h.endpointsPath()); err != nil && !missing(err) {
		f.Close()
		return nil, fmt.Errorf("lock home %s: %w", h.Dir, err)
	}
	text, _ := json.Marshal(holder{PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second)})
	if _, err := f.WriteAt(append(text, '\n'), 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock home %s: %w", h.Dir, err)
	}
	held.Store(f, nil)
	return &Lock{file: f}, nil
}

// Unlock gives the home back. The file stays: removing it would let two
// processes lock two files of one name.
func (l *Lock) Unlock() error {
	held.Delete(l.file)
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

// LockFile takes an exclusive lock on a file, made where it is missing and
// emptied, until the file is closed or the process ends. It waits while
// another process holds it and gives up with syscall.EWOULDBLOCK after wait.
func LockFile(path string, wait time.Duration) (*os.File, error) {
	deadline := time.Now().Add(wait)
	for {
		f, err := lockFile(path)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) {
			return f, err
		}
	}
}

func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || try == lockTries {
			f.Close()
			return nil, err
		}
		time.Sleep(lockPause)
	}
	if err := f.Truncate(0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// running reports whether a live process has the lock. It asks for a shared lock,
// so any number of readers may look at once.
func (h *Home) running() (bool, error) {
	f, err := os.Open(h.lockPath())
	if missing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = flock(f, syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if err != syscall.EINTR {
			return err
		}
	}
}

func readHolder(path string) holder {
	var who holder
	text, err := os.ReadFile(path)
	if err == nil {
		_ = json.Unmarshal(text, &who) // a holder that is just writing it: unknown
	}
	return who
}

func (h *Home) lockPath() string { return h.Path("run", "lock") }
