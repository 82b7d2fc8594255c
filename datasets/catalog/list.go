package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// DatasetInfo is one line of the list of datasets.
type DatasetInfo struct {
	Name      string           `json:"name"`
	Version   int64            `json:"version"` // the latest; 0: nothing was published yet
	BuildID   string           `json:"build_id,omitempty"`
	CreatedAt time.Time        `json:"created_at,omitzero"`
	Rows      map[string]int64 `json:"rows"` // by table
	Bytes     int64            `json:"bytes"`
	// Problem says why the latest version can't be shown, "" if it can.
	Problem string `json:"problem,omitempty"`
}

// List describes every dataset of the store, by name. A dataset whose latest
// version is damaged is in it, with a Problem.
func (c *Catalog) List(ctx context.Context) ([]DatasetInfo, error) {
	names, err := c.names(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]DatasetInfo, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(headsAtOnce)
	for i, name := range names {
		g.Go(func() (err error) {
			out[i], err = c.describe(ctx, name)
			return err
		})
	}
	return out, g.Wait()
}

func (c *Catalog) describe(ctx context.Context, name string) (DatasetInfo, error) {
	info := DatasetInfo{Name: name, Rows: map[string]int64{}}
	v, m, err := c.Resolve(ctx, name)
	info.Version, info.BuildID, info.CreatedAt = v.Number, v.BuildID, v.CreatedAt
	switch {
	case errors.Is(err, ErrUnknown):
		return info, nil
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrInvalid):
		info.Problem = err.Error()
		return info, nil
	case err != nil:
		return info, err
	}
	info.Rows, info.Bytes = m.Counts.Rows, m.Bytes()
	return info, nil
}

// names are the datasets that have any object, in order. A listing per dataset
// jumps over its objects.
func (c *Catalog) names(ctx context.Context) ([]string, error) {
	const root = "datasets/"
	var names []string
	for after := ""; ; {
		name, err := c.nextName(ctx, root, after)
		if err != nil || name == "" {
			return names, err
		}
		if ValidName(name) == nil {
			names = append(names, name)
		}
		after = root + name + "0" // '0' is the byte after '/'
	}
}

func (c *Catalog) nextName(ctx context.Context, root, after string) (string, error) {
	for attr, err := range c.bucket.List(ctx, root, after) {
		if err != nil {
			return "", err
		}
		if name, _, ok := strings.Cut(strings.TrimPrefix(attr.Key, root), "/"); ok {
			return name, nil
		}
	}
	return "", nil
}

// Versions are the versions of a dataset, newest first, removed ones included.
// ErrUnknown: there is none.
func (c *Catalog) Versions(ctx context.Context, name string) ([]Version, error) {
	if err := ValidName(name); err != nil {
		return nil, err
	}
	last, err := c.last(ctx, name)
	if err != nil {
		return nil, err
	}
	if last.Number == 0 {
		return nil, c.unknown(ctx, Ref{Name: name}, "no version has been published")
	}
	out := make([]Version, last.Number)
	out[0] = last
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(headsAtOnce)
	for i := range out[1:] {
		n := last.Number - int64(i) - 1
		g.Go(func() (err error) {
			out[i+1], err = c.version(ctx, name, n)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		if errors.Is(err, objstore.ErrNotFound) {
			err = errors.Join(ErrDamaged, err)
		}
		return nil, err
	}
	return slices.Clip(out), nil
}
