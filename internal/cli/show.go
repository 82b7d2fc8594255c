package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/training"
)

func init() { register(showCommand) }

// showFlags are the flags of show.
type showFlags struct {
	schema, files bool
}

func showCommand(a *app) *cobra.Command {
	var f showFlags
	cmd := &cobra.Command{
		Use:   "show REF",
		Short: "Say what a version holds, where it came from and what it cost",
		Long:  "Show describes a version: counts, shares, reject reasons, cost, lineage and the\ncomparison of its teachers. REF is NAME, NAME@12, NAME@TAG or NAME@sha256:….\nWith --json it prints the version and its manifest.",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return a.show(cmd.Context(), args[0], f) },
	}
	cmd.Flags().BoolVar(&f.schema, "schema", false, "the columns of each table too")
	cmd.Flags().BoolVar(&f.files, "files", false, "the files too")
	return cmd
}

func (a *app) show(ctx context.Context, ref string, f showFlags) error {
	c, err := a.readCatalog(ctx)
	if err != nil {
		return err
	}
	v, m, err := c.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	tags, err := tagsByVersion(ctx, c, v.Dataset)
	if err != nil {
		return err
	}
	d := description{version: v, manifest: m, tags: tags[v.Number], out: a.out}
	if d.report, err = readReport(ctx, c.Bucket(), m); err != nil && !errors.Is(err, errNoReport) {
		if !errors.Is(err, catalog.ErrDamaged) {
			return err
		}
		a.warn("the comparison of %s can't be shown: %s", v.Ref(), printable(err.Error()))
	}
	if d.trainings, err = trainingsOf(ctx, c.Bucket(), v); err != nil {
		return err
	}
	var schemas []parquetio.Table
	if f.schema {
		if schemas, err = schemasOf(ctx, c, m); err != nil {
			return err
		}
	}
	if a.json {
		return a.printJSON(struct {
			Version  catalog.Version   `json:"version"`
			Tags     []string          `json:"tags"`
			Manifest *catalog.Manifest `json:"manifest"`
			Schema   []parquetio.Table `json:"schema,omitempty"`

			Trainings []training.Launch `json:"trainings"`
		}{v, append([]string{}, d.tags...), m, schemas, d.trainings})
	}
	d.lineage()
	d.counts()
	if err := d.shares(ctx, c); err != nil {
		return err
	}
	d.teachers()
	if d.report != nil {
		fmt.Fprintln(a.out)
		if err := d.report.Table(a.out, a.width()); err != nil {
			return err
		}
	}
	if err := d.drift(ctx, c); err != nil {
		return err
	}
	if f.schema {
		printSchemas(a.out, schemas)
	}
	if f.files {
		d.files(c.Bucket())
	}
	return nil
}

// maxSources is how many source files are listed.
const maxSources = 10

// A description is a version on its way to the terminal.
type description struct {
	version  catalog.Version
	manifest *catalog.Manifest
	report   *report.Report // nil where there is none
	tags     []string
	out      io.Writer

	trainings []training.Launch
}

// line prints a name and what it is; an empty value prints nothing.
func (d *description) line(name, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); text != "" {
		fmt.Fprintf(d.out, "%-11s %s\n", name, oneLine(text))
	}
}

func (d *description) lineage() {
	m, v := d.manifest, d.version
	d.line(v.Ref(), "%s", strings.TrimSpace("published "+v.CreatedAt.Local().Format("2006-01-02 15:04:05 MST")+by(m.Tool)))
	d.line("tags", "%s", strings.Join(d.tags, ", "))
	if m.Parent > 0 {
		d.line("parent", "%s@%d", m.Dataset, m.Parent)
	} else {
		d.line("parent", "none; it is the first")
	}
	d.line("build", "%s%s", m.BuildID, took(m.DurationMS))
	if !d.imported() {
		d.line("recipe", "sha256:%s", m.RecipeDigest)
	}
	d.line("manifest", "sha256:%s", v.ManifestSHA256)
	for i, s := range m.Sources {
		if i == maxSources {
			d.line("", "and %d more files; --json lists all", len(m.Sources)-i)
			break
		}
		name := "sources"
		if i > 0 {
			name = ""
		}
		rows := ""
		if s.Rows > 0 {
			rows = ", " + grouped(s.Rows) + " rows"
		}
		d.line(name, "%s (%s%s, sha256:%.12s)", s.Path, sized(s.Bytes), rows, s.SHA256)
	}
	d.reports()
	d.purged()
	d.trained()
}

