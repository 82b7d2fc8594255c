package views

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// partialName marks a prefix as an export that has begun, so that the same
// command can go on where it was interrupted.
const partialName = "manifest.json.partial"

type bucket struct {
	bucket objstore.Bucket
	prefix string
}

func (b bucket) String() string { return strings.TrimSuffix(b.bucket.String()+"/"+b.prefix, "/") }

func (b bucket) key(name string) string { return objstore.JoinPrefix(b.prefix, name) }

func (b bucket) begin(ctx context.Context, a *about) (sink, error) {
	if err := objstore.ValidPrefix(b.prefix); err != nil {
		return nil, err
	}
	sizes, err := b.list(ctx)
	if err != nil {
		return nil, err
	}
	old, err := b.existing(ctx, sizes)
	switch {
	case err != nil:
		return nil, err
	case old != nil && !a.replaces(old):
		return nil, fmt.Errorf("%w: %s holds an export of %s, view %s; name another prefix", ErrForeign, b, old.Dataset, old.View)
	case old != nil && old.Identity == a.Identity && old.complete(sizes) && b.intact(ctx, old):
		a.take(old)
		return nil, b.bucket.Delete(ctx, b.key(partialName)) // left where the last step was cut off
	}
	work, err := os.MkdirTemp("", "stillhouse-export-")
	if err != nil {
		return nil, err
	}
	s := &bucketSink{bucket: b, work: work, stale: sizes, about: *a, begun: map[string]finished{}}
	if old != nil && old.Identity == a.Identity {
		s.about.Finished = old.Finished
		for _, d := range old.Finished {
			s.begun[d.Path] = d
		}
	}
	s.old = old != nil && len(old.Files) > 0
	return s, nil
}

// list is the size of every object of the export's prefix, by its name there.
func (b bucket) list(ctx context.Context) (map[string]int64, error) {
	sizes := map[string]int64{}
	under := ""
	if b.prefix != "" {
		under = b.prefix + "/"
	}
	for attr, err := range b.bucket.List(ctx, under, "") {
		if err != nil {
			return nil, err
		}
		sizes[strings.TrimPrefix(attr.Key, under)] = attr.Size
	}
	return sizes, nil
}

// existing is the export that is there, begun or whole; nil for nothing.
func (b bucket) existing(ctx context.Context, sizes map[string]int64) (*about, error) {
	if len(sizes) == 0 {
		return nil, nil
	}
	for _, name := range []string{manifestName, partialName} {
		if _, ok := sizes[name]; !ok {
			continue
		}
		data, _, err := objstore.ReadAll(ctx, b.bucket, b.key(name), maxAboutBytes)
		if err != nil {
			return nil, err
		}
		a := parseAbout(data)
		if a == nil {
			break
		}
		for other := range sizes {
			if !a.wrote(other) {
				return nil, fmt.Errorf("%w: %s holds %s, which the export did not write; name a new prefix", ErrForeign, b, other)
			}
		}
		return a, nil
	}
	return nil, fmt.Errorf("%w: %s holds %d objects and is no export; name a new prefix", ErrForeign, b, len(sizes))
}

// imageName is the name of an image beside JSON Lines.
var imageName = regexp.MustCompile(`^[0-9a-f]{64}(\.[a-z]+)?$`)

// wrote reports whether an export has a file of that name. One that has only
// begun does not know its files yet.
func (a *about) wrote(name string) bool {
	if name == manifestName || name == partialName || name == cardName || name == teacherMapName || name == compressionName {
		return true
	}
	dir, base := path.Split(name)
	begun := false
	switch dir {
	case "data/", datasets.TableTrain + "/", datasets.TableTest + "/":
		form := strings.TrimPrefix(path.Ext(base), ".") // of this export, or of the one that it replaces
		begun = slices.Contains(forms, form) && strings.Contains(base, "-of-")
	case "images/":
		begun = imageName.MatchString(base)
	case "": // what views write beside
		begun = strings.HasSuffix(base, ".json")
	}
	return begun || slices.ContainsFunc(a.Files, func(f File) bool { return f.Path == name })
}

