package views

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode"

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

// inline keeps text of a recipe or of data from ending a table cell or starting
// markup.
func inline(s string) string {
	return strings.NewReplacer("\\", "\\\\", "|", "\\|", "<", "&lt;", "`", "'", "[", "\\[").Replace(plain(s))
}

// plain is text on one line, within bounds.
func plain(s string) string {
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Cf) {
			return ' '
		}
		return r
	}, s)
}
