package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// A Version is one numbered state of a dataset, as versions/<n>.json holds it.
type Version struct {
	FormatVersion  int       `json:"format_version"`
	Dataset        string    `json:"dataset"`
	Number         int64     `json:"version"` // 1, 2, 3, … without gaps
	Parent         int64     `json:"parent"`  // Number-1
	BuildID        string    `json:"build_id"`
	Manifest       string    `json:"manifest"` // key
	ManifestSHA256 string    `json:"manifest_sha256"`
	ManifestBytes  int64     `json:"manifest_bytes"`
	CreatedAt      time.Time `json:"created_at"`
	// Removed marks a version that was withdrawn; its number stays taken.
	Removed *Removal `json:"removed,omitempty"`
	// Purged tells of each purge that took rows from the version since it was
	// published, the first one first.
	Purged []PurgeMark `json:"purged,omitempty"`
}

// A Removal says when and why a version was withdrawn.
type Removal struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// Ref is name@number.
func (v Version) Ref() string { return fmt.Sprintf("%s@%d", v.Dataset, v.Number) }

// Bounds of the small objects that are read whole.
const (
	maxSmallBytes    = 64 << 10
	maxManifestBytes = 256 << 20
)

// readJSON reads a small object into v.
func (c *Catalog) readJSON(ctx context.Context, key string, max int64, v any) (objstore.Attr, error) {
	data, attr, err := objstore.ReadAll(ctx, c.bucket, key, max)
	if err != nil {
		return attr, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return attr, fmt.Errorf("%w: %s in %s is not the JSON it should be: %w", ErrDamaged, key, c.bucket, err)
	}
	return attr, nil
}

// last is the newest version record of a dataset, removed or not; a zero
// Version if there is none. The hint only shortens the walk.
func (c *Catalog) last(ctx context.Context, name string) (Version, error) {
	v, err := c.hinted(ctx, name)
	if err != nil {
		return Version{}, err
	}
	for {
		next, err := c.version(ctx, name, v.Number+1)
		if errors.Is(err, objstore.ErrNotFound) {
			return v, nil
		}
		if err != nil {
			return Version{}, err
		}
		v = next
	}
}

type hint struct {
	Version int64 `json:"version"`
}

// hinted is a version to walk on from: the one that the hint names, or where
// the hint is absent or wrong, the last one of a listing.
func (c *Catalog) hinted(ctx context.Context, name string) (Version, error) {
	var h hint
	_, err := c.readJSON(ctx, latestKey(name), maxSmallBytes, &h)
	switch {
	case err == nil && h.Version > 0:
		v, err := c.version(ctx, name, h.Version)
		if !errors.Is(err, objstore.ErrNotFound) {
			return v, err
		}
	case err != nil && !errors.Is(err, objstore.ErrNotFound) && !errors.Is(err, ErrDamaged):
		return Version{}, err
	}
	var n int64
	for attr, err := range c.bucket.List(ctx, versionPrefix(name), "") {
		if err != nil {
			return Version{}, err
		}
		if at, ok := versionNumber(name, attr.Key); ok {
			n = max(n, at)
		}
	}
	if n == 0 {
		return Version{}, nil
	}
	return c.version(ctx, name, n)
}

func versionNumber(name, key string) (int64, bool) {
	var n int64
	digits, ok := strings.CutSuffix(strings.TrimPrefix(key, versionPrefix(name)), ".json")
	if !ok || len(digits) != 20 {
		return 0, false
	}
	_, err := fmt.Sscanf(digits, "%020d", &n)
	return n, err == nil && n > 0 && key == versionKey(name, n)
}

// manifest reads the manifest that a version names and holds it to its digest.
func (c *Catalog) manifest(ctx context.Context, v Version) (*Manifest, error) {
	data, _, err := objstore.ReadAll(ctx, c.bucket, v.Manifest, maxManifestBytes)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, fmt.Errorf("%w: the manifest of %s is gone: %w", ErrDamaged, v.Ref(), err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the manifest of %s: %w", v.Ref(), err)
	}
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); got != v.ManifestSHA256 {
		return nil, fmt.Errorf("%w: the manifest of %s (%s) has the digest %s", ErrDamaged, v.Ref(), v.Manifest, got)
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%w: the manifest of %s is not the JSON it should be: %w", ErrDamaged, v.Ref(), err)
	}
	if err := m.validate(); err != nil {
		return nil, fmt.Errorf("the manifest of %s: %w", v.Ref(), err)
	}
	if m.Dataset != v.Dataset || m.BuildID != v.BuildID {
		return nil, fmt.Errorf("%w: the manifest of %s is of dataset %s, build %s", ErrDamaged, v.Ref(), m.Dataset, m.BuildID)
	}
	if m.Parent != v.Parent {
		return nil, fmt.Errorf("%w: the manifest of %s was written for a version after %d, not after %d", ErrDamaged, v.Ref(), m.Parent, v.Parent)
	}
	return &m, nil
}

