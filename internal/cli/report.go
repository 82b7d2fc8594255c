package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

func init() { register(reportCommand) }

func reportCommand(a *app) *cobra.Command {
	var out, judgements, fit string
	cmd := &cobra.Command{
		Use:   "report REF...",
		Short: "Show the comparison of the teachers of one version, or of several",
		Long: `Report prints the comparison that was stored with a version: pass rates with
their 95 % intervals, cost, latency and tokens, by teacher and by domain and
effort, the teachers against each other on common tasks, and what each adds to
the others. With -o it writes it to a file instead, as the file's ending says:
.json, .md (Markdown), .html (one page that needs nothing else) or .parquet (the
table that lies under it: a row for every sample of every task of every teacher).

Of several versions, of one dataset or of several, it makes one comparison: the
figures of each side by side, each teacher against itself on the tasks that it was
asked in both, and different teachers on common prompts.

With --judgements it takes a judge's preferences from a file, of a version's
teachers or, without a REF, of any: JSON lines or an array of generator_1,
generator_2 and preference (1: the first is better, 2: the second), as AlpacaEval
publishes them; instruction, judge, output_1 and output_2 are optional.` + fitText,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.report(cmd.Context(), args, out, judgements, fit)
		},
	}
	cmd.Flags().StringVar(&judgements, "judgements", "", "file of preferences that were judged elsewhere")
	cmd.Flags().StringVar(&fit, "student-fit", "", "file of how likely the answers are to a student, scored elsewhere")
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write, .json, .md, .html or .parquet, instead of the table")
	return cmd
}

// A refReport is one version's comparison.
type refReport struct {
	Ref    string         `json:"ref"`
	Report *report.Report `json:"report"`

	manifest *catalog.Manifest
	number   int64
}

// writeReportOf writes a comparison to a file. The page of a version is the one
// that was published with it, which shows prompts and answers too.
func (a *app) writeReportOf(ctx context.Context, file string, r *refReport, published bool) error {
	if published && r.manifest != nil && filepath.Ext(file) == ".html" {
		i := slices.IndexFunc(r.manifest.Reports, func(key string) bool { return strings.HasSuffix(key, "/report.html") })
		if i >= 0 {
			c, err := a.readCatalog(ctx)
			if err != nil {
				return err
			}
			page, _, err := objstore.ReadAll(ctx, c.Bucket(), r.manifest.Reports[i], maxPage)
			if err == nil {
				return writeWhole(file, page)
			}
			if !errors.Is(err, objstore.ErrNotFound) {
				return err
			}
		}
	}
	r.Report.About = r.Ref
	return writeReport(file, r.Report)
}

// maxPage bounds a published page, in bytes.
const maxPage = 256 << 20

func (a *app) report(ctx context.Context, refs []string, file, judgements, fit string) error {
	if len(refs) == 0 && judgements == "" {
		return usage("which version? give a REF such as maths or maths@3, or --judgements FILE")
	}
	if len(refs) != 1 && fit != "" {
		return usage("--student-fit is of the answers of one version; give one REF")
	}
	if len(refs) > 1 && judgements != "" {
		return usage("--judgements belongs to one report; give one REF")
	}
	if len(refs) > report.MaxVersions {
		return usage("%d versions are more than one comparison holds; give at most %d", len(refs), report.MaxVersions)
	}
	kind := filepath.Ext(file)
	if file != "" && !slices.Contains([]string{".json", ".html", ".md", ".parquet"}, kind) {
		return usage("-o %s: the file's ending says what is written; use .json, .md, .html or .parquet", file)
	}
	if kind == ".parquet" && fit != "" {
		return usage("a table of answers does not hold a student's word; leave out --student-fit, or write .json")
	}
	if kind == ".parquet" && judgements != "" {
		return usage("a table of answers does not hold preferences; leave out --judgements, or write .json")
	}
	all, err := a.reports(ctx, refs, kind != ".parquet")
	if err != nil {
		return err
	}
	switch {
	case kind == ".parquet":
		rows, err := a.writeAsks(ctx, file, all)
		if err != nil {
			return err
		}
		a.say("wrote the %s asks of %s to %s", grouped(rows), refsOf(all), file)
		return nil
	case len(all) > 1:
		return a.reportVersions(ctx, all, file)
	}
	if fit != "" {
		if err := a.studentFit(ctx, &all[0], fit); err != nil {
			return err
		}
	}
	if judgements != "" {
		if len(all) == 0 {
			all = []refReport{{Ref: filepath.Base(judgements), Report: report.New(nil).Report()}}
		}
		if err := judged(all[0].Report, judgements); err != nil {
			return err
		}
	}
	switch {
	case file != "":
		if err := a.writeReportOf(ctx, file, &all[0], judgements == "" && fit == ""); err != nil {
			return err
		}
		a.say("wrote the comparison of %s to %s", all[0].Ref, file)
		return nil
	case a.json:
		return a.printJSON(map[string]any{"reports": all})
	}
	fmt.Fprintf(a.out, "%s\n\n", all[0].Ref)
	if err := all[0].Report.Table(a.out, a.width()); err != nil {
		return err
	}
	printNotes(a.out, all[0].Report, a.width())
	return nil
}

