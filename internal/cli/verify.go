package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

func init() { register(verifyCommand) }

func verifyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify REF",
		Short: "Derive every digest, count and schema of a version again",
		Long:  "Verify reads every byte of a version and compares sizes, digests, checksums of\npages, rows, columns and rows by teacher with what was published. Where it finds\ndamage it names the object and the next step, and exits with 1.",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return a.verify(cmd.Context(), args[0]) },
	}
}

func (a *app) verify(ctx context.Context, ref string) error {
	c, err := a.readCatalog(ctx)
	if err != nil {
		return err
	}
	show := &verifyProgress{app: a, next: time.Now().Add(lineEvery)}
	r, err := c.Verify(ctx, ref, show.show)
	show.end()
	if err != nil {
		return err
	}
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		a.printVerified(r)
	}
	if !r.OK() {
		return &codedError{code: exitFailed}
	}
	return nil
}

func (a *app) printVerified(r *catalog.Report) {
	if r.OK() {
		left := "as it was published"
		if n := len(r.Version.Purged); n > 0 {
			left = "as the purge of " + r.Version.Purged[n-1].At.Local().Format(time.DateTime) + " left it"
		}
		fmt.Fprintf(a.out, "%s is %s: %d files, %s rows, %s\n", r.Ref, left, r.Files, grouped(r.Rows), sized(r.Bytes))
		return
	}
	fmt.Fprintf(a.out, "%s is damaged: %d problem(s); %d files, %s were read\n", r.Ref, len(r.Problems), r.Files, sized(r.Bytes))
	for _, p := range r.Problems {
		fmt.Fprintf(a.out, "\n  %s\n    %s\n    next: %s\n", printable(p.Key), oneLine(p.What), oneLine(p.Next))
	}
}

// A verifyProgress says how far a verification is: in place on a terminal, a
// line now and then elsewhere.
type verifyProgress struct {
	app   *app
	next  time.Time // when the next plain line is due
	drawn bool
}

func (p *verifyProgress) show(at catalog.Progress) {
	line := fmt.Sprintf("verifying file %d of %d, %s of %s", at.File, at.Files, sized(at.Bytes), sized(at.Total))
	switch a := p.app; {
	case a.quiet:
	case a.terminal && !a.json:
		p.drawn = true
		fmt.Fprintf(a.err, "\r\x1b[K%s", line)
	case time.Now().After(p.next):
		p.next = time.Now().Add(lineEvery)
		a.say("%s", line)
	}
}

// end takes the line away.
func (p *verifyProgress) end() {
	if p.drawn {
		fmt.Fprint(p.app.err, "\r\x1b[K")
	}
}
