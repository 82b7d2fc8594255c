package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

func init() { register(listCommand) }

func listCommand(a *app) *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use:   "list [NAME]",
		Short: "List the datasets, or the versions of one",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if most < 0 {
				return usage("-n %d: want 0 for all, or more", most)
			}
			if len(args) == 1 {
				return a.listVersions(cmd.Context(), args[0], most)
			}
			return a.listDatasets(cmd.Context())
		},
	}
	cmd.Flags().IntVarP(&most, "number", "n", 20, "most versions that are listed, the newest first; 0 lists all")
	return cmd
}

func (a *app) listDatasets(ctx context.Context) error {
	c, err := a.readCatalog(ctx)
	if err != nil {
		return err
	}
	infos, err := c.List(ctx)
	if err != nil {
		return err
	}
	if a.json {
		if infos == nil {
			infos = []catalog.DatasetInfo{}
		}
		return a.printJSON(struct {
			Store    string                `json:"store"`
			Datasets []catalog.DatasetInfo `json:"datasets"`
		}{c.Bucket().String(), infos})
	}
	if len(infos) == 0 {
		fmt.Fprintf(a.out, `no datasets yet in %s
  stillhouse demo                    builds one from simulated teachers
  stillhouse init mine --for openai  writes a recipe for your own
`, printable(c.Bucket().String()))
		return nil
	}
	tw := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "dataset\tversion\trows\tsize\tpublished")
	for _, i := range infos {
		if i.Version == 0 {
			fmt.Fprintf(tw, "%s\t-\t-\t-\tnothing yet\n", printable(i.Name))
			continue
		}
		rows, size := grouped(trainable(i.Rows)), sized(i.Bytes)
		if i.Problem != "" {
			rows, size = "?", "?"
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t%s\n", printable(i.Name), i.Version, rows, size, when(i.CreatedAt))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, i := range infos {
		if i.Problem != "" {
			a.warn("%s: its newest version can't be shown: %s; look closer with: stillhouse verify %s", printable(i.Name), printable(i.Problem), i.Name)
		}
	}
	return nil
}

// A versionLine is a version as list NAME shows it.
type versionLine struct {
	catalog.Version
	Tags    []string         `json:"tags"`
	Rows    map[string]int64 `json:"rows"` // by table
	Bytes   int64            `json:"bytes"`
	Problem string           `json:"problem,omitempty"` // why it can't be shown
}

func (a *app) listVersions(ctx context.Context, name string, most int) error {
	if strings.Contains(name, "@") {
		return usage("list takes a dataset's name; for one version run: stillhouse show %s", name)
	}
	c, err := a.readCatalog(ctx)
	if err != nil {
		return err
	}
	all, err := c.Versions(ctx, name)
	if err != nil {
		return err
	}
	tags, err := tagsByVersion(ctx, c, name)
	if err != nil {
		return err
	}
	shown := all
	if most > 0 && len(shown) > most {
		shown = shown[:most]
	}
	lines := make([]versionLine, len(shown))
	for i, v := range shown {
		if lines[i], err = describeVersion(ctx, c, v); err != nil {
			return err
		}
		lines[i].Tags = append(lines[i].Tags, tags[v.Number]...)
	}
	if a.json {
		return a.printJSON(struct {
			Dataset  string        `json:"dataset"`
			Count    int           `json:"count"` // of all versions
			Versions []versionLine `json:"versions"`
		}{name, len(all), lines})
	}
	tw := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "version\trows\tsize\tpublished\tbuild\ttags")
	for _, l := range lines {
		rows, size := grouped(trainable(l.Rows)), sized(l.Bytes)
		if l.Problem != "" {
			rows, size = "?", "?"
		}
		if l.Removed != nil {
			rows, size = "removed", "-"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Ref(), rows, size, when(l.CreatedAt), printable(l.BuildID), strings.Join(l.Tags, ", "))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if n := len(all) - len(shown); n > 0 {
		a.say("%d older version(s) are not shown; -n 0 shows all", n)
	}
	for _, l := range lines {
		if l.Problem != "" {
			a.warn("%s can't be shown: %s; look closer with: stillhouse verify %s", l.Ref(), printable(l.Problem), l.Ref())
		}
	}
	return nil
}

// describeVersion reads what a version holds. A version that is damaged or was
// removed is described without that.
func describeVersion(ctx context.Context, c *catalog.Catalog, v catalog.Version) (versionLine, error) {
	l := versionLine{Version: v, Tags: []string{}, Rows: map[string]int64{}}
	if v.Removed != nil {
		return l, nil
	}
	_, m, err := c.Resolve(ctx, v.Ref())
	switch {
	case errors.Is(err, catalog.ErrDamaged), errors.Is(err, catalog.ErrInvalid):
		l.Problem = err.Error()
		return l, nil
	case err != nil:
		return l, err
	}
	l.Rows, l.Bytes = m.Counts.Rows, m.Bytes()
	return l, nil
}

func tagsByVersion(ctx context.Context, c *catalog.Catalog, name string) (map[int64][]string, error) {
	refs, err := c.Tags(ctx, name)
	if err != nil {
		return nil, err
	}
	tags := map[int64][]string{}
	for _, t := range refs {
		tags[t.Version] = append(tags[t.Version], t.Tag)
	}
	for _, list := range tags {
		slices.Sort(list)
	}
	return tags, nil
}

// trainable counts the rows that a trainer reads.
func trainable(rows map[string]int64) int64 {
	return rows[datasets.TableTrain] + rows[datasets.TableTest]
}

func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}

// sized writes bytes with a binary unit.
func sized(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/step, 0
	for value >= step && unit < 4 {
		value /= step
		unit++
	}
	return fmt.Sprintf("%.1f %s", value, [...]string{"KiB", "MiB", "GiB", "TiB", "PiB"}[unit])
}
