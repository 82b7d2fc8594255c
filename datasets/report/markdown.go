package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Markdown writes the comparison as GitHub-flavoured Markdown: the same tables as the page, to
// paste into an issue or a dataset card. Names come from data and are escaped.
func (r *Report) Markdown(w io.Writer) error {
	m := &markdown{}
	m.text("# Teacher comparison" + m.about(r.About))
	head := []string{"teacher", "asks", "answers", "pass %", "95 %", "unknown", "accepted", "cost $", "$ per accepted", "p50", "p95", "tokens", "cached %"}
	var rows [][]string
	for i := range r.Teachers {
		t := &r.Teachers[i]
		rows = append(rows, append([]string{clean(t.Teacher)}, cellsOf(&t.Figures)...))
	}
	all := r.withFit(append([][]string{head}, rows...), nil)
	m.table(1, all[0], all[1:])
	if len(r.Cells) > len(r.Teachers) {
		m.text("## By domain and effort")
		rows = nil
		for _, c := range byDomain(r.Cells) {
			rows = append(rows, append([]string{clean(c.Domain), clean(c.Effort), clean(c.Teacher)}, cellsOf(&c.Figures)...))
		}
		all := r.withFit(append([][]string{append([]string{"domain", "effort"}, head...)}, rows...), byDomain(r.Cells))
		m.table(3, all[0], all[1:])
	}
	if rows := r.spendRows(); rows != nil {
		m.text("## What was spent")
		m.table(1, spendHead, rows)
		m.list(r.conditionLines())
	}
	if rows, text := r.strataTable(); rows != nil {
		m.text("## The sample")
		m.table(2, rows[0], rows[1:])
		m.list(text)
	}
	if rows := r.coverageTable(); rows != nil {
		m.text("## Who was asked what")
		m.text(coverageLead)
		m.table(1, rows[0], rows[1:])
	}
	for _, s := range r.Comparison.shown() {
		m.scope(&s)
	}
	if r.Preferences != nil {
		for i := range r.Preferences.Judges {
			j := &r.Preferences.Judges[i]
			m.text("## What " + escapeMarkdown(clean(j.Judge)) + " prefers")
			rows := preferenceRows(j)
			m.table(2, rows[0], rows[1:])
			m.list(j.Lines())
		}
		m.list(r.Preferences.AgreementLines())
	}
	if rows, text := r.fitTable(); rows != nil {
		m.text("## Student fit")
		m.table(3, rows[0], rows[1:])
		m.list(text)
	}
	if rows := r.spreadRows(); len(rows) > 1 {
		m.text("## How they answer")
		m.text("Medians, and in brackets what one answer in twenty exceeds; lengths in code points.")
		m.table(2, rows[0], rows[1:])
	}
	if len(r.Drift) > 0 {
		m.text("## Drift")
		m.drift(r.Drift)
	}
	m.text("## Notes")
	for _, note := range r.Notes {
		m.item(note)
	}
	_, err := io.WriteString(w, m.b.String())
	return err
}

type markdown struct{ b strings.Builder }

func (m *markdown) about(s string) string {
	if s == "" {
		return ""
	}
	return ": " + escapeMarkdown(clean(s))
}

func (m *markdown) text(s string) { m.b.WriteString(s + "\n\n") }

func (m *markdown) item(s string) { m.b.WriteString("- " + escapeMarkdown(clean(s)) + "\n") }

func (m *markdown) list(items []string) {
	for _, s := range items {
		m.item(s)
	}
	if len(items) > 0 {
		m.b.WriteByte('\n')
	}
}

// table writes a table whose first left columns are texts. Columns that no row
// fills are left out, and cells are padded, so that the source can be read as it
// stands.
func (m *markdown) table(left int, head []string, rows [][]string) {
	kept := filled(left, head, rows)
	widths := make([]int, len(head))
	cell := func(row []string, i int) string { return escapeMarkdown(row[i]) }
	for _, row := range append([][]string{head}, rows...) {
		for _, i := range kept {
			widths[i] = max(widths[i], 4, utf8.RuneCountInString(cell(row, i)))
		}
	}
	write := func(row []string) {
		for _, i := range kept {
			text := cell(row, i)
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if i < left {
				m.b.WriteString("| " + text + pad + " ")
			} else {
				m.b.WriteString("| " + pad + text + " ")
			}
		}
		m.b.WriteString("|\n")
	}
	write(head)
	for _, i := range kept {
		if i < left {
			m.b.WriteString("| " + strings.Repeat("-", widths[i]) + " ")
		} else {
			m.b.WriteString("| " + strings.Repeat("-", widths[i]-1) + ": ")
		}
	}
	m.b.WriteString("|\n")
	for _, row := range rows {
		write(row)
	}
	m.b.WriteByte('\n')
}

// filled are the columns of a table in which some row has something.
func filled(left int, head []string, rows [][]string) []int {
	var out []int
	for i := range head {
		if i < left || len(rows) == 0 || slices.ContainsFunc(rows, func(row []string) bool { return row[i] != "-" && row[i] != "" }) {
			out = append(out, i)
		}
	}
	return out
}

func (m *markdown) scope(s *Scope) {
	if len(s.Pairs) == 0 {
		return
	}
	title := "all tasks"
	if s.Domain != "" || s.Effort != "" {
		title = escapeMarkdown(clean(s.Domain) + " at " + clean(s.Effort))
	}
	m.text("## Against each other: " + title)
	m.text(fmt.Sprintf("%s tasks. Differences of pass rates in points, on the tasks that both were asked at first hand; Holm's adjustment is over a family of %d.", grouped(s.Tasks), s.Family))
	var rows [][]string
	pairs, apart := s.apart()
	for i := range pairs {
		rows = append(rows, pairCells(&pairs[i]))
	}
	if len(rows) > 0 {
		m.table(2, []string{"a", "b", "common tasks", "a - b", "95 %", "p", "p (Holm)", "shows from", "finding"}, rows)
	}
	if apart != "" {
		m.text(escapeMarkdown(apart + "."))
	}
	if s.Together == nil {
		return
	}
	m.overlap(s.Together)
	m.text(escapeMarkdown(s.Together.Line()))
	rows = nil
	for _, v := range s.Together.Values {
		rows = append(rows, []string{clean(v.Teacher), grouped(v.Solved), grouped(v.Unique), grouped(v.Without), dollars(v.USD, 2), dollars(v.USDPerExtra, 4)})
	}
	m.table(1, []string{"teacher", "solved", "solved alone", "solved without it", "cost $", "$ per task that it alone solves"}, rows)
	m.list(s.Together.Ratings.Lines())
}

// escapeMarkdown makes text stand as it is: no link, image, tag, emphasis or
// table cell comes of a name.
func escapeMarkdown(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch r {
		case '\\', '|', '`', '*', '_', '[', ']', '#', '~', '!':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '&':
			b.WriteString("&amp;")
		case '@', ':':
			// Mentions and bare addresses become links on their own.
			fmt.Fprintf(&b, "&#%d;", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
