package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// tempFolder makes a folder of this process for a purpose, and removes those of
// processes of ours that ended without doing so.
func tempFolder(purpose string) (string, error) {
	prefix := "stillhouse-" + purpose + "-"
	if old, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*")); err == nil {
		for _, dir := range old {
			if left(filepath.Base(dir), prefix) && ownedByUs(dir) {
				_ = os.RemoveAll(dir)
			}
		}
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", prefix, os.Getpid()))
	if err != nil {
		return "", fmt.Errorf("make a folder for programs: %w", err)
	}
	return dir, nil
}

// left tells whether a name, PREFIX PID - …, is of a process that is no more.
func left(name, prefix string) bool {
	number, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), "-")
	pid, err := strconv.Atoi(number)
	return err == nil && pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func ownedByUs(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
