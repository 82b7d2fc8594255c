package report

import "io"

// spreadRows are how lengths and times spread, a row for each teacher and
// effort; the first row is the head.
func (r *Report) spreadRows() [][]string {
	rows := [][]string{{"teacher", "effort", "answers", "length", "reasoning", "first token", "whole"}}
	at := map[[2]string]int{}
	for i := range r.Distributions {
		d := &r.Distributions[i]
		key := [2]string{d.Teacher, d.Effort}
		n, known := at[key]
		if !known {
			if len(rows) > shownCells {
				continue
			}
			n = len(rows)
			at[key] = n
			rows = append(rows, []string{name(d.Teacher), name(d.Effort), "-", "-", "-", "-", "-"})
		}
		row := rows[n]
		switch d.Measure {
		case MeasureLength:
			row[2], row[3] = grouped(d.Count), grouped(d.P50)+" ("+grouped(d.P95)+")"
		case MeasureReasoning:
			row[4] = grouped(d.P50) + " (" + grouped(d.P95) + ")"
		case MeasureTTFT:
			row[5] = duration(&d.P50) + " (" + duration(&d.P95) + ")"
		case MeasureLatency:
			row[6] = duration(&d.P50) + " (" + duration(&d.P95) + ")"
		}
	}
	return rows
}

// shownSpread bounds the rows that a terminal shows.
const shownSpread = 40

// spreadLines writes how teachers answer, for a terminal.
func (r *Report) spreadLines(w io.Writer, width int) error {
	rows := r.spreadRows()
	if len(rows) < 2 {
		return nil
	}
	more := len(rows) - 1 - shownSpread
	rows = rows[:min(len(rows), shownSpread+1)]
	kept := map[int]bool{}
	for _, i := range filled(2, rows[0], rows[1:]) {
		kept[i] = true
	}
	for k, row := range rows { // columns without anything are left out
		var out []string
		for i, cell := range row {
			if kept[i] {
				out = append(out, cell)
			}
		}
		rows[k] = out
	}
	title := "how they answer: medians, and in brackets what one in twenty exceeds; lengths in code points"
	if _, err := io.WriteString(w, "\n"+wrapped(title, width)+"\n"); err != nil {
		return err
	}
	if err := writeTable(w, rows, 2, []int{2}, width); err != nil {
		return err
	}
	if more > 0 {
		return lines(w, []string{"and " + grouped(int64(more)) + " more rows: the report's JSON has all"}, width)
	}
	return nil
}

// overlap writes which tasks who solves, and what each teacher adds.
func (m *markdown) overlap(t *Together) {
	if t.Union == 0 {
		return
	}
	var rows [][]string
	for i := range t.Sets {
		rows = append(rows, []string{t.Sets[i].names(len(t.Values)), grouped(t.Sets[i].Tasks)})
	}
	if len(rows) > 0 {
		m.table(1, []string{"solved by exactly", "tasks"}, rows)
	}
	rows = nil
	for _, g := range t.Growth {
		rows = append(rows, []string{clean(g.Teacher), grouped(g.Adds), grouped(g.Union), percent(float64(g.Union) / float64(max(1, t.Tasks)))})
	}
	if len(rows) > 0 {
		m.table(1, []string{"teachers one after the other", "adds", "together", "% of the tasks"}, rows)
	}
}