// Latest is the newest version of a dataset that was not removed.
// ErrUnknown: there is none.
func (c *Catalog) Latest(ctx context.Context, name string) (Version, *Manifest, error) {
	return c.Resolve(ctx, name)
}

// Resolve finds the version that a reference names and reads its manifest.
// See ParseRef for the forms. The error wraps ErrUnknown, ErrRemoved,
// ErrInvalid or ErrDamaged, or is the store's.
func (c *Catalog) Resolve(ctx context.Context, ref string) (Version, *Manifest, error) {
	v, err := c.resolve(ctx, ref)
	if err != nil {
		return Version{}, nil, err
	}
	m, err := c.manifest(ctx, v)
	return v, m, err
}

func (c *Catalog) resolve(ctx context.Context, ref string) (Version, error) {
	r, err := ParseRef(ref)
	if err != nil {
		return Version{}, err
	}
	v, err := c.find(ctx, r)
	if err != nil {
		return Version{}, err
	}
	if v.Removed != nil {
		return Version{}, fmt.Errorf("%w: %s, on %s: %s", ErrRemoved, v.Ref(), v.Removed.At.Format(time.DateOnly), v.Removed.Reason)
	}
	return v, nil
}

func (c *Catalog) find(ctx context.Context, r Ref) (Version, error) {
	switch {
	case r.Tag != "":
		t, _, err := c.tag(ctx, r.Name, r.Tag)
		if errors.Is(err, objstore.ErrNotFound) {
			return Version{}, c.unknown(ctx, r, "no such tag")
		}
		if err != nil {
			return Version{}, err
		}
		r.Number = t.Version
		fallthrough
	case r.Number > 0:
		v, err := c.version(ctx, r.Name, r.Number)
		if errors.Is(err, objstore.ErrNotFound) {
			return Version{}, c.unknown(ctx, r, "no such version")
		}
		return v, err
	}
	v, err := c.last(ctx, r.Name)
	if err != nil {
		return Version{}, err
	}
	for ; v.Number > 0; v, err = c.before(ctx, v) {
		if r.SHA256 == "" && v.Removed == nil || r.SHA256 != "" && strings.HasPrefix(v.ManifestSHA256, r.SHA256) {
			return v, nil
		}
		if r.SHA256 != "" {
			if err := v.wasPurged(r.SHA256); err != nil {
				return Version{}, err
			}
		}
	}
	if err != nil {
		return Version{}, err
	}
	if r.SHA256 != "" {
		return Version{}, c.unknown(ctx, r, "no version has a manifest of that digest")
	}
	return Version{}, c.unknown(ctx, r, "no version has been published")
}

// before is the version before v, a zero Version at the start.
func (c *Catalog) before(ctx context.Context, v Version) (Version, error) {
	if v.Number <= 1 {
		return Version{}, nil
	}
	prior, err := c.version(ctx, v.Dataset, v.Number-1)
	if errors.Is(err, objstore.ErrNotFound) {
		return Version{}, fmt.Errorf("%w: %s has no version %d before it", ErrDamaged, v.Ref(), v.Number-1)
	}
	return prior, err
}

// unknown says what there is instead.
func (c *Catalog) unknown(ctx context.Context, r Ref, why string) error {
	names, err := c.names(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %s: %w in %s", r, why, ErrUnknown, c.bucket), err)
	}
	there := "there are no datasets yet; stillhouse build makes one"
	if newest, err := c.last(ctx, r.Name); slices.Contains(names, r.Name) && err == nil && newest.Number > 0 {
		there = fmt.Sprintf("the newest is %s; stillhouse list %s shows its versions and tags", newest.Ref(), r.Name)
	} else if len(names) > 0 {
		const shown = 8
		more := ""
		if len(names) > shown {
			names, more = names[:shown], ", …"
		}
		there = "datasets there: " + strings.Join(names, ", ") + more
	}
	return fmt.Errorf("%s: %s: %w in %s; %s", r, why, ErrUnknown, c.bucket, there)
}
