package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/home"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/s3"
)

func init() { register(exportCommand) }

// exportFlags are the flags of export.
type exportFlags struct {
	view, table   string
	split         string // on stdout
	leaveOut      []string
	extra         extraExport
	views.Options // of the view, less the version
}

func exportCommand(a *app) *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export REF DEST",
		Short: "Write a version in the shape that a trainer reads",
		Long: `Export writes a view of a version to DEST: a folder, s3://bucket/prefix (opened
with the environment's credentials), or - for stdout. A folder appears whole or
not at all; what it replaces is an earlier export of the same dataset and view,
never anything else.

Views:
` + exportViews() + `
Each view has the right defaults for its trainers; --reasoning, --effort,
--tool-args and --images change them where the view allows it. docs/export.md
says what each trainer makes of them.

--table writes a table of the version as it is instead: its Parquet files, byte
for byte, such as logprobs or candidates.

It refuses where a teacher's terms forbid training on its answers, and where
rows don't fit the view, and says which; --leave-out forbidden and --leave-out
unfit leave exactly those rows out and say how many. It warns where terms are
not known.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.table != "" && cmd.Flags().Changed("view") {
				return usage("--table stands beside --view; keep one of the two")
			}
			for _, of := range ofViews {
				if f.table != "" && cmd.Flags().Changed(of) {
					return usage("--table writes the table's files as they are; --%s is of views", of)
				}
			}
			if err := f.settle(); err != nil {
				return err
			}
			return a.export(cmd.Context(), args[0], args[1], f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.view, "view", views.ViewMessages, "view: "+strings.Join(views.Names(), ", "))
	flags.StringVar(&f.Form, "format", "", "parquet (default), jsonl (default on stdout) or arrow (IPC streams)")
	flags.StringVar(&f.split, "split", "", "on stdout: train or test alone (default: train, then test)")
	flags.StringVar(&f.table, "table", "", "table, instead of a view")
	flags.StringVar(&f.Reasoning, "reasoning", "", "separate, inline (between tags, in the content), drop, or thinking (a key of that name); the default is the view's")
	flags.StringVar(&f.ThinkTag, "think-tag", "", "tag of inline reasoning (default "+views.DefaultThinkTag+")")
	flags.StringVar(&f.Effort, "effort", "", "column, system (a line in the system message), kwargs (chat_template_kwargs) or none")
	flags.StringVar(&f.ToolArgs, "tool-args", "", "text (JSON text) or object, for the arguments of tool calls and the tools")
	flags.StringVar(&f.Images, "images", "", "refuse (default) or column")
	flags.BoolVar(&f.MaskHistory, "mask-history", false, "of sharegpt and openai: rows whose last turn alone is trained, for a training with mask_history: true")
	flags.StringVar(&f.DataSource, "data-source", "", "of verl_rl: what picks verl's reward function (default the dataset's name)")
	f.extra.add(flags, &f.Options)
	flags.StringSliceVar(&f.leaveOut, "leave-out", nil, "rows to leave out instead of refusing: forbidden (by terms), unfit (for the view)")
	return cmd
}

// ofViews are the flags that mean nothing for a table.
var ofViews = []string{"reasoning", "think-tag", "effort", "tool-args", "images", "mask-history", "data-source", "leave-out"}

// exportViews lists the views for the help.
func exportViews() string {
	var b strings.Builder
	for _, name := range views.Names() {
		if v, err := views.Lookup(name); err == nil {
			fmt.Fprintf(&b, "  %-18s %s\n", name, v.Summary)
		}
	}
	return b.String()
}

// settle reads the flags that stand for several options.
func (f *exportFlags) settle() error {
	if err := f.extra.settle(&f.Options); err != nil {
		return err
	}
	for _, what := range f.leaveOut {
		switch what {
		case "forbidden":
			f.LeaveOutForbidden = true
		case "unfit":
			f.LeaveOutUnfit = true
		default:
			return usage("--leave-out %q; there are: forbidden, unfit", what)
		}
	}
	return nil
}

func (a *app) export(ctx context.Context, ref, dest string, f exportFlags) error {
	if dest == "" {
		return usage("DEST is empty; name a folder, s3://bucket/prefix, or - for stdout")
	}
	if dest == "-" {
		if err := a.checkStdout(f); err != nil {
			return err
		}
	} else if f.split != "" {
		return usage("--split is of stdout; a folder has the files of each split, data/%s-* for this one", f.split)
	}
	c, err := a.readCatalog(ctx)
	if err != nil {
		return err
	}
	v, m, err := c.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	f.Version = v
	if dest == "-" && f.table != "" {
		return usage("--table writes Parquet files; name a folder, or read single rows with: stillhouse head --table %s --json", f.table)
	}
	if dest == "-" {
		return a.exportStdout(ctx, c, m, f)
	}
	to, err := a.exportDest(ctx, dest)
	if err != nil {
		return err
	}
	s, err := exportTo(ctx, c, m, to, f)
	if err != nil {
		return exportError(err)
	}
	for _, w := range s.Warnings {
		a.warn("warning: %s", printable(w))
	}
	a.leftOut(s.LeftOut)
	if a.json {
		return a.printJSON(struct {
			Ref string `json:"ref"`
			views.Summary
		}{v.Ref(), s})
	}
	if s.Resumed > 0 {
		a.say("went on behind %s files of an export that was interrupted", grouped(int64(s.Resumed)))
	}
	unchanged := ""
	if s.Unchanged {
		unchanged = "; it was there already, and nothing was written"
	}
	if f.table != "" {
		fmt.Fprintf(a.out, "table %s of %s in %s: %s rows, %d files, %s%s\n", f.table, v.Ref(), printable(s.Dest), grouped(m.Rows(f.table)), len(s.Files), sized(s.Bytes), unchanged)
		return nil
	}
	fmt.Fprintf(a.out, "%s as %s (%s) in %s: %s rows (%s train, %s test), %d files, %s%s\n", v.Ref(), s.View, s.Form, printable(s.Dest),
		grouped(trainable(s.Rows)), grouped(s.Rows[datasets.TableTrain]), grouped(s.Rows[datasets.TableTest]), len(s.Files), sized(s.Bytes), unchanged)
	return nil
}

// exportTo exports what the flags name: a view, or a table as it is.
func exportTo(ctx context.Context, c *catalog.Catalog, m *catalog.Manifest, to views.Dest, f exportFlags) (views.Summary, error) {
	if f.table != "" {
		return views.ExportTable(ctx, c, m, f.table, to, f.Options)
	}
	return views.Export(ctx, c, m, f.view, to, f.Options)
}

// exportError makes a slip in the command line a usage error.
func exportError(err error) error {
	if errors.Is(err, views.ErrUnknownView) {
		return usage("%v", err)
	}
	return err
}

// exportDest is where an export goes: a folder, or a prefix of a store.
func (a *app) exportDest(ctx context.Context, dest string) (views.Dest, error) {
	if !strings.Contains(dest, "://") {
		return views.Folder(dest), nil
	}
	if _, _, err := s3.ParseURL(dest); err != nil {
		return nil, usage("DEST: %v", err)
	}
	b, err := a.openURL(ctx, dest)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dest, err)
	}
	return views.Bucket(b, ""), nil
}

// openURL opens an s3:// URL with the environment's credentials. Where the
// environment's endpoint is that of the running embedded store, the store's
// own keys open it.
func (a *app) openURL(ctx context.Context, url string) (objstore.Bucket, error) {
	if e := a.embeddedEndpoint(ctx); e != nil {
		return s3.Open(ctx, embeddedStore(e, strings.TrimPrefix(url, "s3://")))
	}
	return s3.Open(ctx, a.s3Options(url))
}

// embeddedEndpoint is the running embedded store if the environment's endpoint
// names it, else nil.
func (a *app) embeddedEndpoint(ctx context.Context) *home.Endpoints {
	endpoint := a.env("AWS_ENDPOINT_URL_S3")
	if endpoint == "" {
		endpoint = a.env("AWS_ENDPOINT_URL")
	}
	if endpoint == "" || !loopback(hostOf(endpoint)) {
		return nil
	}
	h, err := a.openHome()
	if err != nil {
		return nil
	}
	e, err := h.ReadEndpoints(ctx)
	if err != nil || strings.TrimRight(e.S3, "/") != strings.TrimRight(endpoint, "/") {
		return nil
	}
	return e
}

// exportStdout writes the rows of train, then test, as JSON lines or as an
// Arrow stream. The view is read once before, since whoever reads lines could
// not tell a stream that ended early from a whole one, and a trainer that reads
// batches would meet the end after hours; each file is held to its digest.
func (a *app) exportStdout(ctx context.Context, c *catalog.Catalog, m *catalog.Manifest, f exportFlags) error {
	s, err := views.Open(c, m, f.view, f.Options)
	if err != nil {
		return exportError(err)
	}
	if s.Options.Images == views.ImagesColumn && f.Form != views.Arrow {
		return usage("JSON lines name files of images, which stdout has no place for; name a folder, or take --format arrow")
	}
	s.Split = f.split
	if err := s.Check(ctx); err != nil {
		return err
	}
	for _, w := range s.Warnings {
		a.warn("warning: %s", printable(w))
	}
	write := s.WriteJSONL
	if f.Form == views.Arrow {
		write = s.WriteArrow
		a.saySplits(s)
	}
	if _, err := write(ctx, a.out); err != nil {
		return err
	}
	a.leftOut(s.LeftOut())
	return nil
}

// leftOut says what the options left out.
func (a *app) leftOut(rows map[string]int64) {
	if n := rows[views.LeftOutForbidden]; n > 0 {
		a.warn("left out: %s rows of teachers whose terms forbid training", grouped(n))
	}
	if n := rows[views.LeftOutUnfit]; n > 0 {
		a.warn("left out: %s rows that do not fit the view", grouped(n))
	}
}
