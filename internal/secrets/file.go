package secrets

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// file reads a file that holds a key and nothing else.
func (k *Keyring) file(ref Ref) (string, error) {
	path := ref.File
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", &Error{Ref: ref, What: "this account has no home folder", Fix: "write an absolute path", cause: err}
		}
		path = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(path) {
		return "", &Error{Ref: ref, What: "its path is not absolute", Fix: "write where it lies on the machine that asks"}
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", unreadable(ref, err)
	}
	if err := k.options.Allow.file(ref, path); err != nil {
		return "", err
	}
	// What is opened is looked at, not what lies there: a pipe must not hold us
	// up, and the file must not be changed for another in between.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "", unreadable(ref, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", unreadable(ref, err)
	}
	if err := private(ref, path, info); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", unreadable(ref, err)
	}
	if len(text) > maxSecret {
		return "", &Error{Ref: ref, What: fmt.Sprintf("it is larger than %d KiB", maxSecret>>10), Fix: "put the key there, and nothing else"}
	}
	return string(text), nil
}

// private tells whether a file is kept as a key should be: a regular file of
// this account or of root, for nobody else to read or to change. In the folders
// where platforms mount secrets the platform decides who reads.
func private(ref Ref, path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return &Error{Ref: ref, What: "it is no regular file", Fix: "name the file that holds the key"}
	}
	forbidden := fs.FileMode(0o077)
	if slices.ContainsFunc(MountFolders, func(folder string) bool { return below(path, folder) }) {
		forbidden = 0o022
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		return &Error{Ref: ref, What: fmt.Sprintf("others can get at it (mode %04o)", mode), Fix: "run: chmod 600 " + path}
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return &Error{Ref: ref, What: "it belongs to another account", Fix: "run as its owner, or make a copy of your own"}
	}
	return nil
}

func unreadable(ref Ref, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err // the path is said already
	}
	return &Error{Ref: ref, What: err.Error(), Fix: "check that it is there, on the machine that asks the teacher", cause: err}
}
