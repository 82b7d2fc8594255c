package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/checkers"
)

func init() { register(reparseCommand) }

func reparseCommand(a *app) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "reparse REF",
		Short: "Read the stored raw answers again with today's parser; ask nobody",
		Long: `Reparse reads every raw answer of a version again, with the parser, verifiers and
filters of this release. It asks no teacher and costs nothing: it needs neither
keys nor endpoints, which may be gone, nor the prompt files. Answers that an
older release could not read are tried again.

It says how many answers read differently and in what, and publishes the result
as the next version where anything changed. Of a version that is not the newest
it only says what would change.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.reparse(cmd.Context(), args[0], dry) },
	}
	a.addSandboxFlags(cmd)
	a.addCommandsFlag(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would change, and publish nothing")
	return cmd
}

func (a *app) reparse(ctx context.Context, ref string, dry bool) (err error) {
	if _, err := catalog.ParseRef(ref); err != nil {
		return err
	}
	b, closeStore, err := a.writeStore(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	temp, err := os.MkdirTemp("", "stillhouse-reparse-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	reader, err := answers.OpenReader(b, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	box := &sandboxBox{app: a}
	defer box.close()
	pool := &checkerPool{Pool: checkers.New(a.log()), app: a}
	defer pool.Close()
	notes := &reparseNotes{app: a}
	p := activities.Reparser{
		Bucket: b, Catalog: catalog.Open(b), Answers: reader, TempDir: temp, Log: a.log(), Note: notes.show, DryRun: dry, Sandbox: box, Checkers: pool,
	}
	r, err := p.Run(ctx, ref)
	notes.end()
	if err != nil {
		return err
	}
	if !a.json {
		a.printReparsed(r)
	} else if err := a.printJSON(r); err != nil {
		return err
	}
	if len(r.Gates) > 0 {
		return &codedError{code: exitGate}
	}
	return nil
}

func (a *app) printReparsed(r *activities.ReparseResult) {
	fmt.Fprintf(a.out, "%s@%d: %s answers to %s tasks read again by parser %s; nobody was asked\n",
		r.Dataset, r.Read, grouped(r.Answers), grouped(r.Tasks), r.Parser)
	if r.Changed > 0 {
		var fields []string
		for _, f := range sortedKeys(r.Fields) {
			fields = append(fields, f+" "+grouped(r.Fields[f]))
		}
		fmt.Fprintf(a.out, "%s read differently: %s\n", grouped(r.Changed), strings.Join(fields, ", "))
	}
	for _, line := range []struct {
		n    int64
		text string
	}{
		{r.Recovered, "%s that could not be read before are answers now\n"},
		{r.Lost, "%s that were answers cannot be read any more\n"},
		{r.Newer, "%s came after the version was published, and are read now\n"},
	} {
		if line.n > 0 {
			fmt.Fprintf(a.out, line.text, grouped(line.n))
		}
	}
	switch {
	case r.Unchanged:
		fmt.Fprintf(a.out, "unchanged: every row is as it was published\n")
	case r.Held != "":
		fmt.Fprintf(a.out, "not published: %s\n", printable(r.Held))
	default:
		fmt.Fprintf(a.out, "published %s@%d: %s accepted, %s train and %s test rows\n",
			r.Dataset, r.Version, grouped(r.Accepted), grouped(r.Rows["train"]), grouped(r.Rows["test"]))
	}
}

// reparseNotes say how far a reading is: in place on a terminal, not at all
// elsewhere, where the result comes soon enough.
type reparseNotes struct {
	app   *app
	drawn bool
}

func (n *reparseNotes) show(text string) {
	if a := n.app; a.terminal && !a.json && !a.quiet {
		n.drawn = true
		fmt.Fprintf(a.err, "\r\x1b[K%s", text)
	}
}

func (n *reparseNotes) end() {
	if n.drawn {
		fmt.Fprint(n.app.err, "\r\x1b[K")
	}
}
