package dedup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Near finds near-duplicates on one machine: all stages one after the other,
// with signatures and pairs in files of a folder.
type Near struct {
	options NearOptions
	dir     string
	file    *os.File
	out     *bufio.Writer
	part    *PartWriter
}

// NewNear begins to look for near-duplicates, with temporary files in dir.
func NewNear(o NearOptions, dir string) (*Near, error) {
	o = o.WithDefaults()
	f, err := os.CreateTemp(dir, "near-*")
	if err != nil {
		return nil, fmt.Errorf("near duplicates: %w", err)
	}
	n := &Near{options: o, dir: dir, file: f, out: bufio.NewWriterSize(f, 1<<20)}
	if n.part, err = NewPartWriter(n.out, o); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Add takes the next document, in any order.
func (n *Near) Add(d Document) error { return n.part.Add(d) }

// Find gives the documents that say nearly the same as an earlier one that is
// kept, by order. It may be called once.
func (n *Near) Find(ctx context.Context, found func(Match) error) (stats NearStats, err error) {
	if err := errors.Join(n.part.Close(), n.out.Flush()); err != nil {
		return stats, fmt.Errorf("near duplicates: %w", err)
	}
	info, err := n.file.Stat()
	if err != nil {
		return stats, fmt.Errorf("near duplicates: %w", err)
	}
	part, err := OpenPart(n.file, info.Size())
	if err != nil {
		return stats, err
	}
	parts := []*Part{part}
	var files []*os.File
	defer func() { err = errors.Join(err, removeFiles(files)) }()
	var pairs []io.Reader
	for band := range n.options.Bands {
		f, err := os.Create(filepath.Join(n.dir, fmt.Sprintf("%s.band-%d", filepath.Base(n.file.Name()), band)))
		if err != nil {
			return stats, fmt.Errorf("near duplicates: %w", err)
		}
		files, pairs = append(files, f), append(pairs, f)
		if _, err := Pairs(ctx, n.options, parts, band, n.dir, f); err != nil {
			return stats, err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return stats, fmt.Errorf("near duplicates: %w", err)
		}
	}
	return Verify(ctx, n.options, parts, pairs, found)
}

// Close removes what is on disk.
func (n *Near) Close() error { return removeFiles([]*os.File{n.file}) }
