// Package home is the folder in which everything local lives: the embedded
// Temporal server's database, the embedded store's plain files, the worker's
// journal of answers, the generated keys and, while a process holds the
// folder, the addresses of its services.
//
// One process at a time holds a home, by [Home.Lock]; it runs the embedded
// services and writes [Endpoints] for the others, which attach to them by
// [Home.ReadEndpoints]. The lock is the kernel's and dies with its process, so
// a kill leaves nothing to clean up.
//
//	temporal/        the embedded server's SQLite files and their schema stamp
//	store/<bucket>/  the embedded store's objects, each a plain file at its key
//	sidecar/         their metadata, where the file system has no user xattrs
//	worker/          the journal of answers that are not in the store yet, a
//	                 cache of those that are, and the files of work under way
//	demo/            prompts, recipe and ports of the demo
//	keys.json        generated credentials (mode 0600)
//	run/             locks and the endpoints of the running services
//	logs/            what the embedded services had to say
package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Home is an existing, writable folder that only its owner can enter.
type Home struct {
	Dir string // absolute, free of symbolic links
}

// Open makes the folder where it is missing (mode 0700) and checks that it can
// be written. One that other users may enter is closed to them, but not where
// it holds anything else than a home: whoever shares it would be shut out. An
// empty dir means stillhouse in the XDG data folder.
func Open(dir string) (*Home, error) {
	if dir == "" {
		var err error
		if dir, err = Default(); err != nil {
			return nil, err
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("home %s: %w", dir, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, unusable(abs, err)
	}
	// The embedded store compares paths below its root, so there is one
	// spelling of them.
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return nil, unusable(abs, err)
	}
	info, err := os.Stat(abs)
	if err != nil {
		return nil, unusable(abs, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := ownOrEmpty(abs); err != nil {
			return nil, err
		}
		if err := os.Chmod(abs, 0o700); err != nil {
			return nil, fmt.Errorf("home %s is open to other users and can't be closed: %w; choose a folder of your own with --home or STILLHOUSE_HOME", abs, err)
		}
	}
	h := &Home{Dir: abs}
	if err := os.MkdirAll(h.Path("run"), 0o700); err != nil {
		return nil, unusable(abs, err)
	}
	probe, err := os.CreateTemp(h.Path("run"), ".writable-*")
	if err != nil {
		return nil, unusable(abs, err)
	}
	probe.Close()
	os.Remove(probe.Name())
	return h, nil
}

// ownOrEmpty refuses a folder that holds files and is no home yet.
func ownOrEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return unusable(dir, err)
	}
	for _, e := range entries {
		switch e.Name() {
		case "keys.json", "run", "store", "temporal", "worker":
			return nil
		}
	}
	if len(entries) > 0 {
		return fmt.Errorf("home %s holds other files and is open to other users; name a folder of its own with --home or STILLHOUSE_HOME, or close it first: chmod 700", dir)
	}
	return nil
}

func unusable(dir string, err error) error {
	return fmt.Errorf("home %s can't be used: %w; name a folder that you can write with --home or STILLHOUSE_HOME", dir, err)
}

// Default is the home of a user who names none: stillhouse in XDG_DATA_HOME,
// or in ~/.local/share. A relative XDG_DATA_HOME is ignored, as the XDG base
// directory specification asks.
func Default() (string, error) {
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "stillhouse"), nil
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the home folder: %w; set --home or STILLHOUSE_HOME", err)
	}
	return filepath.Join(user, ".local", "share", "stillhouse"), nil
}

// Path names a file or folder of the home.
func (h *Home) Path(parts ...string) string {
	return filepath.Join(append([]string{h.Dir}, parts...)...)
}

// WriteFile replaces a small private file of the home (mode 0600) in one step:
// a reader sees the old text or the new, also after a crash.
func (h *Home) WriteFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// missing tells an absent file from one that can't be read.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