// complete reports whether every file is there with its size.
func (a *about) complete(sizes map[string]int64) bool {
	if _, ok := sizes[manifestName]; !ok || len(a.Files) == 0 {
		return false
	}
	for _, f := range a.Files {
		if n, ok := sizes[f.Path]; !ok || n != f.Bytes {
			return false
		}
	}
	return true
}

// A bucketSink writes each file here and uploads it.
type bucketSink struct {
	bucket bucket
	work   string
	stale  map[string]int64 // what is there of an earlier export
	about  about            // as manifest.json.partial has it
	begun  map[string]finished

	old       bool // there is a whole export of another version
	committed bool
}

func (s *bucketSink) replaces() bool { return s.old }

// start marks the prefix as ours and takes the manifest of an earlier export
// away, so that no reader trusts it while its files change.
func (s *bucketSink) start(ctx context.Context) error {
	if err := s.note(ctx); err != nil {
		return err
	}
	return s.bucket.bucket.Delete(ctx, s.bucket.key(manifestName))
}

// note writes what is finished.
func (s *bucketSink) note(ctx context.Context) error {
	data, err := s.about.encode()
	if err != nil {
		return err
	}
	_, err = objstore.PutBytes(ctx, s.bucket.bucket, s.bucket.key(partialName), data, objstore.PutOptions{})
	return err
}

func (s *bucketSink) done(ctx context.Context, name string) (*finished, error) {
	d, ok := s.begun[name]
	if !ok || s.stale[name] != d.Bytes {
		return nil, nil
	}
	if sum, err := s.bucket.digest(ctx, name); err != nil || sum != d.SHA256 {
		return nil, ctx.Err() // it is written anew
	}
	delete(s.stale, name)
	return &d, nil
}

func (s *bucketSink) finish(ctx context.Context, d finished) error {
	s.about.Finished = append(s.about.Finished, d)
	return s.note(ctx)
}

// digest reads a file of the export back.
func (b bucket) digest(ctx context.Context, name string) (string, error) {
	body, _, err := b.bucket.Get(ctx, b.key(name))
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, body)
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, body.Close())
}

// intact reports whether every file of an export is there with its digest.
func (b bucket) intact(ctx context.Context, a *about) bool {
	for _, f := range a.Files {
		if sum, err := b.digest(ctx, f.Path); err != nil || sum != f.SHA256 {
			return false
		}
	}
	return true
}

func (s *bucketSink) write(ctx context.Context, name string, fill func(io.Writer) (int64, error)) (file File, err error) {
	local := filepath.Join(s.work, filepath.FromSlash(name))
	file, err = writeLocal(local, name, fill)
	if err != nil {
		return File{}, err
	}
	defer func() { err = errors.Join(err, os.Remove(local)) }() // one file at a time is here
	key := s.bucket.key(name)
	if _, err := objstore.PutFile(ctx, s.bucket.bucket, key, local, objstore.PutOptions{}); err != nil {
		return File{}, err
	}
	sum, err := s.bucket.digest(ctx, name)
	if err == nil && sum != file.SHA256 {
		err = fmt.Errorf("%w: %s reads back with other bytes than were uploaded; stillhouse store doctor looks at the store", errReadBack, key)
	}
	delete(s.stale, name)
	return file, err
}

func (s *bucketSink) commit(ctx context.Context, a *about) error {
	data, err := a.encode()
	if err != nil {
		return err
	}
	_, err = s.bucket.bucket.Put(ctx, s.bucket.key(manifestName), bytes.NewReader(data), int64(len(data)), objstore.PutOptions{ContentType: "application/json"})
	if err != nil {
		return err
	}
	s.committed = true
	gone := []string{s.bucket.key(partialName)}
	for name := range s.stale {
		if name != manifestName && name != partialName {
			gone = append(gone, s.bucket.key(name))
		}
	}
	return s.bucket.bucket.Delete(ctx, gone...)
}

func (s *bucketSink) abort(err error) int {
	_ = os.RemoveAll(s.work)
	if s.committed || final(err) {
		return 0
	}
	return len(s.about.Finished)
}
