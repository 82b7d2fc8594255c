package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// A TagRef is a name for a version that can be moved to another.
type TagRef struct {
	Tag            string    `json:"tag"`
	Version        int64     `json:"version"`
	ManifestSHA256 string    `json:"manifest_sha256"`
	MovedAt        time.Time `json:"moved_at"`
}

// swapTries bounds how often a conditional write is tried anew because
// somebody else's came between.
const swapTries = 32

func (c *Catalog) tag(ctx context.Context, name, tag string) (TagRef, objstore.Attr, error) {
	var t TagRef
	attr, err := c.readJSON(ctx, tagKey(name, tag), maxSmallBytes, &t)
	if err == nil && t.Version < 1 {
		err = fmt.Errorf("%w: tag %s of %s names no version", ErrDamaged, tag, name)
	}
	return t, attr, err
}

// Tag gives the version that ref names a tag, or moves the tag to it, and
// returns the version. A tag starts with a letter and is not "latest".
func (c *Catalog) Tag(ctx context.Context, ref, tag string) (Version, error) {
	if !tagRule.MatchString(tag) || tag == "latest" || strings.HasPrefix(tag, "sha256") {
		return Version{}, fmt.Errorf("%w tag %.80q: a letter, then letters, digits, '.', '_' and '-', at most 63; not latest or sha256…", ErrInvalid, tag)
	}
	v, err := c.resolve(ctx, ref)
	if err != nil {
		return Version{}, err
	}
	data, err := json.Marshal(TagRef{Tag: tag, Version: v.Number, ManifestSHA256: v.ManifestSHA256, MovedAt: c.stamp()})
	if err != nil {
		return Version{}, err
	}
	err = c.swap(ctx, tagKey(v.Dataset, tag), func([]byte) ([]byte, error) { return data, nil })
	if err != nil {
		return Version{}, fmt.Errorf("tag %s as %s: %w", v.Ref(), tag, err)
	}
	// It may have been withdrawn meanwhile; see Withdraw.
	if v, err = c.version(ctx, v.Dataset, v.Number); err == nil && v.Removed != nil {
		err = fmt.Errorf("%w while it was being tagged: %s; tag another version", ErrRemoved, v.Removed.Reason)
	}
	if err != nil {
		return Version{}, fmt.Errorf("tag %s as %s: %w", ref, tag, err)
	}
	return v, nil
}

// Tags are the tags of a dataset, by name.
func (c *Catalog) Tags(ctx context.Context, name string) ([]TagRef, error) {
	if err := ValidName(name); err != nil {
		return nil, err
	}
	var out []TagRef
	for attr, err := range c.bucket.List(ctx, tagPrefix(name), "") {
		if err != nil {
			return nil, err
		}
		tag, ok := strings.CutSuffix(strings.TrimPrefix(attr.Key, tagPrefix(name)), ".json")
		if !ok || !tagRule.MatchString(tag) {
			continue
		}
		t, _, err := c.tag(ctx, name, tag)
		if errors.Is(err, objstore.ErrNotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// swap replaces an object by what change makes of it (nil: it is not there),
// and starts again where somebody else replaced it meanwhile.
func (c *Catalog) swap(ctx context.Context, key string, change func(old []byte) ([]byte, error)) error {
	return c.swapUpTo(ctx, key, maxSmallBytes, change)
}

// swapUpTo is swap of an object of at most max bytes.
func (c *Catalog) swapUpTo(ctx context.Context, key string, max int64, change func(old []byte) ([]byte, error)) error {
	var err error
	for range swapTries {
		var old []byte
		var attr objstore.Attr
		opt := objstore.PutOptions{ContentType: "application/json"}
		switch old, attr, err = objstore.ReadAll(ctx, c.bucket, key, max); {
		case err == nil:
			opt.IfMatch = attr.ETag
		case errors.Is(err, objstore.ErrNotFound):
			opt.IfNoneMatch = true
		default:
			return err
		}
		data, err := change(old)
		if err != nil {
			return err
		}
		if data == nil {
			return nil
		}
		_, err = objstore.PutBytes(ctx, c.bucket, key, data, opt)
		if !errors.Is(err, objstore.ErrPrecondition) {
			return err
		}
	}
	return fmt.Errorf("%s in %s changed %d times while it was being changed; try again: %w", key, c.bucket, swapTries, err)
}
