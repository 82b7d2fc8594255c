package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/datasets/report"
)

// compareVersions compares the teachers of several versions.
func (a *app) compareVersions(ctx context.Context, all []refReport) (*report.Versions, error) {
	c, err := a.readCatalog(ctx)
	if err != nil {
		return nil, err
	}
	versions := report.NewVersions()
	for i := range all {
		one := &all[i]
		if err := needCandidates(one); err != nil {
			return nil, err
		}
		info := report.VersionInfo{Ref: one.Ref, Dataset: one.manifest.Dataset, Number: one.number, Published: one.manifest.CreatedAt.UTC(), Conditions: one.Report.Conditions}
		for _, m := range one.manifest.Methods {
			if m.Kind == catalog.MethodVerifier {
				info.Checks = append(info.Checks, checkWords(&m))
			}
		}
		slices.Sort(info.Checks)
		versions.Begin(info, one.Report.Teachers)
		for row, err := range catalog.ReadTable[datasets.Candidate](ctx, c, one.manifest, datasets.TableCandidates) {
			if err != nil {
				return nil, err
			}
			versions.Add(&row)
		}
	}
	return versions.Report(), nil
}

// checkWords is a verifier with what decides what it says.
func checkWords(m *catalog.Method) string {
	words := []string{m.Name, m.Version}
	if len(m.Options) > 0 {
		words = append(words, string(m.Options))
	}
	if m.When != "" {
		words = append(words, "when "+m.When)
	}
	return strings.Join(words, " ")
}

func needCandidates(one *refReport) error {
	if len(one.manifest.TableFiles(datasets.TableCandidates)) == 0 {
		return usage("%s has no table %s, of which comparisons are made; it has: %s", one.Ref, datasets.TableCandidates, strings.Join(one.manifest.Tables(), ", "))
	}
	return nil
}

// writeAsks writes the table that lies under the comparisons of some versions.
func (a *app) writeAsks(ctx context.Context, file string, all []refReport) (rows int64, err error) {
	c, err := a.readCatalog(ctx)
	if err != nil {
		return 0, err
	}
	for i := range all {
		if err := needCandidates(&all[i]); err != nil {
			return 0, err
		}
	}
	err = inOneStep(file, func(f io.Writer) error {
		w, err := parquetio.NewWriter[report.Ask](f, parquetio.Options{})
		if err != nil {
			return err
		}
		batch := make([]report.Ask, 0, 1024)
		for i := range all {
			m := all[i].manifest
			for row, err := range catalog.ReadTable[datasets.Candidate](ctx, c, m, datasets.TableCandidates) {
				if err != nil {
					return err
				}
				if batch = append(batch, report.AskOf(m.Dataset, all[i].number, &row)); len(batch) == cap(batch) {
					if err := w.Write(batch); err != nil {
						return err
					}
					batch = batch[:0]
				}
			}
		}
		if err := w.Write(batch); err != nil {
			return err
		}
		rows = w.Rows()
		return w.Close()
	})
	return rows, err
}

// inOneStep writes a file as it comes: it is there whole or not at all.
func inOneStep(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	if err := write(f); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Chmod(0o644); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// writeVersions writes a comparison of several versions as its file's ending
// says.
func writeVersions(path string, r *report.Versions) error {
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

// reportVersions shows one comparison over several versions.
func (a *app) reportVersions(ctx context.Context, all []refReport, file string) error {
	r, err := a.compareVersions(ctx, all)
	if err != nil {
		return err
	}
	switch {
	case file != "":
		if err := writeVersions(file, r); err != nil {
			return err
		}
		a.say("wrote the comparison of %s to %s", refsOf(all), file)
		return nil
	case a.json:
		return a.printJSON(map[string]any{"reports": all, "versions": r})
	}
	if err := r.Table(a.out, a.width()); err != nil {
		return err
	}
	printNoteLines(a.out, r.Notes, a.width())
	return nil
}

// refsOf names some versions.
func refsOf(all []refReport) string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Ref
	}
	return strings.Join(names, ", ")
}
