package images

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A Folder is the folder of a prompt file, out of which no reference leads: not
// by "..", not by an absolute path and not by a link. Close it.
type Folder struct {
	root *os.Root
}

// OpenFolder opens a folder.
func OpenFolder(dir string) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of the images: %w", err)
	}
	return &Folder{root}, nil
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Read reads the image at a path relative to the folder, written with slashes.
func (f *Folder) Read(ref string) (*Image, error) {
	path := filepath.FromSlash(ref)
	switch {
	case ref == "" || strings.ContainsRune(ref, 0):
		return nil, fault(ref, "is no path")
	case filepath.IsAbs(path) || filepath.VolumeName(path) != "" || strings.HasPrefix(ref, "/"):
		return nil, fault(ref, "is an absolute path; write it relative to the prompt file's folder")
	case !filepath.IsLocal(path):
		return nil, fault(ref, "leads out of the prompt file's folder; move the image into it")
	}
	info, err := f.root.Stat(path)
	if err != nil {
		return nil, f.failed(ref, err)
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil, fault(ref, "is no plain file")
	}
	// What was looked at may have been changed for a pipe meanwhile.
	file, err := f.root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, f.failed(ref, err)
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, f.failed(ref, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fault(ref, "is no plain file")
	}
	i, err := readAll(ref, file)
	if err != nil {
		return nil, f.failed(ref, err)
	}
	return i, nil
}

// failed tells a reference that leads nowhere from a disk that fails.
func (f *Folder) failed(ref string, err error) error {
	var known *Fault
	var path *fs.PathError
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fault(ref, "there is no such file in the prompt file's folder")
	case errors.Is(err, fs.ErrPermission):
		return fault(ref, "it may not be read")
	case errors.As(err, &path) && strings.Contains(path.Err.Error(), "escapes"):
		return fault(ref, "leads out of the prompt file's folder; move the image into it")
	}
	return fmt.Errorf("read image %s: %w", shown(ref), err)
}
