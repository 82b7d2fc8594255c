package views

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

const cardName = "README.md"

// writeCard writes a dataset card into the export.
func writeCard(ctx context.Context, s sink, a *about, text string) error {
	file, err := s.write(ctx, cardName, func(w io.Writer) (int64, error) {
		_, err := io.WriteString(w, text)
		return 0, err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", cardName, err)
	}
	a.Files = append(a.Files, file)
	return nil
}

// card is a view's dataset card: YAML that the hub and the datasets library
// read, then what a person wants to know.
func card(m *catalog.Manifest, p *plan, a *about) string {
	var b strings.Builder
	b.WriteString("---\nconfigs:\n- config_name: default\n  data_files:\n")
	for _, split := range exported {
		if a.Rows[split] > 0 {
			fmt.Fprintf(&b, "  - split: %s\n    path: %s%s-*\n", split, p.view.folder(split), split)
		}
	}
	// Declared for JSON Lines above all, where loaders would infer a null
	// type for a column that starts without values.
	b.WriteString("dataset_info:\n  features:\n" + p.shape.features(a.Form) + "  splits:\n")
	for _, split := range exported {
		if a.Rows[split] > 0 {
			fmt.Fprintf(&b, "  - name: %s\n    num_examples: %d\n", split, a.Rows[split])
		}
	}
	b.WriteString("tags:\n- distillation\n- synthetic\n---\n\n")
	version := ""
	if a.Version > 0 {
		version = fmt.Sprintf(", version %d", a.Version)
	}
	fmt.Fprintf(&b, "# %s\n\nView `%s` of dataset `%s`%s, build `%s`, made with Stillhouse from the answers of several teachers.\n\n", m.Dataset, a.View, m.Dataset, version, m.BuildID)
	b.WriteString(p.shape.Prose + " `manifest.json` has the SHA-256 of every file.\n\n")
	cardTable(&b, m, a)
	for _, w := range a.Warnings {
		fmt.Fprintf(&b, "- %s\n", inline(w))
	}
	return b.String()
}

func cardTable(b *strings.Builder, m *catalog.Manifest, a *about) {
	b.WriteString("| split | rows |\n|---|---|\n")
	for _, split := range exported {
		if a.Rows[split] > 0 {
			fmt.Fprintf(b, "| %s | %d |\n", split, a.Rows[split])
		}
	}
	b.WriteString("\n| teacher | model | rows | licence | training |\n|---|---|---|---|---|\n")
	for _, t := range m.Teachers {
		terms, ok := a.Terms[t.ID]
		if !ok {
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %d | %s | %s |\n", inline(t.ID), inline(t.Model), terms.Rows, inline(terms.Licence), inline(terms.Training))
	}
	b.WriteString("\n")
}

// inline keeps text of a recipe from ending a table cell or starting markup.
func inline(s string) string {
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return strings.NewReplacer("|", "\\|", "\n", " ", "\r", " ", "<", "&lt;", "`", "'").Replace(s)
}
