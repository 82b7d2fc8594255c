package slurm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stillhouse-data/stillhouse/training/launch/rest"
)

// localLog reads the end of the newest log of a launch from this machine. The
// cluster's users can write there: no link is followed and no pipe waited on.
func localLog(j *Job, launchID string, tail int) (string, error) {
	names, err := filepath.Glob(strings.ReplaceAll(j.logFile(launchID), "%j", "*"))
	if err != nil {
		return "", err
	}
	newest, at := "", int64(-1)
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil && info.ModTime().UnixNano() > at {
			newest, at = name, info.ModTime().UnixNano()
		}
	}
	if newest == "" {
		return "", fmt.Errorf("the log is on the cluster, %s, and not on this machine: %w", j.logFile(launchID), fs.ErrNotExist)
	}
	f, err := os.OpenFile(newest, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New(newest + " is no plain file")
	}
	from := max(0, info.Size()-int64(tail)-1)
	text, err := io.ReadAll(io.LimitReader(io.NewSectionReader(f, from, info.Size()-from), int64(tail)+1))
	if err != nil {
		return "", err
	}
	return rest.LastLines(text, tail), nil
}
