package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// Progress is how far a verification is.
type Progress struct {
	File  int // that is being read, from 1
	Files int
	Key   string
	Bytes int64 // read so far
	Total int64
}

// A Problem is one thing that is not as the catalog says.
type Problem struct {
	Key  string `json:"key"`  // of the damaged object
	What string `json:"what"` // what is wrong with it
	Next string `json:"next"` // what to do
}

// A Report is what a verification found.
type Report struct {
	Ref      string    `json:"ref"` // name@number
	Version  Version   `json:"version"`
	Files    int       `json:"files"` // that were read
	Rows     int64     `json:"rows"`  // counted from their pages
	Bytes    int64     `json:"bytes"`
	Problems []Problem `json:"problems"` // empty: all is as published
}

// OK reports whether nothing is damaged.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

func (r *Report) add(key, next, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{Key: key, What: fmt.Sprintf(format, args...), Next: next})
}

// What to do about damage. Answers are kept apart from versions, so building
// again pays for nothing.
const (
	nextFile    = "copy the object back from a backup or a replica; else delete what is left of it and build again: stillhouse build reuses every answer and publishes the next version"
	nextVersion = "copy the object back from a backup; until then the versions before it are whole"
	nextHint    = "nothing is lost; the next publish writes it anew"
	nextNewer   = "read it with the release that wrote it, or update this one"
)

// Whole reports whether every file and report of a manifest is there, the files
// with the sizes that were published. What is in them, Verify says.
func (c *Catalog) Whole(ctx context.Context, m *Manifest) (bool, error) {
	const atOnce = 16
	missing := errors.New("missing")
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	look := func(key string, bytes int64) {
		g.Go(func() error {
			attr, err := c.bucket.Head(ctx, key)
			if errors.Is(err, objstore.ErrNotFound) || err == nil && bytes >= 0 && attr.Size != bytes {
				return missing
			}
			return err
		})
	}
	for _, f := range m.Files {
		look(f.Key, f.Bytes)
	}
	for _, key := range m.Reports {
		look(key, -1)
	}
	err := g.Wait()
	if errors.Is(err, missing) {
		return false, nil
	}
	return err == nil, err
}

// Verify derives everything that the catalog says of a version from the bytes
// in the store: the chain of versions up to it, the manifest's digest, and of
// every file the size, digest, page checksums, rows, columns and rows by
// teacher. progress may be nil.
//
// Damage is in the report; the error says only why it could not be looked for,
// such as an unknown reference or a store that does not answer.
func (c *Catalog) Verify(ctx context.Context, ref string, progress func(Progress)) (*Report, error) {
	v, err := c.resolve(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", ref, err)
	}
	r := &Report{Ref: v.Ref(), Version: v, Problems: []Problem{}}
	if err := c.verifyChain(ctx, v, r); err != nil {
		return nil, fmt.Errorf("verify %s: %w", ref, err)
	}
	m, err := c.manifest(ctx, v)
	switch {
	case errors.Is(err, ErrDamaged):
		r.add(v.Manifest, nextVersion, "%s", err)
		return r, nil
	case errors.Is(err, ErrInvalid):
		r.add(v.Manifest, nextNewer, "%s", err)
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("verify %s: %w", ref, err)
	}
	at := Progress{Files: len(m.Files), Total: m.Bytes()}
	for i, f := range m.Files {
		if at.File, at.Key = i+1, f.Key; progress != nil {
			progress(at)
		}
		if err := c.verifyFile(ctx, f, r); err != nil {
			return nil, fmt.Errorf("verify %s: %s: %w", ref, f.Key, err)
		}
		at.Bytes += f.Bytes
	}
	c.verifyTotals(v, m, r)
	if err := c.verifyReports(ctx, m, r); err != nil {
		return nil, fmt.Errorf("verify %s: %w", ref, err)
	}
	return r, nil
}

