package views

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

// tableView is the name of a table's export, beside those of views.
func tableView(table string) string { return "table:" + table }

// ExportTable writes one table of a version as it is, file by file and byte for
// byte: its Parquet files under data/, a README.md and manifest.json. What
// holds for Export holds for it, the terms included.
func ExportTable(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, table string, dest Dest, opt Options) (Summary, error) {
	s, err := exportTable(ctx, cat, m, table, dest, opt)
	if err != nil {
		return Summary{}, fmt.Errorf("export table %s of %s to %s: %w", table, m.Dataset, dest, err)
	}
	return s, nil
}

func exportTable(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, table string, dest Dest, opt Options) (Summary, error) {
	if opt.Form != "" && opt.Form != Parquet {
		return Summary{}, fmt.Errorf("%w form %q: a table is exported as the Parquet files that it is", ErrUnknownView, opt.Form)
	}
	opt = Options{Version: opt.Version, Form: Parquet}
	if len(m.TableFiles(table)) == 0 {
		return Summary{}, fmt.Errorf("%w: the version has no table %q; it has: %s", ErrUnknownView, table, strings.Join(m.Tables(), ", "))
	}
	rows := tableTeachers(m, table)
	_, warnings, err := checkTerms(m, rows, "a table goes out whole: export a view with --leave-out forbidden")
	if err != nil {
		return Summary{}, err
	}
	a := describe(m, tableView(table), opt, warnings)
	a.Terms = termsOf(m, rows)
	return fill(ctx, a, dest, func(sink sink, about *about) error {
		if err := sink.start(ctx); err != nil {
			return err
		}
		if err := copyTable(ctx, cat, m, table, sink, about); err != nil {
			return err
		}
		return writeCard(ctx, sink, about, tableCard(m, table, about))
	})
}

// tableTeachers counts by teacher the answers whose words a table holds: in
// candidates and logprobs those too that no row was made of. Tables without
// words of answers are held to the rows that stand beside them.
func tableTeachers(m *catalog.Manifest, table string) map[string]int64 {
	switch table {
	case datasets.TablePairs:
		return m.PairTeachers()
	case datasets.TableCandidates, datasets.TableLogprobs:
		rows := map[string]int64{}
		for _, f := range m.TableFiles(table) {
			for id, n := range f.Teachers {
				rows[id] += n
			}
		}
		return rows
	}
	return m.TeacherRows()
}

// copyTable copies the table's files and holds each to its digest.
func copyTable(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, table string, s sink, about *about) error {
	files := m.TableFiles(table)
	of := map[string]int{} // files of each split
	for _, ref := range files {
		of[ref.Split]++
	}
	seq := map[string]int{}
	for _, ref := range files {
		name := fmt.Sprintf("data/%s-%05d-of-%05d.parquet", ref.Split, seq[ref.Split], of[ref.Split])
		seq[ref.Split]++
		if d, err := s.done(ctx, name); err != nil {
			return err
		} else if d != nil {
			about.add(d.File, true)
			continue
		}
		file, err := s.write(ctx, name, func(w io.Writer) (int64, error) {
			body, _, err := cat.Bucket().Get(ctx, ref.Key)
			if err != nil {
				return 0, err
			}
			defer body.Close()
			_, err = io.Copy(w, body)
			return ref.Rows, err
		})
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if file.SHA256 != ref.SHA256 {
			return fmt.Errorf("%w: %s is not what the version's manifest says; stillhouse verify looks at all of it", catalog.ErrDamaged, ref.Key)
		}
		file.Split = ref.Split
		about.add(file, false)
		if err := s.finish(ctx, finished{File: file}); err != nil {
			return err
		}
	}
	return nil
}

func tableCard(m *catalog.Manifest, table string, a *about) string {
	var b strings.Builder
	b.WriteString("---\nconfigs:\n- config_name: " + table + "\n  data_files:\n")
	for _, split := range sortedKeys(a.Rows) {
		fmt.Fprintf(&b, "  - split: %s\n    path: data/%s-*\n", hubSplit(split), split)
	}
	b.WriteString("tags:\n- distillation\n- synthetic\n---\n\n")
	version := ""
	if a.Version > 0 {
		version = fmt.Sprintf(", version %d", a.Version)
	}
	fmt.Fprintf(&b, "# %s: %s\n\nTable `%s` of dataset `%s`%s, build `%s`, made with Stillhouse, as it was published. `sample_id` and `task_id` join it with the other tables. `manifest.json` has the SHA-256 of every file.\n\n", m.Dataset, table, table, m.Dataset, version, m.BuildID)
	b.WriteString("| split | rows |\n|---|---|\n")
	for _, split := range sortedKeys(a.Rows) {
		fmt.Fprintf(&b, "| %s | %d |\n", split, a.Rows[split])
	}
	for _, w := range a.Warnings {
		fmt.Fprintf(&b, "\n- %s\n", inline(w))
	}
	return b.String()
}

// hubSplit is a split's name for loaders: all means every split to some.
func hubSplit(split string) string {
	if split == "all" {
		return "rows"
	}
	return split
}