// purged tells what purges took from the version since it was published.
func (d *description) purged() {
	for i, p := range d.manifest.Purged {
		name := "purged"
		if i > 0 {
			name = ""
		}
		var rows []string
		for _, table := range sortedKeys(p.Rows) {
			rows = append(rows, table+" "+grouped(p.Rows[table]))
		}
		d.line(name, "%s: %s; its record is %s", p.At.Local().Format("2006-01-02 15:04:05 MST"), strings.Join(rows, ", "), p.Record)
	}
}

func by(tool string) string {
	if tool == "" {
		return ""
	}
	return " by " + tool
}

func took(ms int64) string {
	if ms <= 0 {
		return ""
	}
	return ", took " + shortDuration(time.Duration(ms)*time.Millisecond)
}

func (d *description) counts() {
	m, n := d.manifest, d.manifest.Counts
	fmt.Fprintln(d.out)
	train, test := m.Rows(datasets.TableTrain), m.Rows(datasets.TableTest)
	d.line("rows", "%s: %s train, %s test; %s in %d files with all tables", grouped(train+test), grouped(train), grouped(test), sized(m.Bytes()), len(m.Files))
	d.line("pairs", "%s", some(m.Rows(datasets.TablePairs), "%s preference pairs"))
	d.line("tasks", "%s of %s prompts%s", grouped(n.Tasks), grouped(n.Prompts), some(n.Duplicates, ", %s duplicate rows merged"))
	d.filtered()
	if m.Imported != nil { // nobody was asked
		return
	}
	d.line("asks", "%s: %s answers new, %s reused, %s failed", grouped(n.Asks), grouped(n.AnswersNew), grouped(n.AnswersReused), grouped(n.Failed))
	d.line("candidates", "%s: %s accepted (%s)", grouped(n.Candidates), grouped(n.Accepted), share(n.Accepted, n.Candidates))
	if len(m.Rejected) > 0 {
		d.line("rejected", "%s", reasons(m.Rejected))
	}
	d.methods()
	d.line("cost", "%s%s", money(m.CostMicros), some(m.Unpriced, ", and %s answers have no price"))
	d.ledger()
}

// counted is a number of things by their name for one: "1 file", "2 files".
func counted[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return grouped(int64(n)) + " " + thing + "s"
}

// some is a phrase about a count, "" for none.
func some(n int64, format string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(format, grouped(n))
}

// shares prints whose rows a trainer would read, and of which domains.
func (d *description) shares(ctx context.Context, c *catalog.Catalog) error {
	domains, err := d.rowsByDomain(ctx, c)
	if err != nil {
		return err
	}
	d.line("by domain", "%s", sharesOf(domains))
	d.line("by teacher", "%s", sharesOf(d.manifest.TeacherRows()))
	return nil
}

