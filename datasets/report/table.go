package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Table writes the comparison for a terminal of width columns, one block for
// all asks and one for the cells where there is more than one a teacher, then
// the teachers against each other. Where the columns do not fit, the least
// needed ones are left out. What probes showed comes last. Names come from
// data: control characters in them are dropped.
func (r *Report) Table(w io.Writer, width int) error {
	head := []string{"teacher", "asks", "answers", "pass", "95 %", "unknown", "accepted", "cost $", "$/accepted", "p50", "p95", "tokens", "cached %"}
	rows := [][]string{head}
	for i := range r.Teachers {
		t := &r.Teachers[i]
		rows = append(rows, append([]string{name(t.Teacher)}, cellsOf(&t.Figures)...))
	}
	rows = r.withFit(rows, nil)
	if err := writeTable(w, rows, 1, []int{11, 10, 9, 5, 2, 12, 8, 7, 4}, width); err != nil {
		return err
	}
	if len(r.Cells) <= len(r.Teachers) {
		return r.restLines(w, width)
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	rows = [][]string{append([]string{"domain", "effort"}, head...)}
	for _, c := range byDomain(r.Cells) {
		rows = append(rows, append([]string{name(c.Domain), name(c.Effort), name(c.Teacher)}, cellsOf(&c.Figures)...))
	}
	rows = r.withFit(rows, byDomain(r.Cells))
	if err := writeTable(w, rows, 3, []int{13, 12, 11, 7, 4, 14, 10, 9, 6}, width); err != nil {
		return err
	}
	return r.restLines(w, width)
}

// restLines write what follows the tables of figures.
func (r *Report) restLines(w io.Writer, width int) error {
	for _, write := range []func(io.Writer, int) error{r.spendLines, r.strataLines, r.alarmLines, r.comparisonLines, r.spreadLines, r.preferenceLines, r.fitLines, r.driftLines} {
		if err := write(w, width); err != nil {
			return err
		}
	}
	return nil
}

// cellsOf is the figures as the table's columns after the teacher.
func cellsOf(f *Figures) []string {
	pass, interval := "-", "-"
	if f.PassOfJudged != nil {
		pass = percent(f.PassOfJudged.Value)
		interval = percent(f.PassOfJudged.Low) + "-" + percent(f.PassOfJudged.High)
	}
	return []string{
		grouped(f.Asks), grouped(f.Answers), pass, interval, grouped(f.Unknown), grouped(f.Accepted),
		dollars(f.SpentUSD(), 2), dollars(f.CostPerAcceptedUSD, 5), duration(f.LatencyP50MS), duration(f.LatencyP95MS),
		grouped(f.PromptTokens + f.CompletionTokens), cachedShare(f),
	}
}

// cachedShare is the part of the prompt tokens that a context cache had.
func cachedShare(f *Figures) string {
	if f.CachedShare == nil {
		return "-"
	}
	return percent(*f.CachedShare)
}

// writeTable aligns the columns, the first left ones to the left, and drops
// columns in the order of spare until width suffices. width 0 drops none.
func writeTable(w io.Writer, rows [][]string, left int, spare []int, width int) error {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, s := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(s))
		}
	}
	hidden := make(map[int]bool)
	total := func() int {
		n := -2
		for i, c := range widths {
			if !hidden[i] {
				n += c + 2
			}
		}
		return n
	}
	for _, column := range spare {
		if width <= 0 || total() <= width {
			break
		}
		hidden[column] = true
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, s := range row {
			if hidden[i] {
				continue
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(s))
			if i < left {
				line += s + pad + "  "
			} else {
				line += pad + s + "  "
			}
		}
		b.WriteString(strings.TrimRight(line, " "))
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// maxName is how much of a name from data a table shows, in characters.
const maxName = 40

// clean drops what could move a terminal's cursor or hide text: control and
// format characters, and bytes that are no UTF-8.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}

// name is clean and bounded, for a column.
func name(s string) string {
	s = clean(s)
	if r := []rune(s); len(r) > maxName {
		return string(r[:maxName-1]) + "…"
	}
	return s
}

func percent(p float64) string { return fmt.Sprintf("%.1f", 100*p) }

func dollars(usd *float64, digits int) string {
	if usd == nil {
		return "-"
	}
	return fmt.Sprintf("%.*f", digits, *usd)
}

func duration(ms *int64) string {
	switch {
	case ms == nil:
		return "-"
	case *ms < 1000:
		return fmt.Sprintf("%dms", *ms)
	case *ms < 600_000:
		return fmt.Sprintf("%.1fs", float64(*ms)/1000)
	}
	return fmt.Sprintf("%.0fm", float64(*ms)/60_000)
}

// grouped writes n with a comma before each three digits.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// byDomain orders the cells by domain and effort, teachers within them in the
// report's order, so that rivals stand beside each other.
func byDomain(cells []Cell) []Cell {
	sorted := slices.Clone(cells)
	slices.SortStableFunc(sorted, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Effort, b.Effort))
	})
	return sorted
}
