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
	"strings"
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
		a.take(old)
		return nil, nil
	}
	if old != nil && !a.replaces(old) {
		return nil, fmt.Errorf("%w: %s holds an export of %s, view %s; name another folder", ErrForeign, dir, old.Dataset, old.View)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	return startFolder(dir, a)
}

// startFolder opens the folder that an export is written to, beside its
// destination, which an interrupted run may have begun.
func startFolder(dir string, a *about) (*folderSink, error) {
	work := partialPrefix(dir) + a.Identity[:16]
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}
	j, err := openJournal(work)
	if err != nil {
		return nil, err
	}
	return &folderSink{dir: dir, work: work, journal: j}, nil
}

// partialPrefix is what the names of the folders of begun exports of dir start
// with.
func partialPrefix(dir string) string {
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".partial-")
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
type folderSink struct {
	dir, work string
	journal   *journal
	committed bool
}

func (s *folderSink) path(name string) string { return filepath.Join(s.work, filepath.FromSlash(name)) }

func (s *folderSink) replaces() bool { return false } // it stays until swap

func (s *folderSink) start(context.Context) error { return nil }

func (s *folderSink) done(_ context.Context, name string) (*finished, error) {
	d, ok := s.journal.done[name]
	if !ok {
		return nil, nil
	}
	if sum, err := digestOf(s.path(name)); err != nil || sum != d.SHA256 {
		return nil, nil // it is written anew
	}
	return &d, nil
}

func (s *folderSink) finish(_ context.Context, d finished) error { return s.journal.add(d) }

func (s *folderSink) write(ctx context.Context, name string, fill func(io.Writer) (int64, error)) (File, error) {
	file, err := writeLocal(s.path(name), name, fill)
	if err != nil {
		return File{}, err
	}
	if err := ctx.Err(); err != nil {
		return File{}, err
	}
	sum, err := digestOf(s.path(name))
	if err == nil && sum != file.SHA256 {
		err = fmt.Errorf("%w: %s reads back with other bytes than were written; look at the disk", errReadBack, s.path(name))
	}
	return file, err
}

// errReadBack: a destination does not give what it was given.
var errReadBack = errors.New("destination is damaged")

// writeLocal writes one file and puts it on the disk for good.
func writeLocal(path, name string, fill func(io.Writer) (int64, error)) (file File, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return File{}, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
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
	if err := s.tidy(a); err != nil {
		return err
	}
	if err := s.swap(); err != nil {
		return err
	}
	s.committed = true
	return syncDir(filepath.Dir(s.dir))
}

// tidy takes away all that is no file of the export, the journal last: what an
// interrupted run had begun, and the folders of begun exports of other
// versions that nobody writes to.
func (s *folderSink) tidy(a *about) error {
	own := map[string]bool{manifestName: true, journalName: true}
	for _, f := range a.Files {
		own[f.Path] = true
	}
	err := filepath.WalkDir(s.work, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(s.work, path)
		if err != nil || own[filepath.ToSlash(name)] {
			return err
		}
		return os.Remove(path)
	})
	if err != nil {
		return err
	}
	others, err := filepath.Glob(globbed(partialPrefix(s.dir)) + "*")
	if err != nil {
		return err
	}
	for _, other := range others {
		if other != s.work && !strings.HasPrefix(other, s.work+".") {
			removeBegun(other)
		}
	}
	return s.journal.remove()
}

// globbed is a path as a pattern that matches it alone.
func globbed(path string) string {
	return strings.NewReplacer("\\", "\\\\", "*", "\\*", "?", "\\?", "[", "\\[").Replace(path)
}

// removeBegun takes the folder of a begun export away unless it is no such
// folder or somebody writes to it.
func removeBegun(dir string) {
	if _, err := os.Stat(filepath.Join(dir, journalName)); err != nil {
		return
	}
	j, err := openJournal(dir)
	if err != nil {
		return
	}
	_ = os.RemoveAll(dir)
	_ = j.close()
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

func (s *folderSink) abort(err error) int {
	defer s.journal.close()
	if s.committed {
		return 0
	}
	if kept := len(s.journal.done); kept > 0 && !final(err) {
		return kept
	}
	_ = os.RemoveAll(s.work)
	return 0
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