// rowsByDomain counts train and test rows: from the comparison, or where there
// is none, or rows were purged since, from the files.
func (d *description) rowsByDomain(ctx context.Context, c *catalog.Catalog) (map[string]int64, error) {
	rows := map[string]int64{}
	if d.report != nil && len(d.manifest.Purged) == 0 {
		for _, cell := range d.report.Cells {
			if cell.Selected > 0 {
				rows[cell.Domain] += cell.Selected
			}
		}
		return rows, nil
	}
	for _, f := range d.manifest.Files {
		if f.Table != datasets.TableTrain && f.Table != datasets.TableTest {
			continue
		}
		counts, err := parquetio.Count(objstore.NewReaderAt(ctx, c.Bucket(), f.Key, f.Bytes), f.Bytes, "domain")
		if err != nil {
			return nil, fmt.Errorf("count the rows of %s by domain: %w; stillhouse verify %s says what is damaged", f.Key, err, d.version.Ref())
		}
		for domain, n := range counts {
			rows[domain] += n
		}
	}
	return rows, nil
}

// sharesOf lists counts with their shares, the largest first.
func sharesOf(rows map[string]int64) string {
	var total int64
	names := sortedKeys(rows)
	for _, n := range rows {
		total += n
	}
	slices.SortStableFunc(names, func(a, b string) int { return int(rows[b] - rows[a]) })
	parts := make([]string, 0, len(names))
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s %s (%s)", name, grouped(rows[name]), share(rows[name], total)))
	}
	return strings.Join(parts, ", ")
}

func (d *description) teachers() {
	if len(d.manifest.Teachers) == 0 {
		return
	}
	fmt.Fprintln(d.out)
	tw := tabwriter.NewWriter(d.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "teacher\tmodel\tapi\tidentity\tasks\tcost\tlicence\ttraining")
	for _, t := range d.manifest.Teachers {
		training := t.Terms.Training
		if training == "" {
			training = catalog.TrainingUnknown
		}
		cells := []string{t.ID, t.Model, t.API, clip(t.Identity, 40), grouped(t.Counts.Asks), money(t.Counts.CostMicros), dash(t.Terms.Licence), training}
		for i, cell := range cells {
			cells[i] = oneLine(cell)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	_ = tw.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// oneLine is printable text for a table's cell.
func oneLine(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(printable(s))
}

func (d *description) files(b objstore.Bucket) {
	fmt.Fprintf(d.out, "\nfiles in %s\n", printable(b.String()))
	tw := tabwriter.NewWriter(d.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "table\tsplit\trows\tsize\tkey")
	for _, f := range d.manifest.Files {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", f.Table, f.Split, grouped(f.Rows), sized(f.Bytes), printable(f.Key))
	}
	for _, key := range d.manifest.Reports {
		fmt.Fprintf(tw, "report\t\t\t\t%s\n", printable(key))
	}
	_ = tw.Flush()
}

// schemasOf are the columns of the tables that a version has: as this program
// declares them, or where another release wrote them as their files say.
func schemasOf(ctx context.Context, c *catalog.Catalog, m *catalog.Manifest) ([]parquetio.Table, error) {
	var out []parquetio.Table
	for _, table := range m.Tables() {
		fingerprint := m.SchemaFingerprint[table]
		known := slices.IndexFunc(parquetio.Tables(), func(t parquetio.Table) bool {
			return t.Name == table && t.Fingerprint == fingerprint
		})
		if known >= 0 {
			out = append(out, parquetio.Tables()[known])
			continue
		}
		f := m.TableFiles(table)[0]
		info, err := parquetio.Inspect(objstore.NewReaderAt(ctx, c.Bucket(), f.Key, f.Bytes), f.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read the columns of %s: %w", f.Key, err)
		}
		out = append(out, parquetio.Table{Name: table, Fingerprint: info.Fingerprint, Columns: info.Columns})
	}
	return out, nil
}

func printSchemas(w io.Writer, tables []parquetio.Table) {
	for _, t := range tables {
		fmt.Fprintf(w, "\n%s  (columns %s)\n", t.Name, t.Fingerprint)
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		for _, c := range t.Columns {
			nullable := ""
			if c.Nullable {
				nullable = "null or "
			}
			fmt.Fprintf(tw, "  %s\t%s%s\n", printable(c.Name), nullable, printable(c.Type))
		}
		_ = tw.Flush()
	}
}
