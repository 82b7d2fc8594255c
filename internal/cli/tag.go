package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/home"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/s3"
)

func init() { register(tagCommand) }

func tagCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "tag REF TAG",
		Short: "Give a version a name, or move the name to it",
		Long:  "Tag gives a version a name that can be moved to another version later: after\n  stillhouse tag maths@12 best\nmaths@best is that version.",
		Args:  cobra.ExactArgs(2),
		RunE:  func(cmd *cobra.Command, args []string) error { return a.tag(cmd.Context(), args[0], args[1]) },
	}
}

func (a *app) tag(ctx context.Context, ref, tag string) error {
	if _, err := catalog.ParseRef(ref); err != nil {
		return err
	}
	b, closeStore, err := a.writeStore(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	v, err := catalog.Open(b).Tag(ctx, ref, tag)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			Dataset string `json:"dataset"`
			Version int64  `json:"version"`
			Tag     string `json:"tag"`
		}{v.Dataset, v.Number, tag})
	}
	fmt.Fprintf(a.out, "%s@%s is %s\n", v.Dataset, tag, v.Ref())
	return nil
}

// writeStore opens the store for small writes: the one that --store names, or
// the embedded one, which is started for the moment where nobody runs it. No
// worker starts with it, so builds that were interrupted stay as they are and
// spend nothing.
func (a *app) writeStore(ctx context.Context) (objstore.Bucket, func(), error) {
	b, closeStore, err := a.openForWriting(ctx)
	if err != nil || a.store == "" {
		return b, closeStore, err
	}
	if err := refuseCareless(ctx, b); err != nil {
		closeStore()
		return nil, nil, err
	}
	return b, closeStore, nil
}

// openForWriting is writeStore without a look at what the store is like.
func (a *app) openForWriting(ctx context.Context) (objstore.Bucket, func(), error) {
	if a.store != "" {
		if err := a.checkPlaces(); err != nil {
			return nil, nil, err
		}
		b, err := a.openRemoteStore(ctx)
		return b, func() {}, err
	}
	h, err := a.openHome()
	if err != nil {
		return nil, nil, err
	}
	lock, running, err := takeOrFind(ctx, h)
	switch {
	case err != nil:
		return nil, nil, err
	case running != nil:
		b, err := openEmbeddedStore(ctx, running)
		return b, func() {}, err
	case a.embedded == nil:
		return nil, nil, errors.Join(usage("this binary carries no embedded store to write to; name a store with --store"), lock.Unlock())
	}
	s := &session{app: a, home: h, lock: lock}
	if s.services, err = a.embedded.Start(ctx, h, a.log(), a.verbose); err != nil {
		s.close()
		return nil, nil, startError(h, err)
	}
	e := s.services.Endpoints()
	b, err := openEmbeddedStore(ctx, &e)
	if err != nil {
		s.close()
		return nil, nil, err
	}
	return b, s.close, nil
}

// takeOrFind locks a home, or finds the services of the process that holds it.
// A holder that ends meanwhile, such as another tag, leaves the home to us.
func takeOrFind(ctx context.Context, h *home.Home) (*home.Lock, *home.Endpoints, error) {
	const tries = 10
	var locked *home.ErrLocked
	var err error
	for range tries {
		var lock *home.Lock
		if lock, err = h.Lock(); !errors.As(err, &locked) {
			return lock, nil, err
		}
		e, notFound := h.ReadEndpoints(ctx)
		if notFound == nil {
			return nil, e, nil
		}
		if !errors.Is(notFound, home.ErrNotRunning) {
			return nil, nil, &codedError{exitUnreachable, notFound.Error()}
		}
	}
	return nil, nil, err
}

// openEmbeddedStore opens the store of running embedded services.
func openEmbeddedStore(ctx context.Context, e *home.Endpoints) (objstore.Bucket, error) {
	return s3.Open(ctx, embeddedStore(e, e.Bucket))
}

// embeddedStore are the options to open a bucket, with or without a prefix, of
// the embedded store.
func embeddedStore(e *home.Endpoints, bucket string) s3.Options {
	return s3.Options{
		URL: "s3://" + bucket, Endpoint: e.S3, Region: e.Region,
		AccessKey: e.AccessKey, SecretKey: e.SecretKey, PathStyle: s3.PathStyleOn,
	}
}
