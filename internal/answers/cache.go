package answers

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
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

const (
	keysSuffix    = ".keys"
	segmentSuffix = ".parquet"
	tempPrefix    = "tmp-"
	// staleTemp is the age at which a temporary file belongs to nobody.
	staleTemp = 24 * time.Hour
	// downloadAttempts is for bodies that break off.
	downloadAttempts = 3
)

// A cache keeps segments and their key files on the local disk, those used
// last, up to a number of bytes. Several processes may share its folder: a
// file that another one deleted is fetched again.
type cache struct {
	dir    string
	bucket objstore.Bucket
	tune   *tuning
	flight singleflight.Group
	// filters is the memory left for the filters of open key files.
	filters atomic.Int64

	mu    sync.Mutex
	files *lru[string, struct{}] // on disk, by name
	open  map[string]*lru[string, *handle]
}

// A handle is an open file that is closed when nobody uses it and the cache
// has dropped it.
type handle struct {
	refs    int
	dropped bool
	file    *os.File
	keys    *keyFile
	segment *segmentFile
}

func (h *handle) closeIfUnused() {
	if h.dropped && h.refs == 0 {
		if h.keys != nil {
			h.keys.close()
			return
		}
		h.file.Close()
	}
}

func openCache(dir string, bucket objstore.Bucket, tune *tuning) (*cache, error) {
	c := &cache{dir: dir, bucket: bucket, tune: tune}
	c.filters.Store(tune.filterBytes)
	drop := func(_ string, h *handle) {
		h.dropped = true
		h.closeIfUnused()
	}
	c.open = map[string]*lru[string, *handle]{
		keysSuffix:    newLRU(tune.openKeys, drop),
		segmentSuffix: newLRU(tune.openSegments, drop),
	}
	c.files = newLRU(tune.cacheBytes, func(name string, _ struct{}) {
		c.open[filepath.Ext(name)].remove(name)
		os.Remove(filepath.Join(dir, name))
	})
	return c, c.scan()
}

// scan takes over what an earlier process left, oldest first.
func (c *cache) scan() error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("open cache of answers: %w", err)
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("open cache of answers: %w", err)
	}
	var infos []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // gone meanwhile, or not ours
		}
		if strings.HasPrefix(e.Name(), tempPrefix) {
			if time.Since(info.ModTime()) > staleTemp {
				os.Remove(filepath.Join(c.dir, e.Name()))
			}
			continue
		}
		name, ext := strings.TrimSuffix(e.Name(), filepath.Ext(e.Name())), filepath.Ext(e.Name())
		if isHex(name, 64) && c.open[ext] != nil {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, info := range infos {
		c.files.put(info.Name(), struct{}{}, info.Size())
	}
	return nil
}

func (c *cache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.open {
		l.clear()
	}
}

// keys opens the segment's key file, which it makes where it is missing or
// damaged. The caller calls release.
func (c *cache) keys(ctx context.Context, id rangeID, ref segmentRef) (k *keyFile, release func(), err error) {
	h, release, err := c.acquire(ctx, ref.Name+keysSuffix, func() (*handle, error) { return c.loadKeys(ctx, id, ref) })
	if err != nil {
		return nil, nil, err
	}
	return h.keys, release, nil
}

// segment opens the segment, which it fetches where it is missing or damaged.
func (c *cache) segment(ctx context.Context, id rangeID, ref segmentRef) (s *segmentFile, release func(), err error) {
	h, release, err := c.acquire(ctx, ref.Name+segmentSuffix, func() (*handle, error) { return c.loadSegment(ctx, id, ref) })
	if err != nil {
		return nil, nil, err
	}
	return h.segment, release, nil
}