// reports reads some versions, with their comparisons where those are needed.
func (a *app) reports(ctx context.Context, refs []string, needed bool) ([]refReport, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	c, err := a.readCatalog(ctx)
	if err != nil {
		return nil, err
	}
	var all []refReport
	for _, ref := range refs {
		v, m, err := c.Resolve(ctx, ref)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(one refReport) bool { return one.Ref == v.Ref() }) {
			return nil, usage("%s is named twice; a version is compared with another", v.Ref())
		}
		one := refReport{Ref: v.Ref(), manifest: m, number: v.Number}
		if needed {
			one.Report, err = readReport(ctx, c.Bucket(), m)
			if errors.Is(err, errNoReport) && len(m.TableFiles(datasets.TableCandidates)) > 0 {
				one.Report, err = reportOfCandidates(ctx, c, m)
			}
			if errors.Is(err, errNoReport) && m.Imported != nil {
				return nil, fmt.Errorf("report of %s: %w, as no verifier has judged an import; to compare its teachers make them recorded ones, with checks in the recipe: stillhouse import SRC NAME --as teacher", v.Ref(), err)
			}
			if err != nil {
				return nil, fmt.Errorf("report of %s: %w", v.Ref(), err)
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// judged puts the preferences of a file into a comparison.
func judged(r *report.Report, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return &codedError{exitUsage, err.Error()}
	}
	defer f.Close()
	var list []report.Preference
	err = report.ReadPreferences(f, func(p report.Preference) error {
		if len(list) == report.MaxPreferences {
			return report.ErrPreferences
		}
		list = append(list, p)
		return nil
	})
	if err != nil {
		return &codedError{exitUsage, fmt.Sprintf("%s: %v", path, err)}
	}
	if len(list) == 0 {
		return &codedError{exitUsage, path + ": no judgements; every preference is null"}
	}
	return r.SetPreferences(list)
}

// reportOfCandidates compares the teachers of a version that was published
// without a comparison, by its candidates.
func reportOfCandidates(ctx context.Context, c *catalog.Catalog, m *catalog.Manifest) (*report.Report, error) {
	var infos []report.TeacherInfo
	for i := range m.Teachers {
		t := &m.Teachers[i]
		infos = append(infos, report.TeacherInfo{ID: t.ID, Model: t.Model, Priced: t.Counts.CostMicros > 0})
	}
	a := report.New(infos)
	for row, err := range catalog.ReadTable[datasets.Candidate](ctx, c, m, datasets.TableCandidates) {
		if err != nil {
			return nil, err
		}
		a.Add(&row)
	}
	r := a.Report()
	r.Notes = append(r.Notes, "The version was published without a comparison; this one was made of its table of candidates.")
	return r, nil
}

// errNoReport: the version was published without a comparison.
var errNoReport = errors.New("it was published without a comparison")

// readReport reads the comparison that a manifest names.
func readReport(ctx context.Context, b objstore.Bucket, m *catalog.Manifest) (*report.Report, error) {
	i := slices.IndexFunc(m.Reports, func(key string) bool { return strings.HasSuffix(key, "/report.json") })
	if i < 0 {
		return nil, errNoReport
	}
	text, _, err := objstore.ReadAll(ctx, b, m.Reports[i], maxReport)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w; build again, which asks nothing, or copy it back from a backup", catalog.ErrDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	var r report.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%w: %s is not the JSON it should be: %w", catalog.ErrDamaged, m.Reports[i], err)
	}
	if r.FormatVersion > report.FormatVersion {
		return nil, fmt.Errorf("%s has format %d, which is newer than this program reads (%d); update it", m.Reports[i], r.FormatVersion, report.FormatVersion)
	}
	return &r, nil
}

// printNotes says how the figures of a comparison were made.
func printNotes(w io.Writer, r *report.Report, width int) { printNoteLines(w, r.Notes, width) }

func printNoteLines(w io.Writer, notes []string, width int) {
	for _, note := range notes {
		fmt.Fprintln(w)
		line := "Note:"
		for _, word := range strings.Fields(printable(note)) {
			if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				fmt.Fprintln(w, line)
				line = "     "
			}
			line += " " + word
		}
		fmt.Fprintln(w, line)
	}
}

// writeReport writes a comparison as its file's ending says, in one step.
func writeReport(path string, r *report.Report) error {
	var b bytes.Buffer
	write := r.JSON
	switch filepath.Ext(path) {
	case ".html":
		write = r.HTML
	case ".md":
		write = r.Markdown
	}
	if err := write(&b); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writeWhole(path, b.Bytes())
}

// writeWhole writes a file in one step: it is there whole or not at all.
func writeWhole(path string, data []byte) error {
	return inOneStep(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
