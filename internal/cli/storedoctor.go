package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/s3"
)

func init() { register(storeCommand) }

func storeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Look after the object store",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "doctor",
		Short: "Try everything that publishing rests on, and say how to fix what is wrong",
		Long: `Store doctor tries the store that --store names, or the embedded one: that it is
reached and in the region that is signed for, clocks, that reads and listings show
every write, conditional writes alone, in a race and of uploads in parts, ranges,
checksums, keys, what the role may do under each prefix, encryption, presigned URLs,
unfinished uploads and versions. It writes some dozens of small objects and 10 MiB,
and deletes them. Each line says ok, warn or fail, and what to do.

It exits with 1 if any check fails, and with 6 where the store cannot be reached.
Builds make the decisive ones of these checks by themselves, and publish nothing to
a store that ignores conditions.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.storeDoctor(cmd.Context()) },
	})
	return cmd
}

func (a *app) storeDoctor(ctx context.Context) error {
	b, closeStore, err := a.openForWriting(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	c, ok := b.(interface {
		Checkup(context.Context) ([]s3.Finding, error)
	})
	if !ok {
		return fmt.Errorf("%s can't be checked: it is not reached over S3", b)
	}
	found, unreachable := c.Checkup(ctx)
	if unreachable != nil && (len(found) == 0 || ctx.Err() != nil) {
		return unreachable
	}
	p := &physician{app: a}
	failed := false
	for _, f := range found {
		p.checks = append(p.checks, check{Name: f.Name, State: f.State, Found: f.Found, Fix: f.Fix})
		failed = failed || f.State == s3.FindingFail
	}
	if a.json {
		if err := a.printJSON(map[string]any{"ok": !failed, "store": b.String(), "checks": p.checks}); err != nil {
			return err
		}
	} else {
		p.print()
	}
	switch {
	case errors.Is(unreachable, objstore.ErrUnavailable):
		return &codedError{code: exitUnreachable}
	case failed:
		return &codedError{code: exitFailed}
	}
	return nil
}

// Variables that say how a store over S3 is spoken to, beside Amazon's own. They
// are the machine's business, so that no recipe and no URL holds them.
const (
	kmsKeyVariable    = "STILLHOUSE_S3_KMS_KEY"
	pathStyleVariable = "STILLHOUSE_S3_PATH_STYLE"
)

// s3Options are the options to open a store or a file in one by its URL.
func (a *app) s3Options(url string) s3.Options {
	return s3.Options{URL: url, SSEKMSKeyID: a.env(kmsKeyVariable), PathStyle: s3.PathStyle(a.env(pathStyleVariable))}
}

// refuseCareless refuses a store that ignores the conditions which writing to it
// rests on.
func refuseCareless(ctx context.Context, b objstore.Bucket) error {
	p, ok := b.(interface{ Probe(context.Context) error })
	if !ok {
		return nil
	}
	if err := p.Probe(ctx); err != nil {
		return fmt.Errorf("store %s can't be published to: %w; look closer with: stillhouse store doctor", b, err)
	}
	return nil
}
