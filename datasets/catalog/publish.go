package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// headsAtOnce bounds how many small requests are in flight together.
const headsAtOnce = 16

// Publish makes the manifest the next version of its dataset. Every file that
// it names must be there already (Stage). It returns once the version is
// visible to all readers.
//
// It is idempotent by BuildID: where that build has published already, in this
// process or another, the version it got is returned and nothing is written.
// Where another build takes the next number first, this one takes the number
// after it, with that version as its parent. An error means that either
// nothing is visible or that it is not known, as when the store stops
// answering; calling Publish again settles it.
func (c *Catalog) Publish(ctx context.Context, m Manifest) (Version, error) {
	v, err := c.publish(ctx, m)
	if err != nil {
		return Version{}, fmt.Errorf("publish %s, build %s: %w", m.Dataset, m.BuildID, err)
	}
	return v, nil
}

func (c *Catalog) publish(ctx context.Context, m Manifest) (Version, error) {
	if err := m.validate(); err != nil {
		return Version{}, err
	}
	last, err := c.last(ctx, m.Dataset)
	if err != nil {
		return Version{}, err
	}
	if v, err := c.published(ctx, m.Dataset, m.BuildID, last); err != nil || v.Number > 0 {
		return v, err
	}
	if err := m.complete(c.stamp()); err != nil {
		return Version{}, err
	}
	if err := errors.Join(c.stillWanted(ctx, m.Dataset, m.BuildID), c.notPurging(ctx, m.Dataset)); err != nil {
		return Version{}, err
	}
	if err := c.allPresent(ctx, m.Files); err != nil {
		return Version{}, err
	}
	for n := last.Number + 1; ; n++ {
		v, err := c.commit(ctx, m, n)
		if errors.Is(err, errLost) {
			continue // another build has n, so there is progress
		}
		if err != nil {
			return Version{}, err
		}
		c.moveHint(ctx, v)
		return v, nil
	}
}

// published looks for the version of a build among those up to last. A manifest
// says for which number it was written, so that only the numbers that the build
// has tried for are looked at, however many versions there are; and where it has
// tried more often than there are versions, as when the store fails again and
// again, these are walked instead. So no try makes the next one longer for good.
func (c *Catalog) published(ctx context.Context, name, buildID string, last Version) (Version, error) {
	if last.Number == 0 {
		return Version{}, nil
	}
	var tried []string
	prefix := manifestPrefix(name) + buildID + "-"
	for attr, err := range c.bucket.List(ctx, prefix, "") {
		if err != nil {
			return Version{}, err
		}
		if hexRule.MatchString(strings.TrimSuffix(strings.TrimPrefix(attr.Key, prefix), ".json")) {
			tried = append(tried, attr.Key)
		}
	}
	if int64(len(tried)) >= last.Number {
		return c.publishedUpTo(ctx, buildID, last)
	}
	for _, key := range tried {
		var m Manifest
		_, err := c.readJSON(ctx, key, maxManifestBytes, &m)
		if errors.Is(err, objstore.ErrNotFound) {
			continue // of a number that another build got, and swept since
		}
		if err != nil {
			return Version{}, err
		}
		v, err := c.version(ctx, name, m.Parent+1)
		switch {
		case errors.Is(err, objstore.ErrNotFound):
		case err != nil:
			return Version{}, err
		case v.BuildID == buildID:
			return v, nil
		}
	}
	return Version{}, nil
}

// publishedUpTo walks the versions from last to the first.
func (c *Catalog) publishedUpTo(ctx context.Context, buildID string, last Version) (Version, error) {
	for v := last; v.Number > 0; {
		if v.BuildID == buildID {
			return v, nil
		}
		var err error
		if v, err = c.before(ctx, v); err != nil {
			return Version{}, err
		}
	}
	return Version{}, nil
}

// stillWanted makes sure that GC takes nothing of the build between now and the
// commit: an entered build shows a sign of life, and one that GC has begun to
// sweep publishes nothing.
func (c *Catalog) stillWanted(ctx context.Context, name, buildID string) error {
	return c.changeIntent(ctx, name, buildID, func(old *Intent) (*Intent, error) {
		switch {
		case old == nil:
			return nil, nil
		case old.Swept != nil:
			return nil, old.sweptError()
		case !old.Live():
			return nil, nil
		}
		in := *old
		in.Heartbeat = c.stamp()
		return &in, nil
	})
}

func (c *Catalog) allPresent(ctx context.Context, files []FileRef) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(headsAtOnce)
	for _, f := range files {
		g.Go(func() error { return c.present(ctx, f) })
	}
	return g.Wait()
}

// errLost: another build has the number.
var errLost = errors.New("the number is taken")

// commit writes the manifest as it is at number n and then the version that
// makes it visible.
func (c *Catalog) commit(ctx context.Context, m Manifest, n int64) (Version, error) {
	m.Parent = n - 1
	data, err := json.MarshalIndent(&m, "", " ")
	if err != nil {
		return Version{}, err
	}
	if len(data) > maxManifestBytes {
		return Version{}, fmt.Errorf("%w manifest: %d bytes, at most %d; write fewer, larger files", ErrInvalid, len(data), maxManifestBytes)
	}
	sum := sha256.Sum256(data)
	v := Version{
		FormatVersion: FormatVersion, Dataset: m.Dataset, Number: n, Parent: n - 1, BuildID: m.BuildID,
		ManifestSHA256: hex.EncodeToString(sum[:]), ManifestBytes: int64(len(data)), CreatedAt: m.CreatedAt,
	}
	v.Manifest = manifestKey(m.Dataset, m.BuildID, v.ManifestSHA256)
	if _, err := objstore.CreateOrSame(ctx, c.bucket, v.Manifest, data); err != nil {
		return Version{}, err
	}
	record, err := json.MarshalIndent(&v, "", " ")
	if err != nil {
		return Version{}, err
	}
	key := versionKey(m.Dataset, n)
	_, err = objstore.PutBytes(ctx, c.bucket, key, record, objstore.PutOptions{IfNoneMatch: true, ContentType: "application/json"})
	if err == nil {
		return v, nil
	}
	// The write may have happened although we got an error, and a refusal may
	// be of our own first try. What is there says who won.
	there, readErr := c.version(ctx, m.Dataset, n)
	switch {
	case errors.Is(readErr, objstore.ErrNotFound):
		return Version{}, err
	case readErr != nil:
		return Version{}, errors.Join(err, readErr)
	case there.BuildID == m.BuildID:
		return there, nil
	default:
		return Version{}, errLost
	}
}

// moveHint points the hint at v. It is only a hint: if this fails, readers
// walk one step more and the next publish moves it.
func (c *Catalog) moveHint(ctx context.Context, v Version) {
	data, err := json.Marshal(hint{Version: v.Number})
	if err == nil {
		_, _ = objstore.PutBytes(ctx, c.bucket, latestKey(v.Dataset), data, objstore.PutOptions{ContentType: "application/json"})
	}
}
