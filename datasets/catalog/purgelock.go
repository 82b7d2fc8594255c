package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// ErrPurgeOver: another run has ended the purge, or has taken it back.
var ErrPurgeOver = errors.New("another run has ended it meanwhile")

// StillPurging makes sure that a purge is open: as long as it is, no build of its
// dataset begins, so that whatever was listed before is no build's that runs. It
// is an ErrPurgeOver where it is not.
func (c *Catalog) StillPurging(ctx context.Context, name, id string) error {
	if err := errors.Join(ValidName(name), validBuild(id)); err != nil {
		return err
	}
	var open openPurge
	_, err := c.readJSON(ctx, openPurgeKey(name), maxSmallBytes, &open)
	switch {
	case errors.Is(err, objstore.ErrNotFound), err == nil && open.ID != id:
		return fmt.Errorf("purge %s of %s: %w", id, name, ErrPurgeOver)
	case err != nil:
		return fmt.Errorf("look whether purge %s of %s is open: %w", id, name, err)
	}
	return nil
}

// Retag gives the tags of a version the digest of the manifest that it has now,
// where Replace was interrupted before it had.
func (c *Catalog) Retag(ctx context.Context, v Version) error {
	if err := c.retag(ctx, v); err != nil {
		return fmt.Errorf("tags of %s: %w", v.Ref(), err)
	}
	return nil
}