// verifyReports checks that the comparisons are there. No digest of them is
// kept: they can be made anew from the tables.
func (c *Catalog) verifyReports(ctx context.Context, m *Manifest, r *Report) error {
	for _, key := range m.Reports {
		_, err := c.bucket.Head(ctx, key)
		if errors.Is(err, objstore.ErrNotFound) {
			r.add(key, nextFile, "the report is gone")
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyChain checks that every number up to v is there and follows the one
// before it, and that the hint does not point past the end.
func (c *Catalog) verifyChain(ctx context.Context, v Version, r *Report) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(headsAtOnce)
	var mu sync.Mutex
	builds := map[string]int64{}
	for n := int64(1); n <= v.Number; n++ {
		g.Go(func() error {
			at, err := c.version(gctx, v.Dataset, n)
			mu.Lock()
			defer mu.Unlock()
			key := versionKey(v.Dataset, n)
			switch {
			case errors.Is(err, objstore.ErrNotFound):
				r.add(key, nextVersion, "version %d is gone, although version %d is there", n, v.Number)
			case errors.Is(err, ErrDamaged), errors.Is(err, ErrInvalid):
				r.add(key, nextVersion, "%s", err)
			case err != nil:
				return err
			case at.Parent != n-1:
				r.add(key, nextVersion, "version %d says that it follows version %d", n, at.Parent)
			case builds[at.BuildID] > 0:
				key = versionKey(v.Dataset, max(n, builds[at.BuildID]))
				r.add(key, nextVersion, "versions %d and %d say that they are of one build, %s", builds[at.BuildID], n, at.BuildID)
			default:
				builds[at.BuildID] = n
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	slices.SortStableFunc(r.Problems, func(a, b Problem) int { return strings.Compare(a.Key, b.Key) })
	return c.verifyHint(ctx, v, r)
}

func (c *Catalog) verifyHint(ctx context.Context, v Version, r *Report) error {
	var h hint
	_, err := c.readJSON(ctx, latestKey(v.Dataset), maxSmallBytes, &h)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil // a hint may be absent
	}
	if errors.Is(err, ErrDamaged) {
		r.add(latestKey(v.Dataset), nextHint, "%s", err)
		return nil
	}
	if err != nil {
		return err
	}
	if _, err = c.version(ctx, v.Dataset, h.Version); errors.Is(err, objstore.ErrNotFound) {
		r.add(latestKey(v.Dataset), nextHint, "it points at version %d, which is not there", h.Version)
		return nil
	}
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrInvalid) {
		return nil // told of where that version is verified
	}
	return err
}

// verifyFile reads one file whole.
func (c *Catalog) verifyFile(ctx context.Context, f FileRef, r *Report) error {
	copied, sum, n, err := c.download(ctx, f)
	if errors.Is(err, objstore.ErrNotFound) {
		r.add(f.Key, nextFile, "the file is gone")
		return nil
	}
	if err != nil {
		return err
	}
	r.Files++
	r.Bytes += n
	r.checkFile(f, copied, sum, n)
	return copied.Close()
}

// checkFile compares a copy with what the manifest says. Where the digest
// differs, the rest is not compared: its numbers would be those of other bytes.
func (r *Report) checkFile(f FileRef, copied local, sum string, n int64) {
	switch {
	case n < f.Bytes:
		r.add(f.Key, nextFile, "the file is cut short: %d bytes of %d", n, f.Bytes)
		return
	case n > f.Bytes:
		r.add(f.Key, nextFile, "the file is longer than the %d bytes that were published", f.Bytes)
		return
	}
	info, err := parquetio.Check(copied, n)
	switch {
	case sum != f.SHA256 && err != nil:
		r.add(f.Key, nextFile, "the bytes are not those that were published (SHA-256 %s, not %s): %s", sum, f.SHA256, err)
		return
	case sum != f.SHA256:
		r.add(f.Key, nextFile, "the bytes are not those that were published (SHA-256 %s, not %s)", sum, f.SHA256)
		return
	case err != nil:
		r.add(f.Key, nextFile, "the file was published damaged: %s", err)
		return
	}
	r.Rows += info.Rows
	if info.Rows != f.Rows {
		r.add(f.Key, nextFile, "the file holds %d rows, the manifest says %d", info.Rows, f.Rows)
	}
	if info.Fingerprint != f.Fingerprint {
		r.add(f.Key, nextFile, "the file has the columns %s, the manifest says %s", info.Fingerprint, f.Fingerprint)
	}
	if f.Teachers != nil {
		counts, err := countTeachers(info, copied, n)
		if err != nil {
			r.add(f.Key, nextFile, "the rows can't be counted by teacher: %s", err)
		} else if !maps.Equal(counts, f.Teachers) {
			r.add(f.Key, nextFile, "the rows by teacher are %v, the manifest says %v", counts, f.Teachers)
		}
	}
}

// verifyTotals compares the manifest with itself.
func (c *Catalog) verifyTotals(v Version, m *Manifest, r *Report) {
	rows := map[string]int64{}
	for _, f := range m.Files {
		rows[f.Table] += f.Rows
		if want := m.SchemaFingerprint[f.Table]; want != f.Fingerprint {
			r.add(f.Key, nextFile, "the file has the columns %s, its table %s", f.Fingerprint, want)
		}
	}
	for table, n := range m.Counts.Rows {
		if rows[table] != n {
			r.add(v.Manifest, nextVersion, "the manifest counts %d rows in %s, its files %d", n, table, rows[table])
		}
	}
}
