package cli

import (
	"context"
	"strings"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/internal/objstore/s3"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// listRemote finds the source files of an s3:// URL with the credentials of
// the environment.
func (a *app) listRemote(ctx context.Context, url string) ([]sources.File, error) {
	rest, ok := strings.CutPrefix(url, "s3://")
	bucket, pattern, _ := strings.Cut(rest, "/")
	if !ok || bucket == "" || pattern == "" {
		return nil, usage("%s: want s3://bucket/key, a glob, or a folder that ends with /", url)
	}
	if err := a.policy.Source(url); err != nil {
		return nil, err
	}
	b, err := s3.Open(ctx, a.s3Options("s3://"+bucket))
	if err != nil {
		return nil, err
	}
	return activities.ListStored(ctx, b, "s3://"+bucket, pattern)
}