// acquire returns an open file, loading it once however many callers want it.
func (c *cache) acquire(ctx context.Context, name string, load func() (*handle, error)) (*handle, func(), error) {
	for {
		if h := c.opened(name); h != nil {
			return h, func() { c.release(h) }, nil
		}
		v, err, _ := c.flight.Do(name, func() (any, error) {
			h, err := load()
			if err != nil {
				return nil, err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.open[filepath.Ext(name)].put(name, h, 1)
			return h, nil
		})
		if err != nil {
			if isCancel(err) && ctx.Err() == nil {
				continue // another caller's context ended, not ours
			}
			return nil, nil, err
		}
		h := v.(*handle)
		c.mu.Lock()
		usable := !h.dropped
		if usable {
			h.refs++
		}
		c.mu.Unlock()
		if usable {
			return h, func() { c.release(h) }, nil
		}
	}
}

func isCancel(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (c *cache) opened(name string) *handle {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.open[filepath.Ext(name)].get(name)
	if !ok {
		return nil
	}
	c.files.get(name)
	h.refs++
	return h
}

func (c *cache) release(h *handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.refs--
	h.closeIfUnused()
}

func (c *cache) loadKeys(ctx context.Context, id rangeID, ref segmentRef) (*handle, error) {
	name := ref.Name + keysSuffix
	path := filepath.Join(c.dir, name)
	k, err := openKeyFile(path, ref, &c.filters)
	if err != nil {
		if err := c.makeKeys(ctx, id, ref); err != nil {
			return nil, err
		}
		if k, err = openKeyFile(path, ref, &c.filters); err != nil {
			return nil, fmt.Errorf("segment of answers %s: %w", id.segment(ref.Name), err)
		}
	}
	c.added(name, ref.Rows*keyEntryBytes+keyTrailerBytes)
	return &handle{file: k.file, keys: k}, nil
}

// makeKeys makes the key file from the segment: from its first columns in the
// store where it is large and not here yet.
func (c *cache) makeKeys(ctx context.Context, id rangeID, ref segmentRef) error {
	_, err := os.Stat(filepath.Join(c.dir, ref.Name+segmentSuffix))
	if err != nil && ref.Bytes > c.tune.remoteBytes {
		s, err := openSegment(objstore.NewReaderAt(ctx, c.bucket, id.segment(ref.Name), ref.Bytes), ref.Bytes)
		if err != nil {
			return fmt.Errorf("read segment of answers %s: %w", id.segment(ref.Name), err)
		}
		return c.writeKeys(id, ref, s)
	}
	s, release, err := c.segment(ctx, id, ref)
	if err != nil {
		return err
	}
	defer release()
	return c.writeKeys(id, ref, s)
}

func (c *cache) writeKeys(id rangeID, ref segmentRef, s *segmentFile) error {
	if err := c.create(ref.Name+keysSuffix, s.writeKeys); err != nil {
		return fmt.Errorf("extract the keys of segment %s: %w", id.segment(ref.Name), err)
	}
	return nil
}

func (c *cache) loadSegment(ctx context.Context, id rangeID, ref segmentRef) (*handle, error) {
	name := ref.Name + segmentSuffix
	path := filepath.Join(c.dir, name)
	if info, err := os.Stat(path); err != nil || info.Size() != ref.Bytes {
		if err := c.fetch(ctx, id, ref); err != nil {
			return nil, err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open cached segment of answers: %w", err)
	}
	s, err := openSegment(f, ref.Bytes)
	if err != nil {
		f.Close()
		os.Remove(path) // the next caller fetches it
		return nil, &damagedError{id.segment(ref.Name), err}
	}
	c.added(name, ref.Bytes)
	return &handle{file: f, segment: s}, nil
}

// A damagedError is a cached segment that can't be read. It has been dropped;
// fetching it again is worth one try.
type damagedError struct {
	key string
	err error
}

func (e *damagedError) Error() string { return fmt.Sprintf("segment of answers %s: %v", e.key, e.err) }
func (e *damagedError) Unwrap() error { return e.err }

// fetch copies a segment from the store and checks its digest.
func (c *cache) fetch(ctx context.Context, id rangeID, ref segmentRef) error {
	key := id.segment(ref.Name)
	var err error
	for range downloadAttempts {
		err = c.create(ref.Name+segmentSuffix, func(w io.Writer) error {
			body, _, err := c.bucket.Get(ctx, key)
			if err != nil {
				return err
			}
			defer body.Close()
			sum := sha256.New()
			if _, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(body, ref.Bytes+1)); err != nil {
				return err
			}
			if got := hex.EncodeToString(sum.Sum(nil)); got != ref.Name {
				return fmt.Errorf("the SHA-256 of what was read is %s: it is damaged", got)
			}
			return nil
		})
		if err == nil || ctx.Err() != nil || errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrUnavailable) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("fetch segment of answers %s from %s: %w", key, c.bucket, err)
	}
	return nil
}

// create writes a file of the cache, whole or not at all. It is not synced:
// its reader checks it.
func (c *cache) create(name string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(c.dir, tempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err := errors.Join(write(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(c.dir, name))
}

// adopt moves a finished file into the cache.
func (c *cache) adopt(path, name string, size int64) error {
	if err := os.Rename(path, filepath.Join(c.dir, name)); err != nil {
		return err
	}
	c.added(name, size)
	return nil
}

// added counts a file that is in the folder now.
func (c *cache) added(name string, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.files.get(name); !known {
		c.files.put(name, struct{}{}, size)
	}
}

// drop deletes a segment's files here, as when the index no longer names it.
func (c *cache) drop(segment string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, suffix := range []string{keysSuffix, segmentSuffix} {
		c.open[suffix].remove(segment + suffix)
		c.files.remove(segment + suffix)
	}
}
