//go:build unix

package answers

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lockDir makes sure that one store at a time writes to a home. The lock goes
// with the process that holds it.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%s is in use by another process: end it, or choose another home", dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// workerName is the name that was chosen, or the one that this home has, or a
// new one for it.
func workerName(dir, chosen string) (string, error) {
	if chosen != "" {
		return chosen, validWorker(chosen)
	}
	path := filepath.Join(dir, "worker")
	data, err := os.ReadFile(path)
	if name := strings.TrimSpace(string(data)); err == nil && name != "" {
		return name, validWorker(name)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	name := "w-" + strings.ToLower(rand.Text())
	if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
		return "", err
	}
	return name, nil
}

func validWorker(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if len(name) > 100 || strings.Trim(name, allowed) != "" || strings.Trim(name, ".") == "" {
		return fmt.Errorf("worker name %.120q: want 1 to 100 letters, digits, dots, dashes or underscores", name)
	}
	return nil
}
