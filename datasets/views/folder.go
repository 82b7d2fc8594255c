package views

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

type folder string

func (f folder) String() string { return string(f) }

func (f folder) begin(_ context.Context, a *about) (sink, error) {
	dir, err := filepath.Abs(string(f))
	if err != nil {
		return nil, err
	}
	old, err := readFolder(dir)
	if err != nil {
		return nil, err
	}
	if old != nil && old.Identity == a.Identity && old.intact(dir) {
		a.Files, a.Rows = old.Files, old.Rows
		return nil, nil
	}
	if old != nil && !a.replaces(old) {
		return nil, fmt.Errorf("%w: %s holds an export of %s, view %s; name another folder", ErrForeign, dir, old.Dataset, old.View)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".partial-")
	if err != nil {
		return nil, err
	}
	return &folderSink{dir: dir, work: work}, os.Chmod(work, 0o755)
}

// readFolder is what an export in dir says of itself; nil for an absent or
// empty folder. Anything else there is ErrForeign.
func readFolder(dir string) (*about, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	foreign := func(why string) error {
		return fmt.Errorf("%w: %s %s; name a new or empty folder", ErrForeign, dir, why)
	}
	data, err := readSmall(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, foreign("is no export")
	}
	if err != nil {
		return nil, err
	}
	a := parseAbout(data)
	if a == nil {
		return nil, foreign("has a manifest.json that is not an export's")
	}
	own := []string{manifestName}
	for _, file := range a.Files {
		own = append(own, file.Path)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil && !slices.Contains(own, filepath.ToSlash(name)) {
			err = foreign("holds " + name + ", which the export did not write")
		}
		return err
	})
	return a, err
}

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxAboutBytes))
}

// intact reports whether every file of an export is there with its digest.
func (a *about) intact(dir string) bool {
	for _, file := range a.Files {
		if !plainName(file.Path) {
			return false
		}
		sum, err := digestOf(filepath.Join(dir, filepath.FromSlash(file.Path)))
		if err != nil || sum != file.SHA256 {
			return false
		}
	}
	return true
}

func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// A folderSink writes into a folder beside the destination.
type folderSink struct{ dir, work string }

func (s *folderSink) write(_ context.Context, name string, fill func(io.Writer) (int64, error)) (File, error) {
	return writeLocal(filepath.Join(s.work, filepath.FromSlash(name)), name, fill)
}

// writeLocal writes one file and puts it on the disk for good.
func writeLocal(path, name string, fill func(io.Writer) (int64, error)) (file File, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return File{}, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return File{}, err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path) // half a file is of no use
		}
	}()
	out := newSumming(f)
	rows, err := fill(out)
	if err != nil {
		return File{}, err
	}
	return File{Path: name, Rows: rows, Bytes: out.n, SHA256: out.hex()}, f.Sync()
}

func (s *folderSink) commit(_ context.Context, a *about) error {
	data, err := a.encode()
	if err != nil {
		return err
	}
	if _, err := writeLocal(filepath.Join(s.work, manifestName), manifestName, func(w io.Writer) (int64, error) {
		_, err := w.Write(data)
		return 0, err
	}); err != nil {
		return err
	}
	if err := s.swap(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(s.dir))
}

// swap puts the work folder in the destination's place. A rename takes the
// place of nothing or of an empty folder; an earlier export is moved aside
// first and comes back if that was all that worked.
func (s *folderSink) swap() error {
	err := os.Rename(s.work, s.dir)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	old := s.work + ".old"
	if err := os.Rename(s.dir, old); err != nil {
		return err
	}
	if err := os.Rename(s.work, s.dir); err != nil {
		return errors.Join(err, os.Rename(old, s.dir))
	}
	return os.RemoveAll(old)
}

func (s *folderSink) abort() { _ = os.RemoveAll(s.work) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
