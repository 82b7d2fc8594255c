package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	view, form, table string
}

func exportCommand(a *app) *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export REF DEST",
		Short: "Write a version in the shape that a trainer reads",
		Long: `Export writes a view of a version to DEST: a folder, s3://bucket/prefix (opened
with the environment's credentials), or - for JSON lines on stdout. A folder
appears whole or not at all; what it replaces is an earlier export of the same
dataset and view, never anything else.

--table writes a table of the version as it is instead: its Parquet files, byte
for byte, such as logprobs or candidates.

It refuses where a teacher's terms forbid training on its answers, and warns
where they are not known.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.table != "" && cmd.Flags().Changed("view") {
				return usage("--table stands beside --view; keep one of the two")
			}
			return a.export(cmd.Context(), args[0], args[1], f)
		},
	}
	cmd.Flags().StringVar(&f.view, "view", views.ViewMessages, "view: "+strings.Join(views.Names(), ", "))
	cmd.Flags().StringVar(&f.form, "form", "", "parquet (default) or jsonl")
	cmd.Flags().StringVar(&f.table, "table", "", "table, instead of a view")
	return cmd
}

func (a *app) export(ctx context.Context, ref, dest string, f exportFlags) error {
	if dest == "" {
		return usage("DEST is empty; name a folder, s3://bucket/prefix, or - for stdout")
	}
	if dest == "-" && f.form != "" && f.form != views.JSONL {
		return usage("stdout takes JSON lines, not --form %s; leave it out, or name a folder", f.form)
	}
	c, err := a.readCatalog(ctx)
	if err != nil {
		return err
	}
	v, m, err := c.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	if dest == "-" && f.table != "" {
		return usage("--table writes Parquet files; name a folder, or read single rows with: stillhouse head --table %s --json", f.table)
	}
	if dest == "-" {
		return a.exportStdout(ctx, c, v, m, f)
	}
	to, err := a.exportDest(ctx, dest)
	if err != nil {
		return err
	}
	s, err := exportTo(ctx, c, v, m, to, f)
	if err != nil {
		return exportError(err)
	}
	for _, w := range s.Warnings {
		a.warn("warning: %s", printable(w))
	}
	if a.json {
		return a.printJSON(struct {
			Ref string `json:"ref"`
			views.Summary
		}{v.Ref(), s})
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
func exportTo(ctx context.Context, c *catalog.Catalog, v catalog.Version, m *catalog.Manifest, to views.Dest, f exportFlags) (views.Summary, error) {
	if f.table != "" {
		return views.ExportTable(ctx, c, m, f.table, to, views.Options{Version: v, Form: f.form})
	}
	return views.Export(ctx, c, m, f.view, to, views.Options{Version: v, Form: f.form})
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
	return s3.Open(ctx, s3.Options{URL: url})
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

// exportStdout writes the rows of train, then test, as JSON lines. Each file
// is exported to the disk first and held to its digest there, so that no line
// of a damaged file goes out; at most one is there at a time.
func (a *app) exportStdout(ctx context.Context, c *catalog.Catalog, v catalog.Version, m *catalog.Manifest, f exportFlags) error {
	work, err := os.MkdirTemp("", "stillhouse-export-*")
	if err != nil {
		return fmt.Errorf("export to stdout: %w; TMPDIR names the folder", err)
	}
	defer os.RemoveAll(work)
	first := true
	tables, teachers := []string{datasets.TableTrain, datasets.TableTest}, m.TeacherRows()
	if f.view == views.ViewPreference {
		tables, teachers = []string{datasets.TablePairs}, m.PairTeachers()
	}
	for _, table := range tables {
		for _, ref := range m.TableFiles(table) {
			// Each file stands for the whole version when terms are checked, so
			// that they are known before the first line.
			ref.Teachers = teachers
			one := *m
			one.Files = []catalog.FileRef{ref}
			warnings, err := a.copyRows(ctx, c, &one, filepath.Join(work, "part"), v, f)
			if err != nil {
				return exportError(err)
			}
			if first {
				for _, w := range warnings {
					a.warn("warning: %s", printable(w))
				}
			}
			first = false
		}
	}
	if first && f.view == views.ViewPreference {
		return fmt.Errorf("export %s: it has no preference pairs; its recipe has to ask for them: pairs: {}", v.Ref())
	}
	if first {
		return fmt.Errorf("export %s: it has no train and no test rows; stillhouse show %s says why rows were rejected", v.Ref(), v.Ref())
	}
	return nil
}

// copyRows exports to a folder, copies its rows to stdout and removes it.
func (a *app) copyRows(ctx context.Context, c *catalog.Catalog, m *catalog.Manifest, dir string, v catalog.Version, f exportFlags) (warnings []string, err error) {
	s, err := views.Export(ctx, c, m, f.view, views.Folder(dir), views.Options{Version: v, Form: views.JSONL})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, file := range s.Files {
		if file.Split == "" {
			continue
		}
		rows, err := os.Open(filepath.Join(dir, filepath.FromSlash(file.Path)))
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(a.out, rows)
		if err := errors.Join(err, rows.Close()); err != nil {
			return nil, fmt.Errorf("write to stdout: %w", err)
		}
	}
	return s.Warnings, nil
}
