package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// errAlready ends a change that somebody else has made.
var errAlready = errors.New("it is so already")

// Withdraw marks a version as removed: no reference finds it from then on, its
// number stays taken, and its files are left to GC. One that is withdrawn
// already stays as it is. reason is what readers are told.
//
// The newest version, and one with a tag, can't be withdrawn (ErrInvalid).
func (c *Catalog) Withdraw(ctx context.Context, name string, n int64, reason string) (Version, error) {
	v, err := c.withdraw(ctx, name, n, reason)
	if err != nil {
		return Version{}, fmt.Errorf("withdraw %s@%d: %w", name, n, err)
	}
	return v, nil
}

func (c *Catalog) withdraw(ctx context.Context, name string, n int64, reason string) (Version, error) {
	if err := ValidName(name); err != nil {
		return Version{}, err
	}
	newest, err := c.resolve(ctx, name)
	if err != nil {
		return Version{}, err
	}
	if newest.Number == n {
		return Version{}, fmt.Errorf("%w: it is the newest version; build another first", ErrInvalid)
	}
	if tag, err := c.tagOf(ctx, name, n); err != nil || tag != "" {
		return Version{}, errors.Join(err, taggedError(tag))
	}
	v, err := c.changeVersion(ctx, name, n, func(v *Version) error {
		if v.Removed != nil {
			return errAlready
		}
		v.Removed = &Removal{At: c.stamp(), Reason: reason}
		return nil
	})
	if err != nil {
		return v, err
	}
	// Whoever tags reads the version after the tag is written, and we read the
	// tags after the version is: the one who comes second sees the other.
	tag, err := c.tagOf(ctx, name, n)
	if err == nil && tag == "" {
		return v, nil
	}
	_, undone := c.changeVersion(ctx, name, n, func(v *Version) error {
		v.Removed = nil
		return nil
	})
	return Version{}, errors.Join(err, taggedError(tag), undone)
}

func taggedError(tag string) error {
	if tag == "" {
		return nil
	}
	return fmt.Errorf("%w: it has the tag %s; move the tag first", ErrInvalid, tag)
}

// tagOf is a tag of a version, "" where it has none.
func (c *Catalog) tagOf(ctx context.Context, name string, n int64) (string, error) {
	tags, err := c.Tags(ctx, name)
	for _, t := range tags {
		if t.Version == n {
			return t.Tag, err
		}
	}
	return "", err
}

// changeVersion changes a version record in one step. change may run more than
// once; with errAlready nothing is written, which is no error.
func (c *Catalog) changeVersion(ctx context.Context, name string, n int64, change func(*Version) error) (Version, error) {
	var out Version
	key := versionKey(name, n)
	err := c.swap(ctx, key, func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, c.unknown(ctx, Ref{Name: name, Number: n}, "no such version")
		}
		v, err := parseVersion(old, name, n)
		if err != nil {
			return nil, err
		}
		switch err := change(&v); {
		case errors.Is(err, errAlready):
			out = v
			return nil, nil
		case err != nil:
			return nil, err
		}
		out = v
		return json.MarshalIndent(&v, "", " ")
	})
	return out, err
}

// parseVersion reads a version record and holds it to the key that it lies at.
func parseVersion(data []byte, name string, n int64) (Version, error) {
	key := versionKey(name, n)
	var v Version
	if err := json.Unmarshal(data, &v); err != nil {
		return Version{}, fmt.Errorf("%w: %s is not the JSON it should be: %w", ErrDamaged, key, err)
	}
	switch {
	case v.FormatVersion > FormatVersion:
		return Version{}, fmt.Errorf("%w version %s: format %d is newer than this program reads (%d); update it", ErrInvalid, key, v.FormatVersion, FormatVersion)
	case v.Dataset != name || v.Number != n:
		return Version{}, fmt.Errorf("%w: %s says that it is %s", ErrDamaged, key, v.Ref())
	case !hexRule.MatchString(v.ManifestSHA256) || validBuild(v.BuildID) != nil || v.Manifest != manifestKey(name, v.BuildID, v.ManifestSHA256):
		return Version{}, fmt.Errorf("%w: %s names the manifest %q, which is not where its build's manifests are", ErrDamaged, key, v.Manifest)
	}
	return v, nil
}

// version reads a version record. objstore.ErrNotFound: there is none.
func (c *Catalog) version(ctx context.Context, name string, n int64) (Version, error) {
	data, _, err := objstore.ReadAll(ctx, c.bucket, versionKey(name, n), maxSmallBytes)
	if err != nil {
		return Version{}, err
	}
	return parseVersion(data, name, n)
}

// Record is the record of a version, of a withdrawn one too. ErrUnknown: there
// is none.
func (c *Catalog) Record(ctx context.Context, name string, n int64) (Version, error) {
	if err := ValidName(name); err != nil {
		return Version{}, err
	}
	v, err := c.version(ctx, name, n)
	if errors.Is(err, objstore.ErrNotFound) {
		return Version{}, fmt.Errorf("%s@%d: %w", name, n, ErrUnknown)
	}
	return v, err
}
