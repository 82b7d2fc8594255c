package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/training"
)

func init() { register(gcCommand) }

// gcFlags are the flags of gc.
type gcFlags struct {
	yes, keys                    bool
	grace, keepWithin, abandoned string
	keepLast                     int
}

func gcCommand(a *app) *cobra.Command {
	var f gcFlags
	cmd := &cobra.Command{
		Use:   "gc [NAME…]",
		Short: "Remove what no version, build or reader needs",
		Long: `Gc removes files and manifests that no version names, the work of builds that
have ended, the files of withdrawn versions, and unfinished uploads, where they
are older than the grace time. Without --yes it only shows what would go, and
why the rest stays. NAME limits it to datasets.

It never touches answers, recipes, sources, tags, or what a build that runs or
pauses has written. It is safe beside builds and other gcs, and may be stopped
at any moment.

Versions stay unless --keep-last or --keep-within says which do. The newest
version and those with a tag always stay. A version that goes is withdrawn
first: its number stays taken, and its files are removed once the grace time has
passed since, so that whoever reads it now can end.

  stillhouse gc                                    shows what would go
  stillhouse gc --yes                              removes it
  stillhouse gc maths --keep-last 10 --keep-within 90d --yes`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.gc(cmd.Context(), args, f) },
	}
	cmd.Flags().BoolVar(&f.yes, "yes", false, "remove; without it nothing is changed")
	cmd.Flags().BoolVar(&f.keys, "keys", false, "list every key that goes, on stderr")
	cmd.Flags().StringVar(&f.grace, "grace", "7d", "how old a leftover must be; longer than any build and any reader takes")
	cmd.Flags().IntVar(&f.keepLast, "keep-last", 0, "withdraw versions but the newest so many; 0 withdraws none")
	cmd.Flags().StringVar(&f.keepWithin, "keep-within", "", "withdraw versions but those published within so long, such as 90d")
	cmd.Flags().StringVar(&f.abandoned, "abandoned", "", "count a running build without a sign of life for so long as dead, such as 30d (default: never)")
	return cmd
}

// options are the flags as a collection takes them.
func (f *gcFlags) options(names []string) (catalog.GCOptions, error) {
	opt := catalog.GCOptions{Datasets: names, KeepLast: f.keepLast, Remove: f.yes}
	for _, name := range names {
		if err := catalog.ValidName(name); err != nil {
			return opt, err
		}
	}
	if f.keepLast < 0 {
		return opt, usage("--keep-last %d: want 0 for no limit by number, or more", f.keepLast)
	}
	for _, d := range []struct {
		flag, text string
		to         *time.Duration
	}{{"--grace", f.grace, &opt.Grace}, {"--keep-within", f.keepWithin, &opt.KeepWithin}, {"--abandoned", f.abandoned, &opt.Abandoned}} {
		if d.text == "" || d.text == "0" {
			continue
		}
		v, err := recipe.ParseDuration(d.text)
		if err != nil {
			return opt, usage("%s: %v", d.flag, err)
		}
		*d.to = v
	}
	return opt, nil
}

func (a *app) gc(ctx context.Context, names []string, f gcFlags) error {
	opt, err := f.options(names)
	if err != nil {
		return err
	}
	b, closeStore, err := a.gcStore(ctx, f.yes)
	if err != nil {
		return err
	}
	defer closeStore()
	if f.yes && opt.Grace < shortGrace {
		a.warn("with a grace time of %s, files that somebody reads or copies now may go", f.grace)
	}
	opt.Note = func(text string) {
		if a.verbose {
			a.say("%s", text)
		}
	}
	if f.keys {
		opt.Removed = func(key string) { a.warn("%s", key) }
	}
	c := catalog.Open(b)
	r, err := c.GC(ctx, opt)
	if err == nil {
		var items []catalog.GCItem
		items, err = training.SweepLaunches(ctx, c, training.SweepOptions{
			Datasets: names, Grace: opt.Grace, Remove: opt.Remove, Removed: opt.Removed, Now: r.At,
		})
		r.Add(items...)
	}
	if r == nil || errors.Is(err, catalog.ErrUnknown) {
		return err
	}
	if a.store == "" { // one name for the store, whether its files or its service are open
		if h, err := a.openHome(); err == nil {
			r.Store = filesName(h)
		}
	}
	// What was removed before something failed is told as well.
	if printErr := a.printGC(r); printErr != nil && err == nil {
		err = printErr
	}
	if err == nil && len(r.Problems) > 0 {
		err = &codedError{code: exitFailed}
	}
	return err
}

// shortGrace is a grace time that a reader of a large version may outlast.
const shortGrace = 24 * time.Hour

// gcStore opens the store to remove from, or to look at.
func (a *app) gcStore(ctx context.Context, write bool) (objstore.Bucket, func(), error) {
	if !write {
		b, err := a.readStore(ctx)
		return b, func() {}, err
	}
	// Without conditional writes it would not be safe beside builds.
	return a.writeStore(ctx)
}

func (a *app) printGC(r *catalog.GCReport) error {
	if a.json {
		return a.printJSON(r)
	}
	verb, heading := "removed", "removed"
	if r.DryRun {
		verb, heading = "would remove", "would go"
	}
	fmt.Fprintf(a.out, "%s %s object(s), %s, from %s\n", verb, grouped(r.Removed.Objects), sized(r.Removed.Bytes), printable(r.Store))
	gone, kept := 0, 0
	for i := range r.Items {
		if r.Items[i].Action == catalog.GCKeep {
			kept++
		} else {
			gone++
		}
	}
	if gone > 0 {
		if err := printGCItems(a.out, heading, r.Items, false); err != nil {
			return err
		}
	}
	if kept > 0 {
		if err := printGCItems(a.out, "stays", r.Items, true); err != nil {
			return err
		}
	}
	for _, p := range r.Problems {
		a.warn("%s; %s", oneLine(p.What), oneLine(p.Next))
	}
	if r.DryRun && gone > 0 {
		a.say("nothing was changed; run it again with --yes to remove")
	}
	return nil
}

func printGCItems(w io.Writer, heading string, items []catalog.GCItem, kept bool) error {
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(tw, "%s\tdataset\tbuild\tobjects\tsize\twhy\n", heading)
	for i := range items {
		item := &items[i]
		if (item.Action == catalog.GCKeep) != kept {
			continue
		}
		of, size, class := item.BuildID, sized(item.Bytes), item.Class
		switch item.Action {
		case catalog.GCWithdraw:
			of, size, class = fmt.Sprintf("version %d", item.Version), "-", "withdrawn"
		case catalog.GCAbort:
			size = "?"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", oneLine(class), oneLine(dash(item.Dataset)), oneLine(dash(of)), grouped(item.Objects), size, oneLine(item.Why))
	}
	return tw.Flush()
}
